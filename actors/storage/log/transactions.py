"""The transactions of a log that are open, or whose markers are not replicated yet (transactions.md 3.1).

Rule 1: the first unstable offset is the first offset of the earliest of them. Consumers with isolation level
        read_committed read up to there.
Rule 2: an ended transaction counts until the high watermark has passed its marker.

Kafka: `ProducerStateManager.ongoingTxns`, `unreplicatedTxns`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

NO_OFFSET = -1


class CompletedTxn(NamedTuple):
    """A completed transaction: its producer id, its first offset, its marker's offset, and the last stable offset once
    the marker is replicated.

    The last stable offset is the first offset of the earliest transaction that is still open, else the one after the
    marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Transactions:
    """The transactions of one log that its last stable offset cannot pass yet."""

    __slots__ = ("_open", "_unreplicated")

    def __init__(self, open_transactions: Iterable[tuple[int, int]] = ()) -> None:
        """Start with these (producer id, first offset)."""
        self._open = dict(sorted(open_transactions, key=lambda each: each[1]))
        """By producer id: the first offset, ascending, for transactions begin in the order of the log."""
        self._unreplicated: deque[tuple[int, int]] = deque()
        """(first offset, marker's offset), both ascending: see `end`."""

    @property
    def first_unstable(self) -> int:
        """The first unstable offset (rule 1), NO_OFFSET if there is none."""
        for first in self._open.values():
            return min(first, self._unreplicated[0][0]) if self._unreplicated else first
        return self._unreplicated[0][0] if self._unreplicated else NO_OFFSET

    @property
    def oldest(self) -> int | None:
        """The producer id of the earliest open transaction."""
        return next(iter(self._open), None)

    def first_offset(self, producer_id: int) -> int:
        """The first offset of the producer's open transaction, NO_OFFSET if it has none."""
        return self._open.get(producer_id, NO_OFFSET)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """The producer has written at `first_offset`: its transaction is open, if it was not."""
        self._open.setdefault(producer_id, first_offset)

    def end(self, producer_id: int, marker_offset: int) -> CompletedTxn | None:
        """End the producer's open transaction with the marker at this offset; None if it has none."""
        first = self._open.pop(producer_id, None)
        if first is None:
            return None
        stable = next(iter(self._open.values()), marker_offset + 1)
        # A transaction that began later and ended earlier leaves before this one: it never is the earliest again.
        while self._unreplicated and self._unreplicated[-1][0] >= first:
            self._unreplicated.pop()
        self._unreplicated.append((first, marker_offset))
        return CompletedTxn(producer_id, first, marker_offset, stable)

    def replicated(self, high_watermark: int) -> None:
        """The high watermark has moved (rule 2)."""
        while self._unreplicated and self._unreplicated[0][1] < high_watermark:
            self._unreplicated.popleft()
