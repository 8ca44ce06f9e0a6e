"""A seed draws a cluster, its settings and lasting faults, besides its actions; clocks may drift."""

from __future__ import annotations

import math

from actors.runtime import DriftingClock, VirtualClock
from actors.simulation.actions import invent
from actors.simulation.run import run
from actors.simulation.schedule import parse


def test_seeds_draw_different_clusters_and_some_have_a_lasting_fault() -> None:
    drawn = [invent(seed, duration=60.0) for seed in range(40)]
    assert drawn[7] == invent(7, duration=60.0)
    assert len({schedule.settings for schedule in drawn}) > 30
    assert {schedule.brokers for schedule in drawn} >= {2, 3, 4, 5}
    lasting = [schedule for schedule in drawn if any(action.seconds == math.inf for action in schedule.actions)]
    assert 3 <= len(lasting) <= 20
    assert all(parse(schedule.text()) == schedule for schedule in lasting)


def test_half_of_the_seeds_draw_a_coincidence_of_actions_that_the_run_has() -> None:
    drawn = [invent(seed, duration=60.0) for seed in range(40)]
    late = [schedule for schedule in drawn if schedule.actions[0].name == "kill" and not schedule.actions[0].at]
    assert 1 <= len(late) <= 15
    assert all(action.name != "kill" for seed in range(40) for action in invent(seed, faults=("disk",)).actions)


def test_a_broker_that_is_killed_for_good_does_not_return_at_a_rest() -> None:
    lines: list[str] = []
    outcome = run(
        parse("brokers 3\nduration 20\n2 create a 2,0,1\n4 kill 2 for inf\n12 rest\n15 roll 2 for 1"), transcript=lines
    )
    assert outcome.violation is None, outcome.violation
    [partition] = [line for line in lines[lines.index("at the end:") :] if line.startswith("  a-0: ")]
    assert "leader 0 " in partition and partition.endswith("isr 0,1")
    assert any(line.endswith("brokers 0,1") for line in lines)


def test_a_drifting_clock_shows_a_time_when_it_is_due() -> None:
    source = VirtualClock()
    for rate in (0.99, 1.001, 1.02):
        clock = DriftingClock(source, rate)
        for reading in (0.1, 1 / 3, 12345.678):
            moment = clock.source_time(reading)
            assert moment * rate >= reading and abs(moment * rate - reading) < 1e-9
