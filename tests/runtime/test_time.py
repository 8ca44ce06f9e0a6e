"""Test rule 5: a delivery has the clock's time at its start, and virtual time jumps from timer to timer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from thespian.actors import ActorAddress, WakeupMessage

from actors.runtime import Dispatcher, LocalBase, RealClock, VirtualClock, local_system
from tests.runtime.actors import World


class Heart(Dispatcher):
    """Records the time once a second."""

    def __init__(self) -> None:
        self.beats: list[float] = []

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.wakeupAfter(timedelta(seconds=1), message)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        self.beats.append(self.now)
        self.wakeupAfter(message.delayPeriod, message.payload)


def test_an_hour_of_heartbeats_is_simulated_exactly() -> None:
    world = World()
    hearts = [world.actor(Heart) for _ in range(10)]
    for heart in hearts:
        world.tell(heart, "beat")
    world.base.simulate(3600)
    assert world.clock.now() == 3600
    for heart in hearts:
        assert world.base.instance_of(heart).beats == [float(second) for second in range(1, 3601)]


def test_simulation_stops_at_its_end_and_continues_there() -> None:
    world = World()
    heart = world.actor(Heart)
    world.tell(heart, "beat")
    world.base.simulate(2.5)
    assert (world.clock.now(), world.base.instance_of(heart).beats) == (2.5, [1.0, 2.0])
    world.base.simulate(3)
    assert world.base.instance_of(heart).beats == [1.0, 2.0, 3.0]


def test_now_is_constant_during_a_delivery() -> None:
    class Ticking:
        time = 0.0

        def now(self) -> float:
            self.time += 1
            return self.time

    seen: list[Any] = []

    class Looks(Dispatcher):
        def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
            seen.append({self.now for _ in range(5)})

    base = LocalBase(clock=Ticking())
    one = local_system(base).createActor(Looks)
    base.inject(one, "look")
    base.inject(one, "look")
    base.run()
    assert [len(times) for times in seen] == [1, 1]
    assert seen[0] < seen[1] or seen[0] != seen[1]


def test_virtual_time_never_goes_back_and_only_it_is_simulated() -> None:
    clock = VirtualClock(start=10)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance_to(9)
    with pytest.raises(TypeError):
        LocalBase(clock=RealClock()).simulate(1)


def test_a_hundred_thousand_timers_wait_in_order() -> None:
    world = World()
    one = world.actor()
    world.base.observer = None

    def arm(actor: Any, _: ActorAddress) -> None:
        for number in range(100_000):
            actor.wakeupAfter(timedelta(seconds=1 + number * 7919 % 100_000), number * 7919 % 100_000)

    world.tell(one, arm)
    world.base.simulate(100_001)
    assert [wakeup.payload for wakeup in world.got(one)] == list(range(100_000))
