"""Whole controllers replay exactly, also with another hash seed: no action depends on the order of a set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trace import controller_life

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("seed", ["1", "4242"])
def test_whole_controllers_replay_under_another_hash_seed(controller_folder: Path, seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", controller_life.__name__, str(controller_folder)],
        check=False,
        env={**os.environ, "PYTHONHASHSEED": seed},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
