"""The metadata of one transactional id, and its state transitions.

Rule 1: A move (a change of state) is prepared (`pending` is the new state), appended to the log, and completed when the
        append succeeds. An id has at most one pending move. The move's target is the complete new metadata.
Rule 2: `complete` checks that the target is a valid successor of the current metadata; otherwise nothing changes.
Rule 3: InitProducerId for a known transactional id raises the producer epoch by one. If a client repeats its last
        request with the same producer id and epoch, the epoch does not rise again. A fence or a timeout also raises the
        epoch by one. From epoch MAX_EPOCH - 1 on, InitProducerId assigns another producer id; a fence may use
        MAX_EPOCH.

Kafka: `TransactionMetadata`.
"""

from __future__ import annotations

import attrs

from actors.core.illegal_transition import IllegalTransition, enter
from actors.core.transaction import transaction_states
from messages.cluster import TopicPartition
from messages.probes import probe

NO_PRODUCER = -1
NO_PRODUCER_EPOCH = -1
NO_MOMENT = -1
MAX_EPOCH = 2**15 - 1


@attrs.frozen
class Transaction:
    """The metadata of a transactional id; times are in ms since 1970.

    `partitions` are sorted. `last_producer_id` and `last_producer_epoch` are the values that the last InitProducerId
    replaced, if that request contained them. If the client repeats that request, it gets the same response. `pending`
    is the new state, while its record is being appended (rule 1). `failed_fence`: a fence raised the epoch, but its
    append failed, so the next fence does not raise the epoch again.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: transaction_states.TransactionState = transaction_states.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    start_ms: int = NO_MOMENT
    updated_ms: int = NO_MOMENT
    last_producer_id: int = NO_PRODUCER
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    pending: transaction_states.TransactionState | None = None
    failed_fence: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether InitProducerId can no longer raise the epoch."""
        return is_exhausted(self.producer_epoch)

    @property
    def is_commit(self) -> bool:
        """Whether the transaction is to be committed."""
        return self.state is transaction_states.PREPARE_COMMIT

    @property
    def is_completing(self) -> bool:
        """Whether the decision is stored, but its completion is not stored yet."""
        return self.state in transaction_states.COMPLETION and self.pending is transaction_states.COMPLETION[self.state]


def is_exhausted(epoch: int) -> bool:
    """Return whether InitProducerId can no longer raise this epoch (rule 3)."""
    return epoch >= MAX_EPOCH - 1


# ---------------------------------------------------------------------------------------------------- targets


def initialize(txn: Transaction, epoch: int, last_epoch: int, timeout_ms: int, now: int) -> Transaction:
    """Return the metadata after an InitProducerId that keeps the producer id."""
    return attrs.evolve(_empty(txn, timeout_ms, now), producer_epoch=epoch, last_producer_epoch=last_epoch)


def rotate_producer_id(txn: Transaction, producer_id: int, last_epoch: int, timeout_ms: int, now: int) -> Transaction:
    """Return the metadata after an InitProducerId that assigns another producer id."""
    return attrs.evolve(
        _empty(txn, timeout_ms, now),
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_id=txn.producer_id,
        last_producer_epoch=last_epoch,
    )


def _empty(txn: Transaction, timeout_ms: int, now: int) -> Transaction:
    return attrs.evolve(
        txn,
        state=transaction_states.EMPTY,
        partitions=(),
        start_ms=NO_MOMENT,
        updated_ms=now,
        timeout_ms=timeout_ms,
        pending=None,
    )


def add_partitions(txn: Transaction, partitions: tuple[TopicPartition, ...], now: int) -> Transaction:
    """Return the transaction with these partitions added. A transaction that has not started yet starts at `now`."""
    start = txn.start_ms if txn.state is transaction_states.ONGOING else now
    union = tuple(sorted({*txn.partitions, *partitions}))
    return attrs.evolve(
        txn, state=transaction_states.ONGOING, partitions=union, start_ms=start, updated_ms=now, pending=None
    )


def decide(txn: Transaction, commit: bool, now: int) -> Transaction:
    """Return the metadata after an EndTxn."""
    return attrs.evolve(
        txn,
        state=transaction_states.PREPARE_COMMIT if commit else transaction_states.PREPARE_ABORT,
        updated_ms=now,
        pending=None,
    )


def fence(txn: Transaction, now: int) -> Transaction:
    """Return the metadata after an abort by the coordinator; the raised producer epoch fences the producer."""
    epoch = txn.producer_epoch if txn.failed_fence else txn.producer_epoch + 1
    raised = attrs.evolve(txn, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)
    return decide(raised, False, now)


def finish(txn: Transaction, now: int) -> Transaction:
    """Return the metadata after the last marker was written."""
    state = transaction_states.COMPLETION[txn.state]
    return attrs.evolve(txn, state=state, partitions=(), updated_ms=now, pending=None, failed_fence=False)


# ---------------------------------------------------------------------------------------------------- moves


def prepare(txn: Transaction, target: transaction_states.TransactionState) -> Transaction:
    """Return the transaction with a pending move to `target` (rule 1).

    Raises:
        IllegalTransition: Another move is pending, or `target` cannot be entered from the current state.
    """
    subject = f"transactional id {txn.transactional_id}"
    if txn.pending is not None and txn.pending is not target:
        raise IllegalTransition(subject, txn.state, target, f"{txn.pending.value} is pending")
    return attrs.evolve(txn, pending=enter(subject, txn.state, target, transaction_states.PREVIOUS))


def complete(txn: Transaction, target: Transaction) -> Transaction:
    """Return `target` as the new metadata (rule 2).

    Raises:
        IllegalTransition: `target` is not a valid successor of `txn`.
    """
    fault = _fault(txn, target)
    if fault:
        raise IllegalTransition(f"transactional id {txn.transactional_id}", txn.state, target.state, fault)
    probe(f"transaction {txn.state.value} to {target.state.value}")
    return target


def _fault(txn: Transaction, target: Transaction) -> str:
    """Return why `target` is not a valid successor of `txn`; empty if it is valid."""
    if txn.pending is not target.state:
        return f"{txn.pending.value if txn.pending else 'no state'} is pending"
    match target.state:
        case transaction_states.TransactionState.EMPTY:
            fresh = target.producer_id != txn.producer_id and target.producer_epoch == 0
            follows = target.producer_epoch in (txn.producer_epoch, txn.producer_epoch + 1)
            right = (follows or fresh) and not target.partitions and target.start_ms == NO_MOMENT
        case transaction_states.TransactionState.ONGOING:
            right = _same_producer(txn, target) and set(txn.partitions) <= set(target.partitions)
        case transaction_states.TransactionState.PREPARE_COMMIT | transaction_states.TransactionState.PREPARE_ABORT:
            epochs = (txn.producer_epoch, txn.producer_epoch + 1)
            right = (
                (txn.producer_id, txn.timeout_ms) == (target.producer_id, target.timeout_ms)
                and target.producer_epoch in epochs[: 1 if target.state is transaction_states.PREPARE_COMMIT else 2]
                and (txn.partitions, txn.start_ms) == (target.partitions, target.start_ms)
            )
        case transaction_states.TransactionState.COMPLETE_COMMIT | transaction_states.TransactionState.COMPLETE_ABORT:
            right = _same_producer(txn, target) and target.start_ms != NO_MOMENT and not target.partitions
        case _:
            right = False
    return "" if right else f"{target} does not follow"


def _same_producer(txn: Transaction, target: Transaction) -> bool:
    return (txn.producer_id, txn.producer_epoch, txn.timeout_ms) == (
        target.producer_id,
        target.producer_epoch,
        target.timeout_ms,
    )
