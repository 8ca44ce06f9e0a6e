"""The data source itself."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from spark.pack import Packing
from spark.summary import ask
from tests.spark import failover


def test_traces_where_they_lie_answer_as_what_is_packed_does(session: SparkSession, tmp_path: Path) -> None:
    """As a cluster's workers read them."""
    failover.record(tmp_path / "traces")
    Packing(tmp_path / "traces", tmp_path / "packed").finish()
    only = ("episodes", "requests")
    assert ask(session, tmp_path / "traces", only=only) == ask(session, tmp_path / "packed", only=only)
