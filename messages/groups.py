"""The messages of the group coordinator and its groups, and the values of __consumer_offsets records.

The records are described in broker.md 5.7, the requests in 6.5.

Times named `_ms` are wall time or durations in ms; missing offsets and epochs are -1.
"""

from __future__ import annotations

from typing import NamedTuple

from thespian.actors import ActorAddress

from messages.apis.delete_groups import DeletedGroup
from messages.apis.describe_groups import DescribedGroup
from messages.apis.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from messages.ask import Question
from messages.cluster import NO_EPOCH, TopicPartition
from messages.network import Forwarded
from messages.records import NO_OFFSET
from messages.vocabulary import Message, message

NO_TIME = -1

# ---------------------------------------------------------------------------------------------------- the log's values


@message
class CommittedOffset(Message):
    """A committed offset; `expires_at_ms` is the expiry time that the client requested, or NO_TIME.

    `log_offset` is the base offset of the batch that contains the commit, or NO_OFFSET before the append. Records do
    not contain `log_offset`.
    """

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    committed_at_ms: int = NO_TIME
    expires_at_ms: int = NO_TIME
    log_offset: int = NO_OFFSET


@message
class RecordedMember(Message):
    """A group member as a __consumer_offsets record contains it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@message
class RecordedGroup(Message):
    """A generation of a group as a __consumer_offsets record contains it."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    members: tuple[RecordedMember, ...] = ()


@message
class OffsetRecord(Message):
    """A __consumer_offsets record with a committed offset; in a tombstone the offset is None."""

    group: str
    partition: TopicPartition
    value: CommittedOffset | None


@message
class GroupRecord(Message):
    """A __consumer_offsets record with a generation of a group; in a tombstone the generation is None."""

    group: str
    value: RecordedGroup | None


class OffsetEntry(NamedTuple):
    """A partition with its committed offset."""

    partition: TopicPartition
    value: CommittedOffset


class PendingOffset(NamedTuple):
    """An offset that is committed when the transaction of its producer is committed."""

    producer_id: int
    partition: TopicPartition
    value: CommittedOffset


class LoadedGroup(NamedTuple):
    """A group as GroupLoaderActor read it from a partition of __consumer_offsets."""

    group: str
    record: RecordedGroup | None = None
    offsets: tuple[OffsetEntry, ...] = ()
    pending: tuple[PendingOffset, ...] = ()


# ---------------------------------------------------------------------------------------------------- to a group


@message
class GroupSettings(Message):
    """The settings of a node that concern consumer groups."""

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1800000
    max_size: int = 2147483647
    metadata_max_bytes: int = 4096
    retention_ms: int = 10080 * 60_000
    commit_timeout_ms: int = 5000
    format: tuple[int, int] = (3, 3)
    """The record format versions of offsets and groups."""
    node_id: int = -1


@message
class StartGroup(Message):
    """The first message to GroupActor: the loaded group, and the partition of __consumer_offsets that stores it."""

    loaded: LoadedGroup
    settings: GroupSettings
    log: TopicPartition
    partition: ActorAddress


@message
class CommitOffsets(Message):
    """A request to a group to commit or delete offsets; `unknown` lists partitions that do not exist in the cluster."""

    forwarded: Forwarded
    unknown: tuple[TopicPartition, ...] = ()


@message
class DescribeGroup(Question[DescribedGroup]):
    """A request to a group to describe itself; the reply is DescribedGroup."""


@message
class FetchOffsets(Question[OffsetFetchResponse]):
    """A request to a group for its committed offsets; the reply is the response to this OffsetFetch of one group."""

    request: OffsetFetchRequest


@message
class DeleteGroup(Question[DeletedGroup]):
    """A request to a group to delete itself if it has no members; the reply is DeletedGroup."""


@message
class ExpireOffsets(Message):
    """A request to a group to delete its expired offsets; a group that is empty afterwards deletes itself."""


@message
class ForgetOffsets(Message):
    """A request to a group to delete the offsets of partitions that were deleted from the cluster."""

    partitions: tuple[TopicPartition, ...]


@message
class UnloadGroup(Message):
    """The last message to a group's actor: another broker coordinates the group now, so all pending requests fail."""


@message
class GroupChanged(Message):
    """A notification to the coordinator: the new state of a group, "Dead" if it was deleted.

    `producer_ids` are the producers with open transactions that contain offset commits of the group.
    """

    group: str
    state: str
    protocol_type: str
    producer_ids: tuple[int, ...] = ()


# ---------------------------------------------------------------------------------------------------- a group's timers


@message
class RebalanceDue(Message):
    """A timer message: the join phase of a rebalance, or the initial delay before it, is over.

    At the end of the join phase, members that have not joined are removed.
    """


@message
class SyncDue(Message):
    """A timer message: remove the members that have not sent SyncGroup for this generation."""

    generation: int


@message
class MemberExpired(Message):
    """A timer message: a member sent no heartbeat within its session timeout."""

    member_id: str


# ---------------------------------------------------------------------------------------------------- the coordinator


@message
class CheckExpiry(Message):
    """A timer message to the coordinator: delete expired offsets in all groups."""


@message
class TransactionEnded(Message):
    """A message to GroupCoordinatorActor: all in-sync replicas have the marker that ends a transaction.

    Args:
        producer_id: The producer whose transaction ended.
        partition: The number of the partition of __consumer_offsets with the marker.
        committed: True if the transaction was committed, False if it was aborted.
        offset: The offset of the marker. The transaction consists of the producer's records before that offset.
    """

    producer_id: int
    partition: int
    committed: bool
    offset: int


@message
class CountPartitions(Message):
    """A request to CoordinatorFinderActor for the number of partitions of an internal topic.

    The reply is PartitionCount.
    """

    topic: str


@message
class PartitionCount(Message):
    """The reply to CountPartitions: the number of partitions, 0 if it is unknown or the topic does not exist."""

    topic: str
    count: int


# ---------------------------------------------------------------------------------------------------- loading


@message
class LoadGroups(Message):
    """The first message to GroupLoaderActor: the partition of __consumer_offsets to load, and the partition's actor."""

    partition: int
    log: ActorAddress
    node_id: int


@message
class GroupsLoaded(Message):
    """A message from the loader to the coordinator, with some of the groups that the loader has loaded."""

    partition: int
    groups: tuple[LoadedGroup, ...]


@message
class LoadEnded(Message):
    """The last message from the loader to the coordinator: all groups were sent, or an error occurred.

    `unreadable` is the number of batches and records that were skipped because they are damaged.
    """

    partition: int
    error_code: int
    records: int
    unreadable: int = 0


@message
class HandOver(Message):
    """A message of GroupLoaderActor to itself: send the next loaded groups to the group coordinator."""
