"""What the tests of whole clusters share: a real ZooKeeper of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from zk_bridge.embedded import EmbeddedZooKeeper


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A running server; it may be stopped and started."""
    server = EmbeddedZooKeeper(tmp_path / "zookeeper", force_sync=False)
    server.start()
    yield server
    server.stop()
