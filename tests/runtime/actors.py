"""Actors and helpers for the tests of the runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thespian.actors import Actor, ActorAddress, ActorExitRequest

from actors.runtime import Delivery, LocalBase, VirtualClock, local_system


class Journal:
    """An observer that stores every delivery."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []

    def observe_delivery(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    def messages(self, kind: str | None = None) -> list[Any]:
        return [delivery.message for delivery in self.deliveries if kind in (None, delivery.kind)]


class Scripted(Actor):
    """Calls a callable message with (actor, sender), and stores any other message in `got`."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        if callable(message) and not isinstance(message, type):
            message(self, sender)
        elif not isinstance(message, ActorExitRequest):
            self.got.append(message)


Script = Callable[[Scripted, ActorAddress], Any]


class World:
    """A base on virtual time with a journal, scripted actors and an external endpoint. `heard` has its messages."""

    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock()
        self.journal = Journal()
        self.base = LocalBase(clock=self.clock, observer=self.journal, **options)
        self.system = local_system(self.base)
        self.heard: list[Any] = []
        self.outside = self.base.external_endpoint("test", lambda message, sender: self.heard.append(message))

    def actor(self, actor_class: type[Actor] = Scripted) -> ActorAddress:
        return self.system.createActor(actor_class)

    def tell(self, to: ActorAddress, *messages: Any) -> None:
        """Inject messages, and deliver until nothing is due."""
        for message in messages:
            self.base.inject(to, message, self.outside)
        self.base.run()

    def got(self, address: ActorAddress) -> list[Any]:
        return self.base.instance_of(address).got
