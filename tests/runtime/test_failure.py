"""Test rule 3: a handler that raises runs once, is recorded and logged once, and its message is dropped."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from thespian.actors import PoisonMessage

from tests.runtime.actors import Scripted, World


def fail(actor: Scripted, sender: object) -> None:
    actor.got.append("tried")
    raise ValueError("no good")


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


def test_a_failure_is_recorded_once_in_journal_and_log(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    one = world.actor()
    world.tell(one, fail, "next")
    assert world.got(one) == ["tried", "next"]
    assert [d.error for d in world.journal.deliveries] == ["ValueError: no good", None]
    assert world.base.failures == 1
    assert world.heard == []
    records = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in records] == [
        "Actor Scripted.1 failed to handle function: ValueError: no good"
    ]


def test_what_a_failed_handler_sent_stays_sent() -> None:
    world = World()
    one, two = world.actor(), world.actor()

    def half(actor: Scripted, _: object) -> None:
        actor.send(two, "before")
        raise ValueError

    world.tell(one, half)
    assert world.got(two) == ["before"]


@pytest.mark.parametrize("attempts", [2, 3])
def test_with_more_attempts_the_message_is_tried_in_place_and_goes_back_as_poison(attempts: int) -> None:
    world = World(attempts=attempts)
    one = world.actor()
    world.tell(one, fail, "next")
    assert world.got(one) == ["tried"] * attempts + ["next"]
    assert world.heard == [PoisonMessage(fail)]
    assert "no good" in world.heard[0].details


def test_a_second_attempt_that_succeeds_is_a_success() -> None:
    world = World(attempts=2)
    one = world.actor()

    def once(actor: Scripted, _: object) -> None:
        actor.got.append("tried")
        if len(actor.got) == 1:
            raise ValueError

    world.tell(one, once)
    assert world.got(one) == ["tried", "tried"]
    assert [d.error for d in world.journal.deliveries] == [None]
    assert world.heard == []


def test_messages_and_errors_that_cannot_be_printed_break_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    class Chokes(Scripted):
        def receiveMessage(self, message: Any, sender: Any) -> None:
            class Bad(Exception):
                __str__ = Unprintable.__str__

            raise Bad

    one = world.actor(Chokes)
    world.tell(one, Unprintable())
    assert world.journal.deliveries[0].error == "Bad: (its text cannot be had)"
    assert "Actor Chokes.1 failed to handle Unprintable" in caplog.text


def test_system_exit_ends_the_actor_alone() -> None:
    world = World()
    parent = world.actor()

    def leave(actor: Scripted, _: object) -> None:
        raise SystemExit(3)

    def have_child(actor: Scripted, _: object) -> None:
        actor.send(actor.createActor(Scripted), leave)

    world.tell(parent, have_child)
    (exited,) = world.got(parent)
    assert str(exited.childAddress) == "Scripted.2"
    assert world.base.instance_of(exited.childAddress) is None
    assert world.journal.deliveries[1].error == "SystemExit: 3"


def test_an_external_endpoint_may_raise() -> None:
    world = World()
    one = world.actor()

    def refuse(message: Any, sender: Any) -> None:
        raise OSError(9, "closed")

    gateway = world.base.external_endpoint("gateway", refuse)
    world.tell(one, lambda actor, _: actor.send(gateway, "hello"), "next")
    assert world.got(one) == ["next"]
    assert world.journal.deliveries[-1].error == "OSError: [Errno 9] closed"
