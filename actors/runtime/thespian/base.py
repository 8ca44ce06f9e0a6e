"""LocalBase is a Thespian system base that runs all actors in this process, one at a time.

It consists of a kernel (`actors.runtime.kernel`: order, threads, time, replay), an InlineDriver and a LoopDriver.
Loaded sources and status requests of Thespian, which only its own test suite uses, are in `tests/thespian_suite`.

Rule 1 (failure): with `attempts` > 1 a message whose handler raised is handled again at once. After the last failure it
        is returned to its sender as Thespian's PoisonMessage. With `attempts` = 1 a message whose handler raised is
        dropped. SystemExit ends the actor.
Rule 2 (exit): an actor that handled ActorExitRequest is removed. If the request was recursive, the actor's children
        also get exit requests, CHILDREN_AT_ONCE at a time. The actor's parent receives ChildActorExited. Messages to
        removed actors are dead letters: recorded, counted, and sent in a DeadEnvelope to the actor that handles dead
        letters. Timers of removed actors are dropped.

Only one of these drives the kernel at a time: a thread that calls tell, ask or listen (InlineDriver); an asyncio loop
after `attach(loop)` (LoopDriver); the caller of `simulate(until)`, in virtual time; or the caller of `run`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, ClassVar

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
)
from thespian.system.utilis import actualActorClass

from actors.runtime.kernel.clock import Clock
from actors.runtime.kernel.inline import InlineDriver
from actors.runtime.kernel.kernel import Kernel, Observer, describe
from actors.runtime.kernel.loop import LoopDriver
from actors.runtime.kernel.modules import class_name
from actors.runtime.kernel.reference import ActorRef
from messages.runtime import SENT, ActorSnapshot, StopChildren, SystemState

PAGE = 1024
LONGEST = 20
"""Maximum number of digits. Numbers from a trace may have any length, and Python refuses to parse very long ones."""


class ActorRegistry:
    """The live actors by number, which is the last part of an actor's address.

    Rule 1: actors are listed in the order of their creation; `created` is the highest number assigned so far.
    Rule 2: numbers are stored in pages of PAGE. A single dict of 100,000 entries is copied as it grows, which blocks
            all actors for some milliseconds.
    """

    def __init__(self) -> None:
        self.created = 0
        self._pages: dict[int, dict[int, ActorRef]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._pages.values()))

    def __iter__(self) -> Iterator[ActorRef]:
        """Return all live actors, oldest first."""
        return (ref for page in self._pages.values() for ref in page.values())

    def add(self, ref: ActorRef, number: int = 0) -> None:
        """Add an actor, and count it as a child of its parent. `number` is the number in its address; 0 if unknown."""
        number = number or _number_of(ref.actorAddressString)
        if number > self.created:
            self.created = number
        page = self._pages.get(number // PAGE)
        if page is None:
            page = self._pages[number // PAGE] = {}
        page[number] = ref
        if ref.parent is not None:
            ref.parent.children += 1

    def remove(self, ref: ActorRef) -> None:
        """Remove an actor, if it is listed."""
        number = _number_of(ref.actorAddressString)
        page = self._pages.get(number // PAGE, {})
        if page.pop(number, None) is None:
            return
        if not page:
            del self._pages[number // PAGE]
        if ref.parent is not None:
            ref.parent.children -= 1

    def find(self, text: str) -> ActorRef | None:
        """Return the live actor with this address text, or None."""
        number = _number_of(text)
        ref = self._pages.get(number // PAGE, {}).get(number)
        return ref if ref is not None and ref.actorAddressString == text else None

    def children(self, parent: ActorRef) -> list[ActorRef]:
        """Return the live children of an actor, oldest first. If the actor has any, this searches all live actors."""
        return [ref for ref in self if ref.parent is parent] if parent.children else []


def _number_of(text: str) -> int:
    """Return the number at the end of an address's text; 0 without a number (no actor has the number 0)."""
    number = text.rpartition(".")[2]
    return int(number) if number.isdecimal() and number.isascii() and len(number) < LONGEST else 0


