"""Frozen time: a base's virtual clock and freezegun's wall clock, which advance together.

Actors read the time from their base. Other code (a gateway, a log line, a znode's timestamp) reads the wall clock. A
test of a back-off, a session or a timer needs both clocks to agree:

    def test_backoff(frozen: FrozenTime) -> None:
        base = frozen.base()
        ...
        frozen.advance(0.1)           # deliver each due message at its deadline

Import the fixture where it is used: `from tests.frozen_time import FrozenTime, frozen`.

Rule 1: freezegun gets `real_asyncio=True`: under a plain freeze asyncio.sleep never ends.
Rule 2: bases are closed before time thaws. Otherwise a timer set during the freeze would be due decades later.
Rule 3: no multiprocess base and no wait with a timeout: freezegun also stops `monotonic` and `perf_counter`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import freezegun
import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory

from actors.runtime import LocalBase, VirtualClock

freezegun.configure(extend_ignore_list=["_pytest.timing"])
"""pytest measures durations in real time."""

START = datetime.datetime(2020, 8, 3, 12, 0, 0)
"""Start of frozen time: the release date of Kafka 2.6.0."""


class _Mirrored(VirtualClock):
    """A virtual clock that moves freezegun's clock with it, also when `simulate` jumps."""

    def __init__(self, wall: FrozenDateTimeFactory) -> None:
        super().__init__()
        self._wall = wall

    def advance_to(self, moment: float) -> None:
        if moment >= self.now():
            self._wall.move_to(START + datetime.timedelta(seconds=moment))
        super().advance_to(moment)


class FrozenTime:
    """Time that a test controls: `clock` for bases and the wall clock for other code, always equal."""

    def __init__(self, wall: FrozenDateTimeFactory) -> None:
        self.clock = _Mirrored(wall)
        self._bases: list[LocalBase] = []

    def base(self, **options: Any) -> LocalBase:
        """Create a base on this clock. `options` are those of LocalBase."""
        base = LocalBase(clock=self.clock, **options)
        self._bases.append(base)
        return base

    @property
    def now(self) -> float:
        """Return the seconds since frozen time began."""
        return self.clock.now()

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass. All bases deliver the due messages at their deadlines, in the order of the deadlines."""
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
        """Shut the bases down while time is still frozen."""
        for base in self._bases:
            base.shutdown()


@pytest.fixture
def frozen() -> Iterator[FrozenTime]:
    """Freeze time, and close its bases before time thaws after the test."""
    with freeze_time(START, real_asyncio=True) as wall:
        time = FrozenTime(wall)
        yield time
        time.close()
