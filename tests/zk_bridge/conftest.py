"""Provide one real ZooKeeper server for all tests of this package, and a chroot for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from zk_bridge.embedded import EmbeddedZooKeeper, jar_sources

_corners = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """Run a ZooKeeper server until the tests have ended."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), force_sync=False) as server:
        yield server


@pytest.fixture(scope="session", params=jar_sources(), ids=lambda source: source.name)
def server_of_each_source(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedZooKeeper]:
    """Run a ZooKeeper server with the jars of each source that is installed."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("source"), force_sync=False, jars=request.param) as server:
        yield server


@pytest.fixture
def chroot() -> str:
    """Return a chroot that no other test uses."""
    return f"/test/corner-{next(_corners)}"
