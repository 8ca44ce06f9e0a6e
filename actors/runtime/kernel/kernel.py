"""The core of the actor system: a message queue, timers, and the delivery of one message at a time.

Rule 1 (order): one FIFO contains all messages. Before each delivery, due timers enter it in the order of their
        deadlines (equal deadlines: in the order of arming), then messages from outside, in the order of arrival.
Rule 2 (threads): handlers run on the driver's thread only. Any thread may call `inject`; each call notifies the driver
        once.
Rule 3 (failure): after an exception of a handler the error is stored in the delivery's record, and the message is
        dropped. Messages are never formatted for the log.
Rule 4 (time): `now` is the clock's time when the running delivery was taken from the queue.
Rule 5 (addresses): an address is identified by its text. An external endpoint is "outside:name".

Replay. A new system without a driver replays a recorded run. The replayer calls `deliver(envelope, now, effects)` for
each recorded delivery. The kind of the delivery determines the source of the envelope:

* "outside": `outside(to, message, sender, cause)` creates the envelope; the addresses come from `address_of(text)`,
  which also creates mute external endpoints (they ignore all messages);
* "timer": `take_timer(receiver_text, armed_by)` takes the receiver's earliest timer that was armed during delivery
  `armed_by`;
* "sent": `take_sent()` takes the head of the internal queue. All sent messages are in one FIFO, so the head *is* the
  next recorded message if the actors behave as recorded. The replayer compares sender, receiver, cause and message.

`take_overdue(queued_at)` finds a timer that should have been delivered before a message was queued. Cancelled timers
need no record: the replayed actors cancel them as well.

`deliver` returns the Delivery, and the replayer compares the Delivery's error and effects with the record. `deliver`
raises EffectDiverged if an actor makes an adapter call that differs from the record. Top-level actors are created from
outside before the first delivery, as in the recorded run.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Protocol

from thespian.actors import ActorAddress

from actors.runtime.kernel.clock import Clock, RealClock, Timer, Timers, VirtualClock
from actors.runtime.kernel.delivery import DEAD_LETTER, AdapterCall, Delivery, Envelope
from actors.runtime.kernel.reference import ActorRef, Adapters, System
from messages import runtime


class ExternalEndpoint:
    """A receiver outside the actor system: ZooKeeper, sockets, metrics and the process itself.

    It passes each message to `callback(message, sender)` on the thread that runs the actors. Messages from external
    endpoints enter by `base.inject(to, message, sender=endpoint_address)`.
    """

    __slots__ = ("receiveMessage",)

    def __init__(self, callback: Callable[[Any, ActorAddress], None]) -> None:
        self.receiveMessage = callback


log = logging.getLogger(__name__)

SYSTEM = "/ActorSys"
"""Text of the system's own address, the name in Thespian's ActorSystem."""


class Observer(Protocol):
    """The interface of an observer, which is called with each delivered message after its handler has returned.

    If an observer has a method `created(address, actor_class, n)`, the method is called for each actor that is created
    from outside; n is the number of the last delivery before the creation. An observer with `keep` and `write_if_due`
    is called in the cheapest way: `keep(fields)` takes the fields of each Delivery as a plain tuple, and must not
    raise; `write_if_due()` is called after every CHECK_EVERY deliveries, and before the driver returns.
    """

    def observe_delivery(self, delivery: Delivery) -> None:
        """Process a delivery. Must not raise: an observer that raises is removed."""


CHECK_EVERY = 64
"""Number of deliveries between two calls of an observer's `write_if_due`; a power of two."""


_HALT: Any = object()
"""An entry of the inbox at which a run ends."""


class _Halted(Exception):
    """Raised to end a run when the next entry of the queue is the marker _HALT."""


