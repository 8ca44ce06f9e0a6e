"""Run the actors on an asyncio event loop, for some milliseconds in each turn.

Rule 1: all handlers run on the loop's thread. The first `inject` from any thread schedules one turn; further calls
        before that turn schedule nothing.
Rule 2: a turn ends after the delivery in which its CPU time reaches TURN_SECONDS. If more messages wait, the next turn
        is scheduled after the loop's other work. CPU time is used, so a busy machine does not shorten turns.
Rule 3: one alarm rings when the earliest timer is due, or before. It schedules a turn, as a message does. If it ran a
        turn itself, two turns could be in the loop's queue at once. From then on there would always be two,
        because each turn schedules the next.
Rule 4: the duration of each turn is measured. The loop thread's other work between two turns, such as sockets and
        decoding, is measured too. `before_turn` and `after_turn` are called before and after each turn.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from thespian.actors import ActorAddress

from actors.runtime.kernel.clock import RealClock, VirtualClock
from actors.runtime.kernel.kernel import Kernel
from actors.runtime.kernel.turns import Turns

TURN_SECONDS = 0.002
"""CPU seconds of a turn, a tenth of the maximum (`turns.MOST`), because the last delivery may be long."""
LATE = 0.0001
"""Seconds by which an alarm may be late: the event loop waits for whole milliseconds anyway."""
GLANCE = 64
"""Number of deliveries between two reads of the thread's CPU time, which take half a microsecond each."""


class LoopDriver:
    """A driver that runs the actors on an asyncio event loop.

    Any thread may read `turns` and `between` (the work of the loop's thread between two turns).
    """

    cpu: Callable[[], float] = staticmethod(RealClock.cpu)
    """CPU seconds of the loop's thread."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        """The id of the loop's thread, after its first turn."""
        self._awake = False
        self._alarm: asyncio.TimerHandle | None = None
        self._requests = 0
        self._turn_ended: float | None = None
        self.turns = Turns()
        self.between = Turns()
        self.before_turn: Callable[[], None] = _nothing
        self.after_turn: Callable[[], None] = _nothing

    @property
    def attached(self) -> bool:
        """Whether a loop drives the kernel."""
        return self._loop is not None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to run the actors on this loop."""
        self._loop, self._thread = loop, None
        self._awake = False
        self._turn_ended = None
        self.wake()

    def detach(self) -> None:
        """Stop running the actors; call this on the loop's thread, or after the loop has stopped."""
        self._loop = None
        self._set_alarm(None)

    def wake(self) -> bool:
        """Schedule a turn, unless one is scheduled already. Any thread may call this.

        Return False if no loop is attached.
        """
        loop = self._loop
        if loop is None:
            return False
        if not self._awake:
            self._awake = True
            try:
                if threading.get_ident() == self._thread:
                    loop.call_soon(self._turn)  # unlike call_soon_threadsafe, writes nothing to the loop's self-pipe
                else:
                    loop.call_soon_threadsafe(self._turn)
            except RuntimeError:  # the asyncio loop is closed: after `detach`, other threads drive the actors
                self._awake = False
                return False
        return True

    def is_own_thread(self) -> bool:
        """Return whether this is the thread of the driving loop."""
        try:
            return self._loop is not None and asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def request(self, to: ActorAddress, message: object, timeout: float | None) -> Any:
        """Send `message` from a new address and return the first message that is sent to that address."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise RuntimeError("request() needs an actor system that is attached to the running event loop")
        self._requests += 1
        reply: asyncio.Future[Any] = loop.create_future()

        def receive_answer(answer: object, sender: ActorAddress) -> None:
            if not reply.done():
                reply.set_result(answer)

        sender = self._kernel.external_endpoint(f"request.{self._requests}", receive_answer)
        self._kernel.inject(to, message, sender)
        try:
            return await asyncio.wait_for(reply, timeout)
        finally:
            self._kernel.dismiss(sender)

    def _turn(self) -> None:
        """Run one turn. Messages that arrive during the turn schedule the next turn."""
        self.before_turn()
        self._awake = False
        self._thread = threading.get_ident()
        if self._loop is None:
            return
        kernel = self._kernel
        began = self.cpu()
        while (due := kernel.run(GLANCE, TURN_SECONDS)) == 0.0 and self.cpu() - began < TURN_SECONDS:
            if self._loop is None:  # the running delivery has detached the actor system
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
        """Schedule a turn in `due` seconds, or cancel the alarm if `due` is None.

        An earlier alarm stays: a new one after each turn took a twentieth of the instructions of a Produce request. A
        virtual clock needs no alarm, because advancing it wakes the system.
        """
        loop, alarm = self._loop, self._alarm
        if due is not None and loop is not None and not isinstance(self._kernel.clock, VirtualClock):
            at = loop.time() + due
            if alarm is not None and alarm.when() <= at + LATE:
                return
            self._alarm = loop.call_at(at, self._ring)
        else:
            self._alarm = None
        if alarm is not None:
            alarm.cancel()

    def _ring(self) -> None:
        """Schedule a turn, because a timer is due."""
        self._alarm = None
        self.wake()


def _nothing() -> None:
    """Do nothing: the default of `after_turn`."""
