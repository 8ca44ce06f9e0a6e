"""The main job on real processes and a real ZooKeeper: a cluster starts, fails over, deletes a topic, and stops.

Its trace replays exactly and is summarised.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from actors.cli.app import run
from messages.trace.files.runs import find_runs
from messages.trace.schema import OUTSIDE
from tests.cluster.processes import OURS, Running, free_ports, run_ours, start_up
from tests.trace.altering import rows_of, write
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient

MADE = {f"made-{n}": None for n in range(6)}
ADMIN_ASSIGNMENT = {0: [2, 0, 1], 1: [0, 1], 2: [1]}
FLUSHED = 1.0
"""Seconds after which a trace file contains a delivery: it is flushed four times a second."""


@attrs.define
class Job:
    """The observations of one run of the main job."""

    directory: Path
    created: subprocess.CompletedProcess[str] | None = None
    kcat: str = ""
    confluent: dict[str, Any] = attrs.field(factory=dict)
    kafka_python: set[str] = attrs.field(factory=set)
    before: dict[str, bytes] = attrs.field(factory=dict)
    after: dict[str, bytes] = attrs.field(factory=dict)
    at_the_end: dict[str, bytes] = attrs.field(factory=dict)
    killed: int = -1
    epochs: tuple[int, int] = (0, 0)
    left_in_zookeeper: list[str] = attrs.field(factory=list)
    directories: list[str] = attrs.field(factory=list)
    exit_code: int = -1
    processes_left: list[int] = attrs.field(factory=list)


def states(zk: PatientZooKeeperClient) -> dict[str, bytes]:
    """Return the state znode of each partition by "topic-partition"."""
    found = {}
    for topic in zk.get_children("/brokers/topics"):
        for partition in sorted(zk.get_children(f"/brokers/topics/{topic}/partitions"), key=int):
            found[f"{topic}-{partition}"] = zk.get(f"/brokers/topics/{topic}/partitions/{partition}/state")[0]
    return found


def live_has_leader(zk: PatientZooKeeperClient, dead: int) -> dict[str, bytes] | None:
    """Return the states if each partition with a live replica in its ISR has a live leader; else None."""
    seen = states(zk)
    for raw in seen.values():
        state = json.loads(raw)
        if state["leader"] == dead or (state["leader"] == -1 and state["isr"] != [dead]):
            return None
    return seen


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory, kcat: str) -> Iterator[Job]:
    """Start a cluster, create two topics, kill and restart the controller, delete a topic, and stop cleanly."""
    place = tmp_path_factory.mktemp("job")
    seen = Job(place / "cluster")
    port = free_ports(3)[0]
    cluster, line = start_up(seen.directory, place / "up.log", "--brokers", "3", "--port", str(port))
    children = [cluster]
    try:
        with PatientZooKeeperClient.opened(line["zookeeper"]) as zk:
            _work(seen, place, line, zk, children)
    finally:
        for child in reversed(children[1:]):
            child.stop()
        seen.exit_code = cluster.stop()
    seen.processes_left = [broker["pid"] for broker in line["brokers"] if Path(f"/proc/{broker['pid']}").exists()]
    yield seen


def _work(seen: Job, place: Path, line: dict[str, Any], zk: PatientZooKeeperClient, children: list[Running]) -> None:
    connect, bootstrap = line["zookeeper"], ",".join(f"{b['host']}:{b['port']}" for b in line["brokers"])
    seen.created = run_ours(
        *("topics", "--zookeeper", connect, "--create", "--topic", "made", "--partitions", "6"),
        *("--replication-factor", "3"),
    )
    zk.create_topic("admin", ADMIN_ASSIGNMENT)
    seen.before = until(lambda: states(zk), lambda s: len(s) == 9, "leaders of both topics", ignore=(Exception,))
    reported = time.time()

    listing = ["kcat", "-L", "-b", bootstrap]
    seen.kcat = until(
        lambda: subprocess.run(listing, capture_output=True, text=True, timeout=20, check=True).stdout,
        lambda text: text.count("isrs:") == 9,
        "kcat lists nine partitions",
    )
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20)
    seen.confluent = {
        t.topic: {p.id: (p.leader, p.isrs) for p in t.partitions.values()} for t in metadata.topics.values()
    }
    consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","))
    seen.kafka_python = consumer.topics()
    consumer.close()

    seen.killed, epoch = zk.controller, int(zk.get("/controller_epoch")[0])
    segments = seen.directory / f"node-{seen.killed}" / "data.trace"
    until(
        lambda: max(file.stat().st_mtime for file in segments.rglob("*.trace.zst")) > reported + FLUSHED,
        what="the record of its requests is on the disk: a kill loses what is not written yet",
    )
    os.kill(next(b["pid"] for b in line["brokers"] if b["id"] == seen.killed), signal.SIGKILL)
    seen.after = until(lambda: live_has_leader(zk, seen.killed), what="new leaders", ignore=(Exception,)) or {}
    seen.epochs = (epoch, int(zk.get("/controller_epoch")[0]))

    file = seen.directory / f"node-{seen.killed}" / "server.properties"
    children.append(Running([*OURS, "broker", str(file)], place / "returned.log"))
    until(lambda: zk.exists(f"/brokers/ids/{seen.killed}"), what="the killed node registers again")
    logs = seen.directory / f"node-{seen.killed}" / "data"
    until(lambda: json.loads(states(zk)["admin-2"])["leader"] >= 0, what="every partition is led again")
    returned = f"[Broker id={seen.killed}] Handling LeaderAndIsr request from controller"
    until(lambda: children[-1].output, lambda text: returned in text, "the returned node is sent its partitions")
    seen.at_the_end = states(zk)

    deleted = run_ours("topics", "--zookeeper", connect, "--delete", "--topic", "made")
    assert deleted.returncode == 0, deleted.stderr
    until(lambda: not zk.exists("/admin/delete_topics/made"), what="the deletion is through")
    seen.left_in_zookeeper = [
        path for path in ("/brokers/topics/made", "/config/topics/made", "/admin/delete_topics/made") if zk.exists(path)
    ]
    seen.directories = sorted(entry.name for entry in logs.iterdir() if entry.is_dir())


def golden(leader: int, isr: list[int], leader_epoch: int, controller_epoch: int) -> bytes:
    """Return the bytes that Kafka 3.9.1 writes for this state (controller.md 2.2)."""
    replicas = ",".join(map(str, isr))
    text = '{{"controller_epoch":{},"leader":{},"version":1,"leader_epoch":{},"isr":[{}]}}'
    return text.format(controller_epoch, leader, leader_epoch, replicas).encode()


def test_topics_made_by_the_command_and_by_znode_get_leaders(job: Job) -> None:
    assert job.created is not None
    assert (job.created.returncode, job.created.stdout) == (0, "Created topic made.\n")
    for partition, replicas in ADMIN_ASSIGNMENT.items():
        assert job.before[f"admin-{partition}"] == golden(replicas[0], replicas, 0, 1)
    made = [json.loads(job.before[name]) for name in MADE]
    assert sorted(state["leader"] for state in made) == [0, 0, 1, 1, 2, 2]
    assert all(sorted(state["isr"]) == [0, 1, 2] for state in made)


def test_clients_see_brokers_topics_leaders_and_isr(job: Job) -> None:
    assert "3 brokers:" in job.kcat
    assert '  topic "admin" with 3 partitions:\n    partition 0, leader 2, replicas: 2,0,1, isrs: 2,0,1' in job.kcat
    assert job.confluent["admin"] == {p: (replicas[0], replicas) for p, replicas in ADMIN_ASSIGNMENT.items()}
    assert set(job.confluent["made"]) == set(range(6))
    assert job.kafka_python == {"made", "admin"}


def test_another_controller_elects_live_replicas_of_the_isr(job: Job) -> None:
    """Only partitions with the killed broker in their ISR change; tests/benchmarks/failover.py measures the time."""
    assert job.epochs == (1, 2)
    for name, raw in job.after.items():
        was, now = json.loads(job.before[name]), json.loads(raw)
        survivors = [replica for replica in was["isr"] if replica != job.killed]
        if job.killed not in was["isr"]:
            assert now == was, name
        else:
            assert now["isr"] == (survivors or was["isr"]), name
            assert now["leader"] == (next(iter(survivors), -1) if was["leader"] == job.killed else was["leader"]), name
            assert now["controller_epoch"] == 2, name


def test_the_killed_node_comes_back_and_is_sent_its_partitions(job: Job) -> None:
    assert all(json.loads(raw)["leader"] >= 0 for raw in job.at_the_end.values())


def test_a_deleted_topic_leaves_only_directories_queued_for_deletion(job: Job) -> None:
    assert job.left_in_zookeeper == []
    assert not [name for name in job.directories if name.startswith("made-") and not name.endswith("-delete")]
    assert len([name for name in job.directories if name.startswith("made-")]) == 6


def test_it_stops_cleanly_and_leaves_nothing_running(job: Job) -> None:
    assert job.exit_code == 0
    assert job.processes_left == []


def test_every_node_replays_without_divergence(job: Job) -> None:
    replayed = run_ours("replay", str(job.directory))
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "4 runs" in replayed.stdout, "the killed node has two"
    assert ", 0 divergences" in replayed.stdout


def test_an_altered_input_is_found_by_replay(job: Job, tmp_path: Path) -> None:
    """After a change of one watch event, replay names the first message that differs and exits with 1."""
    altered_run = next(each for each in find_runs(job.directory).runs if each.header.node == job.killed)
    rows = rows_of(altered_run)
    row = next(
        row
        for row in rows
        if (row["kind"], row["type"]) == (OUTSIDE, "WatchEvent") and row["payload"]["path"] == "/brokers/topics"
    )
    row["payload"]["path"] = "/brokers/ids"
    altered = row["n"]
    write(tmp_path, altered_run.header, rows)
    replayed = run_ours("replay", str(tmp_path))
    assert replayed.returncode == 1
    assert ", 1 divergences" in replayed.stdout
    recorded, replaying = (line.strip() for line in replayed.stdout.splitlines() if line.startswith("  re"))
    assert recorded.startswith("recorded: ZkBridgeActor")
    assert replaying.startswith("replayed: ZkBridgeActor")
    assert ": TopicChange {" in recorded
    assert ": BrokerChange {" in replaying
    assert replaying.endswith(f"(sent during delivery {altered})")


def test_the_summary_shows_the_failover(job: Job, tmp_path: Path) -> None:
    out = tmp_path / "summary.json"
    names = ("elections", "events", "requests", "leadership", "episodes", "unavailable")
    assert run(["summary", str(job.directory), "--json", str(out), *(f"--only={name}" for name in names)]) == 0
    summary = json.loads(out.read_text())
    assert [(e["node"] == job.killed, e["epoch"]) for e in summary["elections"]] == [(True, 1), (False, 2)]
    heir = summary["elections"][1]["node"]
    events = {(e["node"], e["type"]): e["count"] for e in summary["events"]}
    assert events[heir, "BrokerChange"] >= 1
    assert events[heir, "Reelect"] >= 1
    sent = {(r["node"], r["type"]) for r in summary["requests"]}
    assert {(heir, kind) for kind in ("LeaderAndIsrRequest", "UpdateMetadataRequest", "StopReplicaRequest")} <= sent
    changes = [c for c in summary["leadership"] if (c["topic"], c["partition"]) == ("admin", 0)]
    for moment in (job.before, job.after, job.at_the_end):
        state = json.loads(moment["admin-0"])
        known = [c["leader"] for c in changes if c["leader_epoch"] <= state["leader_epoch"]]
        assert known[-1] == state["leader"]
    assert [c["at"] for c in changes] == sorted(c["at"] for c in changes)
    assert summary["malformed"] == 0
    first = summary["episodes"][0]
    assert (first["broker"], first["seen_by"], first["after"]) == (job.killed, heir, "Elected")
    assert (first["was_controller"], first["ending"]) == (True, "killed")
    led = {name for name, state in job.before.items() if json.loads(state)["leader"] == job.killed}
    assert first["partitions"] == len(led)
    assert first["seen_s"] > 3.0, "the session lasts six seconds"
    without = {f"{row['topic']}-{row['partition']}": row["longest_s"] for row in summary["unavailable"]}
    assert led and all(without[name] > 3.0 for name in led)


@pytest.mark.soak
@pytest.mark.long
def test_our_own_logs_have_the_failover_like_kafkas(job: Job, tmp_path: Path) -> None:
    out = tmp_path / "logs.json"
    sections = [f"--only={name}" for name in ("elections", "episodes", "leadership", "deletions")]
    assert run(["summary", "--logs", str(job.directory), "--json", str(out), *sections]) == 0
    found = json.loads(out.read_text())
    elections = sorted(found["elections"], key=lambda row: row["epoch"])
    assert [(row["node"] == job.killed, row["epoch"]) for row in elections] == [(True, 1), (False, 2)]
    heir = elections[1]["node"]
    assert (job.killed, heir) in [(row["broker"], row["seen_by"]) for row in found["episodes"]]
    changes = [row for row in found["leadership"] if (row["topic"], row["partition"]) == ("admin", 0)]
    last = json.loads(job.at_the_end["admin-0"])
    assert last["leader"] in [row["leader"] for row in changes]
    assert any(row["leader"] != changes[0]["leader"] for row in changes) or changes[0]["leader"] != job.killed
    assert [row["topic"] for row in found["deletions"]] == ["made"]
    assert {row["node"] for row in found["runs"]} == {0, 1, 2}
