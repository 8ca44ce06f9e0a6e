"""`kafka-actors up` with real processes: its ready line, its end, an existing folder, and restarted nodes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cluster.processes import Running, run_ours, start_up
from tests.waiting import until

pytestmark = pytest.mark.java


@contextlib.contextmanager
def up(directory: Path, *arguments: str) -> Iterator[tuple[Running, dict[str, Any]]]:
    log = directory.with_suffix(".log")
    log.unlink(missing_ok=True)
    running, line = start_up(directory, log, "--port", "0", *arguments)
    try:
        yield running, line
    finally:
        if running.process.poll() is None:
            running.stop()


def family(running: Running) -> list[psutil.Process]:
    return psutil.Process(running.process.pid).children(recursive=True)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def test_killed_it_leaves_nothing_and_its_directory_is_continued(tmp_path: Path) -> None:
    place = tmp_path / "cluster"
    with up(place, "--brokers", "2") as (running, line):
        assert [broker["id"] for broker in line["brokers"]] == [0, 1]
        assert line["dir"] == str(place)
        created = run_ours("topics", "--zookeeper", line["zookeeper"], "--create", "--topic", "kept")
        assert (created.returncode, created.stdout) == (0, "Created topic kept.\n")
        second = run_ours("up", "--dir", str(place), "--port", "0")
        assert second.returncode == 1
        assert "is in use by another `kafka-actors up`" in second.stderr
        children = family(running)
        assert len(children) >= 3
        os.kill(running.process.pid, signal.SIGKILL)  # only the process itself, not its group
        running.process.wait(20)
        until(lambda: alive(children), lambda left: not left, "everything it started is gone", 20)

    with (place / "node-0" / "server.properties").open("a") as file:
        file.write("num.partitions=7\n")
    with up(place, "--brokers", "2", "--metrics-host", "0.0.0.0") as (running, again):
        assert again["zookeeper"] == line["zookeeper"]
        list_topics = ("topics", "--zookeeper", again["zookeeper"], "--list")
        until(lambda: run_ours(*list_topics).stdout, lambda out: out == "kept\n", "the brokers know the topic")
        assert "num.partitions=7" in (place / "node-0" / "server.properties").read_text()
        started = (place / "node-0" / "node.log").read_text().split("] started as broker and controller, ")[-1]
        assert f"listeners PLAINTEXT://127.0.0.1:{again['brokers'][0]['port']}; logs in {place}" in started
        assert f"trace in {place}/node-0/data.trace; metrics http://127.0.0.1:" in started
        assert "in trusted networks only" in started
        status = run_ours("status", "--zookeeper", again["zookeeper"])
        assert "Partitions: online 1, offline 0" in status.stdout
        assert "controller events: 0" in status.stdout
        metrics_port = int(started.split("; metrics http://127.0.0.1:")[1].split("/")[0])
        with socket.create_connection(("127.0.0.2", metrics_port), 5):
            pass  # only a socket on all interfaces accepts this connection
        assert status.returncode == 0, status.stdout
        children = family(running)
        assert running.stop() == 0
        until(lambda: alive(children), lambda left: not left, "everything it started is gone", 5)
    last = running.output.splitlines()[-1]
    assert " stopped 2 nodes and ZooKeeper; " in last
    places = re.findall(r"(?:data is|traces) in (\S+?)[,;]", last)
    assert [len(list(place.glob(each.removeprefix(f"{place}/")))) for each in places] == [2, 2]
    assert not [text for text in running.output.splitlines() if "Traceback" in text]


def test_the_dead_are_reported_and_started_again(tmp_path: Path) -> None:
    with up(tmp_path / "cluster", "--brokers", "2", "--restart") as (running, line):
        assert [each for each in running.output.splitlines() if each.startswith("{")] == [json.dumps(line)]
        victim = line["brokers"][1]
        os.kill(victim["pid"], signal.SIGKILL)
        until(lambda: "node 1 died (signal SIGKILL)" in running.output, what="the death is reported")
        until(lambda: "node 1 started again" in running.output, what="it is started again")
        described = json.loads((tmp_path / "cluster" / "cluster.json").read_text())
        (returned,) = [each for each in alive(family(running)) if each.pid == described["brokers"][1]["pid"]]
        assert returned.pid != victim["pid"]
        assert described["brokers"][0] == line["brokers"][0]

        def brokers() -> str:
            return run_ours("status", "--zookeeper", line["zookeeper"]).stdout

        until(brokers, lambda out: str(victim["port"]) in out, "it is registered again")
        assert running.stop() == 0


def test_a_node_that_cannot_start_fails_the_start(tmp_path: Path) -> None:
    place = tmp_path / "cluster"
    (place / "node-1").mkdir(parents=True)
    (place / "node-1" / "server.properties").write_text("num.partitions=none\n")
    failed = run_ours("up", "--brokers", "2", "--port", "0", "--dir", str(place), "--json")
    assert failed.returncode == 1
    assert "node 1 did not start (exit code 2)" in failed.stderr
    assert "num.partitions=none is wrong" in failed.stderr
    assert not failed.stdout


def test_a_cluster_in_the_background(tmp_path: Path) -> None:
    """The cluster is detached. A killed node is started again by its id, and the folder selects the cluster to stop."""
    place = tmp_path / "a cluster, süß"
    options = ("--dir", str(place), "--brokers", "1", "--port", "0", "--detach")
    overrides = ("--override", "num.partitions=4", "--override", "trace.dir=/dev/null/none")
    for name in ("messages", "click"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current folder')\n")
    ready = run_ours("up", *options, *overrides, cwd=tmp_path)
    assert ready.returncode == 0, ready.stderr
    described = json.loads((place / "cluster.json").read_text())
    cluster = psutil.Process(described["pid"])
    try:
        assert f"export CLUSTER='{place}'" in ready.stdout
        screen = [line for line in ready.stdout.splitlines() if str(place) not in line and "export PATH" not in line]
        assert max(map(len, screen)) <= 80
        assert "num.partitions=4" in (place / "node-0" / "server.properties").read_text()
        assert (place / "node-0" / "data" / "meta.properties").exists(), "the comma is part of the folder's name"
        said = " node 0: recording into /dev/null/none stopped"
        until(lambda: said in (place / "up.log").read_text(), what="up says what is not recorded")

        again = run_ours("up", *options)
        assert again.returncode == 1
        assert again.stderr == f"Error: {place} is in use by another `kafka-actors up`\n"
        assert "node 0 is already running" in run_ours("start", "0", "--dir", str(place)).stderr
        assert "has no node 7; it has 0" in run_ours("start", "7", "--dir", str(place)).stderr

        os.kill(described["brokers"][0]["pid"], signal.SIGKILL)
        started = run_ours("start", "0", "--dir", str(place))
        assert started.stdout.startswith("node 0 started again"), started.stderr
        status = until(
            lambda: json.loads(run_ours("status", "--dir", str(place), "--json").stdout),
            lambda seen: seen["controller"] == 0 and bool(seen["nodes"]) and bool(seen["nodes"][0]["not_recording"]),
            "it is controller again",
        )
        assert status["problems"][0].startswith("node 0: recording into /dev/null/none stopped")

        assert run_ours("down", "--dir", str(place)).returncode == 0
        until(cluster.is_running, lambda runs: not runs, "it has ended", 5)
        left = json.loads((place / "cluster.json").read_text())
        assert (left["pid"], left["brokers"][0]["pid"]) == (None, None)
        assert "no cluster is running" in run_ours("down", "--dir", str(place)).stderr
    finally:
        if cluster.is_running():
            cluster.terminate()
