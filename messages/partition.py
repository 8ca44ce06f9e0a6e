"""The messages of the actors that host partitions: append, read and replicate.

A partition's actor never blocks. It replies to every request: at once, after the awaited event, or after the timeout.
A request has the requester's numbers `request` and `index` (or `place`), which the reply repeats. Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple

from thespian.actors import ActorAddress

from messages.apis.delete_records import DeletedRecords
from messages.apis.describe_producers import DescribedProducers
from messages.apis.fetch import READ_UNCOMMITTED, FetchedPartition, FetchPartition
from messages.apis.list_offsets import ListedOffset, OffsetQuery
from messages.apis.offset_for_leader_epoch import EpochEnd, EpochQuery
from messages.apis.produce import ACKS_ALL, ProducedPartition, ProducePartition
from messages.ask import Done, Question
from messages.cluster import Endpoint, TopicPartition
from messages.records import PRODUCER, Body
from messages.vocabulary import Message, maker, message

ISR_KEEPER = "isr_keeper"
"""The name of the actor that writes ISRs, for `Question.asks`."""


@message
class LogSettings(Message):
    """The log settings of a topic, with defaults applied; sizes are in bytes, times in ms, and -1 is unlimited.

    If `append_time` is set, the timestamp of a record is the time of its append. `lag` is `replica.lag.time.max.ms` in
    seconds. `message_format` is the format in which a leader stores records.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    max_message_bytes: int = 1048588
    min_insync_replicas: int = 1
    append_time: bool = False
    timestamp_difference_max_ms: int = 2**63 - 1
    compression_type: str = PRODUCER
    compacted: bool = False
    deleting: bool = True
    lag: float = 30.0
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    downconversion: bool = True
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    segment_jitter_ms: int = 0
    file_delete_delay_ms: int = 60_000
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 2**63 - 1
    message_format: int = 2


class Hosting(NamedTuple):
    """A partition and its actor; the actor is None if the partition is offline, or not hosted any more (`gone`)."""

    partition: TopicPartition
    actor: ActorAddress | None
    gone: bool = False


hosting: Callable[[tuple[TopicPartition, ActorAddress | None, bool]], Hosting] = partial(tuple.__new__, Hosting)
"""Makes a Hosting in half the class's time; a broker makes one for each partition."""


@message
class CopyLog(Message):
    """A message of a partition's actor to itself: copy more of the log to its new directory."""


@message
class PartitionsHosted(Message):
    """A notification from the replica manager: which actors host which partitions now."""

    changes: tuple[Hosting, ...]


@message
class CheckPartitionsExist(Message):
    """A request to the metadata cache to check which of these partitions exist in the cluster.

    The reply is PartitionsExist.
    """

    request: int
    partitions: tuple[TopicPartition, ...]


@message
class PartitionsExist(Message):
    """The reply to CheckPartitionsExist, in the order of the partitions in the request."""

    request: int
    partitions: tuple[TopicPartition, ...]
    known: tuple[bool, ...]


@message
class Configure(Message):
    """A message to a partition's actor: the config of its topic changed."""

    settings: LogSettings


# ---------------------------------------------------------------------------------------------------- producers


FROM_CLIENT = 0
FROM_COORDINATOR = 1
"""Origins of a batch. For batches of a coordinator the log checks the producer epoch, but no sequence numbers."""
COORDINATOR_VERSION = 11
"""The Produce version by whose rules a coordinator's batches are checked."""


class AppendBatch(NamedTuple):
    """A batch to append, the request that it belongs to, and its origin (FROM_CLIENT or FROM_COORDINATOR).

    `transactional_id` is the transactional id in the request.
    """

    request: int
    place: int
    part: ProducePartition
    acks: int
    version: int
    timeout: float
    origin: int = FROM_CLIENT
    transactional_id: str | None = None


@message
class AppendBatches(Message):
    """A request to a partition's actor to append these batches in order; the replies are one or more BatchesAppended.

    A batch that waits for the verification of its transaction is appended later. All batches have the same `origin`.
    With acks -1 the result of a batch is sent after its commit or after `timeout`.
    """

    batches: tuple[AppendBatch, ...]


