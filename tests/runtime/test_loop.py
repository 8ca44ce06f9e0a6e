"""Test the asyncio driver: turns, timers, correlated requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from thespian.actors import Actor, ActorAddress

from actors.runtime import LocalBase, VirtualClock, local_system
from actors.runtime.kernel.loop import TURN_SECONDS
from actors.runtime.kernel.turns import Turns
from tests.runtime.actors import Scripted


class Echo(Actor):
    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        self.send(sender, message)


def on_loop(story: Callable[[LocalBase, Any], Awaitable[None]], clock: Any = None) -> None:
    """Run a coroutine with a base that is attached to a loop."""

    async def main() -> None:
        base = LocalBase(clock=clock)
        base.attach(asyncio.get_running_loop())
        try:
            await asyncio.wait_for(story(base, local_system(base)), 30)
        finally:
            base.detach()

    asyncio.run(main())


def test_each_request_gets_its_own_answer() -> None:
    async def story(base: LocalBase, system: Any) -> None:
        echo = system.createActor(Echo)
        answers = await asyncio.gather(*(base.request(echo, number, 20) for number in range(2000)))
        assert answers == list(range(2000))
        assert base.dead_letters == 0

    on_loop(story)


def test_a_request_that_is_not_answered_times_out_and_its_late_answer_is_a_dead_letter() -> None:
    async def story(base: LocalBase, system: Any) -> None:
        asked = []
        one = system.createActor(Scripted)
        with pytest.raises(TimeoutError):
            await base.request(one, lambda actor, sender: asked.append(sender), 0.01)
        await base.request(one, lambda actor, sender: (actor.send(asked[0], "late"), actor.send(sender, "now")), 20)
        assert base.dead_letters == 1

    on_loop(story)


def test_requests_need_the_loop() -> None:
    base = LocalBase()
    echo = local_system(base).createActor(Echo)
    with pytest.raises(RuntimeError, match="attached"):
        asyncio.run(base.request(echo, 1))


class Cpu:
    """The CPU time of a simulated thread, which only deliveries increase."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize("cost", [0.00001, 0.0001, 0.003])
def test_a_turn_ends_by_its_cpu_time(cost: float) -> None:
    async def story(base: LocalBase, system: Any) -> None:
        base.loop.cpu = cpu = Cpu()
        one = system.createActor(Scripted)

        def work(actor: Scripted, _: ActorAddress) -> None:
            cpu.seconds += cost

        for _ in range(round(0.1 / cost)):
            base.inject(one, work)
        turns = []
        while base.queued:
            before = cpu.seconds
            await asyncio.sleep(0)
            turns.append(cpu.seconds - before)
        assert max(turns) <= TURN_SECONDS + 2 * cost
        assert min(turns[:-1]) >= TURN_SECONDS, "a busy machine makes turns no shorter"
        assert sum(turns) == pytest.approx(0.1, abs=cost)
        assert base.loop.turns.longest(base.clock.now()) == pytest.approx(max(turns))

    on_loop(story, Slow())


def test_a_timer_that_is_due_with_a_message_needs_no_second_turn() -> None:
    async def story(base: LocalBase, system: Any) -> None:
        one = system.createActor(Scripted)

        def arm(actor: Scripted, sender: ActorAddress) -> None:
            actor.wakeupAfter(timedelta(milliseconds=1))
            actor.send(sender, "armed")

        await base.request(one, arm, 20)
        due = base.clock.now() + 0.001
        while base.clock.now() < due:
            pass  # block the loop, so that the timer is due when the messages arrive
        for number in range(100_000):
            base.inject(one, number)
        while base.queued:
            before = base.loop.turns.count
            await asyncio.sleep(0)
            assert base.loop.turns.count <= before + 1
        assert len(base.instance_of(one).got) == 100_001

    on_loop(story)


