"""The world that whole controllers are tested in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from messages.zookeeper import EnsurePaths
from tests.controller.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """An empty ZooKeeper with Kafka's paths, and no session yet; checked at the end."""
    made = World()
    made.admin.ask(EnsurePaths())
    yield made
    made.close()