class AppendMarker(NamedTuple):
    """A marker to append for `request`; the marker commits or aborts the transaction of a producer."""

    request: int
    place: int
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    timeout: float

    @property
    def acks(self) -> int:
        """Return ACKS_ALL (-1), because a marker's result waits until the high watermark passes the marker."""
        return ACKS_ALL


@message
class AppendMarkers(Message):
    """A request to a partition's actor to append these markers in order; the replies are one or more BatchesAppended.

    The result of each marker is sent after its commit or after `timeout`.
    """

    markers: tuple[AppendMarker, ...]


class BatchAppended(NamedTuple):
    """The result of appending one batch or marker."""

    request: int
    place: int
    result: ProducedPartition


@message
class BatchesAppended(Message):
    """A reply to AppendBatches or AppendMarkers, with the results of all or some of the batches or markers."""

    results: tuple[BatchAppended, ...]


batches_appended = maker(BatchesAppended)
"""Makes one, for where there are many."""


# ---------------------------------------------------------------------------------------------------- readers


class LogState(NamedTuple):
    """The state of a partition for its readers: the leader epoch, whether this replica is the leader, and its offsets.

    `stable` is the last stable offset, the limit for consumers with isolation level READ_COMMITTED.
    """

    leader_epoch: int
    leads: bool
    start: int
    high_watermark: int
    stable: int
    end: int


def last_stable_offset(first_unstable: int, start: int, high_watermark: int) -> int:
    """Return the last stable offset: the start of the earliest unfinished transaction (transactions.md 3.1).

    Args:
        first_unstable: The first offset of that transaction, or -1 if all transactions are finished. This offset may be
            below `start`.
        start: The log start offset.
        high_watermark: The high watermark, which is the result if no unfinished transaction begins below it.
    """
    return max(first_unstable, start) if 0 <= first_unstable < high_watermark else high_watermark


@message
class ReadLog(Message):
    """A request to a partition's actor to read records; the reply is LogRead.

    Attributes:
        replica_id: The follower's broker id; -1 for a consumer; this broker's own id if the reader is an actor of this
            broker that loads a log.
        max_bytes: Maximum bytes of records.
        at_least_one: Whether the first batch is returned whole even if it is larger than `max_bytes`.
        alive: Whether the follower's broker is alive; only then may the follower join the ISR.
        idle_until: The time until which the follower's polls found no new data, or -1 if this request reports no such
            time.
        near: The live brokers in a consumer's rack, if the consumer may read from a replica there.
        throttled: Whether the replication throttle applies now. If it does, a follower that is out of sync gets no
            records.
        topic_id: The id by which the reader names the topic; "" if it uses the name.
    """

    request: int
    part: FetchPartition
    replica_id: int
    version: int
    isolation_level: int
    max_bytes: int
    at_least_one: bool
    alive: bool = True
    idle_until: float = -1.0
    near: tuple[int, ...] = ()
    throttled: bool = False
    topic_id: str = ""


@message
class LogRead(Message):
    """The reply to ReadLog: the records and the state of the log.

    When a value of `state` changes for the first time after the read, the reader receives a LogMoved. `in_sync` is
    False for a follower that is not in the ISR, and for every follower while an ISR write to ZooKeeper is in flight.
    `adding` is True if a reassignment adds the follower.
    """

    request: int
    result: FetchedPartition
    state: LogState
    in_sync: bool = True
    adding: bool = False


log_read = maker(LogRead)
"""Makes one, for where there are many."""


@message
class LogMoved(Message):
    """A notification to readers of a partition: its log end offset, high watermark or another offset has changed."""

    partition: TopicPartition
    state: LogState


@message
class QueryIdleFollowers(Message):
    """A request to PartitionRequestsActor for the time of each follower's last poll that found no data.

    The reply is CaughtUp.
    """

    partition: TopicPartition


@message
class CaughtUp(Message):
    """The reply to QueryIdleFollowers: followers, each with the time of its last poll that found no data."""

    idle_until: tuple[tuple[int, float], ...]


@message
class FindOffset(Message):
    """A request to a partition's actor for the first offset, the last offset, or the offset for a timestamp.

    The reply is OffsetFound.
    """

    request: int
    index: int
    query: OffsetQuery
    replica_id: int
    version: int
    isolation_level: int = READ_UNCOMMITTED


