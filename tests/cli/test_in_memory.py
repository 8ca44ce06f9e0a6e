"""`up --zookeeper memory` and `fixture`, the process that runs clusters for tests: their output and files."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from actors.cli.app import run
from tests.cluster.processes import OURS, start_up


def test_a_cluster_in_one_process_in_the_foreground(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "cluster"
    running, line = start_up(place, tmp_path / "log", "--zookeeper", "memory", "--port", "0", "--brokers", "2")
    try:
        assert (line["zookeeper"], line["pid"]) == ("memory", running.process.pid)
        assert json.loads((place / "cluster.json").read_text()) == line
        brokers = {f"{broker['host']}:{broker['port']}" for broker in line["brokers"]}
        seen = AdminClient({"bootstrap.servers": ",".join(brokers)}).list_topics(timeout=20)
        assert {f"{broker.host}:{broker.port}" for broker in seen.brokers.values()} == brokers
        assert run(["status", "--dir", str(place)]) == 0
        shown = capsys.readouterr().out
        assert all(broker in shown for broker in brokers)
    finally:
        running.send(signal.SIGINT)
        assert running.process.wait(20) == 0
    assert "Traceback" not in running.output
    assert f"stopped 2 nodes; data is in {place}/node-*/data, traces in {place}/trace\n" in running.output
    assert [broker["pid"] for broker in json.loads((place / "cluster.json").read_text())["brokers"]] == [None, None]
    assert run(["replay", str(place)]) == 0
    left = (place / "cluster.json").read_text()
    capsys.readouterr()
    assert run(["up", "--zookeeper", "memory", "--port", "0", "--dir", str(place)]) == 1
    out, err = capsys.readouterr()
    assert not out and "contains the data of a cluster" in err
    assert (place / "cluster.json").read_text() == left


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--restart",), "--restart cannot be combined with --zookeeper memory"),
        (("--override", "num.partitions=x"), "num.partitions=x is wrong"),
        (
            ("--override", "trace.dir=/tmp"),
            "trace.dir cannot be overridden: the cluster sets it for each node. Remove it",
        ),
    ],
)
def test_options_that_do_not_work_in_memory_are_named(
    tmp_path: Path, options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["up", "--zookeeper", "memory", "--port", "0", "--dir", str(tmp_path / "c"), *options]) in (1, 2)
    assert words in capsys.readouterr().err


def test_a_test_program_speaks_in_lines_of_json(tmp_path: Path) -> None:
    """Each input line, valid or not, gets one response. The end of the input ends the process."""
    start = {"do": "start", "with": {"directory": str(tmp_path / "c"), "brokers": 1}}
    lines = [
        json.dumps({"do": "sight"}),
        "no json",
        "[]",
        json.dumps({"do": "dance"}),
        json.dumps({"do": "start", "with": {"nowhere": 1}}),
        json.dumps(start),
        json.dumps(start),
        json.dumps({"do": "sight"}),
        json.dumps({"do": "kill", "with": {"broker_id": "x"}}),
        json.dumps({"do": "stop"}),
        json.dumps({"do": "stop"}),
    ]
    done = subprocess.run(
        [*OURS, "fixture"], input="\n".join(lines), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    none, no_json, no_object, unknown, wrong, started, twice, sight, kill, stopped, again = map(
        json.loads, done.stdout.splitlines()
    )
    assert none == {"failed": "no cluster is running; start one first"}
    assert no_json == no_object == unknown
    assert "with a name of start, stop, sight" in unknown["failed"]
    assert wrong["failed"].startswith("start: ")
    assert len(started["done"]["ports"]) == 1
    assert "already runs a cluster" in twice["failed"]
    assert sight["done"] == {
        "controller_id": 0,
        "live_brokers": [0],
        "topics": [],
        "offline_partitions": [],
        "in_effect": [],
    }
    assert "broker_id='x' must be an integer" in kill["failed"]
    assert stopped == again == {"done": None}


def test_the_input_of_a_fixture_may_be_a_file(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(json.dumps({"do": "sight"}) + "\n")
    with lines.open() as given:
        done = subprocess.run([*OURS, "fixture"], stdin=given, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)
