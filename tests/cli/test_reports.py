"""`replay`, `summary` and `status`: what they print, and how they end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from actors.cli import status, summary
from actors.cli.app import run
from messages.cluster import (
    Broker,
    Endpoint,
    LeaderIsrAndControllerEpoch,
    Leadership,
    PartitionAssignment,
    ReplicaAssignment,
    TopicPartition,
)
from messages.zookeeper import (
    CreatePartitionStates,
    CreateTopic,
    Elect,
    EnsurePaths,
    NodeRegistration,
    RegisterBroker,
    RegisterNode,
    RequestTopicDeletion,
    TopicAssignment,
)
from spark.summary import ElectionRow, LeadershipRow, MessageRow, RunRow, Summary
from tests.trace.small_system import Clock, Small
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper


def test_a_replay_without_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = Small(tmp_path / "trace", node=4)
    small.live()
    small.recorder.close()
    assert run(["replay", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "│ same" in out
    assert out.splitlines()[-1].startswith("1 runs, ")
    assert out.endswith(" 0 divergences\n")
    assert run(["replay", str(tmp_path), "--node", "5"]) == 1
    assert "no recorded run of node 5" in capsys.readouterr().err


def test_a_replay_with_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path / "trace")
    small.live()
    small.recorder.close()
    monkeypatch.setattr("tests.trace.small_system.Boss.topics", lambda self: iter(()))
    assert run(["replay", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "│ DIVERGED" in out
    assert "diverged at delivery" in out
    assert "recorded:" in out
    assert "replayed:" in out
    assert out.endswith(" 1 divergences\n")


def test_nothing_to_replay_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(tmp_path)]) == 1
    assert "holds no recorded run" in capsys.readouterr().err
    assert run(["replay", str(tmp_path / "missing")]) == 2
    assert run(["summary", str(tmp_path / "missing")]) == 2


def test_a_summary_in_tables_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leaderships = tuple(LeadershipRow(1.7e9 + n, 0, "t", n, 1, 0, 1) for n in range(100))
    found = Summary(
        runs=(RunRow(0, "node0-x", 12, 1.7e9, 1.7e9 + 5, complete=False),),
        messages=(
            MessageRow("ControllerActor", "Startup", 1, 0, 0.001, 0.001, 0.0),
            MessageRow("ControllerActor", "BrokerChange", 7, 1, 0.0123, 0.004, 0.5),
        ),
        events=(),
        requests=(),
        elections=(ElectionRow(1.7e9, 0, 3),),
        leadership=leaderships,
        malformed=2,
        unreadable=("a/b.zst: torn",),
    )
    monkeypatch.setattr(summary, "summarise", lambda path: found)
    assert run(["summary", str(tmp_path), "--json", str(tmp_path / "out.json")]) == 0
    out = capsys.readouterr().out
    assert out.index("BrokerChange") < out.index("Startup"), "the most frequent come first"
    assert "12.3" in out
    assert "Leaderships (the first 60 of 100)" in out
    assert "Requests to brokers" not in out
    assert "2 malformed lines were not counted\nnot readable: a/b.zst: torn\n" in out
    assert len(json.loads((tmp_path / "out.json").read_text())["leadership"]) == 100


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A ZooKeeper in memory, which the command finds behind any address."""
    client = Client(MemoryStore(MemoryZooKeeper()))
    client.ask(EnsurePaths())

    @contextmanager
    def zookeeper(address: str) -> Iterator[Any]:
        yield client.ask

    monkeypatch.setattr(status, "zookeeper", zookeeper)
    return client.ask


def test_the_status_of_an_empty_cluster(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--zookeeper", "memory"]) == 0
    assert capsys.readouterr().out.startswith(
        "Controller: none, epoch 0\nTopics: 0\nPartitions: online 0, offline 0, under-replicated 0\n"
    )


def test_the_status_of_a_cluster(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    registry = CollectorRegistry()
    Gauge("kafka_controller_controllereventmanager_eventqueuesize", "events", registry=registry).set(3)
    queues = Gauge("kafka_controller_controllerchannelmanager_queuesize", "requests", ["broker_id"], registry=registry)
    queues.labels("1").set(5)
    Gauge("kafka_something_else", "no queue", registry=registry).set(9)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        for number in (0, 1):
            broker = Broker(number, (Endpoint("PLAINTEXT", "127.0.0.1", 9092 + number),), rack=f"rack-{number}")
            ask(RegisterBroker(broker, timestamp_ms=Clock().wall_ms(), ibp="2.6"))
        ask(RegisterNode(NodeRegistration(0, ("broker", "controller"), "127.0.0.1", server.server_port, 1)))
        ask(RegisterNode(NodeRegistration(1, ("broker",), "127.0.0.1", 1, 2)))
        replicas = ReplicaAssignment((0, 1))
        ask(CreateTopic(TopicAssignment("t", tuple(PartitionAssignment(n, replicas) for n in range(5)))))
        elected = ask(Elect(1, 0))
        led = {0: (0, (0, 1)), 1: (0, (0,)), 2: (-1, (1,)), 3: (7, (7,))}
        states = tuple(
            Leadership(TopicPartition("t", n), LeaderIsrAndControllerEpoch(leader, 0, isr, 1))
            for n, (leader, isr) in led.items()
        )
        ask(CreatePartitionStates(states, elected.epoch_zk_version))
        ask(RequestTopicDeletion("t"))
        assert run(["status", "--zookeeper", "memory"]) == 0
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    out = capsys.readouterr().out
    assert out.startswith(
        "Controller: node 1, epoch 1\nTopics: 1, 1 to delete\n"
        "Partitions: online 2, offline 2, under-replicated 1, not yet led 1\n"
    )
    assert "PLAINTEXT://127.0.0.1:9093 │ rack-1" in out
    assert "controller events: 3, requests to broker 1: 5 " in out
    assert "http://127.0.0.1:1/metrics does not answer" in out
    assert "no queue" not in out
