"""InitProducerId: a producer id, which ends the older transactions of a transactional id."""

from __future__ import annotations

from messages.acls import KAFKA_CLUSTER, Operation, ResourceType
from messages.apis.declaration import COORDINATOR, TRANSACTIONS, Access, Api, on_transactional_id
from messages.vocabulary import Message, message


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


API = Api(
    key=22,
    versions=(0, 5),
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    answerer=TRANSACTIONS,
    access=(
        on_transactional_id(Operation.WRITE),
        Access(
            Operation.IDEMPOTENT_WRITE,
            ResourceType.CLUSTER,
            lambda request: KAFKA_CLUSTER if request.transactional_id is None else None,
            or_any_topic=True,
        ),
    ),
    codes=f"NONE INVALID_REQUEST {COORDINATOR} COORDINATOR_NOT_AVAILABLE INVALID_TRANSACTION_TIMEOUT"
    " INVALID_PRODUCER_EPOCH CONCURRENT_TRANSACTIONS PRODUCER_FENCED UNKNOWN_SERVER_ERROR",
    sample=lambda about: InitProducerIdRequest(3, "stray", 60_000),
    odd="transactional_id=null transactional_id=transaction transactional_id= producer_id=5"
    " transaction_timeout_ms=1073741824 as=producer as=producer;version=4",
)