_CLASSES = 128
"""Maximum number of cached classes; loaded sources can add and remove classes."""
_OFFERED = frozenset({"capabilities", "requirements"})


def construct(actor_class: type[Actor], capabilities: dict[str, Any], requirements: dict[str, Any] | None) -> Actor:
    """Create an instance as Thespian does, but faster.

    A constructor gets the parameters `capabilities` and `requirements` if it has them. They are cached for each class:
    Thespian inspects the signature at each creation, which takes most of the 20 us of a creation.

    Raises:
        NoCompatibleSystemForActor: The class rejects these capabilities.
    """
    check, named = _requirements(actor_class)  # type: ignore[arg-type]  # (a metaclass of Thespian's has no types)
    if check is not None and not check(capabilities, requirements or {}):
        raise NoCompatibleSystemForActor(
            actor_class, "actorSystemCapabilityCheck of the actor class rejected this actor system"
        )
    if not named:
        return actor_class()
    offered = {"capabilities": capabilities, "requirements": requirements}
    return actor_class(**{name: offered[name] for name in named})


@lru_cache(_CLASSES)
def _requirements(actor_class: type[Actor]) -> tuple[Callable[..., bool] | None, frozenset[str]]:
    """Return the class's capability check, or None, and the supported parameters of its constructor."""
    check = getattr(actor_class, "actorSystemCapabilityCheck", None)
    if actor_class.__init__ is Actor.__init__:
        return check, frozenset()
    return check, _OFFERED.intersection(inspect.signature(actor_class.__init__).parameters)


log = logging.getLogger(__name__)

CHILDREN_AT_ONCE = 500
"""Number of children stopped at once after the exit of their parent."""


