"""`kafka-actors up` for real: ready means ready, nothing is left, a directory is continued, the dead come back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
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
        assert "is in use by another kafka-actors up" in second.stderr
        children = family(running)
        assert len(children) >= 3
        os.kill(running.process.pid, signal.SIGKILL)  # not its group: only itself
        running.process.wait(20)
        until(lambda: alive(children), lambda left: not left, "everything it started is gone", 20)

    with (place / "node-0" / "server.properties").open("a") as file:
        file.write("num.partitions=7\n")
    with up(place, "--brokers", "2") as (running, again):
        assert again["zookeeper"] == line["zookeeper"]
        listed = run_ours("topics", "--zookeeper", again["zookeeper"], "--list")
        assert listed.stdout == "kept\n"
        assert "num.partitions=7" in (place / "node-0" / "server.properties").read_text()
        started = (place / "node-0" / "node.log").read_text().split("] started (broker, controller), ")[-1]
        assert f"listeners PLAINTEXT://127.0.0.1:{again['brokers'][0]['port']}; logs in {place}" in started
        assert f"trace in {place}/node-0/data.trace; metrics http://127.0.0.1:" in started
        assert "listeners are for trusted networks" in started
        status = run_ours("status", "--zookeeper", again["zookeeper"])
        assert "Partitions: online 1, offline 0" in status.stdout
        assert "controller events: 0" in status.stdout
        children = family(running)
        assert running.stop() == 0
        until(lambda: alive(children), lambda left: not left, "everything it started is gone", 5)
    assert not [text for text in running.output.splitlines() if "Traceback" in text]


def test_the_dead_are_reported_and_started_again(tmp_path: Path) -> None:
    with up(tmp_path / "cluster", "--brokers", "2", "--restart") as (running, line):
        victim = line["brokers"][1]
        os.kill(victim["pid"], signal.SIGKILL)
        until(lambda: "node 1 died (signal SIGKILL)" in running.output, what="the death is reported")
        until(lambda: "node 1 started again" in running.output, what="it is started again")

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


def test_the_ready_line_is_one_line(tmp_path: Path) -> None:
    with up(tmp_path / "cluster", "--brokers", "1") as (running, line):
        assert running.output.splitlines() == [json.dumps(line)]
        assert running.stop() == 0
