"""Whole controllers replay exactly, also with another hash seed: no action depends on the order of a set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.runtime.trace.replayer import replay_directory
from tests.trace import controller_life

ROOT = Path(__file__).resolve().parents[2]


def test_whole_controllers_replay_exactly(controller_folder: Path) -> None:
    [run] = replay_directory(controller_folder, controller_life.ACTORS).runs
    assert run.divergence is None, run.divergence.text()
    assert run.ok and run.complete and not run.warnings
    assert run.deliveries > 500 and run.timers > 0 and run.effects > 0


@pytest.mark.parametrize("seed", ["1", "4242"])
def test_they_replay_under_another_hash_seed(controller_folder: Path, seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", controller_life.__name__, "replay", str(controller_folder)],
        check=False,
        env={**os.environ, "PYTHONHASHSEED": seed},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
