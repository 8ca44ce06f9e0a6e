"""Messages of the group coordinator and its groups, and the values of __consumer_offsets records (broker.md 5.7, 6.5).

Times named `_ms` are wall time or durations in ms; offsets and epochs are -1 where there is none.
"""

from __future__ import annotations

from typing import NamedTuple

from thespian.actors import ActorAddress

from messages.broker import Forwarded
from messages.cluster import NO_EPOCH, TopicPartition
from messages.conversation import Question
from messages.data_requests import NO_OFFSET
from messages.group_requests import DeletedGroup, DescribedGroup
from messages.vocabulary import message

NO_TIME = -1

# ---------------------------------------------------------------------------------------------------- the log's values


@message
class CommittedOffset:
    """A committed offset; `expires_at_ms` is the client's expiry time, or NO_TIME.

    `log_offset` is the base offset of its batch in the log, NO_OFFSET before the log has it; records do not contain it.
    """

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    committed_at_ms: int = NO_TIME
    expires_at_ms: int = NO_TIME
    log_offset: int = NO_OFFSET


@message
class RecordedMember:
    """A member in a __consumer_offsets record."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@message
class RecordedGroup:
    """A group generation in a __consumer_offsets record."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    members: tuple[RecordedMember, ...] = ()


@message
class OffsetRecord:
    """A record of a committed offset; None is a tombstone."""

    group: str
    partition: TopicPartition
    value: CommittedOffset | None


@message
class GroupRecord:
    """A record of a group; None is a tombstone."""

    group: str
    value: RecordedGroup | None


class OffsetEntry(NamedTuple):
    """A partition and its committed offset."""

    partition: TopicPartition
    value: CommittedOffset


class PendingOffset(NamedTuple):
    """An offset that counts when the transaction of its producer is committed."""

    producer_id: int
    partition: TopicPartition
    value: CommittedOffset


class LoadedGroup(NamedTuple):
    """A group as loaded from its partition."""

    group: str
    record: RecordedGroup | None = None
    offsets: tuple[OffsetEntry, ...] = ()
    pending: tuple[PendingOffset, ...] = ()


# ---------------------------------------------------------------------------------------------------- to a group


@message
class GroupSettings:
    """The group settings of the node."""

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1800000
    max_size: int = 2147483647
    metadata_max_bytes: int = 4096
    retention_ms: int = 10080 * 60_000
    commit_timeout_ms: int = 5000
    format: tuple[int, int] = (3, 3)
    """The versions in which offsets and groups are written."""


@message
class StartGroup:
    """First message of GroupActor: its group as loaded, and its log."""

    loaded: LoadedGroup
    settings: GroupSettings
    log: TopicPartition
    partition: ActorAddress


@message
class CommitOffsets:
    """An OffsetCommit, TxnOffsetCommit or OffsetDelete; `unknown` partitions do not exist in the cluster."""

    forwarded: Forwarded
    unknown: tuple[TopicPartition, ...] = ()


@message
class DescribeGroup(Question[DescribedGroup]):
    """Describe the group. -> DescribedGroup"""


@message
class DeleteGroup(Question[DeletedGroup]):
    """Delete the group if it has no members. -> DeletedGroup"""


@message
class ExpireOffsets:
    """Delete expired offsets, and the group if it is empty then."""


@message
class ForgetOffsets:
    """Delete the offsets of partitions that were deleted from the cluster."""

    partitions: tuple[TopicPartition, ...]


@message
class UnloadGroup:
    """Another broker hosts the group now: fail all pending requests. The actor's last message."""


@message
class GroupChanged:
    """To the coordinator: the new state of the group; "Dead" if it has ended.

    `producer_ids`: the producers whose transactions have offsets of the group.
    """

    group: str
    state: str
    protocol_type: str
    producer_ids: tuple[int, ...] = ()


# ---------------------------------------------------------------------------------------------------- a group's timers


@message
class RebalanceDue:
    """End the join phase: remove members that have not joined; or end the initial delay."""


@message
class SyncDue:
    """Remove members that have not sent SyncGroup for this generation."""

    generation: int


@message
class MemberExpired:
    """A member sent no heartbeat within its session timeout."""

    member_id: str


# ---------------------------------------------------------------------------------------------------- the coordinator


@message
class CheckExpiry:
    """Timer payload of the coordinator: expire offsets."""


@message
class TransactionEnded:
    """From the handler of WriteTxnMarkers: a marker in a partition of __consumer_offsets is committed.

    Args:
        producer_id: The producer whose transaction ended.
        partition: The number of the partition of __consumer_offsets.
        committed: Whether the transaction was committed or aborted.
        offset: The offset of the marker. The marker ends what its producer wrote to the partition before that offset.
    """

    producer_id: int
    partition: int
    committed: bool
    offset: int


@message
class CountGroupPartitions:
    """To CoordinatorFinderActor: count the partitions of __consumer_offsets. -> GroupPartitions"""


@message
class GroupPartitions:
    """The number of partitions of __consumer_offsets; 0 if unknown or if the topic does not exist."""

    count: int


# ---------------------------------------------------------------------------------------------------- loading


@message
class LoadGroups:
    """First message of GroupLoaderActor: the partition of __consumer_offsets and its actor."""

    partition: int
    log: ActorAddress
    node_id: int


@message
class GroupsLoaded:
    """To the coordinator: some groups of a partition that was read."""

    partition: int
    groups: tuple[LoadedGroup, ...]


@message
class LoadEnded:
    """To the coordinator, the loader's last message: all groups were sent, or an error code."""

    partition: int
    error_code: int
    records: int


@message
class HandOver:
    """The loader's message to itself: send more groups."""
