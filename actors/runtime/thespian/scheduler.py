"""Schedulers run the actor systems of a process on an asyncio loop, or in virtual time.

Rule 1: a base (`LocalBase`) is one actor system. Only its scheduler drives it, that is, lets it deliver due messages.
Rule 2 (virtual time): bases with due messages are driven in the order in which they were added, in rounds, until no
        base has due messages. Then the clock jumps to the next timer of any base, or the next call requested with
        `call_later`, whichever is first; at equal times calls come before timers. Runs that begin in the same state are
        identical.
Rule 3 (virtual time): a base without due messages costs no CPU time.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Coroutine
from functools import partial
from heapq import heappop, heappush
from typing import Any, Protocol, TypeAlias, TypeVar

from actors.runtime.kernel.clock import DriftingClock, VirtualClock
from actors.runtime.thespian.base import LocalBase

T = TypeVar("T")


class ScheduledCall(Protocol):
    """The interface of a function call that is due at a later time, and can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call."""


CallLater: TypeAlias = Callable[[float, Callable[[], None]], ScheduledCall]
"""A function that calls another one once after a number of seconds."""


class Scheduler(Protocol):
    """The interface of a scheduler, which runs actor systems and calls functions at a later time."""

    def add(self, base: LocalBase) -> None:
        """Drive this base from now on."""

    def remove(self, base: LocalBase) -> None:
        """Stop driving this base."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> ScheduledCall:
        """Call `callback` once after a number of seconds."""


