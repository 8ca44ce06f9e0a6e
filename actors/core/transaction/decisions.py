"""Decide how to react to a request for one transactional id: by an error code, or by a state change.

Rule 1 (order): A request is checked in this order: the producer id (error code 49), the epoch (error code 47 or 90),
        and whether a state change is pending (error code 51). Then the tables of `transaction_states` apply. For
        InitProducerId, the check for a pending change comes first, and a wrong producer id gets error code 47 or 90.
Rule 2 (InitProducerId with a producer id and epoch): The producer id must be the current one, or the previous one
        together with the last epoch of that id. The epoch must be the current or the previous one. While a transaction
        is open, a higher epoch is accepted too (rule 3). If no transaction is open, a request with the previous epoch
        counts as a repetition, and gets the same response as the first time. An epoch older than both is refused, even
        while a transaction is open. Kafka differs if a transaction is open: it does not refuse the request, but aborts
        the current producer's transaction.
Rule 3 (fences): An InitProducerId during an open transaction aborts it with a raised epoch, and the response has error
        code 51 (CONCURRENT_TRANSACTIONS).
Rule 4 (epochs): EndTxn and AddPartitionsToTxn require the current epoch: a higher one is refused too.

Kafka: `TransactionCoordinator`; KIP-360.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from actors.core.transaction import transaction, transaction_states
from messages import errors
from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.end_txn import EndTxnRequest
from messages.apis.init_producer_id import InitProducerIdRequest
from messages.cluster import TopicPartition
from messages.probes import probe
from messages.vocabulary import AnyMessage, Message

Verdict = int | transaction.Transaction
"""An error code for an immediate response, or the target of the move after whose success the response is sent."""

NO_PAIR = -1
"""Producer id and epoch of an InitProducerId without them."""
MAX_ID_BYTES = 2**15 - 1
"""Maximum number of bytes of a transactional id in a record."""

FENCED_SINCE: Mapping[type, int] = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}
"""Request -> first version in which a wrong epoch is PRODUCER_FENCED (90); before it is INVALID_PRODUCER_EPOCH (47)."""


def epoch_error(request: AnyMessage) -> int:
    """Return the error code for a wrong producer epoch: PRODUCER_FENCED if the request's version knows this code."""
    return errors.PRODUCER_FENCED if request.version >= FENCED_SINCE[type(request)] else errors.INVALID_PRODUCER_EPOCH


def is_valid_id(transactional_id: str) -> bool:
    """Return whether a transactional id is neither empty nor too long for a record."""
    return 0 < len(transactional_id.encode()) <= MAX_ID_BYTES


def init_verdict(request: InitProducerIdRequest, max_timeout_ms: int) -> int:
    """Return the error code for the transactional id or the timeout of an InitProducerId; NONE if both are valid."""
    if request.transactional_id is not None and not is_valid_id(request.transactional_id):
        return errors.INVALID_REQUEST
    return errors.NONE if 0 < request.transaction_timeout_ms <= max_timeout_ms else errors.INVALID_TRANSACTION_TIMEOUT


def is_half_pair(request: InitProducerIdRequest) -> bool:
    """Return whether an InitProducerId has a producer id without an epoch, or an epoch without a producer id."""
    return (request.producer_id == NO_PAIR) != (request.producer_epoch == NO_PAIR)


# ---------------------------------------------------------------------------------------------------- InitProducerId


def needs_producer_id(txn: transaction.Transaction | None, request: InitProducerIdRequest) -> bool:
    """Return whether a new producer id is needed: for a new transactional id, or for an exhausted epoch."""
    if txn is None:
        return True
    takes_it = request.producer_id == NO_PAIR or request.producer_epoch == txn.producer_epoch
    return (
        txn.is_exhausted
        and takes_it
        and transaction_states.INIT_PRODUCER_ID[txn.state] is transaction_states.TransactionAction.INITIALIZE
    )


def initialize(txn: transaction.Transaction, request: InitProducerIdRequest, fresh: int, now: int) -> Verdict:
    """Return the error code for an InitProducerId, or the metadata to append to the log.

    Args:
        fresh: A new producer id, if `needs_producer_id` requires it.
        now: Wall time in ms.
    """
    if txn.pending is not None:
        return errors.CONCURRENT_TRANSACTIONS
    has_pair = request.producer_id != NO_PAIR
    if has_pair and txn.producer_epoch != transaction.NO_PRODUCER_EPOCH and not _is_known_producer(txn, request):
        return epoch_error(request)
    cell = transaction_states.INIT_PRODUCER_ID[txn.state]
    if isinstance(cell, int):
        return cell
    if cell is transaction_states.TransactionAction.FENCE:
        if has_pair and request.producer_epoch < txn.producer_epoch and not _is_repeated(txn, request):
            probe("a stale producer's InitProducerId in an open transaction")
            return epoch_error(request)
        return transaction.fence(txn, now)
    return _decide_init(txn, request, fresh, now)


