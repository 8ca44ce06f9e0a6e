"""Frozen time: one hand moves a base's virtual clock and the wall clock that freezegun shows.

Actors get the time from their base; code at the rim (a gateway, a log line, a znode's timestamp) asks the wall
clock. A test of a backoff, a session or a timer rule wants both to move together:

    def test_backoff(frozen: FrozenTime) -> None:
        base = frozen.base()
        ...
        frozen.advance(0.1)           # deliver what becomes due, at the right moments

Import the fixture where it is used: `from tests.frozen_time import FrozenTime, frozen`.

Rule 1: `real_asyncio=True`: under a plain freeze asyncio.sleep never ends.
Rule 2: bases are closed before time thaws: a timer armed inside a freeze would be due decades later.
Rule 3: no multiprocess base and no waiting with a timeout in here: freezegun stops `monotonic` and `perf_counter` too.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory

from actors.runtime import LocalBase, VirtualClock

START = datetime.datetime(2020, 8, 3, 12, 0, 0)
"""When frozen time begins (Kafka 2.6.0 was released that day)."""


class _Mirrored(VirtualClock):
    """A virtual clock that takes freezegun's along wherever it goes, also when `simulate` jumps."""

    def __init__(self, wall: FrozenDateTimeFactory) -> None:
        super().__init__()
        self._wall = wall

    def advance_to(self, moment: float) -> None:
        if moment >= self.now():
            self._wall.move_to(START + datetime.timedelta(seconds=moment))
        super().advance_to(moment)


class FrozenTime:
    """Time under a test's control: `clock` for bases and the wall clock for other code, always equal."""

    def __init__(self, wall: FrozenDateTimeFactory) -> None:
        self.clock = _Mirrored(wall)
        self._bases: list[LocalBase] = []

    def base(self, **options: Any) -> LocalBase:
        """A base on this time; `options` are LocalBase's."""
        base = LocalBase(clock=self.clock, **options)
        self._bases.append(base)
        return base

    @property
    def now(self) -> float:
        """Seconds since frozen time began."""
        return self.clock.now()

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass. All bases deliver what is due on the way, in the order of the deadlines."""
        end = self.now + seconds
        while True:
            for base in self._bases:
                base.run()
            dues = [base.next_timer for base in self._bases if base.next_timer is not None]
            if not dues or min(dues) > end:
                break
            self.clock.advance_to(max(min(dues), self.now))
        self.clock.advance_to(end)

    def close(self) -> None:
        """Shut the bases down, still in frozen time."""
        for base in self._bases:
            base.shutdown()


@pytest.fixture
def frozen() -> Iterator[FrozenTime]:
    """Frozen time, thawed after the test with its bases closed."""
    with freeze_time(START, real_asyncio=True) as wall:
        time = FrozenTime(wall)
        yield time
        time.close()
