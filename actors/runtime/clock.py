"""The clocks of an actor system, which show real or virtual time.

Rule 1: the base reads its own clock only; actors receive the time (`self.now`) and never read a clock.
Rule 2: time is float seconds on a scale of the clock's own; only differences mean something.
Rule 3: real time passes while one waits, virtual time passes *because* one waits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """The interface of the clock that an actor system uses."""

    def now(self) -> float:
        """Seconds; never smaller than before."""


class RealClock:
    """A clock that shows the machine's monotonic time.

    The functions are bound at import, in the class: libraries that freeze time replace module attributes, and a base
    whose timers follow a frozen clock would wait for ever.
    """

    now = staticmethod(time.monotonic)
    cpu = staticmethod(time.thread_time)
    """CPU seconds of the thread that asks."""


class VirtualClock:
    """A clock that changes only when it is set; `watchers` are called after each change."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = float(start)
        self.watchers: list[Callable[[], None]] = []

    def now(self) -> float:
        """Seconds since the clock's own beginning."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.advance_to(self._now + seconds)

    def advance_to(self, moment: float) -> None:
        """Move on to `moment`. Raises ValueError where that lies in the past."""
        if moment < self._now:
            raise ValueError(f"virtual time cannot go back from {self._now} to {moment}")
        self._now = float(moment)
        for watcher in self.watchers:
            watcher()


class DriftingClock:
    """The clock of a simulated machine, which runs `rate` times as fast as the virtual clock `source`."""

    def __init__(self, source: VirtualClock, rate: float) -> None:
        if rate <= 0:
            raise ValueError(f"a clock's rate must be positive, not {rate}")
        self.source = source
        self.rate = rate

    def now(self) -> float:
        """Seconds since the clock's own beginning."""
        return self.source.now() * self.rate

    def source_time(self, reading: float) -> float:
        """Return the first time of `source` at which this clock shows at least `reading`."""
        moment = reading / self.rate
        while moment * self.rate < reading:
            moment = math.nextafter(moment, math.inf)
        return moment
