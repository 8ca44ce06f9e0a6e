"""The clocks of an actor system, which show real or virtual time, and its timers: messages that are due later.

Rule 1: only the actor system (the base) reads its clock; actors use the time of the delivery (`self.now`).
Rule 2: time is float seconds since an arbitrary start; only differences are meaningful.
Rule 3: real time passes during a wait; virtual time passes *because of* a wait.
Rule 4 (order): timers are ordered by due time. Timers with the same due time are in the order in which they were armed.
Rule 5 (names): an actor has at most one timer of each name: arming a timer cancels the earlier timer of the same name.
        A timer can be cancelled until its message is delivered, even if the timer is due and the message is in the
        queue.
Rule 6 (cost): a cancelled timer stays in the heap without its message; the heap is rebuilt when most entries are
        cancelled.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from actors.runtime.kernel.reference import ActorRef


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


SPARED = 64
"""Minimum number of cancelled entries for a rebuild of the heap."""


class Timer:
    """A timer; its message is None after it was cancelled."""

    __slots__ = ("armed_by", "due", "message", "name", "receiver")

    def __init__(self, receiver: ActorRef, due: float, message: object, armed_by: int, name: str) -> None:
        self.receiver = receiver
        self.due = due
        self.message = message
        self.armed_by = armed_by
        self.name = name


class Timers:
    """The timers of an actor system, ordered by the time when they are due.

    `heap` may contain cancelled timers.
    """

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Timer]] = []
        self._armed = 0
        self._dead = 0
        self._named: dict[tuple[int, str], Timer] = {}
        """Timers by the receiver's identity (the timer keeps the receiver alive) and their name."""
        self._rung: dict[int, Timer] = {}
        """Named timers whose message is in the queue, by the message's identity."""

    def __len__(self) -> int:
        return len(self.heap) - self._dead

    def __iter__(self) -> Iterator[Timer]:
        """Return the timers that are not due yet, in order."""
        return (timer for _, _, timer in sorted(self.heap) if timer.message is not None)

    @property
    def next_due(self) -> float | None:
        """The due time of the first timer, or None."""
        self._clear_top()
        return self.heap[0][0] if self.heap else None

    def arm(self, receiver: ActorRef, due: float, message: object, armed_by: int, name: str) -> None:
        """Add a timer for `message` at the time `due`; without a `name` it cannot be cancelled."""
        self._armed += 1
        timer = Timer(receiver, due, message, armed_by, name)
        if name:
            self._named[id(receiver), name] = timer
        heappush(self.heap, (due, self._armed, timer))

    def cancel(self, receiver: ActorRef, name: str) -> Any:
        """Cancel the timer of this name, if it exists; return its message if the message is already in the queue."""
        timer = self._named.pop((id(receiver), name), None)
        if timer is None:
            return None
        message, timer.message = timer.message, None
        if self._rung.pop(id(message), None) is not None:
            return message
        self._dead += 1
        if self._dead > SPARED + len(self.heap) // 2:
            self.heap[:] = [entry for entry in self.heap if entry[2].message is not None]
            heapify(self.heap)
            self._dead = 0
        return None

    def ring(self, now: float) -> Iterator[Timer]:
        """Remove and yield the due timers in order; the caller queues their messages."""
        heap = self.heap
        while heap and heap[0][0] <= now:
            timer = heappop(heap)[2]
            if timer.message is None:
                self._dead -= 1
                continue
            if timer.name:
                self._rung[id(timer.message)] = timer
            yield timer

    def note_delivery(self, message: object) -> None:
        """Record that a timer's message was delivered, so that the timer can no longer be cancelled."""
        timer = self._rung.pop(id(message), None)
        if timer is not None:
            del self._named[id(timer.receiver), timer.name]

    def name_of(self, message: object) -> str:
        """Return the name of the due timer to which the queued `message` belongs, "" if the timer has no name."""
        timer = self._rung.get(id(message))
        return "" if timer is None else timer.name

    def take(self, receiver: str, armed_by: int) -> Timer | None:
        """Remove and return the first timer of `receiver` that was armed during delivery `armed_by`, or None."""
        matching = (
            entry
            for entry in self.heap
            if entry[2].armed_by == armed_by
            and entry[2].message is not None
            and entry[2].receiver.actorAddressString == receiver
        )
        found = min(matching, default=None)
        if found is None:
            return None
        self.heap.remove(found)
        heapify(self.heap)
        return self._out(found[2])

    def take_before(self, moment: float) -> Timer | None:
        """Remove and return the first timer that is due before `moment`, or None."""
        due = self.next_due
        return None if due is None or due >= moment else self._out(heappop(self.heap)[2])

    def _out(self, timer: Timer) -> Timer:
        if timer.name:
            del self._named[id(timer.receiver), timer.name]
        return timer

    def _clear_top(self) -> None:
        while self.heap and self.heap[0][2].message is None:
            heappop(self.heap)
            self._dead -= 1
