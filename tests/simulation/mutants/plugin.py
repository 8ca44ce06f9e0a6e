"""Pytest plugin that runs the tests with one mutant: `MUTANT="high watermark falls" pytest -p <this module> ...`."""

from __future__ import annotations

import os

import pytest

from tests.simulation.mutants.catalogue import BY_NAME

VARIABLE = "MUTANT"
"""The environment variable with the mutant's name; without it the plugin changes nothing."""


def pytest_configure(config: pytest.Config) -> None:
    """Apply the mutant until pytest ends."""
    name = os.environ.get(VARIABLE)
    if name is not None:
        patch = pytest.MonkeyPatch()
        config.add_cleanup(patch.undo)
        BY_NAME[name].apply(patch)