class Kernel(ABC):
    """The core of the actor system, which delivers messages and timers; subclasses add actors and system messages.

    Attributes:
        n: The number of the running or last delivery.
        now: The time at which that delivery began.
        event_id: The current event id of that delivery's handler.
        delivered_event_id: The event id under which the delivery is recorded.
        queued: The number of waiting messages.
        pending_timers: The number of armed timers.
        next_timer: The time of the next timer.
        neighbours: Other kernels of this process that got messages from this kernel and have not handled them yet.

    Args:
        clock: The time source.
        observer: Receives every delivery.
        ports: The objects behind an actor's adapters.
    """

    # each delivery reads these; Python reads a slot faster than an entry of a dict with more than 30 entries
    __slots__ = ("__dict__", "__weakref__", "_effects", "_error", "_keep", "event_id", "n", "now", "queue")

    system_messages: ClassVar[type]
    """Messages of this class go to `deliver_system_message`."""

    def __init__(self, clock: Clock | None, observer: Observer | None, ports: dict[str, Any] | None) -> None:
        self.clock: Clock = RealClock() if clock is None else clock
        self._clock_now = self.clock.now
        self.observer = observer
        self.ports = Adapters(ports)
        self._effects = self.ports.made
        self.n = 0
        self.now = self.clock.now()
        self.event_id = 0
        self._served = self._served_in = 0
        """The first event id set by `serve`, and the delivery in which it was set."""
        self.queue: deque[tuple[Any, Any, Any, int, float, str, int]] = deque()
        self.timers = Timers()
        self.neighbours: set[System] = set()
        self._inbox: deque[tuple[ActorAddress, Any, ActorAddress, float]] = deque()
        self._external_endpoints: dict[str, ActorRef] = {}
        self._running: int | None = None
        self._closed = False
        self._error: str | None = None
        self.unkept_error: str | None = None
        """The last error of a delivery without an observer."""
        self.system_address = self._external_endpoint(SYSTEM, self.receive_as_system)
        if isinstance(self.clock, VirtualClock):
            self.clock.watchers.append(self.wake)

    # ----------------------------------------------------------------------------------------- for subclasses to define

    @abstractmethod
    def reference(self, text: str, actor: object) -> ActorRef:
        """Return a new address of this system for `actor`. If `actor` is None, the address has no actor."""

    @abstractmethod
    def find(self, text: str) -> ActorRef | None:
        """Return the address that has this text, if its actor is alive; otherwise None."""

    @abstractmethod
    def receive_as_system(self, message: object, sender: ActorAddress) -> None:
        """Handle a message to the system's own address, which is also the default sender."""

    @abstractmethod
    def deliver_system_message(self, to: ActorRef, actor: object, message: object, sender: ActorRef) -> None:
        """Deliver one of Thespian's system messages to an actor; status and exit requests also affect the system."""

    @abstractmethod
    def handler_failed(self, to: ActorRef, message: object, sender: ActorRef, error: Exception) -> None:
        """Handle an exception of a handler (rule 3)."""

    @abstractmethod
    def handler_left(self, to: ActorRef) -> None:
        """Handle a SystemExit that a handler raised."""

    @abstractmethod
    def dead_letter(self, to: ActorRef, message: object, sender: ActorRef) -> None:
        """Handle a message to an address without an actor."""

    @abstractmethod
    def wake(self) -> None:
        """Notify the driver that there may be work."""

    def drive(self) -> None:
        """Deliver messages until none is due, unless another driver is active."""
        self.run()

    # ---------------------------------------------------------------------------------------------------- public

    @property
    def observer(self) -> Observer | None:
        """The observer of every delivery."""
        return self._observer

    @observer.setter
    def observer(self, observer: Observer | None) -> None:
        self._observer = observer
        self._keep: Callable[[tuple[Any, ...]], None] | None = None
        self._write_if_due: Callable[[], None] = _nothing
        if observer is not None:
            self._keep = getattr(observer, "keep", self._call_delivered)
            self._write_if_due = getattr(observer, "write_if_due", _nothing)

    def watch_deliveries(self, watch: Callable[[tuple[Any, ...]], None] | None) -> None:
        """Call `watch` with the fields of each Delivery, before the observer; None ends this. It must not raise."""
        self.observer = self._observer
        keep = self._keep
        if watch is not None:
            self._keep = watch if keep is None else lambda fields: (watch(fields), keep(fields))[1]

    def _call_delivered(self, fields: tuple[Any, ...]) -> None:
        """Call an observer that takes a Delivery."""
        try:
            if self._observer is not None:
                self._observer.observe_delivery(tuple.__new__(Delivery, fields))
        except Exception:
            log.exception("The trace recorder failed at message %d and is switched off", self.n)
            self.observer = None

    @property
    def queued(self) -> int:
        """Number of messages waiting for their delivery."""
        return len(self.queue) + len(self._inbox)

    @property
    def pending_timers(self) -> int:
        """Number of armed timers."""
        return len(self.timers)

    @property
    def next_timer(self) -> float | None:
        """The clock's time at which the next timer is due, or None."""
        return self.timers.next_due

    @property
    def has_mail_from_outside(self) -> bool:
        """Whether `inject` has received messages that are not in the queue yet."""
        return bool(self._inbox)

    def driven_by(self, thread: int) -> bool:
        """Return whether `thread` is delivering this system's messages, and therefore executes a handler."""
        return self._running == thread

    def inject(self, to: ActorAddress, message: object, sender: ActorAddress | None = None) -> None:
        """Send `message` to `to` from outside, on any thread. `sender` is an external endpoint's address, or None."""
        if self._closed:
            log.warning("Dropping %s to %s: the actor system has shut down", type(message).__name__, to)
            return
        self._inbox.append((to, message, self.system_address if sender is None else sender, self.clock.now()))
        self.wake()

    def external_endpoint(self, name: str, callback: Callable[[Any, ActorAddress], None]) -> ActorRef:
        """Return the address "outside:name" of an external endpoint; create the endpoint if it does not exist.

        `callback(message, sender)` is called on the driver's thread for each message to the endpoint. It replaces the
        callback of an existing endpoint.
        """
        return self._external_endpoint(f"outside:{name}", callback)

    def dismiss(self, external_endpoint: ActorRef) -> None:
        """Remove an external endpoint: later messages to it are dead letters."""
        external_endpoint.actor = None
        self._external_endpoints.pop(external_endpoint.actorAddressString, None)

    def address_of(self, text: str) -> ActorRef:
        """Return the address with this text.

        If there is no such address, return a new one. If the text begins with "outside:", the new address is that of an
        external endpoint that ignores messages, else that of a removed actor.
        """
        ref = self._external_endpoints.get(text) or self.find(text)
        if ref is None:
            ref = self._external_endpoint(text, _ignore) if text.startswith("outside:") else self.reference(text, None)
        return ref

    def instance_of(self, address: ActorAddress) -> object:
        """Return the actor of an address, or None if the actor was removed; for tests and for checks of invariants."""
        return self.address_of(address.actorAddressString).actor

    def state(self) -> runtime.KernelState:
        """Return queue and timers as one value for the trace. Call it between two deliveries."""
        queue = (
            runtime.QueuedMessage(to, sender, kind, why, served, at, what)
            for to, what, sender, why, at, kind, served in self.queue
        )
        return runtime.KernelState(
            self.n,
            self.now,
            tuple(mail for mail in queue if mail.kind == runtime.SENT),
            tuple(
                runtime.WaitingTimer(timer.receiver, timer.name, timer.armed_by, timer.due, timer.message)
                for timer in (*self._rung(), *self.timers)
                if timer.receiver.actor is not None
            ),
        )

    def restore(self, state: runtime.KernelState) -> None:
        """Restore queue and timers, for a replay in a new system whose actors exist already."""
        self.n, self.now = state.n, state.now
        for mail in state.queue:
            self.queue.append(
                (mail.receiver, mail.message, mail.sender, mail.cause, mail.queued_at, mail.kind, mail.event_id)
            )
        for timer in state.timers:
            self.timers.arm(timer.receiver, timer.due, timer.message, timer.armed_by, timer.name)

    def _rung(self) -> Iterator[Timer]:
        """Yield the due timers whose messages are in the queue."""
        for to, message, _, armed_by, due, kind, _ in self.queue:
            if kind == runtime.TIMER:
                yield Timer(to, due, message, armed_by, self.timers.name_of(message))

    # ------------------------------------------------------------------------------------------------------ driving

    def run(self, limit: int | None = None, seconds: float = math.inf) -> float | None:
        """Deliver messages until none is due, or a limit is reached.

        The call ends after `limit` messages, or with the first delivery that ends after `seconds`, whichever is first.
        Without a limit, the call does not return while actors keep sending messages.

        Returns:
            The seconds until the next timer, None without a timer, 0.0 if a limit was reached and more messages wait.
        """
        if self._running is not None:
            raise RuntimeError(
                "the actor system is already running. Code of an actor must not run the actor system that the actor"
                " belongs to"
            )
        self._running = threading.get_ident()
        left = sys.maxsize if limit is None else limit
        queue, inbox, timers, clock_now, deliver = self.queue, self._inbox, self.timers, self.clock.now, self.hand_out
        popleft, heap = queue.popleft, timers.heap
        try:
            now = clock_now()
            end = now + seconds
            while True:
                if heap and heap[0][0] <= now:
                    self._ring(now)
                if inbox:
                    self._enter(now)
                if not queue:
                    break
                if not left:
                    return 0.0
                left -= 1
                now = deliver(popleft(), now) or clock_now()
                if now >= end:
                    left = 0
        except _Halted:
            return 0.0
        finally:
            self._running = None
            self._write_if_due()
        due = timers.next_due
        return None if due is None else max(due - now, 0.0)

    def halt(self) -> None:
        """End a run in progress after the running delivery; due messages stay in the queue."""
        if self._running is not None:
            self._inbox.append((_HALT, None, self.system_address, self.clock.now()))

    def simulate(self, until: float) -> None:
        """With a VirtualClock: deliver everything that is due until the moment `until`, jumping from timer to timer."""
        clock = self.clock
        if not isinstance(clock, VirtualClock):
            raise TypeError("only an actor system with a VirtualClock can run in virtual time")
        self.run()
        while (due := self.next_timer) is not None and due <= until:
            clock.advance_to(max(due, clock.now()))
            self.run()
        clock.advance_to(max(until, clock.now()))

    # ------------------------------------------------------------------------------------------------------ for replay

    def outside(self, to: ActorAddress, message: object, sender: ActorAddress, cause: int = 0) -> Envelope:
        """Return the envelope of a message from outside, to be passed to `deliver`."""
        return Envelope(to, message, sender, cause, self.now, runtime.OUTSIDE, 0)

    def take_sent(self) -> Envelope | None:
        """Take the head of the internal queue; None if it is empty."""
        return Envelope._make(self.queue.popleft()) if self.queue else None

    def take_timer(self, receiver: str, armed_by: int) -> Envelope | None:
        """Take the earliest timer of `receiver` that was armed during delivery `armed_by`, or None."""
        timer = self.timers.take(receiver, armed_by)
        return None if timer is None else Envelope._make(_mail_of(timer))

    def take_overdue(self, moment: float) -> Envelope | None:
        """Take the earliest timer of a live actor that was due before `moment`, or None."""
        while (timer := self.timers.take_before(moment)) is not None:
            if timer.receiver.actor is not None:
                return Envelope._make(_mail_of(timer))
        return None

    def deliver(self, envelope: Envelope, now: float, effects: Iterable[AdapterCall] | None = None) -> Delivery:
        """Deliver one message at the time `now`, and return its record.

        With `effects`, adapters return the recorded results.

        Raises:
            EffectDiverged: A call differs from `effects`.
        """
        seen: list[tuple[Any, ...]] = []
        keep, self._keep = self._keep, seen.append
        recorded, self.ports.recorded = self.ports.recorded, None if effects is None else iter(effects)
        try:
            self.hand_out(tuple(envelope), now)
        finally:
            self._keep = keep
            self.ports.recorded = recorded
        [fields] = seen
        if keep is not None:
            keep(fields)
        return Delivery._make(fields)

    # ----------------------------------------------------------------------------------------- for actors (ActorRef)

    def send_abroad(self, to: ActorAddress, message: object, sender: ActorRef) -> None:
        """Send to an ActorRef of another system, or to an address that has only a text."""
        here: object = self
        if isinstance(to, ActorRef) and to.base is not here:
            to.base.inject(to, message, sender)
            self.neighbours.add(to.base)
        else:
            receiver = self.address_of(to.actorAddressString)
            self.queue.append((receiver, message, sender, self.n, self.now, runtime.SENT, self.event_id))

    def arm(self, ref: ActorRef, seconds: float, message: object, name: str = "") -> None:
        """Arm a timer that sends `message` to the actor of `ref`; it is due `seconds` after `now`.

        If `name` is not "", the new timer replaces the armed timer of this name.
        """
        if name:
            self._withdraw(self.timers.cancel(ref, name))
        self.timers.arm(ref, self.now + seconds, message, self.n, name)

    def disarm(self, ref: ActorRef, name: str) -> None:
        """Cancel the timer of this name, even if its message is already in the queue."""
        self._withdraw(self.timers.cancel(ref, name))

    def note_error(self, error: BaseException) -> None:
        """Record `error` as the running delivery's error, although the actor has handled it itself."""
        self._error = describe(error)

    def serve(self, event_id: int) -> None:
        """Set the current event id of the running handler; messages that it sends later get this id.

        The first call in a delivery also sets the event id under which the delivery is recorded.
        """
        self.event_id = event_id
        if self._served_in != self.n:
            self._served, self._served_in = event_id, self.n

    @property
    def delivered_event_id(self) -> int:
        """The event id under which the running or last delivery is recorded."""
        return self._served if self._served_in == self.n else self.event_id

    # -------------------------------------------------------------------------------------------------- the machinery

    def _enter(self, now: float) -> None:
        """Move messages from outside into the queue."""
        inbox, queue, cause = self._inbox, self.queue, -self.n
        here: object = self
        while inbox:
            to, message, sender, queued_at = inbox.popleft()
            if to.__class__ is not ActorRef:
                if to is _HALT:
                    raise _Halted
                to = self.address_of(to.actorAddressString)
            elif to.base is not here:
                to.base.inject(to, message, sender)
                self.neighbours.add(to.base)
                continue
            queue.append((to, message, sender, cause, min(max(queued_at, self.now), now), runtime.OUTSIDE, 0))

    def _ring(self, now: float) -> None:
        """Move due timers into the queue; timers of removed actors are dropped."""
        for timer in self.timers.ring(now):
            if timer.receiver.actor is not None:
                self.queue.append(_mail_of(timer))
            else:
                self.timers.note_delivery(timer.message)

    def _withdraw(self, message: object) -> None:
        """Remove a timer's message from the queue, if it is there."""
        if message is not None:
            del self.queue[next(place for place, mail in enumerate(self.queue) if mail[1] is message)]

    def hand_out(self, envelope: tuple[Any, ...], now: float) -> float:
        """Deliver one message, handle its errors, and notify the observer.

        Returns the clock's time after the handler if there is an observer, else 0.0. Reading the clock costs as much as
        the rest of the delivery's overhead, so the caller reuses the time.
        """
        to, message, sender, cause, queued_at, kind, event_id = envelope
        actor = to.actor
        self.n = n = self.n + 1
        self.now = now
        self.event_id = event_id = event_id or n
        if kind is runtime.TIMER:
            self.timers.note_delivery(message)
        if actor is None:
            self._error = DEAD_LETTER
            self.dead_letter(to, message, sender)
        else:
            try:
                if isinstance(message, self.system_messages):
                    self.deliver_system_message(to, actor, message, sender)
                else:
                    actor.receiveMessage(message, sender)
            except Exception as error:
                self.handler_failed(to, message, sender, error)
            except SystemExit as leaving:
                self._error = describe(leaving)
                self.handler_left(to)
        keep = self._keep
        if keep is None:
            if self._error is not None or self._effects:
                self.unkept_error, self._error = self._error, None
                self._effects.clear()
            return 0.0
        finished = self._clock_now()
        effects: tuple[AdapterCall, ...] = ()
        if self._effects:
            effects = tuple(self._effects)
            self._effects.clear()
        failure = self._error
        self._error = None
        if self._served_in == n:
            event_id = self._served
        keep((n, kind, cause, event_id, sender, to, to.class_name, message, queued_at, now, finished, effects, failure))
        if not n % CHECK_EVERY:
            self._write_if_due()
        return finished

    def _external_endpoint(self, text: str, callback: Callable[[Any, ActorAddress], None]) -> ActorRef:
        ref = self._external_endpoints.get(text)
        if ref is None:
            ref = self._external_endpoints[text] = self.reference(text, None)
        ref.actor = ExternalEndpoint(callback)
        return ref


def describe(error: BaseException) -> str:
    """Return an error in one line as "Type: text", even if str(error) raises."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be had)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _mail_of(timer: Timer) -> tuple[Any, Any, Any, int, float, str, int]:
    return timer.receiver, timer.message, timer.receiver, timer.armed_by, timer.due, runtime.TIMER, 0


def _nothing() -> None:
    """Do nothing: the observer has no `write_if_due`."""


def _ignore(message: object, sender: ActorAddress) -> None:
    """Ignore messages to a mute external endpoint."""