@message
class ContinueSearch(Message):
    """A message that a partition's actor sends to itself, to continue a search by time."""

    find: FindOffset
    asker: ActorAddress
    search: int


@message
class OffsetFound(Message):
    """The reply to FindOffset."""

    request: int
    index: int
    result: ListedOffset


@message
class FindEpochEnd(Message):
    """A request to a partition's actor for the end offset of a leader epoch; the reply is EpochEndFound."""

    request: int
    index: int
    query: EpochQuery


@message
class EpochEndFound(Message):
    """The reply to FindEpochEnd."""

    request: int
    index: int
    result: EpochEnd


@message
class FindProducers(Message):
    """A request to a partition's actor to describe its producers; the reply is ProducersFound."""

    request: int
    index: int
    partition: TopicPartition


@message
class ProducersFound(Message):
    """The reply to FindProducers."""

    request: int
    index: int
    result: DescribedProducers


@message
class TrimLog(Message):
    """A request to a partition's leader to delete all records before `offset` on all live replicas.

    If `offset` is -1, it means the high watermark. `alive` are the brokers that are alive. The reply is LogTrimmed.
    """

    request: int
    index: int
    offset: int
    timeout: float
    alive: tuple[int, ...] = ()


@message
class LogTrimmed(Message):
    """The reply to TrimLog."""

    request: int
    index: int
    result: DeletedRecords


# ---------------------------------------------------------------------------------------------------- ISR


@message
class ExpireLog(Message):
    """A message to a partition's actor: delete the segments that exceed the topic's retention."""


@message
class ApplyRetention(Message):
    """A request to the replica manager: check the retention of a topic's logs now. The reply is RetentionApplied."""

    topic: str


@message
class RetentionApplied(Message):
    """The reply to ApplyRetention, after the segments were deleted: the number of logs that were checked."""

    logs: int


@message
class MaintainLogs(Message):
    """A timer message to the replica manager: do periodic log maintenance, such as retention."""

    what: str


class LaggingFollower(NamedTuple):
    """A follower that its leader removes from the ISR; its `log_end_offset` is -1 if it has not fetched yet.

    `fetched_ago` is the time in seconds since its last fetch, or since the start of the leadership if it has not
    fetched yet. `caught_up_ago` is the time in seconds since it was last caught up; -1 means never.
    """

    broker: int
    log_end_offset: int
    fetched_ago: float
    caught_up_ago: float


@message
class ChangeIsr(Message):
    """A request to IsrKeeperActor to write this ISR if the znode's version is `zk_version`; the reply is IsrChanged.

    `grows` is true for an expand and false for a shrink. A shrink names the followers that leave (`lagging`), the
    leader's log end offset, and the limit in seconds (`replica.lag.time.max.ms`).
    """

    partition: TopicPartition
    number: int
    leader: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    grows: bool = True
    lagging: tuple[LaggingFollower, ...] = ()
    leader_end: int = -1
    lag: float = 0.0


@message
class ScheduleFollowerCheck(Message):
    """A request to IsrKeeperActor to send CheckFollowers to `leaders` at the time `at`.

    A leader whose followers are behind sends this request. ReplicaManagerActor sends it for new leaders.
    """

    at: float
    leaders: tuple[ActorAddress, ...]


@message
class CheckFollowers(Message):
    """Check for lagging followers: IsrKeeperActor sends this to leaders, and to itself as a timer message."""

    at: float


@message
class DropIsrChanges(Question[Done]):
    """A request to IsrKeeperActor to drop the queued ISR writes of these partitions; the reply is Done.

    The reply is sent after the write in flight has ended.
    """

    asks: ClassVar[str] = ISR_KEEPER
    partitions: tuple[TopicPartition, ...]


@message
class WriteIsrChanges(Message):
    """A message that IsrKeeperActor sends to itself, to write the collected changes."""


UNRESOLVED = -2
"""The version in IsrChanged if a write may have been applied, but no one repeats it."""


