"""`replay`, `summary` and `status`: their output and exit codes."""

from __future__ import annotations

import io
import json
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server
from rich.console import Console

from actors.cli import display, status, summary
from actors.cli.app import run
from actors.core.controller.gauges import FAILED_EVENTS
from messages import cluster
from messages.store import ANY_VERSION, CREATE, DELETE, StoreWrite, WriteOp
from messages.trace.schema import INPUTS
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
from spark.incidents import EXAMINED
from spark.results import QueryResult, Summary
from tests.trace.altering import kill
from tests.trace.small_system import ACTORS, Clock, Small
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper


@pytest.fixture(autouse=True)
def small_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `replay` accept the actors of the small system instead of a node's."""
    monkeypatch.setattr("actors.cli.replay.ACTORS", ACTORS)


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


def test_a_killed_run_is_reported_as_ended_early(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = Small(tmp_path / "trace")
    small.live()
    kill(small.recorder)
    assert run(["replay", str(tmp_path)]) == 0
    assert "killed: recording ended early" in capsys.readouterr().out


def test_a_replay_restores_what_a_trace_of_inputs_omits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = Small(tmp_path / "trace", node=4, detail=INPUTS)
    small.live()
    small.recorder.close()
    assert run(["trace", "expand", str(tmp_path / "trace"), "--to", str(tmp_path / "full")]) == 0
    assert "│ same" in capsys.readouterr().out
    assert run(["replay", str(tmp_path / "full")]) == 0
    assert run(["trace", "expand", str(tmp_path), "--to", str(tmp_path / "more")]) == 1
    assert "Choose a folder outside it" in capsys.readouterr().err
    assert run(["trace", "expand", str(tmp_path / "full"), "--to", str(tmp_path / "a"), "--node", "9"]) == 1


def test_nothing_to_replay_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(tmp_path)]) == 1
    assert "contains no recorded run" in capsys.readouterr().err
    assert run(["replay", str(tmp_path / "missing")]) == 2
    assert run(["summary", str(tmp_path / "missing")]) == 2


