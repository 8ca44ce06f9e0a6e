"""Run the actors on an asyncio event loop, for some milliseconds in each turn.

Rule 1: all handlers run on the loop's thread. `inject` from any thread schedules one turn, however many messages come
before that turn begins.
Rule 2: a turn ends when it has taken TURN_SECONDS of CPU and the delivery that runs then is over. If more waits, the
        next is scheduled behind the loop's other work. CPU counts, not time: a busy machine makes turns no shorter.
Rule 3: one call_later serves the earliest timer. It schedules a turn like any mail: were it one itself, two turns
        could be in the loop's queue at once, and would from then on, as each schedules the next.
Rule 4: each turn is measured, and what the loop's thread did between two: sockets, decoding, all that is no mail.
        `after_turn` is called then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from thespian.actors import ActorAddress

from actors.runtime.clock import RealClock, VirtualClock
from actors.runtime.kernel import Kernel
from actors.runtime.turns import Turns

TURN_SECONDS = 0.002
"""CPU of a turn, a tenth of what it may take at most (`turns.MOST`): the delivery that ends it may be a long one."""
GLANCE = 64
"""Deliveries between two looks at the thread's CPU time, which cost half a microsecond each."""


class LoopDriver:
    """A driver that runs the actors on an asyncio event loop.

    For reading, from any thread: `turns`, and `between`, what the loop's thread did since the turn before.
    """

    cpu: Callable[[], float] = staticmethod(RealClock.cpu)
    """CPU seconds of the loop's thread."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        """The loop's, once it has taken a turn."""
        self._awake = False
        self._alarm: asyncio.TimerHandle | None = None
        self._requests = 0
        self._turn_ended: float | None = None
        self.turns = Turns()
        self.between = Turns()
        self.after_turn: Callable[[], None] = _nothing

    @property
    def attached(self) -> bool:
        """Whether a loop drives the kernel."""
        return self._loop is not None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to drive."""
        self._loop, self._thread = loop, None
        self._awake = False
        self._turn_ended = None
        self.wake()

    def detach(self) -> None:
        """Stop driving; on the loop's thread, or when the loop has stopped."""
        self._loop = None
        self._set_alarm(None)

    def wake(self) -> bool:
        """Schedule a turn, once; any thread. False where no loop drives."""
        loop = self._loop
        if loop is None:
            return False
        if not self._awake:
            self._awake = True
            try:
                if threading.get_ident() == self._thread:
                    loop.call_soon(self._turn)  # without the write that wakes a loop which sleeps
                else:
                    loop.call_soon_threadsafe(self._turn)
            except RuntimeError:  # the loop was closed: no driver until detached
                self._awake = False
                return False
        return True

    def runs_here(self) -> bool:
        """Whether this is the thread of the loop that drives."""
        try:
            return self._loop is not None and asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def request(self, to: ActorAddress, message: Any, timeout: float | None) -> Any:
        """Send `message` from a new address and return the first message that is sent to that address."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise RuntimeError("request() needs an actor system that is attached to the running event loop")
        self._requests += 1
        reply: asyncio.Future[Any] = loop.create_future()

        def received(answer: Any, sender: ActorAddress) -> None:
            if not reply.done():
                reply.set_result(answer)

        sender = self._kernel.external_endpoint(f"request.{self._requests}", received)
        self._kernel.inject(to, message, sender)
        try:
            return await asyncio.wait_for(reply, timeout)
        finally:
            self._kernel.dismiss(sender)

    def _turn(self) -> None:
        """One turn: the flag falls first, so that mail which arrives meanwhile schedules the next turn."""
        self._awake = False
        self._thread = threading.get_ident()
        if self._loop is None:
            return
        kernel = self._kernel
        began = self.cpu()
        while (due := kernel.run(GLANCE, TURN_SECONDS)) == 0.0 and self.cpu() - began < TURN_SECONDS:
            if self._loop is None:  # the running delivery has detached the base
                break
        self._measure(began, self.cpu())
        self.after_turn()
        if self._loop is None:
            return
        if due == 0.0:
            self.wake()
        else:
            self._set_alarm(due)

    def _measure(self, began: float, ended: float) -> None:
        now = self._kernel.clock.now()
        if self._turn_ended is not None:
            self.between.add(began - self._turn_ended, now)
        self.turns.add(ended - began, now)
        self._turn_ended = ended

    def _set_alarm(self, due: float | None) -> None:
        """Have a turn after `due` seconds; virtual time rings by itself when it is moved."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if due is not None and self._loop is not None and not isinstance(self._kernel.clock, VirtualClock):
            self._alarm = self._loop.call_later(due, self.wake)


def _nothing() -> None:
    """No work after a turn."""
