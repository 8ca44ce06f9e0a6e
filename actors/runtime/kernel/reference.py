"""What an actor holds of its system: an ActorRef (an address and a reference to the system), and I/O adapters.

Thespian gives every actor two objects: a `_myRef`, which executes the actor's calls to its system, and an ActorAddress,
to which other actors send. Here an ActorRef does the work of both: each actor needs only one object, and sending needs
no look-up of the receiver.

Rule 1: an actor's address has the text "ClassName.N" (N counts the actors of the base). An external endpoint's address
        has the text "outside:name". The text is the same in every replay, and traces store it.
Rule 2: an ActorRef is unhashable, as Thespian's addresses are, because on other bases the text of an address changes.
        Use broker ids or partitions as keys.
Rule 3: `actor` is None after the actor was removed; messages that still arrive are dead letters.
Rule 4: an ActorRef stores the parent and the number of children, but not a table of the children: the base finds them
        in its `register` of live actors. 100,000 partitions have the same parent, and a table of these children would
        duplicate their `parent` fields.
Rule 5: actors use I/O adapters for everything except messages, and each call is recorded in the trace. Arguments and
        results are str, int, bool, None, bodies of record batches, or tuples of those. A call fails only with OSError.
        A body is recorded as size and checksum: in a replay its bytes are not available.
Rule 6: in a live system a call goes to the adapter object, and is stored in the record of the running delivery.
Rule 7: in a replay a call gets the recorded result. A call that differs from the record ends the replay at once by a
        BaseException, which neither `except Exception` of an actor nor the failure policy catches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Protocol

from thespian.actors import Actor, ActorAddress, WakeupMessage

from actors.runtime.kernel.delivery import AdapterCall
from messages.records import Body

BODY = "record batches"
"""First element of a recorded body."""


class EffectDiverged(BaseException):
    """The replay made the I/O call `made`, but the trace has a different call, `recorded`, or no call (None)."""

    def __init__(self, made: tuple[str, str, tuple[Any, ...]], recorded: AdapterCall | None) -> None:
        super().__init__(f"{made[0]}.{made[1]}{made[2]} where the record has {recorded}")
        self.made = made
        self.recorded = recorded


class Adapters(dict[str, Any]):
    """The I/O adapters of an actor system, by name, and the I/O calls that the current message's handler has made.

    `recorded` has the recorded calls in a replay; it is None in a live system.
    """

    def __init__(self, objects: dict[str, Any] | None = None) -> None:
        super().__init__(objects or {})
        self.made: list[AdapterCall] = []
        self.recorded: Iterator[AdapterCall] | None = None
        self._doors: dict[str, Adapter] = {}

    def port(self, name: str) -> Adapter:
        """Return the adapter `name`.

        In a replay all names exist.

        Raises:
            LookupError: The system has no such adapter.
        """
        if name not in self and self.recorded is None:
            raise LookupError(f"this actor system has no I/O adapter {name!r}")
        door = self._doors.get(name)
        if door is None:
            door = self._doors[name] = Adapter(self, name)
        return door

    def call(self, port: str, method: str, args: tuple[Any, ...]) -> Any:
        """Make a call, or return its recorded result. Raises OSError, and EffectDiverged in a replay."""
        if self.recorded is not None:
            return self._answer(port, method, args, next(self.recorded, None))
        noted = _recorded_form(args)
        try:
            result = getattr(self[port], method)(*args)
        except OSError as error:
            self.made.append(AdapterCall(port, method, noted, None, f"{error.errno or 0} {error.strerror or error}"))
            raise
        # Three times as fast as AdapterCall(...); this line runs at every call of an adapter.
        self.made.append(tuple.__new__(AdapterCall, (port, method, noted, _recorded_form(result), "")))
        return result

    def _answer(self, port: str, method: str, args: tuple[Any, ...], recorded: AdapterCall | None) -> Any:
        args = _recorded_form(args)
        if recorded is None or (recorded.port, recorded.method, recorded.args) != (port, method, args):
            raise EffectDiverged((port, method, args), recorded)
        self.made.append(recorded._replace(args=args))
        if recorded.error:
            number, _, text = recorded.error.partition(" ")
            raise OSError(int(number), text)
        return _replayed_form(recorded.result)


class Adapter:
    """An I/O adapter as actors see it; each call of a method is recorded."""

    def __init__(self, ports: Adapters, name: str) -> None:
        self._ports = ports
        self._name = name

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(*args: object) -> Any:
            return self._ports.call(self._name, method, args)

        self.__dict__[method] = call
        return call


def _recorded_form(value: object) -> Any:
    """Return an argument or result as recorded: a body as (BODY, size, checksum), other values unchanged (rule 5)."""
    if value.__class__ is Body:
        return BODY, value.size, value.crc
    if isinstance(value, tuple):
        for entry in value:
            if entry.__class__ is Body:
                return tuple([_recorded_form(each) if isinstance(each, (Body, tuple)) else each for each in value])
    return value


def _replayed_form(value: object) -> Any:
    """Return the recorded `value`, with each (BODY, size, checksum) replaced by a Body that has no `data`."""
    if isinstance(value, tuple):
        if len(value) == 3 and value[0] == BODY:
            return Body(value[1], value[2])
        return tuple([_replayed_form(entry) for entry in value])
    return value


Period = timedelta | float


class System(Protocol):
    """The part of an actor system's interface that ActorRef needs."""

    n: int
    now: float
    event_id: int
    queue: deque[tuple[Any, Any, Any, int, float, str, int]]
    ports: Adapters

    def inject(self, to: ActorAddress, message: object, sender: ActorAddress | None = None) -> None:
        """Send from outside."""

    def drive(self) -> None:
        """Deliver messages until none is due, unless another driver is active."""

    def send_abroad(self, to: ActorAddress, message: object, sender: ActorRef) -> None:
        """Send to an address that is not one of this system's references."""

    def arm(self, ref: ActorRef, seconds: float, message: object, name: str = "") -> None:
        """Send `message` to `ref` later; if `name` is not "", the new timer replaces the armed timer of this name."""

    def disarm(self, ref: ActorRef, name: str) -> None:
        """Cancel the timer of this name."""

    def note_error(self, error: BaseException) -> None:
        """Record `error` as the running delivery's error, although the actor has handled it itself."""

    def serve(self, event_id: int) -> None:
        """Set the current event id of the running handler; messages that it sends later get this id."""

    def create_child(
        self,
        parent: ActorRef,
        actor_class: type[Actor] | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None,
    ) -> ActorRef:
        """Create an actor under `parent`."""

    def global_name_of(self, ref: ActorRef) -> str | None:
        """Return the global name of an actor, or None."""

    def handle_dead_letters(self, ref: ActorRef, enable: bool) -> None:
        """Send dead letters to `ref`, or stop sending them."""

    def updateCapability(self, name: str, value: object = None) -> None:
        """Set a capability of the system; None removes it."""

    def shutdown(self) -> None:
        """Shut the whole system down."""


