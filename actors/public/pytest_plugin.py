"""A pytest plugin that has the fixture `kafka_cluster` and adds the cluster's state to reports of failed tests.

    @pytest.mark.kafka_cluster(brokers=5, settings={"min.insync.replicas": 2})
    def test_it(kafka_cluster): ...

`kafka_cluster` is a cluster for one test, `kafka_cluster_module` is one for a module, and `kafka_cluster_session` is
one for the whole run. With pytest-xdist, each worker has its own `kafka_cluster_session`. The process of a stopped
cluster is reused for the next cluster. Reports also cover a cluster of a user's own fixture. The clusters' directories
are below pytest's base temporary directory (`--basetemp`).
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import pytest

from .kafka_cluster import ClusterError, KafkaCluster

ARGUMENTS = (
    *("brokers", "settings", "session_timeout", "host", "advertised_host", "speaks", "protocol"),
    *("log_dirs", "security", "mechanism", "users", "acls", "ui"),
)
"""The arguments of the marker, of those of `KafkaCluster`."""
MARKER = f"kafka_cluster({', '.join(ARGUMENTS)}): the cluster of the fixtures kafka_cluster and kafka_cluster_module"
MARK = "@pytest.mark.kafka_cluster"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option --kafka-ui."""
    parser.addoption(
        "--kafka-ui", action="store_true", help="serve a page for each Kafka cluster, and print its address"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; let clusters have a page if --kafka-ui is given."""
    config.addinivalue_line("markers", MARKER)
    KafkaCluster.shown = config.getoption("kafka_ui")


@pytest.fixture(scope="session", autouse=True)
def _kafka_clusters_below_basetemp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let each cluster create its directory below pytest's base temporary directory."""
    before = KafkaCluster.new_directory
    KafkaCluster.new_directory = staticmethod(lambda: tmp_path_factory.mktemp("kafka-cluster-"))
    yield
    KafkaCluster.new_directory = staticmethod(before)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A Kafka cluster for this test: three brokers, or as the marker of the same name specifies."""
    yield from _running(request, _factory_for(request))


@pytest.fixture(scope="module")
def kafka_cluster_module(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A Kafka cluster for all tests of a module: three brokers, or as the marker in `pytestmark` specifies."""
    yield from _running(request, _factory_for(request))


@pytest.fixture(scope="session")
def kafka_cluster_options() -> Mapping[str, object]:
    """The arguments of the session's KafkaCluster: define a fixture of this name in conftest.py to change them."""
    return {}


@pytest.fixture(scope="session")
def kafka_cluster_session(
    request: pytest.FixtureRequest, kafka_cluster_options: Mapping[str, Any]
) -> Iterator[KafkaCluster]:
    """A Kafka cluster for all tests of the run: three brokers, or as `kafka_cluster_options` specifies."""
    yield from _running(request, lambda: KafkaCluster(**kafka_cluster_options))


@pytest.fixture
def kafka_topics(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Create topics that are deleted after the test.

    `kafka_topics(cluster, partitions=3)` takes the arguments of `create_topic`, and returns the topic's name. The
    default name is the test's name, followed by a hyphen and a number.
    """
    made: list[tuple[KafkaCluster, str]] = []

    def create(cluster: KafkaCluster, topic: str | None = None, **options: Any) -> str:
        name = topic or f"{re.sub('[^a-zA-Z0-9._-]+', '-', request.node.name)[:200]}-{len(made)}"
        cluster.create_topic(name, **options)
        made.append((cluster, name))
        return name

    yield create
    for cluster, name in made:
        cluster.delete_topic(name)


def _factory_for(request: pytest.FixtureRequest) -> Callable[[], KafkaCluster]:
    """Return a function that creates the cluster that the closest marker describes, or the default cluster."""
    marker = request.node.get_closest_marker("kafka_cluster")
    return KafkaCluster if marker is None else lambda: _cluster_of_marker(marker)


def _running(request: pytest.FixtureRequest, make: Callable[[], KafkaCluster]) -> Iterator[KafkaCluster]:
    """Start the cluster that `make` returns, print the address of its page, yield it, and stop it afterwards."""
    try:
        cluster = make().start()
    except ClusterError as error:
        pytest.fail(f"kafka_cluster: {error}", pytrace=False)
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    if KafkaCluster.shown and reporter is not None:
        reporter.write_line(f"\nthe page of the cluster of {request.node.nodeid or 'this run'}: {cluster.ui_url}")
    yield cluster
    cluster.stop()


def _cluster_of_marker(marker: pytest.Mark) -> KafkaCluster:
    """Return the cluster that a marker describes.

    Fail the test if the marker has arguments that are not in ARGUMENTS.
    """
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
    """Keep the traces and logs of a failed test's clusters, and add the clusters' state to the report."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            cluster = _cluster_of(value)
            if cluster is not None and cluster.log_file.exists():
                cluster.keep = True
                report.sections.append((f"Kafka cluster of {name}", cluster.diagnosis()))
    return report


def _cluster_of(value: object) -> KafkaCluster | None:
    """Return the cluster if a fixture's value is a cluster or wraps one; otherwise None."""
    asynchronous = sys.modules.get(f"{__package__}.asynchronous")
    if asynchronous is not None and isinstance(value, asynchronous.AsyncKafkaCluster):
        value = value.cluster
    return value if isinstance(value, KafkaCluster) else None
