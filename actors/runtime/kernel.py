"""The core of the actor system: a message queue, timers, and the delivery of one message at a time.

Rule 1 (order): one FIFO holds all mail. Before each delivery, timers that are due enter it in the order of their
deadlines (equal deadlines: in the order of arming), then what came from outside, in the order of arrival.
Rule 2 (threads): handlers run on the driver's thread only. Any thread may `inject`; that wakes the driver, once.
Rule 3 (failure): a handler that raises has had its chance: the error is recorded on the delivery, and the message is
dropped. A message is never formatted in the log.
Rule 4 (time): `now` is the clock's reading when the running delivery was taken from the queue.
Rule 5 (addresses): an address is known by its text. An external endpoint is "outside:name".

Replay. A recorded run is replayed by a fresh system without a driver; the replayer hands out the recorded deliveries
one after another with `deliver(envelope, now, effects)`, taking each envelope from where its kind says:

* "outside": `outside(to, message, sender, cause)` makes it; the addresses come from `address_of(text)`, which also
  creates mute external endpoints;
* "timer": `take_timer(receiver_text, armed_by)` takes the earliest timer of that receiver armed by that delivery;
* "sent": `take_sent()` takes the head of the internal queue. Sends are one FIFO, so if the actors behave as recorded
  the head *is* the message recorded next; compare sender, receiver, cause and message, and nothing is left to compare.

A timer that should have come before a message was queued, but did not, is what `take_overdue(queued_at)` finds. Timers
that were taken back need no record: the replayed actors take them back as well.

`deliver` returns the Delivery (its error and effects are to be compared) and raises EffectDiverged where an actor calls
a port otherwise than recorded. Primary actors are created as they were, from outside, before the first delivery.
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

from actors.runtime.adapters import Adapters
from actors.runtime.clock import Clock, RealClock, VirtualClock
from actors.runtime.delivery import DEAD_LETTER, OUTSIDE, SENT, TIMER, AdapterCall, Delivery, Envelope
from actors.runtime.external_endpoint import ExternalEndpoint
from actors.runtime.reference import ActorRef, System
from actors.runtime.timers import Timer, Timers
from messages.runtime import KernelState, QueuedMessage, WaitingTimer

log = logging.getLogger(__name__)

SYSTEM = "/ActorSys"
"""Text of the system's own address; Thespian's ActorSystem names it so."""


class Observer(Protocol):
    """The interface of an observer, which is called with each delivered message after its handler has returned.

    One that has `created(address, actor_class, n)` also receives actors created from outside, after delivery n.
    One that has `keep` and `look` is called in the cheapest way: `keep(fields)` takes the fields of each Delivery as a
    plain tuple, and must not raise; `look()` is called after every LOOK deliveries, and before the driver leaves.
    """

    def delivered(self, delivery: Delivery) -> None:
        """Take note. Must not raise: an observer that does is dismissed."""


LOOK = 64
"""Number of deliveries kept before their keeper is called; a power of two."""


_HALT: Any = object()
"""An entry of the inbox at which a run ends."""


class _Halted(Exception):
    """Raised to end a run when the queue reaches _HALT."""


class Kernel(ABC):
    """The core of the actor system, which delivers messages and timers; subclasses add actors and system messages.

    `clock` is the time source, `observer` receives every delivery, `ports` are the objects behind an actor's ports.

    For reading: `n` (number of the running or last delivery), `now` (its time), `event_id` (the event that its handler
    serves at the moment), `delivered_event_id` (the event that the delivery is recorded under), `queued`,
    `pending_timers`, `next_timer`, `neighbours` (kernels of this process that were sent mail and have not been driven
    since).
    """

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
        """The first event set by `serve`, and the delivery in which that was."""
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

    # ------------------------------------------------------------------------------------ what a system made of it says

    @abstractmethod
    def reference(self, text: str, actor: Any) -> ActorRef:
        """A new address of this system, of `actor` (None: no actor)."""

    @abstractmethod
    def find(self, text: str) -> ActorRef | None:
        """The address of the living actor that prints as `text`."""

    @abstractmethod
    def receive_as_system(self, message: Any, sender: ActorAddress) -> None:
        """Take mail for the system's own address, which is also the default sender."""

    @abstractmethod
    def deliver_system_message(self, to: ActorRef, actor: Any, message: Any, sender: ActorRef) -> None:
        """Hand over a message that means something to the system as well."""

    @abstractmethod
    def handler_failed(self, to: ActorRef, message: Any, sender: ActorRef, error: Exception) -> None:
        """A handler raised (rule 3)."""

    @abstractmethod
    def handler_left(self, to: ActorRef) -> None:
        """A handler raised SystemExit."""

    @abstractmethod
    def dead_letter(self, to: ActorRef, message: Any, sender: ActorRef) -> None:
        """Whether the address has no actor."""

    @abstractmethod
    def wake(self) -> None:
        """Notify the driver that there may be work."""

    def drive(self) -> None:
        """Deliver until nothing is due, unless another driver is active."""
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
        self._look: Callable[[], None] = _nothing
        if observer is not None:
            self._keep = getattr(observer, "keep", self._tell)
            self._look = getattr(observer, "look", _nothing)

    def _tell(self, fields: tuple[Any, ...]) -> None:
        """Tell an observer that wants a Delivery."""
        try:
            if self._observer is not None:
                self._observer.delivered(tuple.__new__(Delivery, fields))
        except Exception:
            log.exception("The trace recorder failed at message %d and is switched off", self.n)
            self.observer = None

    @property
    def queued(self) -> int:
        """How many messages wait for their delivery."""
        return len(self.queue) + len(self._inbox)

    @property
    def pending_timers(self) -> int:
        """How many timers are armed."""
        return len(self.timers)

    @property
    def next_timer(self) -> float | None:
        """The clock's reading at which the next timer is due."""
        return self.timers.next_due

    @property
    def has_mail_from_outside(self) -> bool:
        """Whether something was injected that no driver has seen yet."""
        return bool(self._inbox)

    def driven_by(self, thread: int) -> bool:
        """Whether `thread` is running actors of this system at the moment, and so is inside a handler."""
        return self._running == thread

    def inject(self, to: ActorAddress, message: Any, sender: ActorAddress | None = None) -> None:
        """Send `message` to `to` from outside; any thread may. `sender` is an external endpoint's address, or None."""
        if self._closed:
            log.warning("Dropping %s to %s: the actor system has shut down", type(message).__name__, to)
            return
        self._inbox.append((to, message, self.system_address if sender is None else sender, self.clock.now()))
        self.wake()

    def external_endpoint(self, name: str, callback: Callable[[Any, ActorAddress], None]) -> ActorRef:
        """The address "outside:name" of something outside the actor system.

        `callback(message, sender)` is called on the driver's thread for what actors send to it. An external endpoint
        that is there already (made mute by `address_of`, or by an earlier call) gets the new callback.
        """
        return self._external_endpoint(f"outside:{name}", callback)

    def dismiss(self, external_endpoint: ActorRef) -> None:
        """Remove an external endpoint: later messages to it are dead letters."""
        external_endpoint.actor = None
        self._external_endpoints.pop(external_endpoint.actorAddressString, None)

    def address_of(self, text: str) -> ActorRef:
        """The address that prints as `text`; an unknown external endpoint is mute, an unknown actor is dead."""
        ref = self._external_endpoints.get(text) or self.find(text)
        if ref is None:
            ref = self._external_endpoint(text, _ignore) if text.startswith("outside:") else self.reference(text, None)
        return ref

    def instance_of(self, address: ActorAddress) -> Any:
        """The actor behind an address, None if it is dead: for tests and for checks of invariants."""
        return self.address_of(address.actorAddressString).actor

    def state(self) -> KernelState:
        """What waits, as one value that the trace's codec encodes. Read it between two deliveries."""
        queue = (
            QueuedMessage(to, sender, kind, why, served, at, what)
            for to, what, sender, why, at, kind, served in self.queue
        )
        return KernelState(
            self.n,
            self.now,
            tuple(mail for mail in queue if mail.kind == SENT),
            tuple(
                WaitingTimer(timer.receiver, timer.name, timer.armed_by, timer.due, timer.message)
                for timer in (*self._rung(), *self.timers)
                if timer.receiver.actor is not None
            ),
        )

    def restore(self, state: KernelState) -> None:
        """Let this happen that waited: for replay, in a fresh system whose actors live already."""
        self.n, self.now = state.n, state.now
        for mail in state.queue:
            self.queue.append(
                (mail.receiver, mail.message, mail.sender, mail.cause, mail.queued_at, mail.kind, mail.event_id)
            )
        for timer in state.timers:
            self.timers.arm(timer.receiver, timer.due, timer.message, timer.armed_by, timer.name)

    def _rung(self) -> Iterator[Timer]:
        """The timers that are due and wait in the queue."""
        for to, message, _, armed_by, due, kind, _ in self.queue:
            if kind == TIMER:
                yield Timer(to, due, message, armed_by, self.timers.name_of(message))

    # ------------------------------------------------------------------------------------------------------ driving

    def run(self, limit: int | None = None, seconds: float = math.inf) -> float | None:
        """Deliver until nothing is due, `limit` messages, or for `seconds` and one message.

        Returns the seconds until the next timer, None if there is none, 0.0 if a limit was hit and more waits.
        Without a limit it does not return as long as actors keep each other busy.
        """
        if self._running is not None:
            raise RuntimeError("the actor system is already running; an actor must not run its own actor system")
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
            self._look()
        due = timers.next_due
        return None if due is None else max(due - now, 0.0)

    def halt(self) -> None:
        """End the run that is under way, if one is, when the running delivery has ended; what is due waits."""
        if self._running is not None:
            self._inbox.append((_HALT, None, self.system_address, self.clock.now()))

    def simulate(self, until: float) -> None:
        """On a VirtualClock: deliver everything that is due until the moment `until`, jumping from timer to timer."""
        clock = self.clock
        if not isinstance(clock, VirtualClock):
            raise TypeError("only an actor system with a VirtualClock can run in virtual time")
        self.run()
        while (due := self.next_timer) is not None and due <= until:
            clock.advance_to(max(due, clock.now()))
            self.run()
        clock.advance_to(max(until, clock.now()))

    # ------------------------------------------------------------------------------------------------------ for replay

    def outside(self, to: ActorAddress, message: Any, sender: ActorAddress, cause: int = 0) -> Envelope:
        """A message from outside, to be given to `deliver`."""
        return Envelope(to, message, sender, cause, self.now, OUTSIDE, 0)

    def take_sent(self) -> Envelope | None:
        """Take the head of the internal queue; None if it is empty."""
        return Envelope._make(self.queue.popleft()) if self.queue else None

    def take_timer(self, receiver: str, armed_by: int) -> Envelope | None:
        """Take the earliest timer of the actor `receiver` armed during delivery `armed_by`, or None."""
        timer = self.timers.take(receiver, armed_by)
        return None if timer is None else Envelope._make(_mail_of(timer))

    def take_overdue(self, moment: float) -> Envelope | None:
        """Take the earliest timer of a living actor that was due before `moment`, or None."""
        while (timer := self.timers.take_before(moment)) is not None:
            if timer.receiver.actor is not None:
                return Envelope._make(_mail_of(timer))
        return None

    def deliver(self, envelope: Envelope, now: float, effects: Iterable[AdapterCall] | None = None) -> Delivery:
        """Hand out one message at the time `now` and give the account of it.

        With `effects`, ports answer from them instead of being called; raises EffectDiverged at a call that differs.
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

    def send_abroad(self, to: ActorAddress, message: Any, sender: ActorRef) -> None:
        """Send to an address that is not one of our references: a text that was decoded, or another system's actor."""
        here: object = self
        if isinstance(to, ActorRef) and to.base is not here:
            to.base.inject(to, message, sender)
            self.neighbours.add(to.base)
        else:
            receiver = self.address_of(to.actorAddressString)
            self.queue.append((receiver, message, sender, self.n, self.now, SENT, self.event_id))

    def arm(self, ref: ActorRef, seconds: float, message: Any, name: str = "") -> None:
        """Send `message` to the actor `seconds` after `now`; under a name, instead of what is armed under it."""
        if name:
            self._withdraw(self.timers.cancel(ref, name))
        self.timers.arm(ref, self.now + seconds, message, self.n, name)

    def disarm(self, ref: ActorRef, name: str) -> None:
        """Take back what is armed under that name: it will not be delivered, also where it waits in the queue."""
        self._withdraw(self.timers.cancel(ref, name))

    def note_error(self, error: BaseException) -> None:
        """Put an error that an actor dealt with itself on the running delivery."""
        self._error = describe(error)

    def serve(self, event_id: int) -> None:
        """Set the event that the running handler serves from now on; the delivery is recorded under the first one."""
        self.event_id = event_id
        if self._served_in != self.n:
            self._served, self._served_in = event_id, self.n

    @property
    def delivered_event_id(self) -> int:
        """The event id that the running or last delivery is recorded under."""
        return self._served if self._served_in == self.n else self.event_id

    # -------------------------------------------------------------------------------------------------- the machinery

    def _enter(self, now: float) -> None:
        """Move what came from outside into the queue."""
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
            queue.append((to, message, sender, cause, min(max(queued_at, self.now), now), OUTSIDE, 0))

    def _ring(self, now: float) -> None:
        """Move the timers that are due into the queue; those of the dead vanish."""
        for timer in self.timers.ring(now):
            if timer.receiver.actor is not None:
                self.queue.append(_mail_of(timer))
            else:
                self.timers.delivered(timer.message)

    def _withdraw(self, message: Any) -> None:
        """Take a timer's message out of the queue, where it is."""
        if message is not None:
            del self.queue[next(place for place, mail in enumerate(self.queue) if mail[1] is message)]

    def hand_out(self, envelope: tuple[Any, ...], now: float) -> float:
        """Hand one message to its receiver, whatever comes of it, and tell the observer.

        Returns the clock's reading after the handler where an observer wanted it, else 0.0: reading it costs as much
        as the rest of the delivery's overhead, so it is not read twice.
        """
        to, message, sender, cause, queued_at, kind, event_id = envelope
        actor = to.actor
        self.n = n = self.n + 1
        self.now = now
        self.event_id = event_id = event_id or n
        if kind is TIMER:
            self.timers.delivered(message)
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
        if not n % LOOK:
            self._look()
        return finished

    def _external_endpoint(self, text: str, callback: Callable[[Any, ActorAddress], None]) -> ActorRef:
        ref = self._external_endpoints.get(text)
        if ref is None:
            ref = self._external_endpoints[text] = self.reference(text, None)
        ref.actor = ExternalEndpoint(callback)
        return ref


def describe(error: BaseException) -> str:
    """One line on an error: "Type: text". Survives errors that cannot be printed."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be had)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _mail_of(timer: Timer) -> tuple[Any, Any, Any, int, float, str, int]:
    return timer.receiver, timer.message, timer.receiver, timer.armed_by, timer.due, TIMER, 0


def _nothing() -> None:
    """Ignore the delivery."""


def _ignore(message: Any, sender: ActorAddress) -> None:
    """A mute external endpoint."""
