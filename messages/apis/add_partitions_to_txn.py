"""AddPartitionsToTxn: add partitions to a transaction, or verify them (transactions.md 1)."""

from __future__ import annotations

from collections.abc import Iterable

from messages import errors
from messages.acls import KAFKA_CLUSTER, Operation, ResourceType
from messages.apis.declaration import BY_TOPIC, TRANSACTION, TRANSACTIONS, Access, Api, Binding, on_topics
from messages.cluster import TopicPartition
from messages.vocabulary import Message, message


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


def _refuse(request: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(each.transactional_id, _results_with_code(each.partitions, code))
        for each in request.transactions
    ]
    return AddPartitionsToTxnResponse(_results_with_code(request.partitions, code), transactions=tuple(results))


def _results_with_code(partitions: Iterable[TopicPartition], code: int) -> tuple[AddedPartition, ...]:
    return tuple([AddedPartition(each, code) for each in partitions])


API = Api(
    key=24,
    versions=(0, 5),
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
    answerer=TRANSACTIONS,
    access=(
        Access(
            Operation.CLUSTER_ACTION,
            ResourceType.CLUSTER,
            lambda request: KAFKA_CLUSTER if request.transactions else None,
        ),
        Access(
            Operation.WRITE,
            ResourceType.TRANSACTIONAL_ID,
            lambda request: None if request.transactions else request.transactional_id,
        ),
        on_topics(Operation.WRITE, rest=errors.OPERATION_NOT_ATTEMPTED),
    ),
    codes=f"NONE {TRANSACTION} UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED OPERATION_NOT_ATTEMPTED"
    " TRANSACTION_ABORTABLE",
    sample=lambda about: AddPartitionsToTxnRequest(2, "unknown-id", 5, 0, (about.partition,)),
    odd="transactional_id= partitions=__consumer_offsets|x partitions=absent as=producer as=producer;version=1"
    " as=verifier",
    refuse=_refuse,
    bindings={
        AddPartitionsToTxnRequest: Binding(
            renamed={
                "transactional_id": ("v3_and_below_transactional_id",),
                "producer_id": ("v3_and_below_producer_id",),
                "producer_epoch": ("v3_and_below_producer_epoch",),
            },
            gathered={"partitions": ("v3_and_below_topics.partitions",)},
        ),
        AddPartitionsToTxnTransaction: BY_TOPIC,
        AddPartitionsToTxnResponse: Binding(
            renamed={"transactions": ("results_by_transaction",)},
            gathered={"partitions": ("results_by_topic_v3_and_below.results_by_partition",)},
        ),
        AddPartitionsToTxnResult: Binding(gathered={"partitions": ("topic_results.results_by_partition",)}),
        AddedPartition: Binding(renamed={"error_code": ("partition_error_code",)}),
    },
)
