"""SyncGroup: the assignment of a member, which the group leader has computed (broker.md 6.5)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import GROUPS, MEMBER, Api, on_group
from messages.vocabulary import Message, message


@message
class MemberAssignment(Message):
    """The assignment of one member, which the group leader has computed."""

    member_id: str
    assignment: bytes


@message
class SyncGroupRequest(Message):
    """A member's request for its assignment (API key 14); the group leader's request contains all assignments."""

    version: int
    group_id: str
    generation_id: int
    member_id: str
    assignments: tuple[MemberAssignment, ...] = ()
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None


@message
class SyncGroupResponse(Message):
    """The response to SyncGroup: the assignment of the member."""

    error_code: int
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None
    throttle_time_ms: int = 0


API = Api(
    key=14,
    versions=(0, 5),
    request=SyncGroupRequest,
    response=SyncGroupResponse,
    answerer=GROUPS,
    access=(on_group(Operation.READ),),
    codes=f"NONE INVALID_GROUP_ID NOT_COORDINATOR {MEMBER} COORDINATOR_NOT_AVAILABLE ILLEGAL_GENERATION"
    " REBALANCE_IN_PROGRESS INCONSISTENT_GROUP_PROTOCOL",
    sample=lambda about: SyncGroupRequest(3, about.group, 1, "stranger"),
    odd="group_id= version=5 as=follower as=member;generation_id-1 as=instance"
    " as=follower;version=5;protocol_type=consumer;protocol_name=other",
)
