"""Test named timers: they are replaced and cancelled, and fire in the order of their deadlines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thespian.actors import ActorAddress, ActorExitRequest, WakeupMessage

from actors.runtime import Dispatcher, LocalBase
from actors.runtime.kernel.clock import SPARED, Timers
from tests.runtime.actors import World


class Waiter(Dispatcher):
    """Sets and cancels timers on request, and stores the time and payload of each timer that fired."""

    def __init__(self) -> None:
        self.came: list[tuple[float, Any]] = []

    def receiveMsg_tuple(self, message: tuple[Any, ...], sender: ActorAddress) -> None:
        what, name, *rest = message
        if what == "set":
            self.set_timer(name, *rest)
        else:
            self.cancel_timer(name)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        self.came.append((self.now, message.payload))


class Waiting(World):
    """A world with a waiter in virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.address = self.actor(Waiter)
        self.waiter: Waiter = self.base.instance_of(self.address)

    def do(self, *messages: tuple[Any, ...]) -> None:
        self.tell(self.address, *messages)


def test_a_timer_rings_once_under_its_name() -> None:
    world = Waiting()
    world.do(("set", "a", 1.5, "late"), ("set", "b", 1, "early"))
    world.base.simulate(10)
    assert world.waiter.came == [(1.0, "early"), (1.5, "late")]


@pytest.mark.parametrize("first, second", [(1, 2), (2, 1), (1, 1)])
def test_a_timer_armed_again_replaces_the_earlier_one(first: float, second: float) -> None:
    world = Waiting()
    world.do(("set", "a", first, "first"), ("set", "a", second, "second"))
    assert world.base.pending_timers == 1
    world.base.simulate(10)
    assert world.waiter.came == [(float(second), "second")]


def test_a_cancelled_timer_does_not_fire() -> None:
    world = Waiting()
    world.do(("set", "a", 1, "a"), ("cancel", "a"), ("cancel", "a"), ("cancel", "never armed"))
    assert (world.base.pending_timers, world.base.next_timer) == (0, None)
    world.base.simulate(10)
    assert world.waiter.came == []


def test_each_actor_has_names_of_its_own() -> None:
    world = Waiting()
    other = world.actor(Waiter)
    world.do(("set", "a", 1, "mine"))
    world.tell(other, ("set", "a", 1, "yours"), ("cancel", "a"))
    world.base.simulate(10)
    assert world.waiter.came == [(1.0, "mine")]


@pytest.mark.parametrize("takes_back", [("cancel", "a"), ("set", "a", 1, "again")])
def test_a_timer_message_in_the_queue_can_be_cancelled(takes_back: tuple[Any, ...]) -> None:
    world = Waiting()
    world.do(("set", "other", 1, "other"), ("set", "a", 1, "a"))
    world.base.inject(world.address, takes_back)
    world.base.run(limit=0)  # the message is queued before the timers
    world.clock.advance(1)
    world.base.run(limit=0)
    assert world.base.queued == 3
    world.base.run()
    assert world.waiter.came == [(1.0, "other")]
    world.base.simulate(10)
    assert world.waiter.came[1:] == [(2.0, "again")][: len(takes_back) - 2]


def test_a_delivered_timer_cannot_be_cancelled_and_its_name_is_free() -> None:
    world = Waiting()
    world.do(("set", "a", 1, "first"))
    world.base.simulate(1)
    world.do(("cancel", "a"), ("set", "a", 1, "second"))
    world.base.simulate(10)
    assert world.waiter.came == [(1.0, "first"), (2.0, "second")]


def test_timers_of_the_dead_vanish_with_their_names() -> None:
    world = Waiting()
    world.do(("set", "a", 1, "a"), ("set", "b", 2, "b"))
    world.tell(world.address, ActorExitRequest())
    world.base.simulate(10)
    assert (world.base.pending_timers, world.base.dead_letters) == (0, 0)


def test_what_is_taken_back_is_not_kept() -> None:
    world = Waiting()
    for number in range(5_000):
        world.do(("set", f"request {number}", 3600, number), ("cancel", f"request {number}"))
    assert len(world.base.timers.heap) <= SPARED + 2


Step = tuple[str, int, int]
steps = st.lists(st.tuples(st.sampled_from(["arm", "cancel", "ring"]), st.integers(0, 3), st.integers(0, 9)))


@given(steps)
def test_timers_ring_as_a_sorted_list_would(story: list[Step]) -> None:
    base = LocalBase()
    receiver = base.external_endpoint("receiver", lambda *_: None)
    timers, model, now = Timers(), {}, 0
    for number, (what, name, seconds) in enumerate(story):
        if what == "ring":
            now += seconds
            due = sorted((due, armed, key) for key, (due, armed) in model.items() if due <= now)
            rung = []
            for timer in timers.ring(now):
                rung.append((timer.due, timer.message[0], timer.name))
                timers.note_delivery(timer.message)
            assert rung == due
            for *_, key in due:
                del model[key]
        else:
            assert timers.cancel(receiver, f"{name}") is None
            model.pop(f"{name}", None)
            if what == "arm":
                timers.arm(receiver, now + seconds, [number], 0, f"{name}")
                model[f"{name}"] = (now + seconds, number)
        assert len(timers) == len(model)
        assert timers.next_due == min((due for due, _ in model.values()), default=None)
        assert [timer.name for timer in timers] == sorted(model, key=model.__getitem__)
