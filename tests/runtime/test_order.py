"""Test rule 1: before each delivery, due timers and then external messages enter one FIFO. Also test observers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.runtime import LocalBase, local_system
from tests.runtime.actors import Scripted, World


def wake(actor: Scripted, seconds: float, payload: object) -> None:
    actor.wakeupAfter(timedelta(seconds=seconds), payload)


def test_messages_are_delivered_in_the_order_of_sending() -> None:
    world = World()
    one, two = world.actor(), world.actor()

    def both(actor: Scripted, _: object) -> None:
        for number in range(5):
            actor.send(two, number)
            actor.send(one, number)

    world.tell(one, both)
    assert world.got(one) == world.got(two) == [0, 1, 2, 3, 4]
    sent = [(str(d.receiver), d.message) for d in world.journal.deliveries if d.kind == "sent"]
    assert sent == [(name, number) for number in range(5) for name in ("Scripted.2", "Scripted.1")]


def test_what_a_handler_sends_to_itself_comes_after_what_waited() -> None:
    world = World()
    one = world.actor()
    world.tell(one, lambda actor, _: actor.send(actor.myAddress, "mine"), "waited")
    assert world.got(one) == ["waited", "mine"]


@given(st.lists(st.integers(0, 5), max_size=30))
def test_timers_fire_in_the_order_of_their_deadlines_then_of_arming(seconds: list[int]) -> None:
    world = World()
    one = world.actor()

    def arm(actor: Scripted, _: object) -> None:
        for place, delay in enumerate(seconds):
            wake(actor, delay, (delay, place))

    world.tell(one, arm)
    world.base.simulate(10)
    assert [wakeup.payload for wakeup in world.got(one)] == sorted(
        (delay, place) for place, delay in enumerate(seconds)
    )


def test_due_timers_enter_before_messages_from_outside() -> None:
    world = World()
    one = world.actor()
    world.tell(one, lambda actor, _: wake(actor, 1, "timer"))
    world.base.inject(one, "outside", world.outside)
    world.clock.advance(1)
    world.base.run()
    assert [getattr(message, "payload", message) for message in world.got(one)] == ["timer", "outside"]


def test_run_returns_the_time_until_the_next_delivery() -> None:
    world = World()
    one = world.actor()
    assert world.base.run() is None
    world.tell(one, lambda actor, _: wake(actor, 7, None))
    assert world.base.run() == 7.0
    for number in range(3):
        world.base.inject(one, number)
    assert world.base.run(limit=2) == 0.0
    assert world.got(one) == [0, 1]
    assert world.base.run(limit=1) == 7.0


def test_a_delivery_has_its_number_cause_kind_and_time() -> None:
    world = World()
    one, two = world.actor(), world.actor()

    def begin(actor: Scripted, sender: object) -> None:
        actor.send(two, "sent")
        actor.send(sender, "reply")
        wake(actor, 2.5, "later")

    world.tell(one, "first", begin)
    world.base.simulate(5)
    rows = [
        (d.n, d.kind, d.cause, str(d.sender), str(d.receiver), d.actor_class, d.queued_at, d.taken_at)
        for d in world.journal.deliveries
    ]
    assert rows == [
        (1, "outside", 0, "outside:test", "Scripted.1", "Scripted", 0.0, 0.0),
        (2, "outside", 0, "outside:test", "Scripted.1", "Scripted", 0.0, 0.0),
        (3, "sent", 2, "Scripted.1", "Scripted.2", "Scripted", 0.0, 0.0),
        (4, "sent", 2, "Scripted.1", "outside:test", "", 0.0, 0.0),
        (5, "timer", 2, "Scripted.1", "Scripted.1", "Scripted", 2.5, 2.5),
    ]
    assert world.heard == ["reply"]
    world.tell(one, "late")
    assert world.journal.deliveries[-1].cause == -5


def test_an_observer_that_raises_is_dismissed_and_the_actors_go_on(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def observe_delivery(self, delivery: object) -> None:
            raise OSError("disk full")

    base = LocalBase(observer=Broken())
    one = local_system(base).createActor(Scripted)
    base.inject(one, 1)
    base.inject(one, 2)
    base.run()
    assert base.instance_of(one).got == [1, 2]
    assert base.observer is None
    assert "The trace recorder failed at message 1" in caplog.text


def test_an_observer_can_be_notified_of_top_level_actors() -> None:
    heard = []

    class Curious:
        def record_creation(self, address: object, actor_class: type, n: int) -> None:
            heard.append((str(address), actor_class, n))

        def observe_delivery(self, delivery: object) -> None: ...

    local_system(LocalBase(observer=Curious())).createActor(Scripted)
    assert heard == [("Scripted.1", Scripted, 0)]


def test_addresses_are_texts_that_can_be_read_back() -> None:
    world = World()
    one = world.actor()
    assert str(one) == one.actorAddressString == "Scripted.1"
    assert world.base.address_of("Scripted.1") is one
    assert world.base.address_of("outside:test") is world.outside
    assert world.base.address_of("Scripted.9").actor is None
    mute = world.base.address_of("outside:elsewhere")
    world.tell(one, lambda actor, _: actor.send(mute, "into the void"))
    assert world.base.dead_letters == 0
    with pytest.raises(TypeError):
        hash(one)
