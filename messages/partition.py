"""Messages of hosted partitions: append, read, replicate.

A partition never waits, and answers every one of these to its sender: at once, or when what it waits for has happened,
or its time is up. `request` and `index` (`place`) are the asker's, and come back with the answer. Times are in seconds.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from thespian.actors import ActorAddress

from messages.cluster import Endpoint, TopicPartition
from messages.conversation import Done, Question
from messages.data_requests import (
    ACKS_ALL,
    READ_UNCOMMITTED,
    DeletedRecords,
    EpochEnd,
    EpochQuery,
    FetchedPartition,
    FetchPartition,
    ListedOffset,
    OffsetQuery,
    ProducedPartition,
    ProducePartition,
)
from messages.records import PRODUCER, Body
from messages.transaction_requests import DescribedProducers
from messages.vocabulary import message

ISR_KEEPER = "isr_keeper"
"""The peer that writes ISRs."""


@message
class LogSettings:
    """The log settings of a topic with defaults applied: bytes, ms, -1 for unlimited.

    `append_time`: records carry the time of their append. `lag` in seconds.
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


class Hosting(NamedTuple):
    """The actor of a hosted partition; None if it is offline or no longer hosted (`gone`)."""

    partition: TopicPartition
    actor: ActorAddress | None
    gone: bool = False


@message
class PartitionsHosted:
    """From the replica manager to senders of partition data: changes of hosted partitions."""

    changes: tuple[Hosting, ...]


@message
class CheckPartitionsExist:
    """To the metadata cache: check whether partitions that are not hosted here exist. -> PartitionsExist"""

    request: int
    partitions: tuple[TopicPartition, ...]


@message
class PartitionsExist:
    """The result of CheckPartitionsExist, in the order of its partitions."""

    request: int
    partitions: tuple[TopicPartition, ...]
    known: tuple[bool, ...]


@message
class Configure:
    """To a partition: its topic's configuration changed."""

    settings: LogSettings


# ---------------------------------------------------------------------------------------------------- producers


FROM_CLIENT = 0
FROM_COORDINATOR = 1
"""Origins of a batch. Of a coordinator's the log checks the producer epoch, and no sequence numbers."""


class AppendBatch(NamedTuple):
    """A batch to append, its request and its origin (FROM_CLIENT or FROM_COORDINATOR)."""

    request: int
    place: int
    part: ProducePartition
    acks: int
    version: int
    timeout: float
    origin: int = FROM_CLIENT


@message
class AppendBatches:
    """Append these, in this order; all have one origin. -> BatchesAppended, once or in parts: with acks -1 a batch is
    answered when it is committed, or `timeout` is over."""

    batches: tuple[AppendBatch, ...]


class AppendMarker(NamedTuple):
    """A marker to append, and its request: it ends the transaction of the producer, with a commit or an abort."""

    request: int
    place: int
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    timeout: float

    @property
    def acks(self) -> int:
        """A marker is answered when it is committed."""
        return ACKS_ALL


@message
class AppendMarkers:
    """Append these, in this order. -> BatchesAppended, once or in parts: each is answered when it is committed, or
    `timeout` is over."""

    markers: tuple[AppendMarker, ...]


class BatchAppended(NamedTuple):
    """The result of an AppendBatch or AppendMarker."""

    request: int
    place: int
    result: ProducedPartition


@message
class BatchesAppended:
    """The results of some batches of AppendBatches or AppendMarkers."""

    results: tuple[BatchAppended, ...]


# ---------------------------------------------------------------------------------------------------- readers


class LogState(NamedTuple):
    """The state of a partition for readers: its epoch, whether it leads, and its offsets.

    `stable` is the last stable offset: up to there consumers read that read committed data only.
    """

    leader_epoch: int
    leads: bool
    start: int
    high_watermark: int
    stable: int
    end: int


def last_stable_offset(first_unstable: int, start: int, high_watermark: int) -> int:
    """The offset up to which committed data is read: before the earliest unfinished transaction (transactions.md 3.1).

    Args:
        first_unstable: The first offset of that transaction, -1 if there is none. The log may begin after it.
        start: The log start offset.
        high_watermark: The high watermark.
    """
    return max(first_unstable, start) if 0 <= first_unstable < high_watermark else high_watermark


@message
class ReadLog:
    """Read for a consumer (`replica_id` -1), a follower, or this broker itself (its own id). -> LogRead, at once.

    `max_bytes` bounds the answer; `at_least_one`: the first batch comes whole even if it is larger. `alive`: the
    follower is a live broker, and may come into the ISR. `idle_until`: its polls found nothing, until then; -1: none.
    `near` are the live brokers in a consumer's rack, where it is to read from those. `throttled`: a follower that is
    not in sync gets no records now.
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


@message
class LogRead:
    """The result of ReadLog and the state of the log; the reader is notified once of each later change.

    `in_sync`: False where the reader is a follower that is not in the ISR, or not for certain. `adding`: one that a
    reassignment adds.
    """

    request: int
    result: FetchedPartition
    state: LogState
    in_sync: bool = True
    adding: bool = False


@message
class LogMoved:
    """To a reader of the partition: its current state."""

    partition: TopicPartition
    state: LogState


@message
class QueryIdleFollowers:
    """From a leader with lagging followers to its last reader: have they polled without data? -> CaughtUp"""

    partition: TopicPartition


@message
class CaughtUp:
    """(replica, when its poll last found nothing to be fetched) of the followers that poll."""

    idle_until: tuple[tuple[int, float], ...]


@message
class FindOffset:
    """Find the first, the last, or an offset by time. -> OffsetFound"""

    request: int
    index: int
    query: OffsetQuery
    replica_id: int
    version: int
    isolation_level: int = READ_UNCOMMITTED


@message
class SearchOn:
    """A partition's message to itself: continue the search by time with this number for `asker`."""

    find: FindOffset
    asker: ActorAddress
    search: int


