"""The pytest plugin in separate test runs: reports of failed tests, and the files that remain on the disk."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def run_pytest(folder: Path, source: str, *options: str) -> str:
    """Run pytest on a test file in `folder`, which is outside this project, and return its output."""
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
import json
from urllib.request import urlopen
from kafka_actors import KafkaCluster
def test_it():
    with KafkaCluster(1) as cluster:
        cluster.create_topic("t")
        with urlopen(f"{cluster.ui_url}api/picture") as answer:
            assert "brokers" in json.load(answer)
        cluster.kill(0)
        assert "the test fails" == ""
"""


@pytest.mark.parametrize("source", [NO_LEADER, WITH], ids=["fixture", "with"])
def test_the_report_of_a_failed_test_has_the_end_of_the_log_and_why_partitions_have_no_leader(
    tmp_path: Path, source: str
) -> None:
    output = run_pytest(tmp_path, source, "--kafka-ui")
    assert "1 failed" in output and (source == WITH or "the page of the cluster" in output)
    assert "every message of the cluster's brokers is recorded in" in output
    assert re.search(r"the last lines of \S+/cluster\.log:\n(E +)?\[\d{4}-\d\d-\d\d .* INFO .*", output), output
    assert "no running broker leads t-0:" in output
    reported = (
        "no leader since controller"
        if source == NO_LEADER
        else "broker 0 has been the leader since controller 0 wrote it"
    )
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
    assert "TimeoutError: no leader was elected for partition t-0 within 0.05 s" in failures
    assert set(re.findall(r"(?m)^(\S+\.py):\d+", failures)) == {"test_it.py"}


WRONG = {
    "broker=5": "has no argument 'broker'; did you mean brokers? It takes brokers, settings, session_timeout, host,",
    "wild=1": "has no argument 'wild'. It takes brokers, settings, session_timeout, host,",
    "3, {}": "too many positional arguments. It takes brokers, settings, session_timeout, host,",
    "3, brokers=3": "multiple values for argument 'brokers'. It takes brokers, settings, session_timeout, host,",
    "'three'": "brokers='three' must be an integer from 1 to 100",
    "settings={'min.insync.replica': 2}": "is no known setting; did you mean min.insync.replicas?",
}
"""Arguments of the marker -> what is said about them."""


def test_a_wrong_argument_of_the_marker_is_named(tmp_path: Path) -> None:
    tests = (
        f"@pytest.mark.kafka_cluster({arguments})\ndef test_{number}(kafka_cluster): pass\n"
        for number, arguments in enumerate(WRONG)
    )
    output = run_pytest(tmp_path, "import pytest\n" + "".join(tests))
    assert f"{len(WRONG)} errors" in output
    said = re.split(r"(?m)^_+ ERROR at setup of test_\d _+$", output.partition("= ERRORS =")[2])[1:]
    assert [words in each for words, each in zip(WRONG.values(), said, strict=True)] == [True] * len(WRONG), output
    assert "Traceback" not in output and "TypeError" not in output


SHARED = """
import pytest
pytestmark = pytest.mark.kafka_cluster(brokers=2)

def test_a_topic_of_its_own(kafka_cluster_module, kafka_topics):
    name = kafka_topics(kafka_cluster_module, partitions=2)
    assert kafka_cluster_module.topics == [name] == ["test_a_topic_of_its_own-0"]
    assert kafka_cluster_module.live_brokers == [0, 1]

@pytest.mark.parametrize("what", ["a b", "c/d"])
def test_no_topic_is_left(kafka_cluster_module, kafka_topics, what):
    assert kafka_cluster_module.topics == []
    kafka_topics(kafka_cluster_module)

def test_one_for_the_session(kafka_cluster_session):
    assert kafka_cluster_session.live_brokers == [0]

def test_module_and_session_differ(kafka_cluster_module, kafka_cluster_session):
    assert kafka_cluster_module.bootstrap_servers != kafka_cluster_session.bootstrap_servers
"""


@pytest.mark.parametrize(
    "options",
    [(), pytest.param(("-p", "xdist", "-n", "2"), marks=[pytest.mark.soak, pytest.mark.long])],
    ids=["alone", "xdist"],
)
def test_clusters_of_a_module_and_of_the_session(tmp_path: Path, options: tuple[str, ...]) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    conftest = (
        "import pytest\n@pytest.fixture(scope='session')\ndef kafka_cluster_options():\n    return {'brokers': 1}\n"
    )
    (folder / "conftest.py").write_text(conftest)
    assert "5 passed" in run_pytest(folder, SHARED, *options)


UNITTEST = """
import unittest
from kafka_actors import KafkaCluster

class TestOrders(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(KafkaCluster(1))

    def test_it(self):
        self.cluster.create_topic("t")
        self.assertEqual(self.cluster.topics, ["t"])

if __name__ == "__main__":
    unittest.main()
"""


def test_it_works_in_unittest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(UNITTEST)
    done = subprocess.run(
        [sys.executable, "-P", "test_it.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert "OK" in done.stderr, done.stderr


REFUSED = """
import pytest
from confluent_kafka import KafkaError, Producer

@pytest.mark.kafka_cluster(2, session_timeout=0.2)
def test_it(kafka_cluster):
    kafka_cluster.create_topic("t", replication_factor=2, config={"min.insync.replicas": 2})
    kafka_cluster.kill(kafka_cluster.wait_for_leader("t"))
    kafka_cluster.wait_for(lambda: len(kafka_cluster.isr_of("t")) == 1)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "acks": "all", "retries": 0})
    codes = []
    while KafkaError.NOT_ENOUGH_REPLICAS not in codes and len(codes) < 100:
        producer.produce("t", b"x", on_delivery=lambda error, _: codes.append(error.code() if error else 0))
        producer.flush(10)
    assert 0 not in codes, f"a record was acknowledged: {codes}"
    assert "the test fails" == ""
"""


def test_the_report_says_what_the_cluster_did_and_refused(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, REFUSED)
    assert "AssertionError: a record was acknowledged" not in output, output
    assert "What happened?" in output
    assert re.search(r"broker \d was elected, epoch 1 \[", output)
    assert re.search(r"Produce: NOT_ENOUGH_REPLICAS \d+ times \(t-0\), the last:", output), output
    assert re.search(r"t-0 got a leader: broker \d, during \S+", output), output
    assert re.search(r"broker \d was killed, or its trace is cut off here", output)
