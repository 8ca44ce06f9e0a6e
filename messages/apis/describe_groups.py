"""DescribeGroups: the members and states of groups."""

from __future__ import annotations

from messages.acls import Operation, ResourceType
from messages.apis.declaration import COORDINATOR, GROUPS, Access, Api, Permitted
from messages.vocabulary import Message, message

NOT_ASKED = -(2**31)
"""The authorized operations of a group if the client did not request them."""


@message
class DescribeGroupsRequest(Message):
    """A client's request to describe consumer groups (API key 15)."""

    version: int
    groups: tuple[str, ...]
    include_authorized_operations: bool = False


@message
class DescribedMember(Message):
    """A member of a described group; its subscription and assignment are empty unless the group is stable."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@message
class DescribedGroup(Message):
    """The description of one group.

    `protocol_data` is the assignor's name. The state of an unknown group is "Dead".
    """

    error_code: int
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: int = NOT_ASKED


@message
class DescribeGroupsResponse(Message):
    """The response to DescribeGroups; the groups are in the order of the request."""

    groups: tuple[DescribedGroup, ...]
    throttle_time_ms: int = 0


API = Api(
    key=15,
    versions=(0, 5),
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
    answerer=GROUPS,
    access=(Access(Operation.DESCRIBE, ResourceType.GROUP, str, "groups", "groups"),),
    permitted=(
        Permitted(
            "include_authorized_operations",
            "authorized_operations",
            ResourceType.GROUP,
            lambda group: group.group_id,
            "groups",
        ),
    ),
    codes=f"NONE {COORDINATOR}",
    sample=lambda about: DescribeGroupsRequest(4, (about.group, "own", "unknown")),
    refuse=lambda request, code: DescribeGroupsResponse(
        tuple([DescribedGroup(code, group) for group in request.groups])
    ),
)