class LoopScheduler:
    """A scheduler in real time, which runs the actor systems on an asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held: dict[LocalBase, float] = {}
        """Times of the loop until which bases are not driven."""

    def add(self, base: LocalBase) -> None:
        """See Scheduler.add."""
        base.attach(self._loop)

    def remove(self, base: LocalBase) -> None:
        """See Scheduler.remove."""
        self._held.pop(base, None)
        base.detach()

    def hold(self, base: LocalBase, seconds: float) -> None:
        """Stop driving this base for `seconds`, as if a slow disk blocked it.

        The `seconds` count from this call, or from the end of an earlier hold. A delivery in progress is completed. The
        call has no effect on a base that this scheduler does not drive.
        """
        if base.loop.attached or base in self._held:
            now = self._loop.time()
            self._held[base] = until = max(now, self._held.get(base, now)) + seconds
            if base.loop.attached:
                base.halt()
                base.detach()
            self._loop.call_at(until, self._release, base, until)

    def _release(self, base: LocalBase, until: float) -> None:
        """Drive the base again at `until`, the end of its hold, unless the hold was extended meanwhile."""
        if self._held.get(base) == until:
            del self._held[base]
            base.attach(self._loop)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> ScheduledCall:
        """See Scheduler.call_later."""
        return self._loop.call_later(seconds, callback)


class _VirtualCall:
    """A function call that is due at a virtual time."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None] | None) -> None:
        self.callback = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualScheduler:
    """A scheduler in virtual time; the time advances only during calls of `run`."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = VirtualClock() if clock is None else clock
        self._bases: dict[int, LocalBase] = {}
        """Bases by place, in the order in which they were added."""
        self._places: dict[LocalBase, int] = {}
        self._held: dict[int, float] = {}
        """Times until which places are not driven."""
        self._paces: dict[int, float] = {}
        """Seconds that each message of a place takes, if not 0."""
        self._awake: set[int] = set()
        """Places of the bases that may have due messages."""
        self._timers: list[tuple[float, int]] = []
        """Times of the next timers with their places; an entry that is too early only costs a check."""
        self._noted: dict[int, float] = {}
        """The latest entry in `_timers` of each place."""
        self._calls: list[tuple[float, int, _VirtualCall]] = []
        self._numbers = itertools.count()

    def add(self, base: LocalBase) -> None:
        """See Scheduler.add.

        The base must use this scheduler's clock, or a `DriftingClock` whose source is this scheduler's clock.
        """
        if getattr(base.clock, "source", base.clock) is not self.clock:
            raise ValueError("the actor system and this scheduler use different clocks")
        place = self._places[base] = next(self._numbers)
        self._bases[place] = base
        self._awake.add(place)
        base.on_wake = partial(self._awake.add, place)
        if base.wake in self.clock.watchers:
            self.clock.watchers.remove(base.wake)

    def remove(self, base: LocalBase) -> None:
        """See Scheduler.remove."""
        place = self._places.pop(base)
        del self._bases[place]
        self._awake.discard(place)
        self._held.pop(place, None)
        self._paces.pop(place, None)
        base.on_wake = _nothing

    def hold(self, base: LocalBase, seconds: float) -> None:
        """Stop driving this base, as if it were busy, for `seconds` from now or from the end of an earlier hold."""
        place, now = self._places[base], self.clock.now()
        self._held[place] = until = max(now, self._held.get(place, now)) + seconds
        self.call_later(until - now, partial(self._awake.add, place))

    def is_held(self, base: LocalBase) -> bool:
        """Return whether `hold` stops this base now."""
        return bool(self._held) and self._held.get(self._places[base], 0.0) > self.clock.now()

    def pace(self, base: LocalBase) -> float:
        """Return the virtual time in seconds that this base needs to handle one message."""
        return self._paces.get(self._places[base], 0.0)

    def set_pace(self, base: LocalBase, seconds: float) -> None:
        """Set the virtual time in seconds that this base needs to handle one message; it is 0 by default."""
        place = self._places[base]
        self._paces[place] = seconds
        if not seconds:
            del self._paces[place]
        self._awake.add(place)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> ScheduledCall:
        """See Scheduler.call_later."""
        call, due = _VirtualCall(callback), self.clock.now() + seconds
        if seconds > 0:  # a rest that another clock measures may be too small to add: no time would pass
            due = max(due, math.nextafter(self.clock.now(), math.inf))
        heappush(self._calls, (due, next(self._numbers), call))
        return call

    def run(self, seconds: float = 0.0) -> None:
        """Let `seconds` of virtual time pass; meanwhile run each message, timer and call when it is due."""
        end = self.clock.now() + seconds
        self._settle()
        while self._jump(end):
            self._settle()
        self.clock.advance_to(end)

    def run_until(self, good: Callable[[], object], seconds: float) -> None:
        """Let virtual time pass from event to event until `good()` is true. Raises TimeoutError after `seconds`."""
        end = self.clock.now() + seconds
        self._settle()
        while not good():
            if not self._jump(end):
                self.clock.advance_to(end)
                raise TimeoutError(f"the condition was not met within {seconds:g} s")
            self._settle()

    def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end at the present virtual time, and return its result.

        Raises:
            RuntimeError: The coroutine waits for something.
        """
        try:
            coroutine.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        coroutine.close()
        raise RuntimeError("a scheduler in virtual time cannot run a coroutine that waits for real I/O")

    def _jump(self, end: float) -> bool:
        """Advance the clock to the next timer or call; return False if neither is due by `end`."""
        timers, calls = self._timers, self._calls
        while timers and not self._is_armed(*timers[0]):
            self._take()
        due = min(timers[0][0] if timers else math.inf, calls[0][0] if calls else math.inf)
        if due > end or due == math.inf:
            return False
        now = max(due, self.clock.now())
        self.clock.advance_to(now)
        while timers and timers[0][0] <= now:
            place = self._take()
            if place in self._bases:
                self._awake.add(place)
        return True

    def _next_timer(self, base: LocalBase) -> float | None:
        """Return the time of a base's next timer on this scheduler's clock."""
        due, clock = base.next_timer, base.clock
        return due if due is None or not isinstance(clock, DriftingClock) else clock.source_time(due)

    def _note(self, place: int) -> None:
        """Store when the next timer of the base at `place` is due."""
        due = self._next_timer(self._bases[place])
        if due is not None and due != self._noted.get(place):
            self._noted[place] = due
            heappush(self._timers, (due, place))

    def _take(self) -> int:
        """Remove the earliest timer, and return the index of its base."""
        due, place = heappop(self._timers)
        if self._noted.get(place) == due:
            del self._noted[place]
        return place

    def _is_armed(self, due: float, place: int) -> bool:
        """Return whether the base at `place` has a timer that is due at `due` or earlier.

        If the base's next timer is later, add the time of this timer to `_timers`.
        """
        base = self._bases.get(place)
        armed = None if base is None else self._next_timer(base)
        if armed is not None and armed > due:
            self._note(place)
        return armed is not None and armed <= due

    def _settle(self) -> None:
        """Run due calls and let the bases (actor systems) deliver due messages, until none are left.

        Bases that `hold` has stopped are skipped.
        """
        now, calls, awake = self.clock.now(), self._calls, self._awake
        while awake or (calls and calls[0][0] <= now):
            while calls and calls[0][0] <= now:
                callback = heappop(calls)[2].callback
                if callback is not None:
                    callback()
            for place in sorted(awake):
                base = self._bases.get(place)
                awake.discard(place)
                if base is None or self._held.get(place, now) > now:
                    continue
                if place in self._paces:
                    if base.run(1) == 0.0:
                        self.hold(base, self._paces[place])
                else:
                    base.run()
                self._note(place)


def _nothing() -> None:
    """Do nothing: the wake function of a system base (LocalBase) while no scheduler runs it."""
