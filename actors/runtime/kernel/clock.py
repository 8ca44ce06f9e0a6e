"""The clocks of an actor system, which show real or virtual time.

Rule 1: only the actor system (the base) reads its clock; actors use the time of the delivery (`self.now`).
Rule 2: time is float seconds since an arbitrary start; only differences are meaningful.
Rule 3: real time passes during a wait; virtual time passes *because of* a wait.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """The interface of the clock that an actor system uses."""

    def now(self) -> float:
        """Return the time in seconds; it never decreases."""


class RealClock:
    """A clock that shows the machine's monotonic time.

    At import, the class stores references to the time functions. Libraries that freeze time replace module attributes,
    so they do not affect these references. With a frozen clock no timer would ever be due.
    """

    now = staticmethod(time.monotonic)
    cpu = staticmethod(time.thread_time)
    """CPU seconds of the calling thread."""


class VirtualClock:
    """A clock that changes only when it is set; `watchers` are called after each change."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = float(start)
        self.watchers: list[Callable[[], None]] = []

    def now(self) -> float:
        """Return the seconds since the clock's start."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Advance by `seconds`."""
        self.advance_to(self._now + seconds)

    def advance_to(self, moment: float) -> None:
        """Advance to `moment`. Raises ValueError if it is in the past."""
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
        """Return the seconds since the clock's start."""
        return self.source.now() * self.rate

    def source_time(self, reading: float) -> float:
        """Return the first time of `source` at which this clock shows at least `reading`."""
        moment = reading / self.rate
        while moment * self.rate < reading:
            moment = math.nextafter(moment, math.inf)
        return moment
