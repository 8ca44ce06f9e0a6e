"""Fixtures for tests of whole clusters: a real ZooKeeper for each test, and one pair of brokers for several files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.both import FETCH_MAX_BYTES, Both, both_running
from zk_bridge.embedded import EmbeddedZooKeeper


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory, apache_jars: Path) -> Iterator[Both]:
    """Run our broker and Apache's for the files whose topics are enough to keep their tests apart."""
    with both_running(tmp_path_factory.mktemp("both"), apache_jars, fetch__max__bytes=FETCH_MAX_BYTES) as made:
        yield made


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """Run a ZooKeeper server, which the test may stop and start."""
    server = EmbeddedZooKeeper(tmp_path / "zookeeper", force_sync=False)
    server.start()
    yield server
    server.stop()
