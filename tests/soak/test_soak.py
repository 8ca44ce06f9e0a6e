"""A seeded soak of real processes: after random faults, the cluster has no errors, and its traces replay.

`make soak` runs it for ten minutes; options --soak-seconds and --soak-seed.
"""

from __future__ import annotations

import faulthandler
import random
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.cluster.processes import run_ours
from tests.soak import load
from tests.soak.cluster import NODES, Soak, end, inject_faults
from tests.soak.cluster_state import ClusterState, Metadata, State, problems
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper


@pytest.fixture
def soak(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Soak]:
    seed = pytestconfig.getoption("soak_seed")
    print(f"--soak-seed {seed}", flush=True)
    faulthandler.cancel_dump_traceback_later()  # the limit for other tests does not apply; each wait has a deadline
    with EmbeddedZooKeeper(tmp_path / "zookeeper", force_sync=False) as server:
        zk = PatientZooKeeperClient(server.connect_string)
        zk.start(20)
        made = Soak(tmp_path / "cluster", random.Random(seed), server, zk)
        for node in range(NODES):
            made.start(node)
        try:
            made.come_to_rest()
            made.begin_load()
            yield made
        finally:
            if made.load is not None:
                made.load.end()
            for running in made.nodes.values():
                running.kill()
            zk.stop()
            zk.close()


@pytest.mark.soak
def test_a_cluster_under_faults_recovers_and_replays(soak: Soak, pytestconfig: pytest.Config) -> None:
    ends = time.monotonic() + pytestconfig.getoption("soak_seconds")
    rounds = 0
    while time.monotonic() < ends:
        inject_faults(soak)
        rounds += 1
    end(soak)
    assert rounds
    assert soak.load is not None
    soak.say(f"{rounds} rounds, {soak.load.count} records")
    for log in sorted(soak.directory.glob("node-*/out.log")):
        assert unwanted(log.read_text(errors="replace")) == [], log
    soak.say("replay")
    replayed = run_ours("replay", str(soak.directory))
    soak.say(replayed.stdout.strip().splitlines()[-1])
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert ", 0 divergences" in replayed.stdout


def unwanted(said: str) -> list[str]:
    """Return tracebacks and unknown settings in a node's log, 40 lines each; the whole log would hide them."""
    lines = said.splitlines()
    return [
        "\n".join(lines[at : at + 40])
        for at, line in enumerate(lines)
        if "Traceback" in line or "is no known setting" in line
    ]


# --------------------------------------------------------------------------------------------- tests of the checks


def good() -> ClusterState:
    """Return a snapshot without errors. Nodes 0 and 1 are up; node 2, the only replica of u-0, is down."""
    reported = Metadata(
        0, {("t", 0): 0, ("u", 0): -1}, {("t", 0): (2, 0, 1), ("u", 0): (2,)}, {("t", 0): (0, 1), ("u", 0): (2,)}
    )
    return ClusterState(
        up=frozenset({0, 1}),
        registered=frozenset({0, 1}),
        controller=0,
        epoch=3,
        epoch_version=2,
        assigned={("t", 0): (2, 0, 1), ("u", 0): (2,), ("v", 0): (2,)},
        states={("t", 0): State(0, 1, (0, 1), 3, 1), ("u", 0): State(-1, 1, (2,), 3, 1)},
        metadata={0: reported, 1: reported},
        directories={0: frozenset({("t", 0)}), 1: frozenset({("t", 0)})},
        logs={("t", 0): {0: "abc", 1: "abc"}, ("u", 0): {}},
    )


def test_a_cluster_at_rest_causes_no_complaint() -> None:
    assert problems(good()) == []
    assert problems(good(), good()) == []


def with_state(**changed: object) -> ClusterState:
    states = {**good().states, ("t", 0): attrs.evolve(good().states["t", 0], **changed)}
    return attrs.evolve(good(), states=states)


def reported(**changed: object) -> ClusterState:
    return attrs.evolve(good(), metadata={**good().metadata, 1: attrs.evolve(good().metadata[1], **changed)})


