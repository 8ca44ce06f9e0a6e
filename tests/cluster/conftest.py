"""A fixture for tests of whole clusters: a real ZooKeeper for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from zk_bridge.embedded import EmbeddedZooKeeper


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """Run a ZooKeeper server, which the test may stop and start."""
    server = EmbeddedZooKeeper(tmp_path / "zookeeper", force_sync=False)
    server.start()
    yield server
    server.stop()
