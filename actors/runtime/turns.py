"""Count the turns of an event loop and measure their duration; other threads may read the results."""

from __future__ import annotations

MOST = 0.02
"""CPU seconds that no turn should take: meanwhile no client is heard."""
MINUTE = 60


class Turns:
    """Statistics of an event loop: the number of turns, and the longest turn of each of the last sixty seconds."""

    def __init__(self) -> None:
        self.count = 0
        self.over = 0
        """How many took more than MOST."""
        self._busy: list[tuple[int, float]] = [(-MINUTE, 0.0)] * MINUTE
        """By the second, modulo a minute: (second, CPU seconds of the turns that ended in it)."""
        self._longest: list[tuple[int, float]] = [(-MINUTE, 0.0)] * MINUTE
        """By the second, modulo a minute: (second, the longest that ended in it)."""

    def add(self, took: float, now: float) -> None:
        """A turn of `took` CPU seconds ended at time `now`."""
        self.count += 1
        self.over += took > MOST
        second = int(now)
        place = second % MINUTE
        of, busy = self._busy[place]
        self._busy[place] = (second, busy + took if of == second else took)
        of, longest = self._longest[place]
        if of != second or took > longest:
            self._longest[place] = (second, took)

    def busy(self, now: float) -> float:
        """CPU seconds of all turns in the minute that ends at `now`."""
        return sum(took if now - second < MINUTE else 0.0 for second, took in self._busy)

    def longest(self, now: float) -> float:
        """CPU seconds of the longest turn in the minute that ends at `now`."""
        return max(took if now - second < MINUTE else 0.0 for second, took in self._longest)
