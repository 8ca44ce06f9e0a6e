"""JoinGroup: join a consumer group, and wait for its next generation (broker.md 6.5).

Subscriptions are bytes that only the members decode.
"""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import COORDINATOR, GROUPS, MEMBER, Api, on_group
from messages.vocabulary import Message, message

NO_GENERATION = -1
NO_MEMBER = ""
"""The member id before the first response."""


@message
class JoinProtocol(Message):
    """An assignor that a member supports, with the member's subscription."""

    name: str
    metadata: bytes


@message
class JoinGroupRequest(Message):
    """A client's request to join a consumer group (API key 11); `protocols` are in the member's order of preference."""

    version: int
    group_id: str
    session_timeout_ms: int
    member_id: str
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    rebalance_timeout_ms: int = -1
    group_instance_id: str | None = None
    reason: str | None = None


@message
class JoinedMember(Message):
    """A member in the JoinGroup response that the group leader gets."""

    member_id: str
    metadata: bytes
    group_instance_id: str | None = None


@message
class JoinGroupResponse(Message):
    """The response to JoinGroup: the new generation; only the group leader gets the list of members.

    If `skip_assignment` is set, the leader must not compute an assignment: the group keeps the one that it has.
    """

    error_code: int
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = NO_MEMBER
    member_id: str = NO_MEMBER
    members: tuple[JoinedMember, ...] = ()
    throttle_time_ms: int = 0
    skip_assignment: bool = False


PROTOCOL_NAME_SINCE = 7
"""The first version with a nullable protocol name; older versions send an empty string."""
SKIP_ASSIGNMENT_SINCE = 9
"""The first version in which a static leader that rejoins learns that it leads (KIP-814)."""


def _refuse(request: JoinGroupRequest, code: int) -> JoinGroupResponse:
    name = None if request.version >= PROTOCOL_NAME_SINCE else ""
    return JoinGroupResponse(code, protocol_name=name, member_id=request.member_id)


API = Api(
    key=11,
    versions=(0, 9),
    request=JoinGroupRequest,
    response=JoinGroupResponse,
    answerer=GROUPS,
    access=(on_group(Operation.READ),),
    codes=f"NONE INVALID_GROUP_ID {COORDINATOR} {MEMBER} COORDINATOR_NOT_AVAILABLE INVALID_SESSION_TIMEOUT"
    " MEMBER_ID_REQUIRED INCONSISTENT_GROUP_PROTOCOL GROUP_MAX_SIZE_REACHED REBALANCE_IN_PROGRESS",
    sample=lambda about: JoinGroupRequest(
        5, about.group, 6000, "stranger", "consumer", (JoinProtocol("range", b""),), 5000
    ),
    odd="member_id=;session_timeout_ms=1 member_id=;name=other member_id=;group_id="
    " member_id=;group_id=passing;protocol_type=connect member_id=;group_id=passing;protocol_type=connect;version=3"
    " member_id=;version=3 as=member as=instance as=static",
    refuse=_refuse,
)
