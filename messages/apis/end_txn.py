"""EndTxn: commit or abort a transaction (transactions.md 1)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import TRANSACTION, TRANSACTIONS, Api, on_transactional_id
from messages.vocabulary import Message, message


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


API = Api(
    key=26,
    versions=(0, 4),
    request=EndTxnRequest,
    response=EndTxnResponse,
    answerer=TRANSACTIONS,
    access=(on_transactional_id(Operation.WRITE),),
    codes=f"NONE {TRANSACTION} INVALID_TXN_STATE",
    sample=lambda about: EndTxnRequest(2, "unknown-id", 5, 0, True),
    odd="transactional_id= as=producer as=producer;version=1",
)