class LocalBase(Kernel):
    """A Thespian system base for actors in this process; pass it to Thespian with `local_system(base)`.

    Args:
        clock: The time source.
        attempts: The maximum number of times that a message is handled if its handler raises.
        observer: Receives every delivery.
        ports: The objects behind `self.port(name)`, by name.
        capabilities: The capabilities of the system.

    Read-only attributes, in addition to the kernel's: `register` (the live actors), `dead_letters` (number of dead
    letters), `failures` (number of deliveries whose handler failed).
    """

    system_messages: ClassVar[type] = ActorSystemMessage

    def __init__(
        self,
        clock: Clock | None = None,
        attempts: int = 1,
        observer: Observer | None = None,
        ports: dict[str, Any] | None = None,
        capabilities: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(clock, observer, ports)
        self.attempts = attempts
        self.capabilities = {} if capabilities is None else capabilities
        self.capabilities.update(_CAPABILITIES)
        self.dead_letters = 0
        self.failures = 0
        self.register = ActorRegistry()
        self.on_wake: Callable[[], None] | None = None
        """Called in place of the drivers' notification, for a driver of many bases that skips idle ones."""
        self._global_names: dict[str, ActorRef] = {}
        self._dead_letter_handler: ActorRef | None = None
        self.loop = LoopDriver(self)
        self.inline = InlineDriver(self, self.loop, self.newPrimaryActor)

    def actors(self, kind: type) -> list[Any]:
        """Return the live actors of a class, oldest first, for checks of invariants."""
        return [ref.actor for ref in self.register if isinstance(ref.actor, kind)]

    # ------------------------------------------------------------------------------------------------------- drivers

    def wake(self) -> None:
        """Notify the driver that there may be work."""
        if self.on_wake is not None:
            self.on_wake()
        elif not self.loop.wake():
            self.inline.ring()

    def drive(self) -> None:
        """Deliver messages until none is due, unless another driver is active."""
        self.inline.drive()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the actors on this asyncio loop, until `detach`.

        Each turn delivers some messages. `call_later` schedules a turn for the next timer.

        Raises:
            RuntimeError: The system is already attached to a loop.
        """
        if self.loop.attached:
            raise RuntimeError("the actor system is already attached to an event loop")
        self.inline.hold()
        self.loop.attach(loop)

    def detach(self) -> None:
        """Detach from the loop. Call this on the loop's thread, or after the loop has stopped.

        Queued messages wait for the next driver.
        """
        if self.loop.attached:
            self.loop.detach()
            self.inline.release()

    async def request(self, to: ActorAddress, message: Any, timeout: float | None = None) -> Any:
        """Send `message`, and return the first reply to this request.

        The reply is from `to` or from an actor to which `to` forwards the request.

        The system must be attached to the running loop.

        Raises:
            TimeoutError: No reply within `timeout` seconds; a later reply is a dead letter.
        """
        return await self.loop.request(to, message, timeout)

    # ----------------------------------------------------------------------------------------- for actors (ActorRef)

    def create_child(
        self,
        parent: ActorRef,
        actor_class: type[Actor] | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None,
    ) -> ActorRef:
        """Create an actor under `parent`, which receives ChildActorExited if the creation fails."""
        if global_name and global_name in self._global_names:
            return self._global_names[global_name]
        child = self._ref_for(actor_class, parent)
        try:
            self._construct(child, actor_class, requirements, global_name, source_hash)
        except (ImportError, NoCompatibleSystemForActor):
            self._forget(child)
            raise
        except Exception as error:
            log.warning("Actor %s could not be created: %s", child, describe(error), exc_info=True)
            self._forget(child)
            self.send_as_system(parent, ChildActorExited(child))
        return child

    def handle_dead_letters(self, ref: ActorRef, enable: bool) -> None:
        """Send dead letters to `ref`, or stop sending them. Only the last actor that enabled this receives them."""
        if enable:
            self._dead_letter_handler = ref
        elif self._dead_letter_handler is ref:
            self._dead_letter_handler = None

    def global_name_of(self, ref: ActorRef) -> str | None:
        """Return the global name of an actor, or None."""
        return next((name for name, named in self._global_names.items() if named is ref), None)

    # -------------------------------------------------------------------------------------------------- for snapshots

    @property
    def resting(self) -> bool:
        """Whether no actor has a suspended event handler, so that the system's state can be saved and restored."""
        return not any(getattr(ref.actor, "busy", False) for ref in self.register)

    def living(self) -> Iterator[ActorRef]:
        """Return all live actors in the order of their creation: parents before children."""
        return (ref for ref in self.register if ref.actor is not None)

    def system_state(self) -> SystemState:
        """Return the state of the system, but not of its actors, as one value for the trace.

        Call it between two deliveries.

        Raises:
            ValueError: The system has state that the value cannot contain: global names, a dead letter handler.
        """
        if self._global_names or self._dead_letter_handler is not None:
            raise ValueError("a snapshot cannot store Thespian's global names or dead letter handlers")
        actors = (ActorSnapshot(ref, ref.parent, class_name(type(ref.actor))) for ref in self.living())
        return SystemState(self.state(), self.register.created, tuple(actors))

    def settle(self, text: str, parent: str, actor_class: type[Actor]) -> ActorRef:
        """Add an actor that an earlier instance of this system created.

        Its constructor is not called, so it has no attributes yet.

        Use this method for a replay, and call `restore_system` after all actors are added.
        """
        actor: Any = object.__new__(actor_class)
        ref = actor._myRef = ActorRef(text, self, actor, self.address_of(parent), actor_class.__name__)
        self.register.add(ref)
        return ref

    def restore_system(self, state: SystemState) -> None:
        """Restore queue, timers and counters of a system whose actors exist already."""
        self.register.created = state.created
        self.restore(state.kernel)

    # ------------------------------------------------------------------------------- for Thespian's ActorSystem (names)

    def newPrimaryActor(
        self,
        actor_class: type[Actor] | str,
        requirements: dict[str, Any] | None = None,
        global_name: str | None = None,
        source_hash: str | None = None,
    ) -> ActorRef:
        """Create a top-level actor. Exceptions of its constructor are raised to the caller."""
        if global_name and global_name in self._global_names:
            return self._global_names[global_name]
        ref = self._ref_for(actor_class, self.system_address)
        try:
            self._construct(ref, actor_class, requirements, global_name, source_hash)
        except BaseException:
            self._forget(ref)
            raise
        created = getattr(self.observer, "record_creation", None)
        if created is not None:
            created(ref, type(ref.actor), self.n)
        return ref

    def tell(self, to: ActorAddress, message: Any) -> None:
        """Send a message from outside; then deliver messages until none is due, unless another driver is active."""
        self.inline.tell(to, message)

    def ask(self, to: ActorAddress, message: Any, timeout: timedelta | float | None = None) -> Any:
        """Send a message from outside; return the next message that an actor sends outside, or None after `timeout`."""
        return self.inline.ask(to, message, timeout)

    def listen(self, timeout: timedelta | float | None = None) -> object:
        """Wait for the next message that an actor sends to the external endpoint; return None after `timeout`."""
        return self.inline.listen(timeout)

    def external_clone(self) -> InlineDriver:
        """Return another external endpoint with its own mailbox (`ActorSystem.private()`)."""
        return self.inline.clone()

    async def wind_down(self) -> None:
        """Shut down the system.

        Stopping many actors can take long. If a loop is attached, the loop does its other work meanwhile.
        """
        if self.loop.is_own_thread():
            self._exit_all()
            self.wake()
            while self.queued and self.loop.attached:
                await asyncio.sleep(0)
        self.shutdown()

    def shutdown(self) -> None:
        """Send ActorExitRequest to all actors, parents first, and return when they have handled it.

        A call from a handler returns as soon as the requests are sent. Messages to the base after
        the shutdown are dropped.
        """
        self._exit_all()
        if self._running == threading.get_ident():
            return
        self.detach()
        self.inline.drive()
        self._closed = True

    def updateCapability(self, name: str, value: Any = None) -> None:
        """Set a capability of the system; None removes it."""
        if value is None:
            self.capabilities.pop(name, None)
        else:
            self.capabilities[name] = value

    def _handleDeadLetters(self, address: ActorAddress, enable: bool) -> None:
        self.handle_dead_letters(self.address_of(address.actorAddressString), enable)

    # --------------------------------------------------------------------------------------------- for the kernel

    def reference(self, text: str, actor: Any) -> ActorRef:
        """Return a new address for an external endpoint or for a removed actor."""
        return ActorRef(text, self, actor, None, "" if text.startswith("outside:") else text.rpartition(".")[0])

    def find(self, text: str) -> ActorRef | None:
        """Return the address that has this text, if its actor is alive; otherwise None."""
        return self.register.find(text)

    def receive_as_system(self, message: Any, sender: ActorAddress) -> None:
        """Stop the next children of an actor. Other messages, such as exits of top-level actors, are ignored."""
        if isinstance(message, StopChildren):
            self._exit_children(message.parent)

    def deliver_system_message(self, to: ActorRef, actor: Any, message: Any, sender: ActorRef) -> None:
        """Deliver one of Thespian's system messages to an actor. After an exit request, end the actor."""
        if isinstance(message, ActorExitRequest) and to.parent is not None:
            try:
                actor.receiveMessage(message, sender)
            except Exception as error:
                self.handler_failed(to, message, sender, error)
            self._end(to, message.isRecursive)
        else:
            actor.receiveMessage(message, sender)

    def handler_failed(self, to: ActorRef, message: Any, sender: ActorRef, error: Exception) -> None:
        """Retry a message whose handler raised; after the last attempt, record and log the error (rule 1)."""
        for _ in range(self.attempts - 1):
            try:
                to.actor.receiveMessage(message, sender)
            except Exception as again:
                error = again
            else:
                return
        self.failures += 1
        self.note_error(error)
        log.error("Actor %s failed to handle %s: %s", to, type(message).__name__, describe(error), exc_info=error)
        if self.attempts > 1 and not isinstance(message, PoisonMessage | ChildActorExited):
            details = "".join(traceback.format_exception(error))
            self.send_as_system(sender, PoisonMessage(message, details), to)

    def handler_left(self, to: ActorRef) -> None:
        """End an actor that raised SystemExit, and its children."""
        self._end(to, recursive=True)

    def dead_letter(self, to: ActorRef, message: Any, sender: ActorRef) -> None:
        """Count a dead letter, and forward it to the handler of dead letters."""
        self.dead_letters += 1
        handler = self._dead_letter_handler
        if handler is not None and not isinstance(message, ActorSystemMessage):
            self.send_as_system(handler, DeadEnvelope(to, message), sender)

    # -------------------------------------------------------------------------------------------------- the machinery

    def send_as_system(self, to: ActorRef, message: Any, sender: ActorRef | None = None) -> None:
        """Send a message on the system's behalf."""
        source = self.system_address if sender is None else sender
        self.queue.append((to, message, source, self.n, self.now, SENT, self.event_id))

    def _end(self, ref: ActorRef, recursive: bool) -> None:
        """Remove an actor: send exit requests to its children, and notify its parent."""
        ref.actor = None
        if recursive and ref.children:
            self._exit_children(ref)
        parent = ref.parent
        self._forget(ref)
        if parent is not None and parent.actor is not None:
            self.send_as_system(parent, ChildActorExited(ref))

    def _exit_children(self, parent: ActorAddress) -> None:
        """Send exit requests to the next CHILDREN_AT_ONCE children of a removed actor, and schedule the rest.

        The children are found by the text of their parent's address, not with `register.children`, which compares
        objects. In a system restored from a snapshot, a removed actor's address and the `parent` of its children can be
        different objects.
        """
        children = list(islice((ref for ref in self.register if ref.parent == parent), CHILDREN_AT_ONCE))
        for child in children:
            self.send_as_system(child, ActorExitRequest())
        if len(children) == CHILDREN_AT_ONCE:
            self.send_as_system(self.system_address, StopChildren(parent))

    def _exit_all(self) -> None:
        for primary in self.register.children(self.system_address):
            self._inbox.append((primary, ActorExitRequest(), self.system_address, self.clock.now()))

    def _forget(self, ref: ActorRef) -> None:
        """Remove an actor from all tables."""
        self.register.remove(ref)
        if self._dead_letter_handler is ref:
            self._dead_letter_handler = None
        name = self.global_name_of(ref)
        if name is not None:
            del self._global_names[name]

    def class_of(self, name: str, source_hash: str | None) -> type[Actor]:
        """Return the actor class with the name "module.Class"."""
        found: type[Actor] = actualActorClass(name, None)
        return found

    def _ref_for(self, actor_class: type[Actor] | str, parent: ActorRef) -> ActorRef:
        """Return a new address under `parent`, without an actor."""
        name = actor_class.rpartition(".")[2] if isinstance(actor_class, str) else actor_class.__name__
        number = self.register.created + 1
        ref = ActorRef(f"{name}.{number}", self, None, parent, name)
        self.register.add(ref, number)
        return ref

    def _construct(
        self,
        ref: ActorRef,
        actor_class: type[Actor] | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None,
    ) -> None:
        """Construct the actor of `ref`. Raises the errors of the constructor, the import and the capability check."""
        if isinstance(actor_class, str):
            actor_class = self.class_of(actor_class, source_hash)
        actor = construct(actor_class, self.capabilities, requirements)
        actor._myRef = ref
        ref.actor = actor
        if global_name:
            self._global_names[global_name] = ref


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
    """Return a Thespian ActorSystem with this base, without changing logging or Thespian's global ActorSystem."""
    return ActorSystem(systemBase=base, capabilities=base.capabilities, logDefs=False, transientUnique=True)
