"""Produce: append record batches to partitions (broker.md 5)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import (
    LEADERSHIP,
    PARTITIONS,
    TIMEOUT_MS,
    Api,
    Binding,
    each_partition,
    on_topics,
    on_transactional_id,
)
from messages.apis.metadata import MetadataBroker
from messages.cluster import CurrentLeader, TopicPartition
from messages.records import NO_OFFSET, Records
from messages.vocabulary import Message, maker, message

ACKS_ALL = -1
"""Value of `acks`: respond when all in-sync replicas have the batch."""
ACKS_NONE = 0
"""Value of `acks`: wait for no replica, and ignore `min.insync.replicas`."""


ABORTABLE_SINCE = 11
"""The first version whose clients know TRANSACTION_ABORTABLE (120); older versions get INVALID_TXN_STATE (48)."""


PRODUCE_LEADERS_SINCE = 10
"""The first version with the current leader of a partition that is not led here (KIP-951)."""


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
    current_leader: CurrentLeader | None = None


@message
class ProduceResponse(Message):
    """The response to Produce; `node_endpoints` has the endpoints of leaders in `current_leader` of the partitions."""

    partitions: tuple[ProducedPartition, ...]
    throttle_time_ms: int = 0
    node_endpoints: tuple[MetadataBroker, ...] = ()


TRANSACTIONAL_SINCE = 3
"""The first version with a transactional id, and the first that takes record batches of format 2 only."""

produced_partition = maker(ProducedPartition)
"""Create a ProducedPartition faster than the class does, for the paths of records."""


def _records(part: ProducePartition) -> bytes:
    return bytes(part.records.body.data)


_TRANSACTIONAL = "attributes=16;producer_id=5;producer_epoch=0;base_sequence=0"

API = Api(
    key=0,
    versions=(0, 11),
    request=ProduceRequest,
    response=ProduceResponse,
    answerer=PARTITIONS,
    access=(
        on_transactional_id(Operation.WRITE),
        on_topics(Operation.WRITE),
    ),
    codes=f"NONE {LEADERSHIP} CORRUPT_MESSAGE REQUEST_TIMED_OUT MESSAGE_TOO_LARGE INVALID_TOPIC RECORD_LIST_TOO_LARGE"
    " NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND INVALID_REQUIRED_ACKS INVALID_TIMESTAMP"
    " OUT_OF_ORDER_SEQUENCE INVALID_PRODUCER_EPOCH UNSUPPORTED_COMPRESSION_TYPE INVALID_RECORD"
    " TRANSACTIONAL_ID_AUTHORIZATION_FAILED INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING TRANSACTION_ABORTABLE"
    " UNSUPPORTED_FOR_MESSAGE_FORMAT",
    sample=lambda about: ProduceRequest(
        8, None, ACKS_ALL, TIMEOUT_MS, (ProducePartition(about.partition, about.records),)
    ),
    odd="acks=1 acks=2 partition=absent partition=__consumer_offsets records=large records=corrupt;acks=1"
    " base_offset=5 attributes=32 attributes=4;version=3 first_timestamp=0;max_timestamp=0"
    " producer_id=7;producer_epoch=1;base_sequence=9 producer_id=7;producer_epoch=1;base_sequence=0"
    f" producer_id=7;producer_epoch=0;base_sequence=0 {_TRANSACTIONAL} {_TRANSACTIONAL};transactional_id=unknown-id"
    " transactional_id=unknown-id;as=two-producers",
    refuse=each_partition(ProduceResponse, ProducedPartition),
    bindings={
        ProduceRequest: Binding(gathered={"partitions": ("topic_data.partition_data",)}),
        ProducePartition: Binding(written={"records": _records}),
        ProduceResponse: Binding(gathered={"partitions": ("responses.partition_responses",)}),
    },
    carries_records=True,
)
