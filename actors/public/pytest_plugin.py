"""The pytest plugin: the fixture `kafka_cluster`, and the state of its cluster in the report of a failed test.

    @pytest.mark.kafka_cluster(brokers=5, settings={"min.insync.replicas": 2})
    def test_it(kafka_cluster): ...

Each test has a cluster of its own, in a process that stays warm between tests. A cluster that a fixture of the user's
gives is reported alike. Clusters live below pytest's base temporary directory (`--basetemp`).
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Generator, Iterator

import pytest

from .cluster import ClusterError, KafkaCluster

MARKER = "kafka_cluster(brokers=3, *, settings=None, session_timeout=1.0): what cluster the fixture kafka_cluster gives"
MARK = "@pytest.mark.kafka_cluster"
ARGUMENTS = ("brokers", "settings", "session_timeout")
"""The arguments of the marker, of those of `KafkaCluster`."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture(scope="session", autouse=True)
def _kafka_clusters_below_basetemp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Create each cluster's directory with pytest's temporary files; nothing is created while there is no cluster."""
    before = KafkaCluster.new_directory
    KafkaCluster.new_directory = staticmethod(lambda: tmp_path_factory.mktemp("kafka-cluster-"))
    yield
    KafkaCluster.new_directory = staticmethod(before)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A Kafka cluster of three brokers for this test alone; the marker of the same name says what else."""
    marker = request.node.get_closest_marker("kafka_cluster")
    try:
        cluster = KafkaCluster() if marker is None else _marked(marker)
        cluster.start()
    except ClusterError as error:
        pytest.fail(f"kafka_cluster: {error}", pytrace=False)
    yield cluster
    cluster.stop()


def _marked(marker: pytest.Mark) -> KafkaCluster:
    """The cluster that a marker describes; fails the test if the marker has arguments that are not ARGUMENTS."""
    for name in marker.kwargs:
        if name not in ARGUMENTS:
            close = difflib.get_close_matches(name, ARGUMENTS, 1)
            hint = f"; did you mean {close[0]}?" if close else "."
            pytest.fail(f"{MARK} has no argument {name!r}{hint} It takes {', '.join(ARGUMENTS)}.", pytrace=False)
    try:
        inspect.signature(KafkaCluster).bind(*marker.args, **marker.kwargs)
    except TypeError as error:
        pytest.fail(f"{MARK}: {error}. It takes {', '.join(ARGUMENTS)}.", pytrace=False)
    return KafkaCluster(*marker.args, **marker.kwargs)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what the clusters of a failed test recorded, and add their state to the report."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, KafkaCluster) and value.log_file.exists():
                value.keep = True
                report.sections.append((f"Kafka cluster of {name}", value.diagnosis()))
    return report
