"""Schedules are invented from a seed, stored as text, and parsed again."""

from __future__ import annotations

import random

import pytest

from actors.simulation.actions import ACTIONS, FAULTS, WORK, PlannedTopics, invent
from actors.simulation.schedule import REST, Action, BadSchedule, Schedule, parse


@pytest.mark.parametrize("seed", [*range(5), 20261121, 2**64])
def test_a_schedule_is_the_text_that_it_is_kept_as(seed: int) -> None:
    schedule = invent(seed, brokers=5, duration=1234.567)
    assert parse(schedule.text()) == schedule
    assert parse(f"# found somewhere\n\n{schedule.text()}") == schedule


def test_a_seed_is_a_schedule_and_another_seed_another() -> None:
    assert invent(7) == invent(7)
    assert invent(7).actions != invent(8).actions


def test_only_the_faults_asked_for_happen_and_the_work_goes_on() -> None:
    parts = {
        ACTIONS[action.name].part
        for action in invent(1, duration=900.0, faults=("kill",)).actions
        if action.name != REST
    }
    assert parts == {WORK, "kill"}
    evenly = invent(1, duration=3000.0, swarm=False)
    assert {ACTIONS[action.name].part for action in evenly.actions if action.name != REST} == {WORK, *FAULTS}


def test_every_minute_the_cluster_is_left_alone() -> None:
    assert [action.at for action in invent(1, duration=200.0).actions if action.name == REST] == [60.0, 120.0, 180.0]


@pytest.mark.parametrize("kind", [kind for kind in ACTIONS.values() if kind.weight], ids=lambda kind: kind.name)
def test_every_kind_of_action_can_be_written_and_read(kind: object) -> None:
    known = PlannedTopics(3, 4, 3, 4, {"t0": [(0, 1, 2)]})
    args = ACTIONS[kind.name].choose(random.Random(0), known)  # type: ignore[attr-defined]
    assert args is not None
    action = Action(1.5, kind.name, args, 2.25 if kind.lasts else None)  # type: ignore[attr-defined]
    assert parse(Schedule(actions=(action,)).text()).actions == (action,)


@pytest.mark.parametrize(
    "text", ["brokers three", "brokers", "soon kill 1", "1.0", "brokers 0", "records perhaps", "1.0 kill 1 for ever"]
)
def test_an_invalid_schedule_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(BadSchedule, match=r"line 2|at least 1"):
        parse(f"duration 5\n{text}")
