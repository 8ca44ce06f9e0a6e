"""Who drives the bases of one process: an asyncio loop, beside its sockets, or virtual time.

Rule 1: a scheduler drives every base that was added to it, and nobody else does.
Rule 2 (virtual time): bases are driven in the order in which they were added, round after round, until none has
        anything due. Then the clock jumps to the next timer of any base or the next call, whichever is first; at
        equal moments calls come before timers. The same start gives the same run.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from typing import Any, Protocol, TypeVar

from actors.runtime.base import LocalBase
from actors.runtime.clock import VirtualClock

T = TypeVar("T")


class Call(Protocol):
    """A call that waits for its time."""

    def cancel(self) -> None:
        """Do not make it."""


class Scheduler(Protocol):
    """Drives bases, and calls back when time has passed."""

    def add(self, base: LocalBase) -> None:
        """Drive this base from now on."""

    def remove(self, base: LocalBase) -> None:
        """Leave this base alone from now on."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Call:
        """Call once, when so many seconds have passed."""


class LoopScheduler:
    """Real time: the loop drives each base, a slice of deliveries per turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def add(self, base: LocalBase) -> None:
        """See Scheduler.add."""
        base.attach(self._loop)

    def remove(self, base: LocalBase) -> None:
        """See Scheduler.remove."""
        base.detach()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Call:
        """See Scheduler.call_later."""
        return self._loop.call_later(seconds, callback)


class _VirtualCall:
    """A call in virtual time."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None] | None) -> None:
        self.callback = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualScheduler:
    """Virtual time: it passes only while `run` is called."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = VirtualClock() if clock is None else clock
        self._bases: list[LocalBase] = []
        self._calls: list[tuple[float, int, _VirtualCall]] = []
        self._numbers = itertools.count()

    def add(self, base: LocalBase) -> None:
        """See Scheduler.add. The base must be on this scheduler's clock."""
        if base.clock is not self.clock:
            raise ValueError("a base of another clock cannot be driven by this one")
        self._bases.append(base)

    def remove(self, base: LocalBase) -> None:
        """See Scheduler.remove."""
        self._bases.remove(base)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Call:
        """See Scheduler.call_later."""
        call = _VirtualCall(callback)
        heappush(self._calls, (self.clock.now() + seconds, next(self._numbers), call))
        return call

    def run(self, seconds: float = 0.0) -> None:
        """Let so much time pass, with everything that becomes due meanwhile, each at its moment."""
        end = self.clock.now() + seconds
        self._settle()
        while self._jump(end):
            self._settle()
        self.clock.advance_to(end)

    def run_until(self, good: Callable[[], object], seconds: float) -> None:
        """Let time pass from event to event until `good()`. Raises TimeoutError after so many seconds of it."""
        end = self.clock.now() + seconds
        self._settle()
        while not good():
            if not self._jump(end):
                raise TimeoutError(f"not so within {seconds:g} s")
            self._settle()

    def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that waits for nothing in virtual time: its result. Raises RuntimeError where it waits."""
        try:
            coroutine.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        coroutine.close()
        raise RuntimeError("in virtual time there is no loop to wait on")

    def _jump(self, end: float) -> bool:
        """Move the clock on to the next timer or call; False where there is none until the moment `end`."""
        dues = [due for base in self._bases if (due := base.next_timer) is not None]
        dues += [self._calls[0][0]] if self._calls else []
        if not dues or min(dues) > end:
            return False
        self.clock.advance_to(max(min(dues), self.clock.now()))
        return True

    def _settle(self) -> None:
        """Make the calls that are due and drive the bases until none has anything due."""
        now = self.clock.now()
        busy = True
        while busy:
            busy = False
            while self._calls and self._calls[0][0] <= now:
                callback = heappop(self._calls)[2].callback
                if callback is not None:
                    callback()
            for base in list(self._bases):
                before = base.n
                base.run()
                busy = busy or base.n > before
