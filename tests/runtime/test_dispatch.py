"""Test Dispatcher: the message's class selects the handler, and a message without a handler is an error."""

from __future__ import annotations

from typing import Any

import pytest
from thespian.actors import ActorAddress, ActorExitRequest

from actors.runtime import Dispatcher
from tests.runtime.actors import World


class Animal: ...


class Dog(Animal): ...


class Stone: ...


class Base(Dispatcher):
    def __init__(self) -> None:
        self.got: list[str] = []

    def receiveMsg_Animal(self, message: Animal, sender: ActorAddress) -> None:
        self.got.append("Base.Animal")


class Derived(Base):
    def receiveMsg_Dog(self, message: Dog, sender: ActorAddress) -> None:
        self.got.append("Derived.Dog")
        super().receiveMsg_Animal(message, sender)


@pytest.mark.parametrize(
    "actor, message, handled",
    [
        (Base, Animal(), ["Base.Animal"]),
        (Base, Dog(), ["Base.Animal"]),
        (Derived, Animal(), ["Base.Animal"]),
        (Derived, Dog(), ["Derived.Dog", "Base.Animal"]),
    ],
)
def test_the_most_special_handler_wins(actor: type[Base], message: Any, handled: list[str]) -> None:
    world = World()
    one = world.actor(actor)
    world.tell(one, message, message)
    assert world.got(one) == handled * 2


def test_an_unknown_message_is_an_error_each_time(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.tell(world.actor(Base), Stone(), Stone())
    error = "UnknownMessage: Base has no handler for Stone"
    assert [d.error for d in world.journal.deliveries] == [error, error]
    assert caplog.text.count("Actor Base.1 failed to handle Stone") == 2


def test_an_exit_request_needs_no_handler() -> None:
    world = World()
    world.tell(world.actor(Base), ActorExitRequest())
    assert world.base.failures == 0


def test_a_handler_that_would_silently_never_run_is_refused() -> None:
    class Lazy(Dispatcher):
        def receiveMsg_Stone(self, message: Stone, sender: ActorAddress) -> Any:
            yield

    world = World()
    world.tell(world.actor(Lazy), Stone())
    assert "must not be a generator function" in (world.journal.deliveries[0].error or "")
