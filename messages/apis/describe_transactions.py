"""DescribeTransactions: the transactions of transactional ids."""

from __future__ import annotations

from messages.acls import Operation, ResourceType
from messages.apis.declaration import BY_TOPIC, COORDINATOR, TRANSACTIONS, Access, Api
from messages.cluster import TopicPartition
from messages.vocabulary import Message, message


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


API = Api(
    key=65,
    versions=(0, 0),
    request=DescribeTransactionsRequest,
    response=DescribeTransactionsResponse,
    answerer=TRANSACTIONS,
    access=(Access(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, str, "transactional_ids", "transaction_states"),),
    codes=f"NONE INVALID_REQUEST {COORDINATOR} TRANSACTIONAL_ID_NOT_FOUND",
    sample=lambda about: DescribeTransactionsRequest(0, ("id0", "id1", "worker", "stray", "unknown-id", "")),
    refuse=lambda request, code: DescribeTransactionsResponse(
        tuple([DescribedTransaction(code, each) for each in request.transactional_ids])
    ),
    bindings={DescribedTransaction: BY_TOPIC},
)