class ActorRef(ActorAddress):  # type: ignore[misc]
    """The address of an actor or external endpoint; `base` is its actor system.

    It also has the methods that Thespian's Actor calls on its `_myRef`.
    """

    __slots__ = ("_aaddr", "actor", "base", "children", "class_name", "parent")

    def __init__(self, text: str, base: System, actor: Any, parent: ActorRef | None, class_name: str) -> None:
        self._aaddr = text
        self.base = base
        self.actor = actor
        self.parent = parent
        self.children = 0
        self.class_name = class_name

    # ------------------------------------------------------------------------------------------------ as an address

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, ActorRef) and other.base is not self.base:
            return False
        return isinstance(other, ActorAddress) and bool(self._aaddr == other.addressDetails)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self._aaddr

    def __repr__(self) -> str:
        return f"<{self._aaddr}>"

    def __reduce__(self) -> tuple[type[ActorAddress], tuple[str]]:
        return ActorAddress, (self._aaddr,)

    def __copy__(self) -> ActorRef:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ActorRef:
        return self

    # ------------------------------------------------------------------------------------------ as Thespian's _myRef

    @property
    def address(self) -> ActorRef:
        """The actor's own address."""
        return self

    @property
    def globalName(self) -> str | None:
        """The global name under which the actor was created, if any."""
        return self.base.global_name_of(self)

    def actor_send(self, to: ActorAddress, message: object) -> None:
        """Queue `message` for `to`."""
        base = self.base
        if to.__class__ is not ActorRef or to.base is not base:
            base.send_abroad(to, message, self)
        else:
            base.queue.append((to, message, self, base.n, base.now, "sent", base.event_id))

    def wakeupAfter(self, period: Period, payload: object = None) -> None:
        """Send the actor a WakeupMessage(period, payload) after `period`."""
        seconds = period.total_seconds() if isinstance(period, timedelta) else float(period)
        self.base.arm(self, seconds, WakeupMessage(period, payload))

    def set_timer(self, name: str, seconds: float, payload: object) -> None:
        """Send the actor a WakeupMessage after a delay in seconds; replaces the timer of this name."""
        self.base.arm(self, seconds, WakeupMessage(timedelta(seconds=seconds), payload), name)

    def cancel_timer(self, name: str) -> None:
        """Cancel the WakeupMessage of this name, if it has not been delivered."""
        self.base.disarm(self, name)

    def createActor(
        self,
        actor_class: type[Actor] | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None = None,
    ) -> ActorAddress:
        """Create a child. If its constructor fails, this actor receives ChildActorExited."""
        return self.base.create_child(self, actor_class, requirements, global_name, source_hash)

    def handleDeadLetters(self, address: ActorAddress, enable: bool) -> None:
        """Start or stop sending dead letters to this actor; `address` is its own address."""
        self.base.handle_dead_letters(self, enable)

    def updateCapability(self, name: str, value: object) -> None:
        """Set a capability of the system; None removes it."""
        self.base.updateCapability(name, value)

    def actorSystemShutdown(self) -> None:
        """Shut the whole system down."""
        self.base.shutdown()

    def notifyOnSystemRegistrationChanges(self, address: ActorAddress, enable: bool) -> None:
        """Do nothing: a local system has no convention, so registrations never change."""

    def preRegisterRemoteSystem(self, address: object, capabilities: dict[str, Any]) -> None:
        """Do nothing: a local system belongs to no Thespian convention (a group of connected actor systems)."""

    def deRegisterRemoteSystem(self, address: object) -> None:
        """Do nothing: a local system belongs to no Thespian convention (a group of connected actor systems)."""
