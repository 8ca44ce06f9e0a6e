"""Simulated clusters, our processes and mixed clusters have the same state as Apache's after each line of a scenario.

The soak test `tests/soak/test_agreement.py` runs all scenarios on all kinds of clusters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.agreement.cluster import BROKERS
from tests.agreement.processes import ClusterPool, Processes
from tests.agreement.scenario import INTERRUPTED, SCENARIOS, STEPS, Play, Scenario, office, seat
from tests.agreement.simulated import check_simulated
from tests.agreement.tree import changed, difference, tree, without_queued, without_terms
from tests.cluster.load import Load, records
from tests.simulation.test_scenarios import situations
from tests.waiting import until

REAL = "create recreate reassign broker-loss delete-failover zombie".split()
"""The scenarios that `make test` runs on our processes."""

BESIDE_APACHE = "reassign failover-broker-loss".split()
"""The scenarios that `make interop` runs on each mixed kind."""


def named(names: list[str]) -> list[Scenario]:
    """Return the scenarios with these names, in this order."""
    by_name = {each.name: each for each in SCENARIOS}
    return [by_name[name] for name in names]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    made = ClusterPool(tmp_path_factory.mktemp("pool"))
    yield made
    made.end()


@pytest.fixture(scope="module")
def mixed_clusters(tmp_path_factory: pytest.TempPathFactory, apache_jars: Path) -> Iterator[ClusterPool]:
    made = ClusterPool(tmp_path_factory.mktemp("pool"), apache_jars)
    yield made
    made.end()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_each_scenario_holds_in_the_simulated_cluster(scenario: Scenario, tmp_path: Path) -> None:
    check_simulated(scenario, tmp_path)


@pytest.mark.parametrize("scenario", INTERRUPTED, ids=lambda each: each.name)
def test_simulated_with_a_controller_lost_in_the_middle(scenario: Scenario, tmp_path: Path) -> None:
    check_simulated(scenario, tmp_path, falling=0.02)


@pytest.mark.parametrize("scenario", named(REAL), ids=lambda each: each.name)
def test_on_nodes_of_ours(scenario: Scenario, pool: ClusterPool) -> None:
    with pool.on("ours") as cluster:
        Play(cluster, scenario).check()


@pytest.mark.apache
@pytest.mark.parametrize("kind", ["ours-under-apache", "apache-under-ours"])
def test_each_scenario_ends_as_in_apaches_cluster(kind: str, mixed_clusters: ClusterPool) -> None:
    for scenario in named(BESIDE_APACHE):
        with mixed_clusters.on(kind) as cluster:
            Play(cluster, scenario).check()


@pytest.mark.apache
def test_the_controller_moves_from_apache_to_ours_and_back_under_load(mixed_clusters: ClusterPool, kcat: str) -> None:
    """The controllers are Apache's, ours, Apache's, ours. Each creates a topic, and each move raises the epoch by one.

    No acknowledged record is lost, and no partition changes its leader, leader epoch or ISR.
    """
    with mixed_clusters.on("apache-under-ours") as cluster:
        seat(cluster, "0")
        first = controller_epoch(cluster)
        do(cluster, "create moved 0,1,2 1,2,0 2,0,1")
        led = [{"leader": leader, "leader_epoch": 0, "isr": [0, 1, 2]} for leader in (0, 1, 2)]
        until(lambda: states(cluster, "moved"), lambda seen: seen == led, "led")
        load = Load(",".join(f"127.0.0.1:{cluster.ports[node]}" for node in BROKERS), "moved")
        load.until_acknowledged(200)
        for count, node in enumerate((3, 1, 4), 1):
            with ThreadPoolExecutor(1) as pool:
                moving = pool.submit(seat, cluster, str(node))
                while not moving.done():
                    load.until_acknowledged(len(load.acknowledged) + 1)
            moving.result()
            assert office(cluster) == node
            assert controller_epoch(cluster) == first + count
            do(cluster, f"create under-{node} 0,1")
            until(lambda node=node: states(cluster, f"under-{node}"), what=f"{node} does its work")
            load.until_acknowledged(len(load.acknowledged) + 200)
            assert states(cluster, "moved") == led
        load.settle()
        read = [value for _, _, value in records(f"127.0.0.1:{cluster.ports[0]}", "moved")]
        assert set(load.acknowledged) <= set(read)
        assert len(read) == len(set(read))
        for topic in ("moved", "under-3", "under-1", "under-4"):
            do(cluster, f"delete {topic}")
            until(lambda topic=topic: not cluster.exists(f"/brokers/topics/{topic}"), what=f"{topic} is deleted")


def do(cluster: Processes, step: str) -> None:
    name, *words = step.split()
    STEPS[name](cluster, *words)


def controller_epoch(cluster: Processes) -> int:
    return int(cluster.zookeeper.read("/controller_epoch").data or b"0")


def states(cluster: Processes, topic: str) -> list[dict[str, Any]]:
    """Return the leader, the leader epoch and the sorted ISR of each partition."""
    found = [
        json.loads(data)
        for path, data in sorted(cluster.zookeeper.walk())
        if path.startswith(f"/brokers/topics/{topic}/") and path.endswith("/state") and data
    ]
    return [{**{name: each[name] for name in ("leader", "leader_epoch")}, "isr": sorted(each["isr"])} for each in found]


# ---------------------------------------------------------------------------------------------------- the scenarios


STAYS = re.compile(r"/config/changes/config_change_\*|/controller|/controller_epoch")
"""What may differ at the end: the controller, its epoch, and config changes, which Kafka removes after 15 minutes."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_no_znode_is_left_behind(scenario: Scenario) -> None:
    left = [line for line in scenario.changes()[-1] if not STAYS.fullmatch(line.partition(" ")[0])]
    assert not left or scenario.settings, "what cannot be deleted stays"


