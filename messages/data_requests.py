"""The requests that carry records, and those that ask where they are: Produce, Fetch and their kin (broker.md 6.2).

As in `messages.requests`: one class for all versions, partitions flat. Offsets are -1 where there is none, times in ms.
"""

from __future__ import annotations

from messages.cluster import NO_EPOCH, TopicPartition
from messages.records import EMPTY, Body, Records
from messages.vocabulary import Message, maker, message

NO_OFFSET = -1
LATEST = -1
EARLIEST = -2
"""What ListOffsets asks for in place of a time."""

CONSUMER = -1
NO_REPLICA = -1
"""The replica id of a client that is no broker."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
LAST_EPOCH = 2**31 - 1
"""The largest epoch of a fetch session."""
ACKS_ALL = -1
"""As a producer's acks: all in-sync replicas have it."""

# ---------------------------------------------------------------------------------------------------- Produce


@message
class ProducePartition:
    """What a producer sends to one partition."""

    partition: TopicPartition
    records: Records


@message
class ProduceRequest:
    """Client to leader: append (API key 0). `acks` is 0, 1, or ACKS_ALL."""

    version: int
    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]


produce_partition, produce_request = maker(ProducePartition), maker(ProduceRequest)
"""Make one, for where there are many."""


@message
class RecordError:
    """Why one record was refused, by its place in the batch."""

    batch_index: int
    batch_index_error_message: str | None = None


@message
class ProducedPartition:
    """What became of one partition's batch. `base_offset` is the first record's."""

    partition: TopicPartition
    error_code: int
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = -1
    log_start_offset: int = NO_OFFSET
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None


@message
class ProduceResponse:
    """The leader's answer to Produce."""

    partitions: tuple[ProducedPartition, ...]
    throttle_time_ms: int = 0


produced_partition = maker(ProducedPartition)
"""Makes one, for where there are many."""


# ---------------------------------------------------------------------------------------------------- Fetch


@message
class FetchPartition:
    """From where one partition is fetched. `log_start_offset` is a follower's own."""

    partition: TopicPartition
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    log_start_offset: int = NO_OFFSET


@message
class FetchRequest:
    """Client or follower to leader: read (API key 1). `replica_id` is -1 for clients.

    The answer waits until `min_bytes` are there, in all partitions together, or `max_wait_ms` are over.
    """

    version: int
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    partitions: tuple[FetchPartition, ...]
    max_bytes: int = 0x7FFFFFFF
    isolation_level: int = READ_UNCOMMITTED
    session_id: int = 0
    session_epoch: int = -1
    forgotten: tuple[TopicPartition, ...] = ()
    rack_id: str = ""


def next_epoch(epoch: int) -> int:
    """The epoch of a fetch session's request after one of `epoch`: n + 1, and 1 after the largest (KIP-227)."""
    return 1 if epoch == LAST_EPOCH else epoch + 1


def is_idle_poll(request: Message) -> bool:
    """Whether it is a fetch that goes on with a session without a word: what its reader wants is as it was."""
    if not isinstance(request, FetchRequest):
        return False
    return bool(request.session_id and request.session_epoch > 0 and not request.partitions and not request.forgotten)


@message
class AbortedTransaction:
    """A producer whose records from `first_offset` on were given up."""

    producer_id: int
    first_offset: int


@message
class FetchedPartition:
    """One partition's records, and where it stands. With an error there are no records, and the offsets are -1."""

    partition: TopicPartition
    error_code: int
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    preferred_read_replica: int = NO_REPLICA
    body: Body = EMPTY


@message
class FetchResponse:
    """The answer to Fetch. `session_id` 0: there is no session, and the next request names all partitions again."""

    partitions: tuple[FetchedPartition, ...]
    error_code: int = 0
    session_id: int = 0
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- offsets


@message
class OffsetQuery:
    """Which offset of one partition is asked for: of a time (ms), LATEST or EARLIEST."""

    partition: TopicPartition
    timestamp: int
    current_leader_epoch: int = NO_EPOCH


@message
class ListOffsetsRequest:
    """Client or follower to leader: where does it begin, end, or reach a time (API key 2)?"""

    version: int
    replica_id: int
    partitions: tuple[OffsetQuery, ...]
    isolation_level: int = READ_UNCOMMITTED


@message
class ListedOffset:
    """One partition's offset, with the time and leader epoch of the record there; -1 where there is none."""

    partition: TopicPartition
    error_code: int
    timestamp: int = -1
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH


@message
class ListOffsetsResponse:
    """The answer to ListOffsets."""

    partitions: tuple[ListedOffset, ...]
    throttle_time_ms: int = 0


@message
class EpochQuery:
    """Which leader epoch's end is asked for."""

    partition: TopicPartition
    leader_epoch: int
    current_leader_epoch: int = NO_EPOCH


@message
class OffsetForLeaderEpochRequest:
    """Follower or consumer to leader: where does this leader epoch end (API key 23)?"""

    version: int
    replica_id: int
    partitions: tuple[EpochQuery, ...]


@message
class EpochEnd:
    """The largest epoch up to the one asked for, and the offset where the next begins; -1 where not known."""

    partition: TopicPartition
    error_code: int
    leader_epoch: int = NO_EPOCH
    end_offset: int = NO_OFFSET


@message
class OffsetForLeaderEpochResponse:
    """The answer to OffsetForLeaderEpoch."""

    partitions: tuple[EpochEnd, ...]
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- producer ids


@message
class InitProducerIdRequest:
    """Client to any broker: an id for an idempotent producer (API key 22)."""

    version: int
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1


@message
class InitProducerIdResponse:
    """The answer to InitProducerId."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- DeleteRecords


@message
class TrimmedPartition:
    """From where on one partition's records are kept; -1 means the high watermark."""

    partition: TopicPartition
    offset: int


@message
class DeleteRecordsRequest:
    """Client to leader: drop everything before these offsets (API key 21)."""

    version: int
    partitions: tuple[TrimmedPartition, ...]
    timeout_ms: int


@message
class DeletedRecords:
    """One partition's new start."""

    partition: TopicPartition
    error_code: int
    low_watermark: int = NO_OFFSET


@message
class DeleteRecordsResponse:
    """The answer to DeleteRecords."""

    partitions: tuple[DeletedRecords, ...]
    throttle_time_ms: int = 0
