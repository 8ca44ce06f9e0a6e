"""LocalBase: a Thespian system base in which all actors live in this process and run one at a time.

Rule 1 (order): one FIFO holds all mail of the base. Before each delivery, timers that are due enter it in the order of
their deadlines (equal deadlines: in the order of arming), then what came from outside, in the order of arrival.
Rule 2 (threads): handlers run on the driver's thread only. Any thread may `inject`; that wakes the driver, once.
Rule 3 (failure): a handler that raises has had its chance: the error is recorded on the delivery, logged once, and the
message is dropped. With `attempts` > 1 it is handed over again at once, and after the last failure goes back to its
sender as Thespian's PoisonMessage. SystemExit ends the actor. A message is never formatted in the log.
Rule 4 (life): an actor that handled ActorExitRequest is gone; its children are sent one too (unless it was made
non-recursive), and its parent is told ChildActorExited. Mail for the dead is a dead letter: recorded, counted, and
sent on in a DeadEnvelope to the actor that handles dead letters. Timers that come due after the death are dropped.
Rule 5 (time): `now` is the clock's reading when the running delivery was taken from the queue.

Who drives: inline, the threads that call tell/ask/listen (`actors.runtime.inline`); `attach(loop)`, an asyncio loop
(`actors.runtime.loop`); `simulate(until)`, virtual time; or whoever calls `run`. One at a time.

Replay. A recorded run is replayed by a fresh base that nobody drives; the replayer hands out the recorded deliveries
one after another with `deliver(envelope, now, effects)`, taking each envelope from where its kind says:

* "outside": `outside(to, message, sender, cause)` makes it; the addresses come from `address_of(text)`, which also
  makes outsiders that are mute;
* "timer": `take_timer(receiver_text, armed_by)` takes the earliest timer of that receiver armed by that delivery;
* "sent": `take_sent()` takes the head of the internal queue. Sends are one FIFO, so if the actors behave as recorded
  the head *is* the message recorded next; compare sender, receiver, cause and message, and nothing is left to compare.

`deliver` returns the Delivery (its error and effects are to be compared) and raises EffectDiverged where an actor calls
a port otherwise than recorded. Primary actors are created as they were, from outside, before the first delivery.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Protocol

from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ActorSystem,
    ActorSystemMessage,
    ChildActorExited,
    DeadEnvelope,
    NoCompatibleSystemForActor,
    PoisonMessage,
    ThespianGeneration,
    ValidatedSource,
    WakeupMessage,
)
from thespian.system.messages.status import Thespian_StatusReq

from actors.runtime.clock import Clock, RealClock, VirtualClock
from actors.runtime.construction import construct
from actors.runtime.delivery import DEAD_LETTER, OUTSIDE, SENT, TIMER, Delivery, Effect, Envelope
from actors.runtime.inline import InlineDriver
from actors.runtime.loop import LoopDriver
from actors.runtime.outsider import Outsider
from actors.runtime.reference import ActorRef
from actors.runtime.sources import Sources
from actors.runtime.status import actor_status

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger(__name__)

SYSTEM = "/ActorSys"
"""Text of the system's own address; Thespian's ActorSystem names it so."""


class Observer(Protocol):
    """Who is told of every delivery, on the driver's thread, right after the handler returned.

    One that has `created(address, actor_class, n)` is also told of actors created from outside, after delivery n.
    """

    def delivered(self, delivery: Delivery) -> None:
        """Take note. Must not raise: an observer that does is dismissed."""


class LocalBase:
    """The system base. Give it to Thespian by `local_system(base)`.

    `clock` tells the time, `attempts` is how often a failing message is tried, `observer` is told of every delivery,
    `ports` are the objects behind `self.port(name)`, by name.

    For reading: `n` (number of the running or last delivery), `now` (its time), `queued`, `pending_timers`,
    `dead_letters` (count), `failures` (count of deliveries that a handler failed), `neighbours` (bases in this process
    that were sent mail and have not been driven since).
    """

    def __init__(
        self,
        clock: Clock | None = None,
        attempts: int = 1,
        observer: Observer | None = None,
        ports: dict[str, Any] | None = None,
        capabilities: dict[str, Any] | None = None,
    ) -> None:
        self.clock: Clock = RealClock() if clock is None else clock
        self.attempts = attempts
        self.observer = observer
        self.ports: dict[str, Any] = {} if ports is None else ports
        self.capabilities = {} if capabilities is None else capabilities
        self.capabilities.update(_CAPABILITIES)

        self.n = 0
        self.now = self.clock.now()
        self.dead_letters = 0
        self.failures = 0
        self.effects: list[Effect] = []
        self.replayed_effects: Iterator[Effect] | None = None
        self._error: str | None = None

        self.queue: deque[tuple[Any, Any, Any, int, float, str]] = deque()
        self._inbox: deque[tuple[ActorAddress, Any, ActorAddress, float]] = deque()
        self._timers: list[tuple[float, int, ActorRef, WakeupMessage, int]] = []
        self._armed = 0
        self._created = 0
        self._running: int | None = None
        self._closed = False
        self.neighbours: set[LocalBase] = set()

        self._refs: dict[str, ActorRef] = {}
        self._global_names: dict[str, ActorRef] = {}
        self._source_hashes: dict[str, str] = {}
        self._dead_letter_handler: ActorRef | None = None
        self.system_address = self._outside_ref(SYSTEM, self._system_received)
        self.sources = Sources(self)
        self.inline = InlineDriver(self)
        self.loop = LoopDriver(self)
        if isinstance(self.clock, VirtualClock):
            self.clock.watchers.append(self.wake)

    # ------------------------------------------------------------------------------------------------- for everybody

    @property
    def queued(self) -> int:
        """How many messages wait for their delivery."""
        return len(self.queue) + len(self._inbox)

    @property
    def pending_timers(self) -> int:
        """How many wake-ups are armed."""
        return len(self._timers)

    @property
    def next_timer(self) -> float | None:
        """The clock's reading at which the next wake-up is due."""
        return self._timers[0][0] if self._timers else None

    @property
    def has_mail_from_outside(self) -> bool:
        """Whether something was injected that no driver has seen yet."""
        return bool(self._inbox)

    def driven_by(self, thread: int) -> bool:
        """Whether `thread` is running actors of this base at the moment, and so is inside a handler."""
        return self._running == thread

    def inject(self, to: ActorAddress, message: Any, sender: ActorAddress | None = None) -> None:
        """Send `message` to `to` from outside; any thread may. `sender` is an outsider's address, or nobody's."""
        if self._closed:
            log.warning("%s to %s comes after the shutdown and is dropped", type(message).__name__, to)
            return
        self._inbox.append((to, message, self.system_address if sender is None else sender, self.clock.now()))
        self.wake()

    def wake(self) -> None:
        """Tell whoever drives that there may be something to do."""
        if not self.loop.wake():
            self.inline.ring()

    def outsider(self, name: str, callback: Callable[[Any, ActorAddress], None]) -> ActorRef:
        """The address "outside:name" of something outside the actor system.

        `callback(message, sender)` is called on the driver's thread for what actors send to it. An outsider that is
        there already (made mute by `address_of`, or by an earlier call) gets the new callback.
        """
        return self._outside_ref(f"outside:{name}", callback)

    def dismiss(self, outsider: ActorRef) -> None:
        """Forget an outsider: what is sent to it from now on is a dead letter."""
        outsider.actor = None
        self._refs.pop(outsider.actorAddressString, None)

    def address_of(self, text: str) -> ActorRef:
        """The address that prints as `text`; an unknown outsider is made mute, an unknown actor is a dead one."""
        ref = self._refs.get(text)
        if ref is None:
            if text.startswith("outside:"):
                return self._outside_ref(text, _ignore)
            ref = ActorRef(text, self, None, None, text.rpartition(".")[0])
        return ref

    def instance_of(self, address: ActorAddress) -> Any:
        """The actor behind an address, None where it is dead: for tests and for checks of invariants."""
        return self.address_of(address.actorAddressString).actor

    def run(self, limit: int | None = None, seconds: float = math.inf) -> float | None:
        """Deliver until nothing is due, `limit` messages, or for `seconds` and one message.

        Returns the seconds until the next timer, None where there is none, 0.0 where a limit was hit and more waits.
        Without a limit it does not return as long as actors keep each other busy.
        """
        if self._running is not None:
            raise RuntimeError("the base is running already: an actor must not drive the system it lives in")
        self._running = threading.get_ident()
        left = sys.maxsize if limit is None else limit
        queue, inbox, timers, clock_now, deliver = self.queue, self._inbox, self._timers, self.clock.now, self._deliver
        popleft = queue.popleft
        try:
            now = clock_now()
            end = now + seconds
            while True:
                if timers and timers[0][0] <= now:
                    self._fire(now)
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
        finally:
            self._running = None
        return max(timers[0][0] - now, 0.0) if timers else None

    def simulate(self, until: float) -> None:
        """On a VirtualClock: deliver everything that is due until the moment `until`, jumping from timer to timer."""
        clock = self.clock
        if not isinstance(clock, VirtualClock):
            raise TypeError("only a VirtualClock can be simulated on")
        while True:
            self.run()
            if not self._timers or self._timers[0][0] > until:
                break
            clock.advance_to(max(self._timers[0][0], clock.now()))
        clock.advance_to(max(until, clock.now()))

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the asyncio loop drive: some hundred deliveries per turn, a call_later for the next timer."""
        self.loop.attach(loop)

    def detach(self) -> None:
        """Leave the loop; what is queued waits for the next driver."""
        self.loop.detach()

    async def request(self, to: ActorAddress, message: Any, timeout: float | None = None) -> Any:
        """Send `message` and wait for what `to` (or whom it asked to) sends back to this very request.

        Needs `attach` to the running loop. Raises TimeoutError after `timeout` seconds; a later reply is a dead letter.
        """
        return await self.loop.request(to, message, timeout)

    # ------------------------------------------------------------------------------------------------------ for replay

    def outside(self, to: ActorAddress, message: Any, sender: ActorAddress, cause: int = 0) -> Envelope:
        """A message from outside, to be given to `deliver`."""
        return Envelope(to, message, sender, cause, self.now, OUTSIDE)

    def take_sent(self) -> Envelope | None:
        """Take the head of the internal queue; None where it is empty."""
        return Envelope._make(self.queue.popleft()) if self.queue else None

    def take_timer(self, receiver: str, armed_by: int) -> Envelope | None:
        """Take the earliest timer of the actor `receiver` armed during delivery `armed_by`, or None."""
        matching = [timer for timer in self._timers if timer[4] == armed_by and timer[2].actorAddressString == receiver]
        if not matching:
            return None
        timer = min(matching, key=lambda entry: entry[:2])
        self._timers.remove(timer)
        heapify(self._timers)
        return Envelope(timer[2], timer[3], timer[2], timer[4], timer[0], TIMER)

    def deliver(self, envelope: Envelope, now: float, effects: Iterable[Effect] | None = None) -> Delivery:
        """Hand out one message at the time `now` and give the account of it.

        With `effects`, ports answer from them instead of being called; raises EffectDiverged at a call that differs.
        """
        seen = _LastDelivery(self.observer)
        observer, self.observer = self.observer, seen
        self.replayed_effects = None if effects is None else iter(effects)
        try:
            self._deliver(tuple(envelope), now)
        finally:
            self.observer = observer
            self.replayed_effects = None
        assert seen.delivery is not None
        return seen.delivery

    # ----------------------------------------------------------------------------------------- for actors (ActorRef)

    def send_abroad(self, to: ActorAddress, message: Any, sender: ActorRef) -> None:
        """Send to an address that is not one of our references: a text that was decoded, or another base's actor."""
        if isinstance(to, ActorRef) and to.base is not self:
            to.base.inject(to, message, sender)
            self.neighbours.add(to.base)
        else:
            self.queue.append((self.address_of(to.actorAddressString), message, sender, self.n, self.now, SENT))

    def arm_timer(self, ref: ActorRef, period: timedelta | float, payload: Any) -> None:
        """Wake the actor after `period`, counted from `now`."""
        seconds = period.total_seconds() if isinstance(period, timedelta) else float(period)
        self._armed += 1
        heappush(self._timers, (self.now + seconds, self._armed, ref, WakeupMessage(period, payload), self.n))

    def create_child(
        self,
        parent: ActorRef,
        actor_class: type[Actor] | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None,
    ) -> ActorRef:
        """Create an actor under `parent`, which is told ChildActorExited where that fails."""
        if global_name and global_name in self._global_names:
            return self._global_names[global_name]
        source_hash = source_hash or self._source_hashes.get(parent.actorAddressString)
        child = self._ref_for(actor_class, parent)
        try:
            self._bring_to_life(child, actor_class, requirements, global_name, source_hash)
        except (ImportError, NoCompatibleSystemForActor):
            self._forget(child)
            raise
        except Exception as error:
            log.warning("%s could not be created: %s", child, describe(error), exc_info=True)
            self._forget(child)
            self.send_as_system(parent, ChildActorExited(child))
        return child

    def handle_dead_letters(self, ref: ActorRef, enable: bool) -> None:
        """Send dead letters to `ref`, the last one that wants them."""
        if enable:
            self._dead_letter_handler = ref
        elif self._dead_letter_handler is ref:
            self._dead_letter_handler = None

    def global_name_of(self, ref: ActorRef) -> str | None:
        """The global name of an actor, if it has one."""
        return next((name for name, named in self._global_names.items() if named is ref), None)

    def has_port(self, name: str) -> bool:
        """Whether `name` can be called: in replay every port can, the record answers."""
        return name in self.ports or self.replayed_effects is not None

    def note_error(self, error: BaseException) -> None:
        """Put an error that an actor dealt with itself on the running delivery."""
        self._error = describe(error)

    # ------------------------------------------------------------------------------- for Thespian's ActorSystem (names)

    def newPrimaryActor(
        self,
        actor_class: type[Actor] | str,
        requirements: dict[str, Any] | None = None,
        global_name: str | None = None,
        source_hash: str | None = None,
    ) -> ActorRef:
        """Create an actor under the system. What its constructor raises, the caller gets."""
        if global_name and global_name in self._global_names:
            return self._global_names[global_name]
        ref = self._ref_for(actor_class, self.system_address)
        try:
            self._bring_to_life(ref, actor_class, requirements, global_name, source_hash)
        except BaseException:
            self._forget(ref)
            raise
        created = getattr(self.observer, "created", None)
        if created is not None:
            created(ref, type(ref.actor), self.n)
        return ref

    def tell(self, to: ActorAddress, message: Any) -> None:
        """Send from outside; unless another driver is there, deliver until nothing is due."""
        self.inline.tell(to, message)

    def ask(self, to: ActorAddress, message: Any, timeout: timedelta | float | None = None) -> Any:
        """Send from outside and wait for any message to the outside."""
        return self.inline.ask(to, message, timeout)

    def listen(self, timeout: timedelta | float | None = None) -> Any:
        """Wait for a message to the outside; None after `timeout`."""
        return self.inline.listen(timeout)

    def external_clone(self) -> InlineDriver:
        """Another outside, with a mailbox of its own (`ActorSystem.private()`)."""
        return self.inline.clone()

    def shutdown(self) -> None:
        """Send ActorExitRequest to all actors, parents first, and return when they have handled it.

        Called by an actor, it only sends. What is sent to the base afterwards is dropped.
        """
        for primary in list((self.system_address.children or {}).values()):
            self._inbox.append((primary, ActorExitRequest(), self.system_address, self.clock.now()))
        if self._running == threading.get_ident():
            return
        self.loop.detach()
        self.inline.drive()
        self.sources.unload_all()
        self._closed = True

    def updateCapability(self, name: str, value: Any = None) -> None:
        """Set a capability of the system; None removes it."""
        if value is None:
            self.capabilities.pop(name, None)
        else:
            self.capabilities[name] = value

    def loadActorSource(self, source: Any) -> str:
        """Load a zip of actor sources (path or binary file) once the source authority agrees; returns its hash."""
        source_hash = self.sources.load(source)
        if self._running is None:
            self.inline.drive()
        return source_hash

    def unloadActorSource(self, source_hash: str) -> None:
        """Forget a loaded source."""
        self.sources.unload(source_hash)

    def _handleDeadLetters(self, address: ActorAddress, enable: bool) -> None:
        self.handle_dead_letters(self.address_of(address.actorAddressString), enable)

    # -------------------------------------------------------------------------------------------------- the machinery

    def send_as_system(self, to: ActorRef, message: Any, sender: ActorRef | None = None) -> None:
        """Send on the system's behalf."""
        source = self.system_address if sender is None else sender
        self.queue.append((to, message, source, self.n, self.now, SENT))

    def _enter(self, now: float) -> None:
        """Move what came from outside into the queue."""
        inbox, queue, cause = self._inbox, self.queue, -self.n
        while inbox:
            to, message, sender, queued_at = inbox.popleft()
            if to.__class__ is not ActorRef:
                to = self.address_of(to.actorAddressString)
            elif to.base is not self:
                to.base.inject(to, message, sender)
                self.neighbours.add(to.base)
                continue
            queue.append((to, message, sender, cause, min(queued_at, now), OUTSIDE))

    def _fire(self, now: float) -> None:
        """Move the timers that are due into the queue."""
        timers, queue = self._timers, self.queue
        while timers and timers[0][0] <= now:
            due, _, ref, message, armed_by = heappop(timers)
            if ref.actor is not None:
                queue.append((ref, message, ref, armed_by, due, TIMER))

    def _deliver(self, envelope: tuple[Any, ...], now: float) -> float:
        """Hand one message to its receiver, whatever comes of it, and tell the observer.

        Returns the clock's reading after the handler where an observer wanted it, else 0.0: reading it costs as much
        as the rest of the delivery's overhead, so it is not read twice.
        """
        to, message, sender, cause, queued_at, kind = envelope
        actor = to.actor
        self.n += 1
        self.now = now
        if actor is None:
            self._dead_letter(to, message, sender)
        else:
            try:
                if isinstance(message, ActorSystemMessage):
                    self._deliver_system_message(to, actor, message, sender)
                else:
                    actor.receiveMessage(message, sender)
            except Exception as error:
                self._failed(to, message, sender, error)
            except SystemExit as leaving:
                self._error = describe(leaving)
                self._end(to, recursive=True)
        observer = self.observer
        if observer is not None:
            return self._observed(observer, to, message, sender, cause, queued_at, kind)
        if self._error is not None or self.effects:
            self._error = None
            self.effects = []
        return 0.0

    def _observed(
        self, observer: Observer, to: ActorRef, message: Any, sender: Any, cause: int, queued_at: float, kind: str
    ) -> float:
        finished = self.clock.now()
        effects: tuple[Effect, ...] = ()
        if self.effects:
            effects = tuple(self.effects)
            self.effects = []
        error = self._error
        self._error = None
        now = self.now
        fields = (
            self.n,
            kind,
            cause,
            sender,
            to,
            to.class_name,
            message,
            queued_at,
            now,
            finished,
            effects,
            error,
        )
        try:
            observer.delivered(tuple.__new__(Delivery, fields))
        except Exception:
            log.exception("the observer failed at delivery %d and is dismissed", self.n)
            self.observer = None
        return finished

    def _deliver_system_message(self, to: ActorRef, actor: Any, message: Any, sender: ActorRef) -> None:
        """Those messages of Thespian's own that mean something to the system as well."""
        if isinstance(message, Thespian_StatusReq):
            self.send_as_system(sender, actor_status(to, self._timers, self.queue), to)
        elif isinstance(message, ActorExitRequest) and to.parent is not None:
            try:
                actor.receiveMessage(message, sender)
            except Exception as error:
                self._failed(to, message, sender, error)
            self._end(to, message.isRecursive)
        else:
            actor.receiveMessage(message, sender)

    def _failed(self, to: ActorRef, message: Any, sender: ActorRef, error: Exception) -> None:
        """A handler raised: try again where that is wanted, else record, log and drop (rule 3)."""
        for _ in range(self.attempts - 1):
            try:
                to.actor.receiveMessage(message, sender)
            except Exception as again:
                error = again
            else:
                return
        self.failures += 1
        self._error = describe(error)
        log.error("%s failed at %s: %s", to, type(message).__name__, self._error, exc_info=error)
        if self.attempts > 1 and not isinstance(message, PoisonMessage | ChildActorExited):
            details = "".join(traceback.format_exception(error))
            self.send_as_system(sender, PoisonMessage(message, details), to)

    def _dead_letter(self, to: ActorRef, message: Any, sender: ActorRef) -> None:
        self.dead_letters += 1
        self._error = DEAD_LETTER
        handler = self._dead_letter_handler
        if handler is not None and not isinstance(message, ActorSystemMessage):
            self.send_as_system(handler, DeadEnvelope(to, message), sender)

    def _end(self, ref: ActorRef, recursive: bool) -> None:
        """The actor is gone: its children are asked to go too, and its parent is told."""
        ref.actor = None
        if recursive and ref.children:
            for child in ref.children.values():
                self.send_as_system(child, ActorExitRequest())
        ref.children = None
        parent = ref.parent
        self._forget(ref)
        if parent is not None and parent.actor is not None:
            self.send_as_system(parent, ChildActorExited(ref))

    def _forget(self, ref: ActorRef) -> None:
        """Take a dead actor out of every table."""
        text = ref.actorAddressString
        self._refs.pop(text, None)
        self._source_hashes.pop(text, None)
        if ref.parent is not None and ref.parent.children is not None:
            ref.parent.children.pop(text, None)
        if self._dead_letter_handler is ref:
            self._dead_letter_handler = None
        self.sources.notify(ref, False)
        name = self.global_name_of(ref)
        if name is not None:
            del self._global_names[name]

    def _ref_for(self, actor_class: type[Actor] | str, parent: ActorRef) -> ActorRef:
        """A new address under `parent`; nobody lives there yet."""
        name = actor_class.rpartition(".")[2] if isinstance(actor_class, str) else actor_class.__name__
        self._created += 1
        text = f"{name}.{self._created}"
        ref = self._refs[text] = ActorRef(text, self, None, parent, name)
        if parent.children is None:
            parent.children = {}
        parent.children[text] = ref
        return ref

    def _bring_to_life(
        self,
        ref: ActorRef,
        actor_class: type[Actor] | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None,
    ) -> None:
        """Construct the actor of `ref`. Raises what the constructor, the import or the capability check raises."""
        if isinstance(actor_class, str):
            actor_class = self.sources.actor_class(actor_class, source_hash)
        actor = construct(actor_class, self.capabilities, requirements)
        actor._myRef = ref
        ref.actor = actor
        if global_name:
            self._global_names[global_name] = ref
        if source_hash:
            self._source_hashes[ref.actorAddressString] = source_hash

    def _outside_ref(self, text: str, callback: Callable[[Any, ActorAddress], None]) -> ActorRef:
        ref = self._refs.get(text)
        if ref is None:
            ref = self._refs[text] = ActorRef(text, self, None, None, "")
        ref.actor = Outsider(callback)
        return ref

    def _system_received(self, message: Any, sender: ActorAddress) -> None:
        """Mail for the system itself: verdicts of the source authority; other mail (exits of primaries) ends here."""
        if isinstance(message, ValidatedSource):
            self.sources.validated(message)


class _LastDelivery:
    """Keeps the account of one delivery, and passes it on."""

    def __init__(self, then: Observer | None) -> None:
        self.delivery: Delivery | None = None
        self._then = then

    def delivered(self, delivery: Delivery) -> None:
        self.delivery = delivery
        if self._then is not None:
            self._then.delivered(delivery)


_CAPABILITIES = {
    "Python Version": tuple(sys.version_info),
    "Thespian Generation": ThespianGeneration,
    "Thespian Version": str(int(time.time() * 1000)),
    "Thespian ActorSystem Name": "kafka-actors local",
    "Thespian ActorSystem Version": 1,
    "Thespian Watch Supported": False,
    "AllowRemoteActorSources": "No",
}


def local_system(base: LocalBase) -> ActorSystem:
    """Thespian's ActorSystem around a base; leaves logging and Thespian's global system alone."""
    return ActorSystem(systemBase=base, capabilities=base.capabilities, logDefs=False, transientUnique=True)


def describe(error: BaseException) -> str:
    """One line on an error: "Type: text". Survives errors that cannot be printed."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be had)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _ignore(message: Any, sender: ActorAddress) -> None:
    """A mute outsider."""
