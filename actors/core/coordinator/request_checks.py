"""Check group requests before they reach a group, and respond to requests for unknown groups (broker.md 6.5).

Rule 1: A request must meet these conditions, which are checked in this order; the numbers are the error codes of failed
        checks. A SyncGroup of version 5 or later has the protocol's type and name (23). The group id is not empty (24);
        only the four APIs in `MAY_BE_NAMELESS` allow an empty id. The group's partition is not being loaded (14). This
        broker leads the partition (16). The session timeout of a JoinGroup is within the broker's limits (26).
Rule 2: While a group is being loaded, SyncGroup fails with REBALANCE_IN_PROGRESS (27) instead of 14, because older
        clients do not expect the error 14. The member then rejoins. Heartbeat succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from actors.core.coordinator.membership import leave_response
from actors.core.coordinator.offsets import Offsets, fetch_offsets
from messages import errors
from messages.apis import (
    API_BY_REQUEST,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from messages.apis.declaration import PartitionError
from messages.apis.txn_offset_commit import TxnOffsetCommitRequest
from messages.cluster import TopicPartition
from messages.groups import GroupSettings
from messages.placement import slot
from messages.vocabulary import AnyMessage, Message

MAY_BE_NAMELESS = frozenset(
    {
        offset_commit.OffsetCommitRequest,
        offset_fetch.OffsetFetchRequest,
        describe_groups.DescribeGroupsRequest,
        delete_groups.DeleteGroupsRequest,
    }
)
WHILE_LOADING: Mapping[type, int] = {
    sync_group.SyncGroupRequest: errors.REBALANCE_IN_PROGRESS,
    heartbeat.HeartbeatRequest: errors.NONE,
}
"""Request class -> error code while its group is being loaded (rule 2)."""


@attrs.define
class LedPartitions:
    """The partitions of __consumer_offsets that this broker leads.

    `count` is the topic's partition count, 0 if unknown.
    """

    count: int = 0
    loading: set[int] = attrs.field(factory=set)
    serving: set[int] = attrs.field(factory=set)

    def partition_of(self, group: str) -> int:
        """Return the partition of a group; -1 while the partition count is unknown."""
        return slot(group) % self.count if self.count else -1


PROTOCOL_NAMED_SINCE = 5
"""First SyncGroup version with the group's protocol type and name."""


def is_nameless_sync(request: Message) -> bool:
    """Return whether this is a SyncGroup of version 5 or later that lacks the protocol type or the protocol name."""
    if not isinstance(request, sync_group.SyncGroupRequest) or request.version < PROTOCOL_NAMED_SINCE:
        return False
    return request.protocol_type is None or request.protocol_name is None


def verdict(kind: type, group: str, places: LedPartitions) -> int | None:
    """Return the error code for a request of this kind about the group (rules 1 and 2); None if it is accepted."""
    if not group and kind not in MAY_BE_NAMELESS:
        return errors.INVALID_GROUP_ID
    partition = places.partition_of(group)
    if partition in places.loading:
        return WHILE_LOADING.get(kind, errors.COORDINATOR_LOAD_IN_PROGRESS)
    return None if partition in places.serving else errors.NOT_COORDINATOR


def session_verdict(request: Message, settings: GroupSettings) -> int | None:
    """Return the error code for a session timeout outside the limits; None if it is accepted."""
    if not isinstance(request, join_group.JoinGroupRequest):
        return None
    allowed = settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms
    return None if allowed else errors.INVALID_SESSION_TIMEOUT


def makes_group(request: Message) -> bool:
    """Return whether this request creates its group if the group does not exist."""
    match request:
        case join_group.JoinGroupRequest():
            return request.member_id == join_group.NO_MEMBER
        case offset_commit.OffsetCommitRequest():
            return request.generation_id < 0
    return isinstance(request, TxnOffsetCommitRequest)


def with_unknown(refusal: AnyMessage, unknown: Sequence[TopicPartition]) -> AnyMessage:
    """Return the refusal of a commit, with UNKNOWN_TOPIC_OR_PARTITION for the partitions that do not exist."""
    if not unknown:
        return refusal
    nowhere = errors.UNKNOWN_TOPIC_OR_PARTITION
    return attrs.evolve(
        refusal,
        partitions=tuple(
            [
                PartitionError(each.partition, nowhere) if each.partition in unknown else each
                for each in refusal.partitions
            ]
        ),
    )


def _leave_not_possible(request: leave_group.LeaveGroupRequest) -> leave_group.LeaveGroupResponse:
    members = [
        leave_group.LeftMember(each.member_id, each.group_instance_id, errors.UNKNOWN_MEMBER_ID)
        for each in request.members
    ]
    return leave_response(request, members)


def _refusal_with(code: int) -> Callable[[AnyMessage], AnyMessage]:
    return lambda request: API_BY_REQUEST[type(request)].refusal(request, code)


NOBODYS: Mapping[type, Callable[[AnyMessage], AnyMessage]] = {
    join_group.JoinGroupRequest: _refusal_with(errors.UNKNOWN_MEMBER_ID),
    sync_group.SyncGroupRequest: _refusal_with(errors.UNKNOWN_MEMBER_ID),
    heartbeat.HeartbeatRequest: _refusal_with(errors.UNKNOWN_MEMBER_ID),
    leave_group.LeaveGroupRequest: _leave_not_possible,
    offset_commit.OffsetCommitRequest: _refusal_with(errors.ILLEGAL_GENERATION),
    offset_fetch.OffsetFetchRequest: lambda request: fetch_offsets(request, Offsets()),
    offset_delete.OffsetDeleteRequest: _refusal_with(errors.GROUP_ID_NOT_FOUND),
}
"""Request class -> response if the group does not exist."""

NOBODYS_ENTRY: Mapping[type, Callable[[str], AnyMessage]] = {
    describe_groups.DescribeGroupsRequest: lambda group: describe_groups.DescribedGroup(errors.NONE, group, "Dead"),
    delete_groups.DeleteGroupsRequest: lambda group: delete_groups.DeletedGroup(group, errors.GROUP_ID_NOT_FOUND),
}
"""Request class -> entry of its response for a group that does not exist."""

REFUSED_ENTRY: Mapping[type, Callable[[str, int], AnyMessage]] = {
    describe_groups.DescribeGroupsRequest: lambda group, code: describe_groups.DescribedGroup(code, group),
    delete_groups.DeleteGroupsRequest: delete_groups.DeletedGroup,
    offset_fetch.OffsetFetchRequest: lambda group, code: offset_fetch.OffsetFetchedGroup(group, error_code=code),
}
"""Request class -> entry of its response for a group that is refused with an error code."""
