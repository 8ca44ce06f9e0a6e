"""Run actors in the threads that call `tell`, `ask` and `listen`, as Thespian's simple system base does.

Rule 1: only one thread at a time drives the kernel, that is, delivers its messages. This thread holds `_turn`. Each
        other thread waits for a message or for its turn, whichever is first.
Rule 2: ask and listen really wait: they end after their timeout, and a message injected by another thread wakes them. A
        waiting thread sleeps until a message, the next timer, its time limit, or a delivery in another thread's turn.
Rule 3: tell returns when nothing is due; ask and listen return with the first message to their endpoint.
Rule 4: if another kernel of this process received messages from this kernel, that kernel is driven too, because it has
        no other driver.
Rule 5: while an event loop drives the kernel (`attach`), threads that call tell, ask or listen only send and wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from thespian.actors import ActorAddress
from thespian.system import isInternalActorSystemMessage

from actors.runtime.kernel.clock import VirtualClock
from actors.runtime.kernel.kernel import Kernel
from actors.runtime.kernel.loop import LoopDriver
from actors.runtime.kernel.reference import ActorRef

SLICE = 16
"""Number of deliveries between two checks of the mailbox and the time limit."""


class InlineDriver:
    """A driver that runs the actors in the threads that call `tell`, `ask` and `listen`.

    It has an external endpoint, which receives the replies for these threads.

    While the LoopDriver `loop` is attached to an event loop, the event loop runs the actors instead.

    Thespian's `private()` uses a clone of this driver as a system base. Therefore the driver has the actor system's
    method `newPrimaryActor`.
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
        """Whether another thread found the turn taken, and waits for a notification."""
        self._origin = shared or self
        self._origin._clones += 1
        self.address = kernel.external_endpoint(f"requester.{self._origin._clones}", self._receive)

    def clone(self) -> InlineDriver:
        """Return a driver of the same kernel with its own external endpoint, for Thespian's `ActorSystem.private()`."""
        return InlineDriver(self._kernel, self._loop, self.newPrimaryActor, self._origin)

    def exit_context(self) -> None:
        """Remove this external endpoint."""
        self._kernel.dismiss(self.address)

    def tell(self, to: ActorAddress, message: object) -> None:
        """Send a message; then deliver messages until none is due, unless another driver is active."""
        self._kernel.inject(to, message, self.address)
        self.drive()

    def ask(self, to: ActorAddress, message: object, timeout: timedelta | float | None) -> Any:
        """Send a message, and return the next message for this endpoint; None after `timeout`."""
        self._kernel.inject(to, message, self.address)
        return self.listen(timeout)

    def listen(self, timeout: timedelta | float | None) -> object:
        """Return the next message for this endpoint, or None after `timeout`. Without a timeout, wait for ever.

        Raises:
            RuntimeError: The caller is in a handler, or on the thread of the driving loop, so the wait would never end.
        """
        if self._kernel.driven_by(threading.get_ident()) or self._loop.is_own_thread():
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
        """Deliver messages until none is due, unless another driver is active."""
        while self._slice(None)[0] == 0.0:
            pass

    def hold(self) -> None:
        """Wait until no thread delivers messages, and take the turn (the right to deliver) for the caller."""
        self._turn.acquire()

    def release(self, news: bool = True) -> int:
        """Release the turn, which is the right to deliver messages; return the number of notifications so far.

        Args:
            news: Whether to notify the waiting threads. If one of them wants the turn, they are notified in any case.
        """
        origin = self._origin
        with self._bell:
            self._turn.release()
            if news or origin._turn_wanted:
                origin._turn_wanted = False
                self._ring()
            return origin._rings

    def ring(self) -> None:
        """Wake the waiting threads: a message has arrived."""
        with self._bell:
            self._ring()

    def _ring(self) -> None:
        self._origin._rings += 1
        self._bell.notify_all()

    def _receive(self, message: object, sender: ActorAddress) -> None:
        if not isInternalActorSystemMessage(message):
            self._mail.append(message)
            self.ring()

    def _slice(self, limit: int | None = SLICE) -> tuple[float | None, int]:
        """Deliver at most `limit` messages, if no other thread holds the turn (the right to deliver).

        Returns:
            A tuple: the result of Kernel.run (None if another thread holds the turn), and the number of notifications
            so far. The caller can wait for a higher number; a turn without a delivery does not notify.
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
            heard = self.release(news=kernel.n != before)
        while kernel.neighbours:
            kernel.neighbours.pop().drive()
        return (0.0 if kernel.has_mail_from_outside else due), heard

    def _wait(self, heard: int, seconds: float | None) -> None:
        """Sleep until the notification count differs from `heard`, at most `seconds`.

        With a virtual clock, advance it instead of sleeping.
        """
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
