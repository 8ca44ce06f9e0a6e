"""The requests about records and offsets, such as Produce, Fetch and ListOffsets (broker.md 6.2).

As in `messages.requests`, one class covers all versions, and the partitions of all topics are one flat list. Missing
offsets are -1; times are in ms.
"""

from __future__ import annotations

from messages.cluster import NO_EPOCH, TopicPartition
from messages.records import EMPTY, Body, Records
from messages.vocabulary import Message, maker, message

NO_OFFSET = -1
LATEST = -1
EARLIEST = -2
"""Special values of the time in a ListOffsets request."""

CONSUMER = -1
NO_REPLICA = -1
"""The replica id of a client that is not a broker."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
LAST_EPOCH = 2**31 - 1
"""The largest epoch of a fetch session."""
ACKS_ALL = -1
"""Value of `acks`: respond when all in-sync replicas have the batch."""
ACKS_NONE = 0
"""Value of `acks`: wait for no replica, and ignore `min.insync.replicas`."""

# ---------------------------------------------------------------------------------------------------- Produce


@message
class ProducePartition(Message):
    """The batches that a producer sends to one partition."""

    partition: TopicPartition
    records: Records


@message
class ProduceRequest(Message):
    """A client's request to append batches to partitions of a leader (API key 0); `acks` is 0, 1 or ACKS_ALL."""

    version: int
    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]


produce_partition, produce_request = maker(ProducePartition), maker(ProduceRequest)
"""Create values faster than the classes do, for the paths of records."""


@message
class RecordError(Message):
    """The error of one record; `batch_index` is the record's index in the batch."""

    batch_index: int
    batch_index_error_message: str | None = None


@message
class ProducedPartition(Message):
    """The result of a produce request for one partition; `base_offset` is the offset of the first record."""

    partition: TopicPartition
    error_code: int
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = -1
    log_start_offset: int = NO_OFFSET
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None


@message
class ProduceResponse(Message):
    """The response to Produce."""

    partitions: tuple[ProducedPartition, ...]
    throttle_time_ms: int = 0


produced_partition = maker(ProducedPartition)
"""Create a ProducedPartition faster than the class does, for the paths of records."""


# ---------------------------------------------------------------------------------------------------- Fetch


@message
class FetchPartition(Message):
    """The fetch offset of one partition; `log_start_offset` is the log start offset of the follower."""

    partition: TopicPartition
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    log_start_offset: int = NO_OFFSET


@message
class FetchRequest(Message):
    """The request of a client or follower to read batches (API key 1); `replica_id` is -1 for clients.

    The response is sent when all partitions together have `min_bytes`, or after `max_wait_ms`.
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
    """Return the epoch of a fetch session's next request: `epoch` + 1, or 1 if `epoch` is the largest (KIP-227)."""
    return 1 if epoch == LAST_EPOCH else epoch + 1


def is_idle_poll(request: Message) -> bool:
    """Return whether a request is an incremental fetch of an existing session without any change of its partitions."""
    if not isinstance(request, FetchRequest):
        return False
    return bool(request.session_id and request.session_epoch > 0 and not request.partitions and not request.forgotten)


@message
class AbortedTransaction(Message):
    """An aborted transaction, identified by its producer id and its first offset."""

    producer_id: int
    first_offset: int


@message
class FetchedPartition(Message):
    """The records and offsets of one partition in a fetch response.

    With an error it has no records, and the offsets are -1.
    """

    partition: TopicPartition
    error_code: int
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    preferred_read_replica: int = NO_REPLICA
    body: Body = EMPTY


fetched_partition = maker(FetchedPartition)
"""Makes one, for where there are many."""


@message
class FetchResponse(Message):
    """The response to Fetch; `session_id` 0 means that there is no fetch session."""

    partitions: tuple[FetchedPartition, ...]
    error_code: int = 0
    session_id: int = 0
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- offsets


@message
class OffsetQuery(Message):
    """A client's query for an offset of a partition: by time (ms), LATEST or EARLIEST."""

    partition: TopicPartition
    timestamp: int
    current_leader_epoch: int = NO_EPOCH


@message
class ListOffsetsRequest(Message):
    """A client's or follower's request for first offsets, last offsets, or offsets for timestamps (API key 2)."""

    version: int
    replica_id: int
    partitions: tuple[OffsetQuery, ...]
    isolation_level: int = READ_UNCOMMITTED


@message
class ListedOffset(Message):
    """The result of ListOffsets for one partition.

    It has the offset, and the time and leader epoch of the record at this offset (-1: none).
    """

    partition: TopicPartition
    error_code: int
    timestamp: int = -1
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH


@message
class ListOffsetsResponse(Message):
    """The response to ListOffsets."""

    partitions: tuple[ListedOffset, ...]
    throttle_time_ms: int = 0


@message
class EpochQuery(Message):
    """A partition and a leader epoch; a follower or consumer requests the end offset of this epoch."""

    partition: TopicPartition
    leader_epoch: int
    current_leader_epoch: int = NO_EPOCH


@message
class OffsetForLeaderEpochRequest(Message):
    """The request of a follower or consumer for the end offsets of leader epochs (API key 23)."""

    version: int
    replica_id: int
    partitions: tuple[EpochQuery, ...]


@message
class EpochEnd(Message):
    """The result of OffsetForLeaderEpoch for one partition.

    It has the largest epoch that is not greater than the requested epoch, and the end offset of this largest epoch.
    """

    partition: TopicPartition
    error_code: int
    leader_epoch: int = NO_EPOCH
    end_offset: int = NO_OFFSET


@message
class OffsetForLeaderEpochResponse(Message):
    """The response to OffsetForLeaderEpoch."""

    partitions: tuple[EpochEnd, ...]
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- producer ids


@message
class InitProducerIdRequest(Message):
    """A producer's request for a producer id (API key 22)."""

    version: int
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1


@message
class InitProducerIdResponse(Message):
    """The response to InitProducerId."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- DeleteRecords


@message
class TrimmedPartition(Message):
    """A partition whose records before `offset` are to be deleted; -1 means the high watermark."""

    partition: TopicPartition
    offset: int


@message
class DeleteRecordsRequest(Message):
    """A client's request to delete the records before an offset, from partitions that the broker leads (API key 21)."""

    version: int
    partitions: tuple[TrimmedPartition, ...]
    timeout_ms: int


@message
class DeletedRecords(Message):
    """The result of DeleteRecords for one partition: its new log start offset."""

    partition: TopicPartition
    error_code: int
    low_watermark: int = NO_OFFSET


@message
class DeleteRecordsResponse(Message):
    """The response to DeleteRecords."""

    partitions: tuple[DeletedRecords, ...]
    throttle_time_ms: int = 0
