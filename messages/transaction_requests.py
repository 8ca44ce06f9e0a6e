"""Requests to coordinators and partition leaders about transactions, including those of Kafka's transactions tool.

As in `messages.requests`, each class covers all versions of its API, and partitions are one flat list. InitProducerId
is in `messages.data_requests`.
"""

from __future__ import annotations

from messages.cluster import TopicPartition
from messages.group_requests import NO_GENERATION, NO_MEMBER, CommittedPartition
from messages.requests import PartitionError
from messages.vocabulary import Message, message

# ---------------------------------------------------------------------------------------------------- producers


@message
class AddPartitionsToTxnTransaction(Message):
    """The partitions of one transactional id in a broker's request; if `verify_only`, they are only checked."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    partitions: tuple[TopicPartition, ...]


@message
class AddPartitionsToTxnRequest(Message):
    """A request to the coordinator to add partitions to a transaction, or to verify them (API key 24).

    Before version 4, a producer sends the request, and the first such request begins the transaction. From version 4
    on, brokers send it, with `transactions` in place of the other fields.
    """

    version: int
    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    partitions: tuple[TopicPartition, ...] = ()
    transactions: tuple[AddPartitionsToTxnTransaction, ...] = ()


@message
class AddedPartition(Message):
    """The result of adding one partition to the transaction."""

    partition: TopicPartition
    error_code: int


@message
class AddPartitionsToTxnResult(Message):
    """The results for one of the transactional ids in a broker's request."""

    transactional_id: str
    partitions: tuple[AddedPartition, ...]


@message
class AddPartitionsToTxnResponse(Message):
    """The response to AddPartitionsToTxn, with a result for each partition.

    From version 4 on, the results are in `transactions`.
    """

    partitions: tuple[AddedPartition, ...] = ()
    throttle_time_ms: int = 0
    error_code: int = 0
    transactions: tuple[AddPartitionsToTxnResult, ...] = ()


@message
class AddOffsetsToTxnRequest(Message):
    """A producer's request to its coordinator to add a group's offsets to the transaction (API key 25).

    It adds the group's partition of __consumer_offsets.
    """

    version: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


@message
class AddOffsetsToTxnResponse(Message):
    """The response to AddOffsetsToTxn."""

    error_code: int
    throttle_time_ms: int = 0


@message
class EndTxnRequest(Message):
    """A producer's request to its coordinator to commit or abort the transaction (API key 26)."""

    version: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


@message
class EndTxnResponse(Message):
    """The response to EndTxn: the decision is stored; the markers may be written later."""

    error_code: int
    throttle_time_ms: int = 0


@message
class TxnOffsetCommitRequest(Message):
    """A producer's request to the group coordinator to commit offsets in its transaction (API key 28).

    From version 3 on, the request has the consumer's generation, member and instance.
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
class TxnOffsetCommitResponse(Message):
    """The response to TxnOffsetCommit, with a result for each partition."""

    partitions: tuple[PartitionError, ...]
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- markers


@message
class WritableTxnMarker(Message):
    """The end of a transaction in these partitions: commit if `transaction_result` is true, otherwise abort."""

    producer_id: int
    producer_epoch: int
    transaction_result: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int


@message
class WriteTxnMarkersRequest(Message):
    """The coordinator's request to partition leaders to write markers, which end transactions (API key 27)."""

    version: int
    markers: tuple[WritableTxnMarker, ...]


@message
class WritableTxnMarkerResult(Message):
    """The results for the markers of one producer id, by partition."""

    producer_id: int
    partitions: tuple[PartitionError, ...]


@message
class WriteTxnMarkersResponse(Message):
    """The response to WriteTxnMarkers, with results by producer id."""

    markers: tuple[WritableTxnMarkerResult, ...]


# ---------------------------------------------------------------------------------------------------- tools


@message
class DescribeProducersRequest(Message):
    """A client's request to partition leaders to describe the producers of partitions (API key 61)."""

    version: int
    partitions: tuple[TopicPartition, ...]


@message
class DescribedProducer(Message):
    """A producer of a partition. A missing sequence number, marker or open transaction is -1."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


@message
class DescribedProducers(Message):
    """The producers of one partition."""

    partition: TopicPartition
    error_code: int
    error_message: str | None = None
    active_producers: tuple[DescribedProducer, ...] = ()


@message
class DescribeProducersResponse(Message):
    """The response to DescribeProducers: the producers of each partition."""

    partitions: tuple[DescribedProducers, ...]
    throttle_time_ms: int = 0


@message
class DescribeTransactionsRequest(Message):
    """A client's request to the coordinator to describe the transactions of transactional ids (API key 65)."""

    version: int
    transactional_ids: tuple[str, ...]


@message
class DescribedTransaction(Message):
    """The transaction of one transactional id, with Kafka's name of its state, such as Ongoing; times are in ms."""

    error_code: int
    transactional_id: str
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: tuple[TopicPartition, ...] = ()


@message
class DescribeTransactionsResponse(Message):
    """The response to DescribeTransactions; the transactions are in the order of the request."""

    transaction_states: tuple[DescribedTransaction, ...]
    throttle_time_ms: int = 0


@message
class ListTransactionsRequest(Message):
    """A client's request for the transactions that a broker coordinates (API key 66).

    An empty filter selects all transactions. `duration_filter` is in ms: it selects transactions that have been open
    for longer.
    """

    version: int
    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = -1


@message
class ListedTransaction(Message):
    """A transactional id that the broker coordinates, with the state of its transaction."""

    transactional_id: str
    producer_id: int
    transaction_state: str


@message
class ListTransactionsResponse(Message):
    """The response to ListTransactions: the broker's transactions, and the requested states that do not exist."""

    error_code: int
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[ListedTransaction, ...] = ()
    throttle_time_ms: int = 0
