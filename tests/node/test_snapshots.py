"""Replay whole nodes from snapshots: traces whose beginning was removed, and the state of any actor at any moment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.cli.app import run
from actors.node.node import NodeActor
from actors.runtime.trace.replayer import replay_run
from messages.trace.files.runs import find_runs, snapshots
from messages.zookeeper import RequestTopicDeletion
from tests.node.test_assembly import World, controller, create_topic
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run three nodes with topic creations, topic deletions and failovers. Only the end of each trace is kept."""
    place = tmp_path_factory.mktemp("lived")
    world = World.of(place, trace_max_bytes=120_000)
    world.scheduler.run(5.0)
    for chapter in range(8):
        create_topic(world.zookeeper)
        world.scheduler.run(5.0)
        if chapter % 3 == 2:
            world.stores[controller(world.zookeeper)].expire()
            world.scheduler.run(25.0)
        with Client(MemoryStore(world.zookeeper)) as admin:
            admin.ask(RequestTopicDeletion("t"))
        world.scheduler.run(5.0)
    world.stop(0, 1, 2)
    return place


def test_a_run_without_its_beginning_is_replayed_from_any_snapshot(lived: Path) -> None:
    runs = find_runs(lived).runs
    assert len(runs) == 3 and any(each.removed for each in runs)
    for each in runs:
        found = snapshots(each)
        assert len(found) >= 3
        for begin in (None, found[0].after + 1, found[-2].after + 1):
            replayed = replay_run(each, (NodeActor,), begin)
            assert replayed.ok, replayed.divergence or replayed.problem
            assert replayed.complete and replayed.deliveries > 50
            assert replayed.began or not each.removed


def test_what_an_actor_holds_is_shown_at_two_moments(lived: Path, capsys: pytest.CaptureFixture[str]) -> None:
    which = ["replay", str(lived), "--node", "0"]
    first, *_, late, _ = snapshots(next(each for each in find_runs(lived).runs if each.header.node == 0))
    held = []
    for until in (first.after + 1, late.after + 1):
        assert run([*which, "--until", str(until), "--state", "ZkBridgeActor"]) == 0
        shown = capsys.readouterr()
        assert f"stopped before delivery {until + 1}" in shown.err
        held.append(json.loads(shown.out))
    assert held[0].keys() == held[1].keys()
    assert held[0] != held[1]


def test_a_replay_stops_where_a_message_comes(lived: Path, capsys: pytest.CaptureFixture[str]) -> None:
    which = ["replay", str(lived), "--node", "0"]
    assert run([*which, "--break", "TopicChange", "--state", "TopicDeletionActor"]) in (0, 1)
    shown = capsys.readouterr()
    assert ("TopicChange" in shown.err) and ("nothing delivered" in shown.err or json.loads(shown.out))
    assert run([*which, "--break", "Nothing"]) == 1
    assert "nothing delivered is a Nothing" in capsys.readouterr().err
    assert run([*which, "--state", "PartitionActor.999999"]) == 1
    assert "there is not exactly one actor" in capsys.readouterr().err
    assert run(["replay", str(lived), "--until", "5"]) == 1
    assert "select one with --run or --node" in capsys.readouterr().err
