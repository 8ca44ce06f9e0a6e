"""Random schedules violate no invariant, the same seed gives the same traces byte for byte, and traces replay."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors.core.controller.states import State, Table
from actors.node.node import NodeActor
from actors.runtime.trace.replayer import replay_directory
from actors.simulation.actions import FAULTS, NAMED, invent
from actors.simulation.client_history import Acknowledged
from actors.simulation.members import AssignmentReceived, SimulatedGroup
from actors.simulation.monitors.families import FAMILIES
from actors.simulation.monitors.group_invariants import GroupInvariants
from actors.simulation.monitors.monitor import Monitor, Monitors, observes
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import ClusterQueried
from actors.simulation.run import run
from actors.simulation.schedule import Schedule, parse
from actors.simulation.simulated_cluster import Cluster


@pytest.mark.parametrize("seed", range(2))
def test_random_schedules_violate_no_invariant(seed: int) -> None:
    outcome = run(invent(seed, duration=40.0))
    assert outcome.violation is None, f"{outcome.violation}\n{outcome.schedule.text()}"
    assert outcome.deliveries > 1000


STORY = """
brokers 3
duration 14
records yes
2 create a 0,1,2
2 create x 0,1,2 1,2,0
4 produce a 0 for 8
4 transact id0 for 8
6 break 0 0 for inf
7 kill 2 for 3
9 delete a
"""
"""Transactions, a failed log directory, a killed broker and a deletion."""
KILLS = invent(5, duration=30.0, faults=("kill", "expire"))
WITHOUT_BALANCE = attrs.evolve(KILLS, settings=(*KILLS.settings, ("auto_leader_rebalance_enable", 0)))


@pytest.mark.parametrize("schedule", [KILLS, WITHOUT_BALANCE, parse(STORY)], ids=["kills", "no balance", "story"])
def test_what_a_run_recorded_replays(tmp_path: Path, schedule: Schedule) -> None:
    run(schedule, tmp_path)
    report = replay_directory(tmp_path, (NodeActor,))
    assert len(report.runs) >= 3
    for each in report.runs:
        assert each.ok, each.divergence or each.problem


_DIGEST = """
import sys, time
time.time = lambda: float(sys.argv[1])
from actors.simulation.actions import invent
from actors.simulation.triage import digest
print(digest(invent(3, duration=20.0)))
"""


def test_the_same_seed_gives_the_same_traces_with_any_hash_seed_and_wall_clock() -> None:
    found = []
    for hash_seed, wall in (("1", "1000000000"), ("2", "1700000000.5")):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        found.append(subprocess.check_output([sys.executable, "-c", _DIGEST, wall], env=environment, timeout=120))
    assert found[0] == found[1]


def test_a_lost_acknowledged_record_is_a_violation() -> None:
    class Forger(Monitor):
        @observes
        def forge(self, fact: ClusterQueried) -> None:
            for acknowledged in self.history.acknowledged.values():
                acknowledged[1 << 40] = Acknowledged(b"forged", 0, 0.0)

    schedule = invent(1, duration=20.0, faults=(), records=True)
    assert run(schedule).violation is None
    outcome = run(schedule, families=(Forger, *FAMILIES))
    assert outcome.violation is not None and outcome.violation.invariant == "no acknowledged record is lost"


GROUP = parse("""
    brokers 3
    duration 20
    1 join g 0
    1 join g 1
    9 kill 0 for 5
    12 leave g 0
    """)
"""A group with two members, of which one leaves; the run fetches the group's commits at the end."""


def seen_groups(forge: Callable[[SimulatedGroup], None]) -> str | None:
    """Return the violated invariant after `forge` has changed the members' view just before the check."""

    class Forger(Monitor):
        @observes
        def look(self, fact: ClusterQueried) -> None:
            forge(self.cluster.members.groups["g"])

    outcome = run(GROUP, families=(Forger, *FAMILIES))
    return None if outcome.violation is None else outcome.violation.invariant


def test_groups_survive_a_coordinator_failure_and_violations_are_reported() -> None:
    def lose_a_commit(group: SimulatedGroup) -> None:
        assert sorted(group.committed) == [0, 1, 2, 3] and group.last > 5
        group.committed[0] += 1000

    def lose_a_member(group: SimulatedGroup) -> None:
        group.living["1"].id = "forged"

    assert seen_groups(lambda group: None) is None
    assert seen_groups(lose_a_commit) == "no committed offset is lost"
    assert seen_groups(lose_a_member) == "group members match the live consumers"


def test_double_assignments_and_repeated_generations_are_violations(tmp_path: Path) -> None:
    cluster, group = Cluster(Schedule(1), tmp_path), SimulatedGroup("g")
    observed = ObservedCluster(lambda: 0.0, cluster.machines[0].settings, cluster)
    monitors = Monitors(observed, (GroupInvariants,))

    def texts(generation: int, leader: str, member: str, *parts: int) -> list[str]:
        return [each.text for each in monitors.found(AssignmentReceived(group, generation, leader, member, parts))]

    assert texts(2, "a", "a", 0, 1) == texts(2, "a", "b", 2) == []
    assert texts(2, "a", "b", 1) == ["generation 2 of g assigns part 1 to a and to b"]
    assert texts(2, "b", "b", 2) == ["generation 2 of g has two leaders: a and b"]
    observed.power_failed = True
    assert not texts(2, "b", "b", 2), "a log may have lost its end: seed 5011, with all faults and groups"
    observed.power_failed = False
    for leader in ("a", "b"):
        assert not texts(1, leader, leader, 0), "an empty group is forgotten: seed 5117"


def test_every_fault_has_a_run_of_its_own() -> None:
    for fault in (*FAULTS, *NAMED):
        outcome = run(invent(11, duration=16.0, faults=(fault,)))
        assert outcome.violation is None, f"{outcome.violation}\n{outcome.schedule.text()}"


def test_an_illegal_move_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The patched table also makes moves that it has no row for: a deleted replica goes online when a disk fails."""
    right = Table.sort

    def sort(self: Table, target: State, subjects: Any, states: Any, illegal: Any) -> list[Any]:
        refused: dict[Any, State] = {}
        rows = right(self, target, subjects, states, refused)
        return [*rows, (self.into(target)[-1], list(refused))] if refused else rows

    schedule = parse("brokers 3\nduration 10\nsteady yes\n2 create a 2 1,2\n4 break 2 0 for 3\n4 delete a")
    assert run(schedule).violation is None
    monkeypatch.setattr(Table, "sort", sort)
    violation = run(schedule).violation
    assert violation is not None and violation.invariant == "state changes are valid"
    assert "from ReplicaDeletionSuccessful to OnlineReplica" in violation.text
