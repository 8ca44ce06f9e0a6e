"""DeleteGroups: delete groups and their committed offsets."""

from __future__ import annotations

from messages.acls import Operation, ResourceType
from messages.apis.declaration import COORDINATOR, GROUPS, Access, Api, Binding
from messages.vocabulary import Message, message


@message
class DeleteGroupsRequest(Message):
    """A client's request to delete groups and their committed offsets (API key 42)."""

    version: int
    groups: tuple[str, ...]


@message
class DeletedGroup(Message):
    """The result of deleting one group."""

    group_id: str
    error_code: int


@message
class DeleteGroupsResponse(Message):
    """The response to DeleteGroups; the results are in the order of the request."""

    results: tuple[DeletedGroup, ...]
    throttle_time_ms: int = 0


API = Api(
    key=42,
    versions=(0, 2),
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    answerer=GROUPS,
    access=(Access(Operation.DELETE, ResourceType.GROUP, str, "groups", "results"),),
    codes=f"NONE {COORDINATOR} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP",
    sample=lambda about: DeleteGroupsRequest(2, ("unknown", "own")),
    odd="groups=own|unknown|passing as=deleter",
    refuse=lambda request, code: DeleteGroupsResponse(tuple([DeletedGroup(group, code) for group in request.groups])),
    bindings={DeleteGroupsRequest: Binding(renamed={"groups": ("groups_names",)})},
)
