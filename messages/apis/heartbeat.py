"""Heartbeat: stay in the generation of a group (broker.md 6.5)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import GROUPS, MEMBER, Api, on_group
from messages.vocabulary import Message, message


@message
class HeartbeatRequest(Message):
    """A member's request to stay in this generation of the group (API key 12)."""

    version: int
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@message
class HeartbeatResponse(Message):
    """The response to Heartbeat: an error code, which is REBALANCE_IN_PROGRESS if the member must join again."""

    error_code: int
    throttle_time_ms: int = 0


API = Api(
    key=12,
    versions=(0, 4),
    request=HeartbeatRequest,
    response=HeartbeatResponse,
    answerer=GROUPS,
    access=(on_group(Operation.READ),),
    codes=f"NONE INVALID_GROUP_ID NOT_COORDINATOR {MEMBER} COORDINATOR_NOT_AVAILABLE ILLEGAL_GENERATION"
    " REBALANCE_IN_PROGRESS",
    sample=lambda about: HeartbeatRequest(3, about.group, 1, "stranger"),
    odd="group_id= as=member as=member;generation_id-1 as=instance",
)