def test_every_situation_of_a_deletion_has_its_scenario() -> None:
    """The exception is a replica's error, which takes a scripted broker or a broken disk (tests/scenarios)."""
    said = "".join(scenario.above for scenario in SCENARIOS)
    assert [row for row in situations() if f'"{row}"' not in said] == ["StopReplica partition error"]


# ---------------------------------------------------------------------------------------------------- the checker


STATE = b'{"controller_epoch":%d,"leader":1,"version":1,"leader_epoch":%d,"isr":[%s]}'
PATH = "/brokers/topics/t/partitions/0/state"


def test_a_tree_without_clocks_and_machines() -> None:
    """Controller epochs are relative, an ISR is a set, and `*` replaces the counter of a sequential znode."""
    one = tree([(PATH, STATE % (7, 3, b"2,1")), ("/isr_change_notification/isr_change_0000000003", b"{}")], 7)
    assert one == {
        PATH: '{"controller_epoch": 0, "isr": [1, 2], "leader": 1, "leader_epoch": 3, "version": 1}',
        "/isr_change_notification/isr_change_*": "{}",
    }
    assert tree([("/controller", b'{"version":2,"brokerid":3,"timestamp":"5","kraftControllerEpoch":-1}')], 0) == tree(
        [("/controller", b'{"version":1,"brokerid":3,"timestamp":"6"}')], 0
    )
    assert tree([("/kafka-actors/nodes/3", b"x"), ("/migration", None)], 0) == {}


@pytest.mark.parametrize("other", [STATE % (2, 3, b"1,2"), STATE % (1, 4, b"1,2"), STATE % (1, 3, b"1")])
def test_what_the_protocol_decides_is_compared(other: bytes) -> None:
    before, now = (tree([(PATH, data)], 1) for data in (STATE % (1, 3, b"1,2"), other))
    (line,) = difference(before, now)
    assert line.startswith(f"{PATH} {{")


def test_a_missing_znode_is_reported_once() -> None:
    before, now = {"/a": "", "/a/b": "1", "/ab": "", "/c": "2"}, {"/ab": "", "/c": "3", "/d": "4"}
    assert difference(before, now) == ("/a is gone", "/c 3", "/d 4")
    assert changed(before, difference(before, now)) == now


def test_topics_that_are_to_be_deleted_may_be_left_out() -> None:
    there = {"/admin/delete_topics/t": "", "/brokers/topics/t/partitions": "", "t-0": "x", "/brokers/topics/u": "1"}
    assert without_queued(there) == {"/brokers/topics/u": "1"}
    assert without_terms({"/controller_epoch": "1", **tree([(PATH, STATE % (2, 4, b"1"))], 1)}) == without_terms(
        tree([(PATH, STATE % (1, 3, b"1"))], 1)
    )
