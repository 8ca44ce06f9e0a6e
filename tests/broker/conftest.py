"""Fixtures of the tests that run a whole broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.harness import Broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Return a running broker with an empty log directory."""
    broker = Broker(tmp_path)
    broker.run()
    yield broker
    broker.end()
