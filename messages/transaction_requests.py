"""Requests of transactions: to the coordinator, to partition leaders, and of Kafka's transaction tools.

As in `messages.requests`: one class for all versions, partitions flat. InitProducerId is in `messages.data_requests`.
"""

from __future__ import annotations

from messages.cluster import TopicPartition
from messages.group_requests import NO_GENERATION, NO_MEMBER, CommittedPartition
from messages.requests import PartitionError
from messages.vocabulary import message

# ---------------------------------------------------------------------------------------------------- producers


@message
class AddPartitionsToTxnRequest:
    """Producer to coordinator: add partitions to the transaction, which begins with the first (API key 24)."""

    version: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@message
class AddedPartition:
    """The result for one partition."""

    partition: TopicPartition
    error_code: int


@message
class AddPartitionsToTxnResponse:
    """The result for each partition."""

    partitions: tuple[AddedPartition, ...]
    throttle_time_ms: int = 0


@message
class AddOffsetsToTxnRequest:
    """Producer to coordinator: add the __consumer_offsets partition of a group to the transaction (API key 25)."""

    version: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


@message
class AddOffsetsToTxnResponse:
    """The response to AddOffsetsToTxn."""

    error_code: int
    throttle_time_ms: int = 0


@message
class EndTxnRequest:
    """Producer to coordinator: commit or abort the transaction (API key 26)."""

    version: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


@message
class EndTxnResponse:
    """The response to EndTxn: the decision is in the log of the coordinator, markers may be missing."""

    error_code: int
    throttle_time_ms: int = 0


@message
class TxnOffsetCommitRequest:
    """Producer to group coordinator: commit offsets in the transaction (API key 28).

    The generation, member and instance are those of the consumer since version 3.
    """

    version: int
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[CommittedPartition, ...]
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None


@message
class TxnOffsetCommitResponse:
    """The result for each partition."""

    partitions: tuple[PartitionError, ...]
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- markers


@message
class WritableTxnMarker:
    """The end of a transaction: commit if `transaction_result`, else abort, in these partitions."""

    producer_id: int
    producer_epoch: int
    transaction_result: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int


@message
class WriteTxnMarkersRequest:
    """Coordinator to partition leader: end transactions (API key 27)."""

    version: int
    markers: tuple[WritableTxnMarker, ...]


@message
class WritableTxnMarkerResult:
    """The result for each partition of the markers of one producer id."""

    producer_id: int
    partitions: tuple[PartitionError, ...]


@message
class WriteTxnMarkersResponse:
    """The results by producer id."""

    markers: tuple[WritableTxnMarkerResult, ...]


# ---------------------------------------------------------------------------------------------------- tools


@message
class DescribeProducersRequest:
    """Admin to partition leader: describe the producers of partitions (API key 61)."""

    version: int
    partitions: tuple[TopicPartition, ...]


@message
class DescribedProducer:
    """A producer of a partition; -1 if it has no sequence, no marker, or no open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


@message
class DescribedProducers:
    """The producers of one partition."""

    partition: TopicPartition
    error_code: int
    error_message: str | None = None
    active_producers: tuple[DescribedProducer, ...] = ()


@message
class DescribeProducersResponse:
    """The producers of each partition."""

    partitions: tuple[DescribedProducers, ...]
    throttle_time_ms: int = 0


@message
class DescribeTransactionsRequest:
    """Admin to coordinator: describe transactional ids (API key 65)."""

    version: int
    transactional_ids: tuple[str, ...]


@message
class DescribedTransaction:
    """The transaction of one transactional id, with Kafka's name of its state; times in ms."""

    error_code: int
    transactional_id: str
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: tuple[TopicPartition, ...] = ()


@message
class DescribeTransactionsResponse:
    """The transactions, in the order of the request."""

    transaction_states: tuple[DescribedTransaction, ...]
    throttle_time_ms: int = 0


@message
class ListTransactionsRequest:
    """Admin to any broker: list its transactions (API key 66).

    Empty filters list all; `duration_filter` lists transactions that have been open for longer, in ms.
    """

    version: int
    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = -1


@message
class ListedTransaction:
    """A transactional id of this broker."""

    transactional_id: str
    producer_id: int
    transaction_state: str


@message
class ListTransactionsResponse:
    """The transactions of this broker, and the filters that are names of no state."""

    error_code: int
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[ListedTransaction, ...] = ()
    throttle_time_ms: int = 0
