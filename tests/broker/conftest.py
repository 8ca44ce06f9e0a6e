"""What tests of a whole broker share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.harness import Broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that runs, with an empty log directory."""
    broker = Broker(tmp_path)
    broker.run()
    yield broker
    broker.end()