@message
class IsrChanged(Message):
    """The reply to ChangeIsr: the znode's new version, or -1 if the write was rejected.

    It is -2 if the outcome stays unknown until the controller's next LeaderAndIsr request.
    """

    leader_epoch: int
    number: int
    zk_version: int


# ---------------------------------------------------------------------------------------------------- throttles


class ThrottledTopic(NamedTuple):
    """A topic with its throttled partitions on this broker; None means all partitions."""

    topic: str
    partitions: tuple[int, ...] | None


@message
class ThrottleReplicas(Message):
    """A message to leaders and fetchers: the throttled replicas of these topics on this broker."""

    topics: tuple[ThrottledTopic, ...]


@message
class ThrottleReplication(Message):
    """A message to leaders and fetchers: the rate of throttled replicas in bytes per second; None is unlimited."""

    rate: int | None


@message
class ThrottledBytes(Message):
    """A message from a fetcher to the fetcher manager: the number of bytes that it fetched for throttled replicas."""

    size: int


@message
class BackOff(Message):
    """A message to a fetcher: until this time, do not fetch throttled replicas that are out of sync."""

    until: float


# ---------------------------------------------------------------------------------------------------- followers


@message
class Replicate(Message):
    """A request to a follower's actor to append records that a fetcher read from the leader; the reply is Replicated.

    The records begin at `fetch_offset`, and come from the leader with the epoch `leader_epoch`. `with_epoch` asks for
    the newest epoch in the log, here and in the other requests.
    """

    leader_epoch: int
    fetch_offset: int
    body: Body
    high_watermark: int
    log_start_offset: int
    with_epoch: bool = False


@message
class TruncateToEpochEnd(Message):
    """A request to a follower's actor: truncate the log to the offset where an epoch ends on the leader.

    The reply is Replicated. If `end` is -1, the log is truncated to `otherwise`, which is the high watermark that the
    follower had when it started to follow. `end` is -1 if either log has no leader epoch, or if the leader's latest
    epoch is less than the requested epoch.
    """

    leader_epoch: int
    epoch: int
    end: int
    otherwise: int
    with_epoch: bool = False


@message
class TruncateFullyAndStartAt(Message):
    """A request to a follower's actor to delete all records and start its log at `offset`; the reply is Replicated.

    The leader's log starts at `offset`, which is beyond the follower's log end.
    """

    leader_epoch: int
    offset: int
    with_epoch: bool = False


@message
class Replicated(Message):
    """The reply of a follower's actor: the log end offset (the next fetch offset) and an error code.

    `ask_epoch` is the epoch for which the fetcher must send OffsetForLeaderEpoch next (-1: none). `last_epoch` is the
    newest epoch in the log (-1: none), if the fetcher asked for it. `error_code` is 74 if the follower has another
    leader epoch now, 2 if the records are damaged, 56 if the disk failed.
    """

    partition: TopicPartition
    leader_epoch: int
    error_code: int
    log_end_offset: int
    ask_epoch: int = -1
    last_epoch: int | None = None


@message
class StartFetcher(Message):
    """The first message to ReplicaFetcherActor, with the leader, the connection and the fetch sizes."""

    broker_id: int
    leader_id: int
    fetcher_id: int
    endpoint: Endpoint
    channel: str
    network: ActorAddress
    timeout: float
    max_wait: float
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    backoff: float
    metrics: ActorAddress | None = None
    protocol: str = "2.6"


class FollowedPartition(NamedTuple):
    """A partition to fetch: its actor, its log end offset and its latest leader epoch (-1: none).

    `adding` is True if a reassignment adds the local replica.
    """

    partition: TopicPartition
    actor: ActorAddress
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    epoch: int
    adding: bool = False


@message
class FollowLeader(Message):
    """A message to the fetcher manager: fetch these partitions from their leader.

    The fetches begin at the log end offsets of the partitions.
    """

    leader_id: int
    endpoint: Endpoint
    partitions: tuple[FollowedPartition, ...]


@message
class Follow(Message):
    """A message to a fetcher: fetch these partitions, whose local replicas have just become followers."""

    partitions: tuple[FollowedPartition, ...]


@message
class Unfollow(Message):
    """A message to the fetcher manager and its fetchers: stop fetching these partitions."""

    partitions: tuple[TopicPartition, ...]