class Slow:
    """A clock that advances by a millisecond at each reading, as on a busy machine."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        self.time += 0.001
        return self.time


def test_what_the_loop_does_between_turns_is_measured_too() -> None:
    async def story(base: LocalBase, system: Any) -> None:
        base.loop.cpu = cpu = Cpu()
        one = system.createActor(Scripted)
        await base.request(one, lambda actor, sender: actor.send(sender, "ready"), 20)
        cpu.seconds += 0.03
        await base.request(one, lambda actor, sender: actor.send(sender, "again"), 20)
        assert (base.loop.turns.over, base.loop.between.over) == (0, 1)
        assert base.loop.between.longest(base.clock.now()) == pytest.approx(0.03)

    on_loop(story)


def test_the_longest_turn_is_forgotten_after_a_minute() -> None:
    turns = Turns()
    for took, now in [(0.5, 100.0), (0.1, 100.9), (0.3, 130.0), (0.02, 159.9)]:
        turns.add(took, now)
    assert [turns.longest(now) for now in (100.9, 159.9, 160.0, 189.9, 190.0, 300.0)] == [0.5, 0.5, 0.3, 0.3, 0.02, 0]
    turns.add(0.01, 160.0)
    assert turns.longest(160.0) == 0.3, "the same second a minute later takes the place of the old"
    assert (turns.count, turns.over) == (5, 3)


def test_timers_ring_on_the_loop_in_order() -> None:
    async def story(base: LocalBase, system: Any) -> None:
        one = system.createActor(Scripted)

        def arm(actor: Scripted, sender: ActorAddress) -> None:
            for seconds in (0.03, 0.01, 0.02):
                actor.wakeupAfter(timedelta(seconds=seconds), seconds)

        base.inject(one, arm)
        while len(base.instance_of(one).got) < 3:
            await asyncio.sleep(0.005)
        assert [wakeup.payload for wakeup in base.instance_of(one).got] == [0.01, 0.02, 0.03]

    on_loop(story)


def test_a_timer_rings_in_time_whatever_timer_was_armed_or_cancelled_before() -> None:
    async def story(base: LocalBase, system: Any) -> None:
        one = system.createActor(Scripted)
        timers = [("far", 60.0), ("cancelled", 0.2), ("near", 0.25), ("last", 0.3)]
        for name, seconds in timers:
            base.inject(
                one, lambda actor, sender, name=name, seconds=seconds: actor._myRef.set_timer(name, seconds, name)
            )
            await asyncio.sleep(0)
        base.inject(one, lambda actor, sender: actor._myRef.cancel_timer("cancelled"))
        began = base.clock.now()
        while len(base.instance_of(one).got) < 2:
            await asyncio.sleep(0.001)
            assert base.clock.now() < began + 20
        assert [wakeup.payload for wakeup in base.instance_of(one).got] == ["near", "last"]

    on_loop(story)


def test_virtual_time_on_a_loop_moves_when_it_is_moved() -> None:
    clock = VirtualClock()

    async def story(base: LocalBase, system: Any) -> None:
        one = system.createActor(Scripted)
        await base.request(one, lambda actor, sender: (actor.wakeupAfter(60), actor.send(sender, "armed")), 20)
        clock.advance(59)
        await base.request(one, lambda actor, sender: actor.send(sender, "still"), 20)
        assert base.instance_of(one).got == []
        clock.advance(1)
        await base.request(one, lambda actor, sender: actor.send(sender, "rung"), 20)
        assert len(base.instance_of(one).got) == 1

    on_loop(story, clock)


def test_threads_inject_into_the_loop() -> None:
    async def story(base: LocalBase, system: Any) -> None:
        one = system.createActor(Scripted)
        threads = [
            threading.Thread(target=lambda own=own: [base.inject(one, (own, number)) for number in range(1000)])
            for own in range(3)
        ]
        for thread in threads:
            thread.start()
        got = base.instance_of(one).got
        while len(got) < 3000:
            await asyncio.sleep(0.005)
        for thread in threads:
            thread.join()
        for own in range(3):
            assert [number for thread, number in got if thread == own] == [*range(1000)], "each thread's in order"

    on_loop(story)


def test_code_on_the_loop_cannot_wait_but_other_threads_can() -> None:
    async def story(base: LocalBase, system: Any) -> None:
        echo = system.createActor(Echo)
        with pytest.raises(RuntimeError, match="request"):
            system.ask(echo, "hello", 1)
        assert await asyncio.to_thread(system.ask, echo, "hello again", 20) == "hello"
        system.tell(echo, "only sent")

    on_loop(story)


def test_a_base_has_one_loop_and_can_be_attached_again() -> None:
    async def story(base: LocalBase, system: Any) -> None:
        with pytest.raises(RuntimeError, match="already"):
            base.attach(asyncio.get_running_loop())
        base.detach()
        assert system.ask(system.createActor(Echo), "inline", 20) == "inline"
        base.attach(asyncio.get_running_loop())
        assert await base.request(system.createActor(Echo), "loop", 20) == "loop"

    on_loop(story)


def test_shutdown_ends_the_actors_and_leaves_the_loop() -> None:
    async def story(base: LocalBase, system: Any) -> None:
        echo = system.createActor(Echo)
        system.shutdown()
        assert base.instance_of(echo) is None
        assert not base.loop.attached

    on_loop(story)


def test_the_loop_runs_other_tasks_while_many_actors_end() -> None:
    async def story(base: LocalBase, system: Any) -> None:
        parent = system.createActor(Scripted)
        echo = system.createActor(Echo)
        base.inject(parent, lambda actor, _: [actor.createActor(Scripted) for _ in range(5000)])
        await base.request(echo, "they are there", 20)
        left: list[int] = []

        async def look() -> None:
            while base.loop.attached:
                left.append(len(base.register))
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        await base.wind_down()
        await looking
        assert len(base.register) == 0
        assert sum(0 < count < 5002 for count in left) >= 3

    on_loop(story)


def test_a_closed_loop_does_not_break_injection() -> None:
    base = LocalBase()
    one = local_system(base).createActor(Scripted)
    loop = asyncio.new_event_loop()
    base.attach(loop)
    loop.close()
    base.inject(one, "hello")
    base.detach()
    base.run()
    assert base.instance_of(one).got == ["hello"]
