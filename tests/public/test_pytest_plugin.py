"""The pytest plugin in test runs of its own: what a user sees of a failed test, and what stays on the disk."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def run_pytest(folder: Path, source: str, *options: str) -> str:
    """The output of pytest on one test file in `folder`, which is no part of this project."""
    folder.mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-rP", "-p", "no:cacheprovider", *options, "test_it.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    ).stdout


NO_LEADER = """
import pytest
@pytest.mark.kafka_cluster(2, session_timeout=0.2)
def test_it(kafka_cluster):
    kafka_cluster.create_topic("t", replication_factor=1)
    dead = kafka_cluster.leader_of("t")
    kafka_cluster.kill(dead)
    kafka_cluster.wait_for(lambda: kafka_cluster.leader_of("t") is None)
    assert "the test fails" == ""
"""

WITH = """
from kafka_actors import KafkaCluster
def test_it():
    with KafkaCluster(1) as cluster:
        cluster.create_topic("t")
        cluster.kill(0)
        assert "the test fails" == ""
"""


@pytest.mark.parametrize("source", [NO_LEADER, WITH], ids=["fixture", "with"])
def test_the_report_of_a_failed_test_has_the_end_of_the_log_and_why_partitions_have_no_leader(
    tmp_path: Path, source: str
) -> None:
    output = run_pytest(tmp_path, source)
    assert "1 failed" in output
    assert "every message of the cluster's brokers is recorded in" in output
    assert re.search(r"the last lines of \S+/cluster\.log:\n(E +)?\[\d{4}-\d\d-\d\d .* INFO .*", output), output
    assert "no running broker leads t-0:" in output
    reported = "no leader since controller" if source == NO_LEADER else "broker 0 leads it, since controller 0 wrote it"
    assert reported in output.partition("no running broker leads t-0:")[2]


def test_clusters_live_below_basetemp_and_only_the_failed_one_stays(tmp_path: Path) -> None:
    output = run_pytest(
        tmp_path / "project",
        "from kafka_actors import KafkaCluster\n"
        "def test_good(kafka_cluster):\n    print('GOOD', kafka_cluster.trace_dir)\n"
        "def test_own():\n    with KafkaCluster(1) as own: print('OWN', own.trace_dir)\n"
        "def test_bad(kafka_cluster):\n    assert 'BAD' == kafka_cluster.trace_dir\n",
        f"--basetemp={tmp_path / 'base'}",
    )
    assert "1 failed, 2 passed" in output, output
    places = {name: Path(place) for name, place in re.findall(r"(?m)^(GOOD|OWN) (.*)$", output)}
    (bad,) = set(re.findall(r"recorded in (\S+)", output))
    assert all(place.is_relative_to(tmp_path / "base") for place in [*places.values(), Path(bad)])
    assert len(places) == 2 and not any(place.parent.exists() for place in places.values())
    assert (Path(bad) / "node-0").is_dir()


def test_a_run_without_a_cluster_creates_no_directory(tmp_path: Path) -> None:
    assert "1 passed" in run_pytest(tmp_path, "def test_it(): pass\n", f"--basetemp={tmp_path / 'base'}")
    assert not (tmp_path / "base").exists()


def test_an_error_points_at_the_line_of_the_test_and_not_into_our_code(tmp_path: Path) -> None:
    output = run_pytest(
        tmp_path,
        "def test_kill(kafka_cluster):\n    kafka_cluster.kill(7)\n"
        "def test_wait(kafka_cluster):\n    kafka_cluster.wait_for(lambda: [], timeout=0.05)\n"
        "def test_leader(kafka_cluster):\n    kafka_cluster.wait_for_leader('t', timeout=0.05)\n",
    )
    assert "3 failed" in output
    failures = output.partition("= FAILURES =")[2]
    assert "ClusterError: broker 7 is not running; running brokers: 0, 1, 2" in failures
    assert "TimeoutError: the condition was not met within 0.05 s; last value: []" in failures
    assert "TimeoutError: t-0 had no leader within 0.05 s" in failures
    assert set(re.findall(r"(?m)^(\S+\.py):\d+", failures)) == {"test_it.py"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("broker=5", "has no argument 'broker'; did you mean brokers? It takes brokers, settings, session_timeout."),
        ("wild=1", "has no argument 'wild'. It takes brokers, settings, session_timeout."),
        ("3, {}", "too many positional arguments. It takes brokers, settings, session_timeout."),
        ("3, brokers=3", "multiple values for argument 'brokers'. It takes brokers, settings, session_timeout."),
        ("'three'", "kafka_cluster: brokers='three' is not a number of brokers"),
        ("settings={'min.insync.replica': 2}", "is no known setting; did you mean min.insync.replicas?"),
    ],
)
def test_a_wrong_argument_of_the_marker_is_named(tmp_path: Path, arguments: str, words: str) -> None:
    source = f"import pytest\n@pytest.mark.kafka_cluster({arguments})\ndef test_it(kafka_cluster): pass\n"
    output = run_pytest(tmp_path, source)
    assert "1 error" in output
    assert words in output
    assert "Traceback" not in output and "TypeError" not in output
