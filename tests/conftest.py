"""What tests of every area share: where Apache's jars are, and how hard hypothesis looks."""

from __future__ import annotations

import logging
import os
import random
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from actors.cli.node_log import STATE_CHANGES
from tests.cluster.apache_java import make_archive
from tests.cluster.processes import ApacheBroker, free_ports
from tests.waiting import until
from zk_bridge.embedded import EmbeddedZooKeeper

ROOT = Path(__file__).resolve().parents[1]

LONG_SOAK = 600
"""Seconds of a soak from which on it includes the tests marked `long`, and the long forms of others."""
SLOWEST = ("tests/soak", "tests/agreement", "tests/spark", "tests/cluster", "tests/public", "tests/cli")
"""Where the files are that take a minute or more; they run first, in this order, so that no worker waits at the end."""

settings.register_profile("kafka-actors", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kafka-actors")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the soak and of the scenarios."""
    group = parser.getgroup("soak")
    group.addoption("--soak-seconds", type=float, default=60, help="how long the soak injects faults (60)")
    parser.addoption("--rewrite-scenarios", action="store_true", help="rewrite the expected lines of the scenarios")
    group.addoption("--soak-seed", type=int, default=random.randrange(10**6), help="the seed of the faults (any)")


def pytest_configure() -> None:
    """End if an installation of an earlier checkout does not make the packages importable from every folder."""
    finders = [module for name, module in sys.modules.items() if name.startswith("__editable___kafka_actors")]
    if any("actors" not in finder.MAPPING for finder in finders):
        pytest.exit("this environment has an older installation: run `make install` or `pip install --no-deps -e .`", 4)


@pytest.fixture(autouse=True)
def _log_level_as_before() -> Iterator[None]:
    """Restore the levels of the root and state change loggers: commands that run inside a test lower both."""
    before = [(logger, logger.level) for logger in map(logging.getLogger, (None, STATE_CHANGES))]
    yield
    for logger, level in before:
        logger.setLevel(level)


def pytest_report_header(config: pytest.Config) -> str:
    """The seed, so that a soak that failed can be tried again."""
    return f"soak: --soak-seconds {config.getoption('soak_seconds'):g} --soak-seed {config.getoption('soak_seed')}"


def run_broker(jars: Path, place: Path, options: tuple[str, ...]) -> None:
    """Start a broker of Apache's with these options for its JVM, and stop it when it serves."""
    [port] = free_ports(1)
    with EmbeddedZooKeeper(place / "zookeeper", force_sync=False) as zookeeper:
        broker = ApacheBroker(jars, place, 0, port, zookeeper.connect_string, more_java=options)
        try:
            until(lambda: "started (kafka.server.KafkaServer)" in broker.output, what="a broker's classes", timeout=120)
            broker.stop(120)
        finally:
            broker.kill()


@pytest.fixture(scope="session")
def apache_jars() -> Path:
    """The folder with the jars of Apache Kafka 3.9: KAFKA_LIBS, or what `make apache` fetched; skips without."""
    for place in (os.environ.get("KAFKA_LIBS"), ROOT / ".cache" / "kafka-3.9.1"):
        if place and any(Path(place).glob("kafka_2.13-3.9.*.jar")):
            make_archive(Path(place), partial(run_broker, Path(place)))
            return Path(place)
    pytest.skip("needs the jars of Apache Kafka 3.9: set KAFKA_LIBS or run `make apache`")


@pytest.fixture(scope="session")
def streams_jars() -> Path:
    """The folder with the jar of Kafka Streams 3.9: KAFKA_LIBS, or what `make apache` fetched; skips without."""
    for place in (os.environ.get("KAFKA_LIBS"), ROOT / ".cache" / "kafka-streams-3.9.1"):
        if place and any(Path(place).glob("kafka-streams-3.9.*.jar")):
            return Path(place)
    pytest.skip("needs the jar of Kafka Streams 3.9: run `make apache`")


@pytest.fixture(scope="session")
def kcat() -> str:
    """The kcat command. Skips where it is not installed."""
    found = shutil.which("kcat")
    if found is None:
        pytest.skip("needs kcat")
    return found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need Apache's jars, put the slowest files first, and deselect long tests of a short soak."""
    for item in items:
        if "apache_jars" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.apache)
    items.sort(key=lambda item: [not item.nodeid.startswith(folder) for folder in SLOWEST])
    if config.getoption("soak_seconds") < LONG_SOAK:
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