def _is_known_producer(txn: transaction.Transaction, request: InitProducerIdRequest) -> bool:
    if request.producer_id == txn.producer_id:
        return True
    return request.producer_id == txn.last_producer_id and transaction.is_exhausted(request.producer_epoch)


def _is_repeated(txn: transaction.Transaction, request: InitProducerIdRequest) -> bool:
    return (
        txn.last_producer_epoch != transaction.NO_PRODUCER_EPOCH and request.producer_epoch == txn.last_producer_epoch
    )


def _decide_init(txn: transaction.Transaction, request: InitProducerIdRequest, fresh: int, now: int) -> Verdict:
    has_pair, timeout = request.producer_id != NO_PAIR, request.transaction_timeout_ms
    is_present = not has_pair or request.producer_epoch == txn.producer_epoch
    if txn.is_exhausted and is_present:
        return transaction.rotate_producer_id(
            txn, fresh, txn.producer_epoch if has_pair else transaction.NO_PRODUCER_EPOCH, timeout, now
        )
    if not has_pair:
        return transaction.initialize(txn, txn.producer_epoch + 1, transaction.NO_PRODUCER_EPOCH, timeout, now)
    if is_present or txn.producer_epoch == transaction.NO_PRODUCER_EPOCH:
        return transaction.initialize(txn, txn.producer_epoch + 1, txn.producer_epoch, timeout, now)
    if _is_repeated(txn, request):
        return transaction.initialize(txn, txn.producer_epoch, txn.last_producer_epoch, timeout, now)
    return epoch_error(request)


# ---------------------------------------------------------------------------------------------------- transactions


def _producer_verdict(txn: transaction.Transaction | None, request: AnyMessage) -> int:
    """Return NONE if the request has the producer id and epoch of the transactional id, else an error code."""
    if txn is None or txn.producer_id != request.producer_id:
        return errors.INVALID_PRODUCER_ID_MAPPING
    if txn.producer_epoch != request.producer_epoch:
        return epoch_error(request)
    return errors.NONE


def add_partitions(
    txn: transaction.Transaction | None, request: Message, partitions: tuple[TopicPartition, ...], now: int
) -> Verdict:
    """Return the error code for an AddPartitionsToTxn or AddOffsetsToTxn, or the metadata to append to the log.

    The code is NONE if all partitions are already in the transaction.
    """
    code = _producer_verdict(txn, request)
    if txn is None or code != errors.NONE:
        return code
    if txn.pending is not None:
        return errors.CONCURRENT_TRANSACTIONS
    cell = transaction_states.ADD_PARTITIONS[txn.state]
    if isinstance(cell, int):
        return cell
    if txn.state is transaction_states.ONGOING and set(partitions) <= set(txn.partitions):
        return errors.NONE
    return transaction.add_partitions(txn, partitions, now)


def end(txn: transaction.Transaction | None, request: EndTxnRequest, now: int) -> Verdict:
    """Return the error code for a client's EndTxn, or the metadata to append to the log.

    The code is NONE if the transaction has already ended in the same way.
    """
    code = _producer_verdict(txn, request)
    if txn is None or code != errors.NONE:
        return code
    if txn.pending is not None:
        return errors.CONCURRENT_TRANSACTIONS
    cell = (transaction_states.COMMIT if request.committed else transaction_states.ABORT)[txn.state]
    return cell if isinstance(cell, int) else transaction.decide(txn, request.committed, now)


def verify(
    txn: transaction.Transaction | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
) -> dict[TopicPartition, int]:
    """Return an error code for each partition; NONE if the partition is in the open transaction."""
    code = errors.NONE
    if txn is None or txn.producer_id != producer_id:
        code = errors.INVALID_PRODUCER_ID_MAPPING
    elif txn.producer_epoch != producer_epoch:
        code = errors.PRODUCER_FENCED
    elif isinstance(cell := transaction_states.VERIFY[txn.state], int):
        code = cell
    if txn is None or code != errors.NONE:
        return dict.fromkeys(partitions, code)
    return {each: errors.NONE if each in txn.partitions else errors.TRANSACTION_ABORTABLE for each in partitions}


# ------------------------------------------------------------------------------------------------- timeout


def is_timed_out(txn: transaction.Transaction, now: int) -> bool:
    """Return whether the transaction has timed out and the coordinator must abort it."""
    return txn.state is transaction_states.ONGOING and txn.pending is None and txn.start_ms + txn.timeout_ms < now
