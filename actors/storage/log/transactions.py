"""A log's open transactions, and those whose markers are not replicated yet (transactions.md 3.1).

Rule 1: the first unstable offset is the first offset of the earliest of these transactions. Consumers with isolation
        level read_committed read up to it.
Rule 2: an ended transaction still counts as one of these transactions until the high watermark has passed its marker.

Kafka: `ProducerStateManager.ongoingTxns`, `unreplicatedTxns`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

NO_OFFSET = -1


class CompletedTxn(NamedTuple):
    """A completed transaction, with the last stable offset that applies once its marker is replicated.

    The last stable offset is the first offset of the earliest transaction that is still open. If none is open, it is
    the offset after the marker.

    Attributes:
        producer_id: The producer.
        first_offset: First offset of the transaction.
        last_offset: Offset of its marker.
        last_stable_offset: As described above.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Transactions:
    """The transactions that still hold back the last stable offset of one log."""

    __slots__ = ("_open", "_unreplicated")

    def __init__(self, open_transactions: Iterable[tuple[int, int]] = ()) -> None:
        """Start with these open transactions: (producer id, first offset)."""
        self._open = dict(sorted(open_transactions, key=lambda each: each[1]))
        """Producer id -> first offset, ascending, because transactions begin in the order of the log."""
        self._unreplicated: deque[tuple[int, int]] = deque()
        """(first offset, offset of the marker), both ascending: see `end`."""

    @property
    def first_unstable(self) -> int:
        """The first unstable offset (rule 1); NO_OFFSET without one."""
        for first in self._open.values():
            return min(first, self._unreplicated[0][0]) if self._unreplicated else first
        return self._unreplicated[0][0] if self._unreplicated else NO_OFFSET

    @property
    def oldest(self) -> int | None:
        """Producer id of the earliest open transaction; None without one."""
        return next(iter(self._open), None)

    def first_offset(self, producer_id: int) -> int:
        """Return the first offset of the producer's open transaction; NO_OFFSET without one."""
        return self._open.get(producer_id, NO_OFFSET)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Open the producer's transaction at `first_offset`, unless it is already open."""
        self._open.setdefault(producer_id, first_offset)

    def end(self, producer_id: int, marker_offset: int) -> CompletedTxn | None:
        """End the producer's open transaction with the marker at this offset; return None if none is open."""
        first = self._open.pop(producer_id, None)
        if first is None:
            return None
        stable = next(iter(self._open.values()), marker_offset + 1)
        # Remove the transactions that lie within this one: they never determine the first unstable offset. Their first
        # offsets are higher than that of this transaction. Their markers precede its marker in the log, so they are
        # replicated earlier.
        while self._unreplicated and self._unreplicated[-1][0] >= first:
            self._unreplicated.pop()
        self._unreplicated.append((first, marker_offset))
        return CompletedTxn(producer_id, first, marker_offset, stable)

    def raise_high_watermark(self, high_watermark: int) -> None:
        """Remove the transactions whose markers are below the new high watermark (rule 2)."""
        while self._unreplicated and self._unreplicated[0][1] < high_watermark:
            self._unreplicated.popleft()
