"""Decide which transactional batches a partition's leader may append (transactions.md 3.2 rule 4).

Rule 1: a producer's batches are appended while its transaction is known to be open: one of its batches was verified and
        appended, and no marker has come since. A new leader knows no open transactions.
Rule 2: any other batch waits, with later batches of the same producer, until the coordinator has replied whether the
        partition belongs to the producer's transaction.
Rule 3: when a marker is appended, waiting batches are refused with INVALID_TXN_STATE, because they belong to the
        transaction that has ended. A reply is ignored if its query was already settled by a marker, a newer epoch or a
        new leader.
Rule 4: when a batch with a higher producer epoch arrives, waiting batches with a lower epoch are refused
        (INVALID_PRODUCER_EPOCH). A new batch with a lower epoch is refused with the same error.
Rule 5: after a query that failed or timed out, the lowest refused sequence number is kept: a later batch of the
        producer must not be appended before the refused batches are sent again. Such numbers are kept for at most
        MOST_REFUSED producers.

Kafka: `VerificationGuard`, `VerificationStateEntry`, `ProducerStateManager`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import attrs

from messages import errors

_T = TypeVar("_T")

MOST_REFUSED = 1000

CODES = {
    errors.PRODUCER_FENCED: errors.INVALID_PRODUCER_EPOCH,
    errors.INVALID_TXN_STATE: errors.INVALID_TXN_STATE,
    errors.INVALID_PRODUCER_ID_MAPPING: errors.INVALID_PRODUCER_ID_MAPPING,
    **dict.fromkeys(
        (
            *(
                errors.CONCURRENT_TRANSACTIONS,
                errors.COORDINATOR_LOAD_IN_PROGRESS,
                errors.COORDINATOR_NOT_AVAILABLE,
                errors.NOT_COORDINATOR,
            ),
            errors.NETWORK_EXCEPTION,
        ),
        errors.NOT_ENOUGH_REPLICAS,
    ),
}
"""The coordinator's error code -> the code for the batches; other codes stay as they are."""


class RefusedBatches(NamedTuple, Generic[_T]):
    """Batches that are not appended, and their error code."""

    batches: Sequence[_T]
    error_code: int


@attrs.define
class _PendingVerification(Generic[_T]):
    """The verification of one producer's transaction.

    It has the id of the pending query (0 if none), and the batches that wait for its result.
    """

    epoch: int
    lowest_sequence: int
    number: int = 0
    waiting: list[_T] = attrs.field(factory=list)


class TransactionVerification(Generic[_T]):
    """The producers with an open transaction in a partition, and the batches that wait for verification."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        """The epochs of producers with open transactions, by producer id."""
        self._guards: dict[int, _PendingVerification[_T]] = {}
        self._numbers = 0

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Return whether a batch of this producer needs no verification (rule 1)."""
        return self._open.get(producer_id) == epoch

    def wait(self, producer_id: int, epoch: int, sequence: int, batch: _T) -> tuple[int, RefusedBatches[_T] | None]:
        """Let a batch wait for the verification of its transaction (rule 2).

        Returns:
            The number of the query to send, 0 if none; and batches to refuse (rule 4).
        """
        guard, refused = self._guards.get(producer_id), None
        if guard is not None and epoch < guard.epoch:
            return 0, RefusedBatches((batch,), errors.INVALID_PRODUCER_EPOCH)
        if guard is None or epoch > guard.epoch:
            refused = None if guard is None else RefusedBatches(guard.waiting, errors.INVALID_PRODUCER_EPOCH)
            guard = self._guards[producer_id] = _PendingVerification(epoch, sequence)
        guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        guard.waiting.append(batch)
        if guard.number:
            return 0, refused
        self._numbers += 1
        guard.number = self._numbers
        return guard.number, refused

    def handle_reply(
        self, number: int, producer_id: int, error_code: int
    ) -> tuple[Sequence[_T], RefusedBatches[_T] | None]:
        """Process the coordinator's reply.

        Returns:
            The batches to append, in order (check each with `append_verdict` first); the batches to refuse, or None.
        """
        guard = self._guards.get(producer_id)
        if guard is None or guard.number != number:
            return (), None
        waiting, guard.waiting, guard.number = guard.waiting, [], 0
        if error_code == errors.NONE:
            return waiting, None
        code = CODES.get(error_code, error_code)
        del self._guards[producer_id]
        if code == errors.NOT_ENOUGH_REPLICAS:
            # Insert the guard at the end of the dict. Of the guards without a pending query, the loop below removes the
            # oldest.
            self._guards[producer_id] = guard
            idle = [each for each, its in self._guards.items() if not its.number]
            for each in idle[:-MOST_REFUSED]:
                del self._guards[each]
        return (), RefusedBatches(waiting, code)

    def append_verdict(self, producer_id: int, epoch: int, sequence: int) -> int:
        """Return NONE if a verified batch may be appended now, otherwise the code that refuses it (rule 5)."""
        guard = self._guards.get(producer_id)
        if self.is_open(producer_id, epoch):
            return errors.NONE
        if guard is None or guard.epoch != epoch:
            return errors.INVALID_TXN_STATE
        return errors.OUT_OF_ORDER_SEQUENCE if sequence > guard.lowest_sequence else errors.NONE

    def note_open(self, producer_id: int, epoch: int) -> None:
        """Record that a verified batch was appended, so the transaction is open (rule 1)."""
        self._open[producer_id] = epoch
        self._guards.pop(producer_id, None)

    def note_end(self, producer_id: int) -> RefusedBatches[_T] | None:
        """Record that a marker was appended (rule 3); return the batches to refuse."""
        self._open.pop(producer_id, None)
        guard = self._guards.pop(producer_id, None)
        return None if guard is None else RefusedBatches(guard.waiting, errors.INVALID_TXN_STATE)

    def leadership_ended(self) -> list[_T]:
        """Clear everything but the last query number: an old reply must not settle a query of the next leadership.

        Returns:
            All waiting batches, to be refused.
        """
        waiting = [batch for guard in self._guards.values() for batch in guard.waiting]
        self._open.clear()
        self._guards.clear()
        return waiting
