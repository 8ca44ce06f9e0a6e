"""Count the turns of an event loop and measure their duration; other threads may read the results."""

from __future__ import annotations

MOST = 0.02
"""Maximum CPU seconds of a turn: no client request is read meanwhile."""
MINUTE = 60


class Turns:
    """Statistics of an event loop: the number of turns, and the longest turn of each of the last sixty seconds."""

    def __init__(self) -> None:
        self.count = 0
        self.over = 0
        """Number of turns that took more than MOST."""
        self._seconds: list[tuple[int, float, float]] = [(-MINUTE, 0.0, 0.0)] * MINUTE
        """By second modulo 60: (second, CPU seconds of the turns that ended in it, and of the longest of them)."""

    def add(self, took: float, now: float) -> None:
        """Count a turn of `took` CPU seconds that ended at time `now`."""
        self.count += 1
        self.over += took > MOST
        second = int(now)
        of, busy, longest = self._seconds[second % MINUTE]
        if of != second:
            busy = longest = 0.0
        self._seconds[second % MINUTE] = second, busy + took, took if took > longest else longest

    def busy(self, now: float) -> float:
        """Return the CPU seconds of all turns in the minute that ends at `now`."""
        return sum(took if now - second < MINUTE else 0.0 for second, took, _ in self._seconds)

    def longest(self, now: float) -> float:
        """Return the CPU seconds of the longest turn in the minute that ends at `now`."""
        return max(took if now - second < MINUTE else 0.0 for second, _, took in self._seconds)