@message
class OffsetFound:
    """The result of FindOffset."""

    request: int
    index: int
    result: ListedOffset


@message
class FindEpochEnd:
    """Find the end offset of a leader epoch. -> EpochEndFound"""

    request: int
    index: int
    query: EpochQuery


@message
class EpochEndFound:
    """The result of FindEpochEnd."""

    request: int
    index: int
    result: EpochEnd


@message
class FindProducers:
    """Describe the producers of the partition. -> ProducersFound"""

    request: int
    index: int
    partition: TopicPartition


@message
class ProducersFound:
    """The result of FindProducers."""

    request: int
    index: int
    result: DescribedProducers


@message
class TrimLog:
    """Delete everything before `offset` (-1: the high watermark) here and on all live replicas. -> LogTrimmed"""

    request: int
    index: int
    offset: int
    timeout: float


@message
class LogTrimmed:
    """The result of TrimLog."""

    request: int
    index: int
    result: DeletedRecords


# ---------------------------------------------------------------------------------------------------- ISR


@message
class ExpireLog:
    """Delete segments beyond the topic's retention."""


@message
class KeepLogs:
    """Timer payload of the replica manager: periodic log maintenance."""

    what: str


@message
class ChangeIsr:
    """To IsrKeeperActor: write this ISR if the znode still has `zk_version`. -> IsrChanged

    `grows` is true for an expand and false for a shrink.
    """

    partition: TopicPartition
    number: int
    leader: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    grows: bool = True


@message
class WatchFollowers:
    """To IsrKeeperActor: these leaders have lagging followers; notify them at this clock time.

    -> LookAtFollowers to each
    """

    at: float
    leaders: tuple[ActorAddress, ...]


@message
class LookAtFollowers:
    """To a leader: look for lagging followers. IsrKeeperActor's timer payload: notify leaders that wait for `at`."""

    at: float


@message
class DropIsrChanges(Question[Done]):
    """Drop the queued ISR writes of these partitions, once the write in flight has ended. -> Done"""

    asks: ClassVar[str] = ISR_KEEPER
    partitions: tuple[TopicPartition, ...]


@message
class WriteIsrChanges:
    """IsrKeeperActor's message to itself: write the collected changes."""


@message
class IsrChanged:
    """The result of ChangeIsr `number`: the znode's new version, or -1 if it was rejected."""

    leader_epoch: int
    number: int
    zk_version: int


# ---------------------------------------------------------------------------------------------------- throttles


class ThrottledTopic(NamedTuple):
    """The partitions of a topic whose replicas on this broker are throttled, as leaders or as followers; None: all."""

    topic: str
    partitions: tuple[int, ...] | None


@message
class ThrottleReplicas:
    """To leaders and fetchers: the throttled replicas of these topics on this broker."""

    topics: tuple[ThrottledTopic, ...]


@message
class ThrottleReplication:
    """To leaders and fetchers: the rate of throttled replicas in bytes per second; None is unlimited."""

    rate: int | None


@message
class ThrottledBytes:
    """From a fetcher to the fetchers' manager: the number of bytes fetched for throttled replicas."""

    size: int


@message
class BackOff:
    """To a fetcher: pause throttled replicas that are out of sync until this clock time."""

    until: float


# ---------------------------------------------------------------------------------------------------- followers


@message
class Replicate:
    """To a follower: records that its leader of `leader_epoch` sent from `fetch_offset` on. -> Replicated"""

    leader_epoch: int
    fetch_offset: int
    body: Body
    high_watermark: int
    log_start_offset: int


@message
class Reconcile:
    """To a follower: the leader's end offset of `epoch` is `end` (-1: unknown to the leader). -> Replicated

    `otherwise` is where to cut a log that has no epochs, or whose leader knows none: the high watermark of when the
    follower began.
    """

    leader_epoch: int
    epoch: int
    end: int
    otherwise: int


@message
class Restart:
    """To a follower: delete the log and start it again at `offset`. -> Replicated

    The leader's log starts at `offset`, which is beyond the follower's log end.
    """

    leader_epoch: int
    offset: int


@message
class Replicated:
    """The follower's state: its log end, which is the next fetch offset, and an error code.

    `ask_epoch` is the epoch whose end offset the leader is asked for (-1: none). `error_code` is 74 if the follower is
    in another epoch now, 2 if the records are damaged, 56 if the disk failed.
    """

    partition: TopicPartition
    leader_epoch: int
    error_code: int
    log_end_offset: int
    ask_epoch: int = -1


@message
class StartFetcher:
    """First message of ReplicaFetcherActor: the leader, the connection and the fetch sizes."""

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


class FollowedPartition(NamedTuple):
    """A partition to follow: its actor and the end of its log; `epoch` is its latest leader epoch (-1: none).

    `adding`: a reassignment adds the replica.
    """

    partition: TopicPartition
    actor: ActorAddress
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    epoch: int
    adding: bool = False


@message
class FollowLeader:
    """To the fetcher manager: follow partitions of one leader from their log ends."""

    leader_id: int
    endpoint: Endpoint
    partitions: tuple[FollowedPartition, ...]


@message
class Follow:
    """To a fetcher: follow partitions whose role has just changed."""

    partitions: tuple[FollowedPartition, ...]


@message
class Unfollow:
    """To the fetcher manager and its fetchers: stop following these partitions."""

    partitions: tuple[TopicPartition, ...]
