"""Run actors in the threads that call `tell`, `ask` and `listen`, as Thespian's simple system base does.

Rule 1: one thread drives at a time (`_turn`); who finds it taken waits for mail, or for its turn, whichever is first.
Rule 2: waiting is real: ask and listen honour their timeout, and a message injected by another thread wakes them. A
        waiter sleeps until there is mail, the next timer, its limit, or until another's turn has changed something.
Rule 3: tell returns when nothing is due; ask and listen return with the first message to their outside.
Rule 4: another kernel of this process that received mail is driven too, because it has no other driver.
Rule 5: while a loop drives (`attach`), inline callers only send and wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from thespian.actors import ActorAddress
from thespian.system import isInternalActorSystemMessage

from actors.runtime.clock import VirtualClock
from actors.runtime.kernel import Kernel
from actors.runtime.loop import LoopDriver
from actors.runtime.reference import ActorRef

SLICE = 16
"""Deliveries between two looks at the mailbox and the time limit."""


class InlineDriver:
    """A driver that runs the actors in the threads that call `tell`, `ask` and `listen`.

    It is the external address that receives the answers for these threads.

    `loop` may drive instead. `newPrimaryActor` is the system's, represented by an external endpoint (Thespian's
    `private()`).
    """

    def __init__(
        self,
        kernel: Kernel,
        loop: LoopDriver,
        newPrimaryActor: Callable[..., ActorRef],
        shared: InlineDriver | None = None,
    ) -> None:
        self._kernel = kernel
        self._loop = loop
        self.newPrimaryActor = newPrimaryActor
        self._turn: threading.Lock = shared._turn if shared else threading.Lock()
        self._bell: threading.Condition = shared._bell if shared else threading.Condition()
        self._clones = 0
        self._mail: deque[Any] = deque()
        self._rings = 0
        self._turn_wanted = False
        """Another thread found the turn taken, and waits for the bell."""
        self._origin = shared or self
        self._origin._clones += 1
        self.address = kernel.external_endpoint(f"requester.{self._origin._clones}", self._received)

    def clone(self) -> InlineDriver:
        """Another outside of the same kernel (Thespian's private context)."""
        return InlineDriver(self._kernel, self._loop, self.newPrimaryActor, self._origin)

    def exit_context(self) -> None:
        """Close this outside."""
        self._kernel.dismiss(self.address)

    def tell(self, to: ActorAddress, message: Any) -> None:
        """Send; deliver until nothing is due, unless another driver is active."""
        self._kernel.inject(to, message, self.address)
        self.drive()

    def ask(self, to: ActorAddress, message: Any, timeout: timedelta | float | None) -> Any:
        """Send, then listen."""
        self._kernel.inject(to, message, self.address)
        return self.listen(timeout)

    def listen(self, timeout: timedelta | float | None) -> Any:
        """The first message for this outside; None after `timeout` (None: wait for ever).

        Raises RuntimeError inside a handler and on the thread of the loop that drives: the wait would never end.
        """
        if self._kernel.driven_by(threading.get_ident()) or self._loop.runs_here():
            raise RuntimeError(
                "this thread runs the actors, so it must not wait for them; await request() on the event loop instead"
            )
        now = self._kernel.clock.now
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        limit = None if seconds is None else now() + seconds
        while True:
            if self._mail:
                return self._mail.popleft()
            due, heard = self._slice()
            if self._mail:
                continue
            left = None if limit is None else limit - now()
            if left is not None and left <= 0:
                return None
            if due != 0.0:
                self._wait(heard, _sooner(due, left))

    def drive(self) -> None:
        """Deliver until nothing is due, unless another driver is active."""
        while self._slice(None)[0] == 0.0:
            pass

    def hold(self) -> None:
        """Take the turn for another driver, after who has it now."""
        self._turn.acquire()

    def let_go(self, news: bool = True) -> int:
        """Give the turn back, and wake who waits if there is `news` or the turn is wanted. The bell's count then."""
        origin = self._origin
        with self._bell:
            self._turn.release()
            if news or origin._turn_wanted:
                origin._turn_wanted = False
                self._ring()
            return origin._rings

    def ring(self) -> None:
        """Wake who waits: there is mail."""
        with self._bell:
            self._ring()

    def _ring(self) -> None:
        self._origin._rings += 1
        self._bell.notify_all()

    def _received(self, message: Any, sender: ActorAddress) -> None:
        if not isInternalActorSystemMessage(message):
            self._mail.append(message)
            self.ring()

    def _slice(self, limit: int | None = SLICE) -> tuple[float | None, int]:
        """Take the turn if it is free and deliver some.

        Returns what Kernel.run does (None also where the turn is taken), and the bell's count of that moment: what
        has rung since is news. One's own ring is none, and a turn without a delivery rings no bell.
        """
        kernel, origin = self._kernel, self._origin
        with self._bell:
            heard = origin._rings
            if kernel.driven_by(threading.get_ident()):
                return None, heard
            if not self._turn.acquire(blocking=False):
                origin._turn_wanted = True
                return None, heard
        before = kernel.n
        try:
            due = kernel.run(limit)
        finally:
            heard = self.let_go(news=kernel.n != before)
        while kernel.neighbours:
            kernel.neighbours.pop().drive()
        return (0.0 if kernel.has_mail_from_outside else due), heard

    def _wait(self, heard: int, seconds: float | None) -> None:
        """Sleep until the bell has rung since it was `heard`, at most `seconds`; virtual time passes at once."""
        clock = self._kernel.clock
        if isinstance(clock, VirtualClock) and seconds is not None:
            clock.advance(seconds)
            return
        with self._bell:
            self._bell.wait_for(lambda: self._origin._rings != heard, seconds)


def _sooner(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
