"""AddOffsetsToTxn: add the offsets of a group to a transaction (transactions.md 1)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import TRANSACTION, TRANSACTIONS, Api, on_group, on_transactional_id
from messages.vocabulary import Message, message


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


API = Api(
    key=25,
    versions=(0, 4),
    request=AddOffsetsToTxnRequest,
    response=AddOffsetsToTxnResponse,
    answerer=TRANSACTIONS,
    access=(
        on_transactional_id(Operation.WRITE),
        on_group(Operation.READ),
    ),
    codes=f"NONE {TRANSACTION}",
    sample=lambda about: AddOffsetsToTxnRequest(2, "unknown-id", 5, 0, "own"),
    odd="transactional_id= as=producer as=producer;version=1",
)
