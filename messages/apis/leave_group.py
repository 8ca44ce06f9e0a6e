"""LeaveGroup: remove members from a group (broker.md 6.5)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import COORDINATOR, GROUPS, MEMBER, Api, Binding, on_group
from messages.vocabulary import Message, message


@message
class LeavingMember(Message):
    """A member that leaves the group, identified by its member id, or by its instance id and an empty member id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@message
class LeaveGroupRequest(Message):
    """A client's request to remove members from a group; before version 3 it names exactly one member (API key 13)."""

    version: int
    group_id: str
    members: tuple[LeavingMember, ...]


@message
class LeftMember(Message):
    """The result of LeaveGroup for one member."""

    member_id: str
    group_instance_id: str | None
    error_code: int


@message
class LeaveGroupResponse(Message):
    """The response to LeaveGroup; before version 3 the top-level error is the error of the only member."""

    error_code: int
    members: tuple[LeftMember, ...] = ()
    throttle_time_ms: int = 0


def _leaving_member(request: LeaveGroupRequest) -> str:
    if len(request.members) != 1:
        raise ValueError("LeaveGroup before version 3 must name exactly one member")
    return request.members[0].member_id


def _leaving_members(
    member_id: str | None = None, members: tuple[LeavingMember, ...] = ()
) -> tuple[LeavingMember, ...]:
    return members if member_id is None else (LeavingMember(member_id),)


API = Api(
    key=13,
    versions=(0, 5),
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
    answerer=GROUPS,
    access=(on_group(Operation.READ),),
    codes=f"NONE INVALID_GROUP_ID {COORDINATOR} {MEMBER} COORDINATOR_NOT_AVAILABLE",
    sample=lambda about: LeaveGroupRequest(3, about.group, (LeavingMember("stranger"),)),
    odd="group_id= as=member as=instance",
    bindings={LeaveGroupRequest: Binding(written={"member_id": _leaving_member}, read={"members": _leaving_members})},
)
