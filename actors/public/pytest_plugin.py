"""The pytest plugin: the fixture `kafka_cluster`, and in the report of a test that fails, where to look.

    @pytest.mark.kafka_cluster(brokers=5, settings={"min.insync.replicas": 2})
    def test_it(kafka_cluster): ...

Each test has a cluster of its own, in a process that stays warm between tests. A cluster that a fixture of the user's
gives is reported alike.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from .cluster import KafkaCluster

MARKER = "kafka_cluster(brokers=3, *, settings=None, session_timeout=1.0): what cluster the fixture kafka_cluster gives"


def pytest_configure(config: pytest.Config) -> None:
    """Tell of our marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A Kafka cluster of three brokers for this test alone; the marker of the same name says what else."""
    marker = request.node.get_closest_marker("kafka_cluster")
    cluster = KafkaCluster() if marker is None else KafkaCluster(*marker.args, **marker.kwargs)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what the clusters of a failed test recorded, and say where it is."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, KafkaCluster):
                value.keep = True
                report.sections.append((f"Kafka cluster of {name}", value.whereabouts))
    return report
