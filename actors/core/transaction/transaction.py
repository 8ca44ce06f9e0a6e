"""The metadata of one transactional id, and its state transitions.

Rule 1: a move is prepared (`pending` is its state), appended to the log, and completed when the log has it. An id has
        one pending move. Its target is the whole next value.
Rule 2: `completed` checks that the target follows from the present value; else nothing changes.
Rule 3: the epoch of a producer rises by one with each InitProducerId of a known id, with a fence and with a timeout.
        From MAX_EPOCH - 1 on, InitProducerId gives another producer id; a fence may use MAX_EPOCH.

Kafka: `TransactionMetadata`.
"""

from __future__ import annotations

import attrs

from actors.core.transaction.transaction_states import (
    COMPLETION,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREVIOUS,
    IllegalTransition,
    TransactionState,
)
from messages.cluster import TopicPartition
from messages.probes import probe

NO_PRODUCER = -1
NO_PRODUCER_EPOCH = -1
NO_MOMENT = -1
MAX_EPOCH = 2**15 - 1


@attrs.frozen
class Transaction:
    """The metadata of a transactional id; times are in ms since 1970.

    `partitions` are sorted.

    `last_producer_id` and `last_producer_epoch` are those before the last InitProducerId that named them: who repeats
    that request gets the same answer. `pending`: the state of the move that is being appended. `failed_fence`: a fence
    raised the epoch but was not stored, so the next one does not raise it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: TransactionState = EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    start_ms: int = NO_MOMENT
    updated_ms: int = NO_MOMENT
    last_producer_id: int = NO_PRODUCER
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    pending: TransactionState | None = None
    failed_fence: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether InitProducerId cannot raise the epoch any more."""
        return is_exhausted(self.producer_epoch)

    @property
    def is_commit(self) -> bool:
        """Whether the decision is to commit."""
        return self.state is PREPARE_COMMIT

    @property
    def is_completing(self) -> bool:
        """Whether the decision is stored and markers are missing."""
        return self.state in COMPLETION and self.pending is COMPLETION[self.state]


def is_exhausted(epoch: int) -> bool:
    """Whether an epoch is the last that InitProducerId gives (rule 3)."""
    return epoch >= MAX_EPOCH - 1


# ---------------------------------------------------------------------------------------------------- targets


def initialized(txn: Transaction, epoch: int, last_epoch: int, timeout_ms: int, now: int) -> Transaction:
    """The target of an InitProducerId that keeps the producer id."""
    return attrs.evolve(_at_rest(txn, timeout_ms, now), producer_epoch=epoch, last_producer_epoch=last_epoch)


def rotated(txn: Transaction, producer_id: int, last_epoch: int, timeout_ms: int, now: int) -> Transaction:
    """The target of an InitProducerId that gives another producer id."""
    return attrs.evolve(
        _at_rest(txn, timeout_ms, now),
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_id=txn.producer_id,
        last_producer_epoch=last_epoch,
    )


def _at_rest(txn: Transaction, timeout_ms: int, now: int) -> Transaction:
    return attrs.evolve(
        txn, state=EMPTY, partitions=(), start_ms=NO_MOMENT, updated_ms=now, timeout_ms=timeout_ms, pending=None
    )


def extended(txn: Transaction, partitions: tuple[TopicPartition, ...], now: int) -> Transaction:
    """The target of an added partition; the transaction begins with the first."""
    start = txn.start_ms if txn.state is ONGOING else now
    union = tuple(sorted({*txn.partitions, *partitions}))
    return attrs.evolve(txn, state=ONGOING, partitions=union, start_ms=start, updated_ms=now, pending=None)


def decided(txn: Transaction, commit: bool, now: int) -> Transaction:
    """The target of an EndTxn."""
    return attrs.evolve(txn, state=PREPARE_COMMIT if commit else PREPARE_ABORT, updated_ms=now, pending=None)


def fenced(txn: Transaction, now: int) -> Transaction:
    """The target of an abort by the coordinator: the epoch is raised, so that the producer is refused."""
    epoch = txn.producer_epoch if txn.failed_fence else txn.producer_epoch + 1
    raised = attrs.evolve(txn, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)
    return decided(raised, False, now)


def finished(txn: Transaction, now: int) -> Transaction:
    """The target after the last marker."""
    state = COMPLETION[txn.state]
    return attrs.evolve(txn, state=state, partitions=(), updated_ms=now, pending=None, failed_fence=False)


# ---------------------------------------------------------------------------------------------------- moves


def prepared(txn: Transaction, target: TransactionState) -> Transaction:
    """The id with its move pending (rule 1). Raises IllegalTransition."""
    if txn.pending is not None and txn.pending is not target:
        raise IllegalTransition(f"{txn.transactional_id}: to {target.value} while {txn.pending.value} is pending")
    if txn.state not in PREVIOUS[target]:
        raise IllegalTransition(f"{txn.transactional_id}: from {txn.state.value} to {target.value}")
    return attrs.evolve(txn, pending=target)


def completed(txn: Transaction, target: Transaction) -> Transaction:
    """The id after its move (rule 2). Raises IllegalTransition."""
    fault = _fault(txn, target)
    if fault:
        raise IllegalTransition(
            f"{txn.transactional_id}: the move from {txn.state.value} to {target.state.value} is wrong: {fault}"
        )
    probe(f"transaction {txn.state.value} to {target.state.value}")
    return target


def _fault(txn: Transaction, target: Transaction) -> str:
    """What is wrong with a move; "" if nothing is."""
    if txn.pending is not target.state:
        return f"pending is {txn.pending.value if txn.pending else None}"
    match target.state:
        case TransactionState.EMPTY:
            fresh = target.producer_id != txn.producer_id and target.producer_epoch == 0
            follows = target.producer_epoch in (txn.producer_epoch, txn.producer_epoch + 1)
            right = (follows or fresh) and not target.partitions and target.start_ms == NO_MOMENT
        case TransactionState.ONGOING:
            right = _same_producer(txn, target) and set(txn.partitions) <= set(target.partitions)
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            epochs = (txn.producer_epoch, txn.producer_epoch + 1)
            right = (
                (txn.producer_id, txn.timeout_ms) == (target.producer_id, target.timeout_ms)
                and target.producer_epoch in epochs[: 1 if target.state is PREPARE_COMMIT else 2]
                and (txn.partitions, txn.start_ms) == (target.partitions, target.start_ms)
            )
        case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT:
            right = _same_producer(txn, target) and target.start_ms != NO_MOMENT and not target.partitions
        case _:
            right = False
    return "" if right else f"{target}"


def _same_producer(txn: Transaction, target: Transaction) -> bool:
    return (txn.producer_id, txn.producer_epoch, txn.timeout_ms) == (
        target.producer_id,
        target.producer_epoch,
        target.timeout_ms,
    )
