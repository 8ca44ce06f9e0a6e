"""ListGroups: the groups that a broker coordinates."""

from __future__ import annotations

from messages.acls import Operation, ResourceType
from messages.apis.declaration import GROUPS, OPEN, Api, Shown
from messages.vocabulary import Message, message


@message
class ListGroupsRequest(Message):
    """A client's request for the groups that a broker coordinates (API key 16); an empty filter admits all groups."""

    version: int
    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


CLASSIC = "classic"
"""The type of every group: the consumer rebalance protocol is not served."""


@message
class ListedGroup(Message):
    """A group that the broker coordinates."""

    group_id: str
    protocol_type: str
    group_state: str = ""
    group_type: str = CLASSIC


@message
class ListGroupsResponse(Message):
    """The response to ListGroups; error code 14 means that some groups are still being loaded."""

    error_code: int
    groups: tuple[ListedGroup, ...] = ()
    throttle_time_ms: int = 0


API = Api(
    key=16,
    versions=(0, 5),
    request=ListGroupsRequest,
    response=ListGroupsResponse,
    answerer=GROUPS,
    access=OPEN,
    shown=(
        Shown(
            Operation.DESCRIBE,
            ResourceType.GROUP,
            lambda group: group.group_id,
            "groups",
            or_cluster=Operation.DESCRIBE,
        ),
    ),
    codes="NONE COORDINATOR_LOAD_IN_PROGRESS",
    sample=lambda about: ListGroupsRequest(4),
    odd="states_filter=Stable version=5;types_filter=consumer",
)
