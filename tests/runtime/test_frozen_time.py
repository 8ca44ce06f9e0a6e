"""Test that frozen time moves a base's clock and the wall clock together."""

from __future__ import annotations

import asyncio
import datetime
import time
from datetime import timedelta
from typing import Any

from thespian.actors import ActorAddress, WakeupMessage

from actors.runtime import Dispatcher, LocalBase, RealClock, local_system
from tests.frozen_time import START, FrozenTime, frozen

__all__ = ["frozen"]


class Clockwatcher(Dispatcher):
    """Records the base's time and the wall clock's time at each wake-up."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, datetime.datetime]] = []

    def receiveMsg_tuple(self, delays: tuple[float, ...], sender: ActorAddress) -> None:
        for delay in delays:
            self.wakeupAfter(timedelta(seconds=delay))

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        self.seen.append((self.now, datetime.datetime.now()))


def test_timers_see_both_clocks_at_the_moment_they_are_due(frozen: FrozenTime) -> None:
    base = frozen.base()
    watcher = local_system(base).createActor(Clockwatcher)
    base.inject(watcher, (0.5, 3600.0, 86400.0))
    frozen.advance(7200)
    assert base.instance_of(watcher).seen == [(at, START + timedelta(seconds=at)) for at in (0.5, 3600.0)]
    assert (frozen.now, datetime.datetime.now()) == (7200.0, START + timedelta(seconds=7200))


def test_simulating_a_base_advances_the_wall_clock(frozen: FrozenTime) -> None:
    base = frozen.base()
    watcher = local_system(base).createActor(Clockwatcher)
    base.inject(watcher, (10.0,))
    base.simulate(60)
    assert base.instance_of(watcher).seen == [(10.0, START + timedelta(seconds=10))]
    assert time.time() == START.replace(tzinfo=datetime.UTC).timestamp() + 60


def test_bases_share_one_time(frozen: FrozenTime) -> None:
    bases = [frozen.base(), frozen.base()]
    watchers = [local_system(base).createActor(Clockwatcher) for base in bases]
    for base, watcher, delays in zip(bases, watchers, [(1.0, 3.0), (2.0, 4.0)], strict=True):
        base.inject(watcher, delays)
    frozen.advance(10)
    seen = [[at for at, _ in base.instance_of(watcher).seen] for base, watcher in zip(bases, watchers, strict=True)]
    assert seen == [[1.0, 3.0], [2.0, 4.0]]


def test_a_loop_and_requests_work_in_frozen_time(frozen: FrozenTime) -> None:
    base = frozen.base()

    class Echo(Dispatcher):
        def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
            self.send(sender, message)

    async def main() -> Any:
        base.attach(asyncio.get_running_loop())
        try:
            await asyncio.sleep(0.001)
            return await base.request(local_system(base).createActor(Echo), "hello", 20)
        finally:
            base.detach()

    assert asyncio.run(main()) == "hello"


def test_a_real_clock_is_not_frozen(frozen: FrozenTime) -> None:
    clock = RealClock()
    first = clock.now()
    while clock.now() == first:
        pass
    assert LocalBase(clock=clock).clock is clock