def test_a_run_of_another_schema_is_refused_by_its_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.runtime.trace.recorder.SCHEMA_VERSION", 99)
    Small(tmp_path / "trace").recorder.close()
    assert run(["replay", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "schema version 99" in out and "contains no readable run" in err
    assert "damage" not in out + err


def test_a_summary_in_tables_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_columns = ("node", "run", "deliveries", "first_at", "last_at", "ending", "detail")
    gone_columns = (
        *("broker", "died_at", "ending", "seen_s", "after", "was_controller", "still_leaderless", "p99_ms"),
        *("seen_by", "partitions", "led_again_s", "p50_s", "partition_seconds", "back_at", "topics"),
    )
    found = Summary(
        {
            **dict.fromkeys(EXAMINED, QueryResult()),
            "runs": QueryResult(run_columns, ((0, "node0-x", 12, 1.7e9, 1.7e9 + 5, "killed", "full"),)),
            "episodes": QueryResult(
                gone_columns,
                (
                    (1, 1.7e9, "killed", 6.0, "Elected", True, 1, 12.34, 2, 3, 6.5, 6.5, 13.0, None, 1),
                    (0, 1.7e9, None, 0.0, "BrokerChange", False, 0, None, 2, 0, None, None, None, None, 0),
                ),
            ),
            "requests": QueryResult(("node", "broker", "count")),
            "unavailable": QueryResult(),
            "messages": QueryResult(("topic", "partition", "share"), (("t", 3, 0.125),)),
            "leadership": QueryResult(("at", "topic", "partition"), tuple((1.7e9 + n, "t", n) for n in range(100))),
        },
        malformed=2,
        unreadable=("a/b.zst: torn",),
        damage=("a/c.zst, byte 9: torn",),
    )
    monkeypatch.setattr(summary, "_read", lambda logs, directory, master, **options: found)
    assert run(["summary", str(tmp_path), "--json", str(tmp_path / "out.json")]) == 1
    out = capsys.readouterr().out
    assert "Leaders over time (the first 60 of 100)" in out
    died = datetime.fromtimestamp(1.7e9).strftime("%Y-%m-%d %H:%M:%S.000")
    said = f"Broker 1, the controller, was killed at {died}. 3 partitions lost their leader. At most 6.5 s without"
    assert said in " ".join(out.split()) and "Not over: brokers 0, 1 are gone." in out
    assert "Requests to brokers" not in out, "nothing to tell"
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    killed = "killed: recording ended early"
    assert [
        "1",
        died,
        killed,
        "6.000",
        "Elected",
        "yes",
        "1",
        "12.3",
        "2",
        "3",
        "6.500",
        "6.500",
        "13.000",
        "",
        "1",
    ] in cells
    assert ["0", died, "", "0.000", "BrokerChange", "", "0", "", "2", "0", "", "", "", "", "0"] in cells
    assert ["t", "3", "12.5%"] in cells
    assert killed in " ".join(out.replace("│", " ").split())
    assert "not counted after a damaged place: a/c.zst, byte 9: torn\n2 malformed" in out
    assert "2 malformed lines were not counted\nnot readable: a/b.zst: torn\n" in out
    assert len(json.loads((tmp_path / "out.json").read_text())["leadership"]) == 100


@pytest.fixture
def tree() -> MemoryZooKeeper:
    """Return an in-memory ZooKeeper."""
    return MemoryZooKeeper()


@contextmanager
def tree_session(tree: MemoryZooKeeper) -> Iterator[Any]:
    """Yield `write(path, data)`, which writes data that no request of the bridge would write."""
    news: queue.SimpleQueue[Any] = queue.SimpleQueue()
    store = MemoryStore(tree)
    store.start(news.put)

    def write(path: str, data: bytes) -> None:
        for kind in (DELETE, CREATE):
            store.submit(StoreWrite(1, (WriteOp(kind, path, data if kind == CREATE else None, ANY_VERSION),)))

    yield write
    store.stop()


@pytest.fixture
def ask(tree: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the `ask` of a client, which the command uses for any address."""
    client = Client(MemoryStore(tree))
    client.ask(EnsurePaths())

    @contextmanager
    def zookeeper(address: str) -> Iterator[Any]:
        yield client.ask

    monkeypatch.setattr(status, "zookeeper_at", zookeeper)
    return client.ask


@contextmanager
def metrics(registry: CollectorRegistry) -> Iterator[int]:
    """Serve a node's metrics, and yield the port."""
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def register(ask: Any, number: int, port: int, host: str = "127.0.0.1") -> None:
    """Register a broker and node of this project with this address of its metrics."""
    broker = cluster.Broker(number, (cluster.Endpoint("PLAINTEXT", "127.0.0.1", 9092 + number),), rack=f"rack-{number}")
    ask(RegisterBroker(broker, timestamp_ms=Clock().wall_ms(), ibp="2.6"))
    ask(RegisterNode(NodeRegistration(number, ("broker", "controller"), host, port, 1)))


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the JSON of `status --json`."""
    assert run(["status", "--zookeeper", "h:1", "--json", "--exit-zero"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_the_status_of_an_empty_cluster(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--zookeeper", "h:1"]) == 1
    assert capsys.readouterr().out.startswith(
        "Health: bad: no controller\nController: none, controller epoch 0\nTopics: 0\n"
        "Partitions: online 0, offline 0, under-replicated 0\n"
    )


def test_the_status_of_a_cluster(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    registry = CollectorRegistry()
    Gauge("kafka_controller_controllereventmanager_eventqueuesize", "events", registry=registry).set(3)
    queues = Gauge("kafka_controller_controllerchannelmanager_queuesize", "requests", ["broker_id"], registry=registry)
    queues.labels("1").set(5)
    Gauge("kafka_something_else", "no queue", registry=registry).set(9)
    Gauge("kafka_actors_trace_failed", "trace", ["reason"], registry=registry).labels("the disk is full").set(1)
    Gauge(FAILED_EVENTS, "events", ["event"], registry=registry).labels("TopicChange").set(3)
    with metrics(registry) as port:
        register(ask, 0, port)
        register(ask, 1, 1)
        replicas = cluster.ReplicaAssignment((0, 1))
        ask(CreateTopic(TopicAssignment("t", tuple(cluster.PartitionAssignment(n, replicas) for n in range(5)))))
        internal = (cluster.PartitionAssignment(0, replicas),)
        ask(CreateTopic(TopicAssignment("__consumer_offsets", internal)))
        elected = ask(Elect(1, 0))
        led = {0: (0, (0, 1)), 1: (0, (0,)), 2: (-1, (1,)), 3: (7, (7,))}
        states = tuple(
            cluster.Leadership(cluster.TopicPartition("t", n), cluster.LeaderIsrAndControllerEpoch(leader, 0, isr, 1))
            for n, (leader, isr) in led.items()
        )
        lost = cluster.LeaderIsrAndControllerEpoch(-1, 0, (1,), 1)
        states += (cluster.Leadership(cluster.TopicPartition("__consumer_offsets", 0), lost),)
        ask(CreatePartitionStates(states, elected.epoch_zk_version))
        ask(RequestTopicDeletion("t"))
        assert run(["status", "--zookeeper", "h:1", "--json"]) == 1
        capsys.readouterr()
        assert run(["status", "--zookeeper", "h:1"]) == 1
        out = capsys.readouterr().out
        said = shown(capsys)
    assert out.startswith(
        "Health: bad: offline partitions: 3; not yet led: 1; under-replicated: 1; node 0: the disk is full; "
        "node 0 cannot handle TopicChange (raised 3x)\n"
        "Controller: node 1, controller epoch 1\nTopics: 2, 1 to delete\n"
        "Partitions: online 2, offline 3, under-replicated 1, not yet led 1\n"
        "Offline: t-2, t-3, __consumer_offsets-0\nUnder-replicated: t-1\n"
    )
    assert "PLAINTEXT://127.0.0.1:9093 │ rack-1" in out
    assert "broker epoch" in out
    assert "controller events: 3, requests to broker 1: 5 " in out
    assert "http://127.0.0.1:1/metrics does not answer" in out
    assert "no queue" not in out
    assert (said["health"], said["controller"], said["epoch"]) == ("bad", 1, 1)
    assert said["partitions"] == {
        "online": 2,
        "offline": ["t-2", "t-3", "__consumer_offsets-0"],
        "new": ["t-4"],
        "under_replicated": ["t-1"],
    }
    node_0, node_1 = said["nodes"]
    assert node_0["queues"] == {"controller events": 3, "requests to broker 1": 5}
    assert node_0["not_recording"] == "the disk is full"
    assert node_0["failed_events"] == {"TopicChange": 3} and node_1["failed_events"] == {}
    assert "does not answer" in node_1["missing"] and not node_1["queues"]


def test_a_healthy_cluster_is_reported_as_healthy(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with metrics(CollectorRegistry()) as port:
        register(ask, 0, port)
        ask(Elect(0, 0))
        assert run(["status", "--zookeeper", "h:1"]) == 0
    assert capsys.readouterr().out.startswith("Health: good\nController: node 0, controller epoch 1\n")


def test_a_watch_looks_again_until_it_is_interrupted(
    ask: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        ask(Elect(len(slept), len(slept) - 1))
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", sleep)
    assert run(["status", "--zookeeper", "h:1", "--watch", "7", "--json"]) == 130
    assert slept == [7, 7]
    assert [json.loads(line)["controller"] for line in capsys.readouterr().out.splitlines()] == [None, 1]


def test_torn_registrations_cost_only_themselves_and_steer_no_terminal(
    ask: Any, tree: MemoryZooKeeper, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(RegisterNode(NodeRegistration(4, ("bro\x1b[2Jker",), "127.0.0.1", 1, 1)))
    ask(RegisterNode(NodeRegistration(3, (), "", 0, 1)))
    with tree_session(tree) as write:
        write("/kafka-actors/nodes/3", b"{torn \x1b[2J")
        write("/kafka-actors/nodes/evil\x1b[31m", b"{}")
    assert run(["status", "--zookeeper", "h:1"]) == 1
    out = capsys.readouterr().out
    assert "cannot be read: node 3, node evil\\x1b[31m" in out
    assert "bro\\x1b[2Jker" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("host", "broker_at", "asked"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("kafka-1", "kafka-1", True),
        ("127.0.0.1", socket.gethostname(), True),
        ("127.0.0.1", "192.0.2.1", False),
        ("192.0.2.7", "127.0.0.1", False),
        ("localhost:80/?", "localhost", False),
    ],
)
def test_metrics_are_fetched_only_where_a_broker_is_registered(host: str, broker_at: str, asked: bool) -> None:
    node = NodeRegistration(1, ("broker",), host, 9999, 1)
    broker = cluster.Broker(1, (cluster.Endpoint("PLAINTEXT", broker_at, 9092),))
    assert status.may_fetch_metrics(node, (broker,)) is asked
    assert not status.may_fetch_metrics(attrs.evolve(node, metrics_host="198.51.100.1"), (broker,))
    if not asked:
        assert "is not asked" in status.scrape(node, (broker,)).missing


def test_metrics_are_read_from_registered_addresses_only(capsys: pytest.CaptureFixture[str]) -> None:
    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/secret")
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        broker = cluster.Broker(1, (cluster.Endpoint("PLAINTEXT", "127.0.0.1", 9092),))
        node = NodeRegistration(1, ("broker",), "127.0.0.1", server.server_port, 1)
        assert status.scrape(node, (broker,)).missing.endswith("answers 302")
        thread.join()


def test_tables_fit_into_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    narrow = Console(file=out, width=80, force_terminal=True, color_system=None, highlight=False, soft_wrap=True)
    monkeypatch.setattr(display, "console", lambda: narrow)
    columns = ("node", "run", "clean stop", "deliveries", "inputs", "timers", "messages", "effects", "result")
    row = (0, "node0-20261121T155116.123456-12345", "yes", 1234567, 123456, 12345, 123456, 123456, "same")
    narrow.print(display.table("Runs", columns, [row]))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "1234567" in out.getvalue() and "deliveries" in out.getvalue(), "no number and no heading is folded"
