"""ActorRef: an actor's address and its place in the system, in one small object.

Thespian gives every actor a `_myRef` that carries out what the actor asks of its system, and an ActorAddress that
others know it by. Here both are one object: no look-up on the way to the receiver, and one allocation per actor.

Rule 1: the address prints as "ClassName.N" (N counts the actors of the base), an outsider's as "outside:name". The
text is the same in every replay; it is what traces hold.
Rule 2: an address stays unhashable, as Thespian's: on other bases its text changes. Key by broker id or partition.
Rule 3: `actor` is None once the actor is gone; mail that still arrives is a dead letter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thespian.actors import Actor, ActorAddress

if TYPE_CHECKING:
    from datetime import timedelta

    from actors.runtime.base import LocalBase

    Period = timedelta | float


class ActorRef(ActorAddress):  # type: ignore[misc]
    """The address of one actor or outsider of `base`, and what the actor may ask of the system (Thespian's names)."""

    __slots__ = ("_aaddr", "actor", "base", "children", "class_name", "parent")

    def __init__(self, text: str, base: LocalBase, actor: Any, parent: ActorRef | None, class_name: str) -> None:
        self._aaddr = text
        self.base = base
        self.actor = actor
        self.parent = parent
        self.children: dict[str, ActorRef] | None = None
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

    def actor_send(self, to: ActorAddress, message: Any) -> None:
        """Queue `message` for `to`."""
        base = self.base
        if to.__class__ is not ActorRef or to.base is not base:
            base.send_abroad(to, message, self)
        else:
            base.queue.append((to, message, self, base.n, base.now, "sent"))

    def wakeupAfter(self, period: Period, payload: Any = None) -> None:
        """Send the actor a WakeupMessage(period, payload) after `period`."""
        self.base.arm_timer(self, period, payload)

    def createActor(
        self,
        actor_class: type[Actor] | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None = None,
    ) -> ActorAddress:
        """Create a child. A constructor that fails sends ChildActorExited to this actor."""
        return self.base.create_child(self, actor_class, requirements, global_name, source_hash)

    def handleDeadLetters(self, address: ActorAddress, enable: bool) -> None:
        """Send dead letters to this actor too, or no longer."""
        self.base.handle_dead_letters(self, enable)

    def updateCapability(self, name: str, value: Any) -> None:
        """Set a capability of the system; None removes it."""
        self.base.updateCapability(name, value)

    def registerSourceAuthority(self, address: ActorAddress) -> None:
        """Let this actor judge sources that are loaded."""
        self.base.sources.authority = self

    def notifyOnSourceAvailability(self, address: ActorAddress, enable: bool) -> None:
        """Tell this actor of sources loaded and unloaded."""
        self.base.sources.notify(self, enable)

    def loadActorSource(self, source: Any) -> str:
        """Load a zip of actor sources; returns its hash."""
        return self.base.loadActorSource(source)

    def unloadActorSource(self, source_hash: str) -> None:
        """Forget a loaded source."""
        self.base.unloadActorSource(source_hash)

    def actorSystemShutdown(self) -> None:
        """Shut the whole system down."""
        self.base.shutdown()

    def notifyOnSystemRegistrationChanges(self, address: ActorAddress, enable: bool) -> None:
        """Nothing to do: a local system has no convention, so registrations never change."""

    def preRegisterRemoteSystem(self, address: Any, capabilities: dict[str, Any]) -> None:
        """Nothing to do: a local system has no convention."""

    def deRegisterRemoteSystem(self, address: Any) -> None:
        """Nothing to do: a local system has no convention."""
