"""Test several bases in one process: in one order on a virtual clock, and side by side on an asyncio loop."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from thespian.actors import ActorAddress, WakeupMessage

from actors.runtime import Dispatcher, LocalBase, LoopScheduler, VirtualClock, VirtualScheduler, local_system
from tests.runtime.actors import Journal


class Runner(Dispatcher):
    """Sends the number, decreased by one, to the next runner until it is 0.

    If `rests` divides the number, the runner waits for a timer first.
    """

    def __init__(self) -> None:
        self.following: ActorAddress
        self.rests = 3
        self.seen: list[int] = []

    def receiveMsg_int(self, number: int, sender: ActorAddress) -> None:
        self.seen.append(number)
        if number and number % self.rests == 0:
            self.wakeupAfter(timedelta(seconds=number % 2), number)
        elif number:
            self.send(self.following, number - 1)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        self.send(self.following, message.payload - 1)


class Ring:
    """Bases with one runner each, in a ring. `history` contains the deliveries of all bases in order."""

    def __init__(self, clocks: list[Any]) -> None:
        self.history: list[tuple[Any, ...]] = []
        self.bases = [LocalBase(clock=clock, observer=_Noting(self.history, n)) for n, clock in enumerate(clocks)]
        self.runners = [local_system(base).createActor(Runner) for base in self.bases]
        for base, runner, following in zip(self.bases, self.runners, self.runners[1:] + self.runners[:1], strict=True):
            base.instance_of(runner).following = following

    def seen(self, place: int) -> list[int]:
        seen: list[int] = self.bases[place].instance_of(self.runners[place]).seen
        return seen


class _Noting(Journal):
    def __init__(self, history: list[tuple[Any, ...]], base: int) -> None:
        super().__init__()
        self.history, self.base = history, base

    def observe_delivery(self, delivery: Any) -> None:
        payload = getattr(delivery.message, "payload", delivery.message)
        self.history.append((self.base, delivery.n, delivery.kind, delivery.cause, payload, delivery.taken_at))


def lived(numbers: tuple[int, ...]) -> tuple[Ring, VirtualScheduler]:
    scheduler = VirtualScheduler()
    ring = Ring([scheduler.clock] * 3)
    for base in ring.bases:
        scheduler.add(base)
    for number in numbers:
        ring.bases[0].inject(ring.runners[0], number)
    scheduler.run(100)
    return ring, scheduler


def test_bases_exchange_messages_on_one_virtual_clock() -> None:
    ring, scheduler = lived((10,))
    assert [ring.seen(place) for place in range(3)] == [[10, 7, 4, 1], [9, 6, 3, 0], [8, 5, 2]]
    assert {row[5] for row in ring.history} == {0.0, 1.0, 2.0}, "9 and 3 rest for a second each, 6 not at all"
    assert scheduler.clock.now() == 100


def test_the_same_start_gives_the_same_run_in_the_same_order() -> None:
    numbers = (60, 31, 17, 45)
    assert lived(numbers)[0].history == lived(numbers)[0].history


def test_equal_moments_go_by_the_order_of_the_bases() -> None:
    scheduler = VirtualScheduler()
    ring = Ring([scheduler.clock] * 3)
    for base in ring.bases:
        scheduler.add(base)
    for place in (2, 0, 1):
        ring.bases[place].inject(ring.runners[place], 3)
    scheduler.run(1)
    assert [row[0] for row in ring.history if row[2] == "timer"] == [0, 1, 2]


def test_a_base_that_was_removed_is_left_alone_and_one_of_another_clock_is_refused() -> None:
    scheduler = VirtualScheduler()
    ring = Ring([scheduler.clock] * 2)
    for base in ring.bases:
        scheduler.add(base)
    scheduler.remove(ring.bases[1])
    ring.bases[0].inject(ring.runners[0], 5)
    scheduler.run(10)
    assert (ring.seen(0), ring.seen(1), ring.bases[1].queued) == ([5], [], 1)
    with pytest.raises(ValueError, match="use different clocks"):
        scheduler.add(LocalBase(clock=VirtualClock()))


def test_bases_exchange_messages_on_one_loop() -> None:
    async def main() -> Ring:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        ring = Ring([None] * 3)
        for base, runner in zip(ring.bases, ring.runners, strict=True):
            base.instance_of(runner).rests = 1_000_000
            scheduler.add(base)
        ring.bases[0].inject(ring.runners[0], 3_000)
        async with asyncio.timeout(30):
            while not any(ring.seen(place)[-1:] == [0] for place in range(3)):
                await asyncio.sleep(0)
        for base in ring.bases:
            scheduler.remove(base)
        return ring

    ring = asyncio.run(main())
    assert [ring.seen(place) for place in range(3)] == [list(range(3_000 - place, -1, -3)) for place in range(3)]
    assert not any(base.loop.attached for base in ring.bases)


def test_a_held_base_waits_and_one_that_is_removed_meanwhile_stays_so() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        scheduler = LoopScheduler(loop)
        ring = Ring([None] * 2)
        for base in ring.bases:
            scheduler.add(base)
        began = loop.time()
        scheduler.hold(ring.bases[0], 0.02)
        scheduler.hold(ring.bases[0], 0.03)
        scheduler.hold(ring.bases[1], 0.01)
        scheduler.remove(ring.bases[1])
        ring.bases[0].inject(ring.runners[0], 1)
        async with asyncio.timeout(10):
            while not ring.seen(0):
                await asyncio.sleep(0)
        assert loop.time() - began >= 0.05
        assert (ring.seen(1), ring.bases[1].queued) == ([], 1)
        scheduler.hold(ring.bases[1], 0.0)
        assert not ring.bases[1].loop.attached
        scheduler.remove(ring.bases[0])

    asyncio.run(main())


def test_virtual_time_does_not_wait() -> None:
    scheduler = VirtualScheduler()

    async def at_once() -> int:
        return 7

    assert scheduler.finish(at_once()) == 7
    with pytest.raises(RuntimeError, match="cannot run a coroutine that waits for real I/O"):
        scheduler.finish(asyncio.sleep(0))