@pytest.mark.parametrize(
    ("cluster_state", "problem"),
    [
        (attrs.evolve(good(), registered=frozenset({0, 1, 2})), "registered are [0, 1, 2]"),
        (attrs.evolve(good(), registered=frozenset({0})), "registered are [0]"),
        (attrs.evolve(good(), controller=2), "/controller names 2"),
        (attrs.evolve(good(), leftovers=("/config/topics/gone",)), "/config/topics/gone is still there"),
        (attrs.evolve(good(), states={("u", 0): good().states["u", 0]}), "('t', 0): no state"),
        (attrs.evolve(good(), assigned={("t", 0): (2, 0), ("u", 0): (2,)}), "ISR (0, 1) of replicas (2, 0)"),
        (attrs.evolve(good(), assigned={("u", 0): (2,)}), "ISR (0, 1) of replicas None"),
        (attrs.evolve(good(), epoch=2, epoch_version=1), "written by controller epoch 3, which is 2"),
        (with_state(leader=-1), "no leader, though [0, 1] of the ISR live"),
        (with_state(leader=2), "leader 2"),
        (with_state(isr=(0, 1, 2)), "leader 0, ISR (0, 1, 2)"),
        (with_state(isr=()), "ISR () of"),
        (with_state(leader_epoch=2), "leader epoch 2 after 1 writes"),
        (with_state(isr=(0,)), "ISR (0,) of replicas (2, 0, 1), up are [0, 1]"),
        (attrs.evolve(good(), logs={("t", 0): {0: "abc", 1: "abd"}}), "('t', 0): the logs of its ISR differ"),
        (attrs.evolve(good(), metadata={0: good().metadata[0]}), "node 1 does not answer"),
        (reported(controller=1), "node 1 says that 1 is controller"),
        (reported(leaders={("t", 0): 1, ("u", 0): -1}), "node 1 has other leaders"),
        (reported(leaders={("t", 0): 0}), "node 1 has other leaders"),
        (reported(replicas={("t", 0): (0, 1), ("u", 0): (2,)}), "node 1 has other replicas"),
        (reported(isr={**good().metadata[1].isr, ("gone", 0): (0,)}), "node 1 has other ISR"),
        (attrs.evolve(good(), directories={**good().directories, 1: frozenset()}), "node 1: directories"),
        (attrs.evolve(good(), directories={**good().directories, 0: frozenset({("t", 0), ("x", 1)})}), "('x', 1)"),
    ],
)
def test_every_error_is_reported(cluster_state: ClusterState, problem: str) -> None:
    found = problems(cluster_state)
    assert [each for each in found if problem in each], found


def test_epochs_grow_by_one_at_each_write_and_never_back() -> None:
    assert problems(attrs.evolve(good(), epoch=5, epoch_version=4), good()) == []
    (jump,) = problems(attrs.evolve(good(), epoch=5, epoch_version=3), good())
    assert jump == "/controller_epoch grew from 3 to 5 by 1 writes"
    (back,) = problems(with_state(controller_epoch=2, leader_epoch=2, version=2), good())
    assert back == "('t', 0): the controller epoch went back"
    assert problems(with_state(controller_epoch=2, leader_epoch=0, version=0, created=1), good()) == []


def test_leader_epochs_grow_at_each_election_and_never_back() -> None:
    """The leader's writes of the ISR do not change the leader epoch."""
    ours = good().states["t", 0]
    for leader, epoch, version in ((ours.leader, 1, 5), (ours.leader, 2, 2), (1, 2, 4)):
        now = with_state(leader=leader, leader_epoch=epoch, version=version)
        assert not [each for each in problems(now, good()) if "elections" in each]
    for leader, epoch, version in ((ours.leader, 3, 2), (1, 1, 2), (ours.leader, 0, 2)):
        now = with_state(leader=leader, leader_epoch=epoch, version=version)
        assert [each for each in problems(now, good()) if "elections" in each]


RECORDS = {0: [(0, b"a"), (1, b"b")], 1: [(0, b"c")]}


def test_records_that_are_as_they_were_acknowledged_cause_no_complaint() -> None:
    assert load.problems({0: {0: b"a", 1: b"b"}, 1: {0: b"c"}}, RECORDS) == []
    assert load.problems({0: {1: b"b"}}, RECORDS) == [], "what was not acknowledged may be there"


@pytest.mark.parametrize(
    ("acknowledged", "read", "problem"),
    [
        ({0: {2: b"z"}}, RECORDS, "0: b'z' acknowledged at 2, where None is"),
        ({0: {1: b"z"}}, RECORDS, "0: b'z' acknowledged at 1, where b'b' is"),
        ({}, {**RECORDS, 1: [(1, b"c")]}, "1: offsets are not 0 to 0"),
        ({}, {**RECORDS, 1: [(0, b"c"), (1, b"a")]}, "b'a' is at (0, 0) and at (1, 1)"),
    ],
)
def test_records_that_are_lost_moved_or_doubled_are_complained_of(
    acknowledged: dict[int, dict[int, bytes]], read: dict[int, list[load.Row]], problem: str
) -> None:
    assert load.problems(acknowledged, read) == [problem]
