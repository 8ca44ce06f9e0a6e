"""Fixtures of the tests of whole controllers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from messages.zookeeper import EnsurePaths
from tests.controller.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """Yield a world with Kafka's paths in ZooKeeper and no nodes; check it at the end."""
    made = World()
    made.admin.ask(EnsurePaths())
    yield made
    made.close()
