"""The same questions on executors that are processes of their own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cluster.processes import OURS, Running
from tests.spark import failover

pytestmark = pytest.mark.spark_cluster


def _asked(folder: Path, at: Path, *options: str) -> object:
    """What the command says, as JSON."""
    command = [*OURS, "summary", str(folder), "--json", str(at / "out.json"), *options]
    summary = Running(command, at / "out", {"PYSPARK_PYTHON": sys.executable})
    assert summary.process.wait(200) == 0, summary.output
    return json.loads((at / "out.json").read_text())


def test_executors_in_processes_of_their_own(tmp_path: Path) -> None:
    failover.record(tmp_path / "traces")
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
    alone = _asked(tmp_path / "traces", tmp_path / "one")
    assert _asked(tmp_path / "traces", tmp_path / "two", "--master", "local-cluster[2,1,1024]") == alone
