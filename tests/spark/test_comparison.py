"""Comparing durations with earlier ones: with figures that a reader can rank by hand, and in two recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from actors.cli.app import run
from spark.questions import comparison
from spark.report import page
from spark.summary import summarise
from tests.spark import failover


def _samples(session: SparkSession, **named: tuple[int, int, float]) -> DataFrame:
    """Return samples for each name: (count, first value, distance between values)."""
    frames = [
        session.range(count).select(
            f.lit("kind").alias("kind"),
            f.lit(name).alias("name"),
            (f.lit(float(first)) + f.col("id") * step).alias("ms"),
        )
        for name, (count, first, step) in named.items()
    ]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole


def test_what_changed_and_what_chance_has_changed(session: SparkSession) -> None:
    before = _samples(session, slow=(20, 1, 1), same=(20, 1, 1), tied=(20, 5, 0), few=(19, 1, 1), gone=(20, 1, 1))
    after = _samples(session, slow=(20, 21, 1), same=(20, 1, 1), tied=(20, 5, 0), few=(20, 90, 1), late=(20, 1, 1))
    found = {row.name: row for row in comparison.compare(before, after).collect()}
    assert set(found) == {"slow", "same", "tied", "few"}, "what was measured in both"
    # `after` is larger in all 20 x 20 pairs; by chance it would be in half of them: 200 more, with a deviation of 36.97
    assert round(found["slow"].z, 2) == 5.41 and found["slow"].verdict == "slower"
    assert (found["slow"].before_p50_ms, found["slow"].after_p50_ms, found["slow"].ratio) == (10, 30, 3)
    assert found["same"].z == 0 and found["same"].verdict is None
    assert found["tied"].z is None and found["tied"].ratio == 1, "all are alike: there is nothing to rank"
    assert found["few"].z is None and found["few"].verdict is None and found["few"].before_count == 19
    back = {row.name: row for row in comparison.compare(after, before).collect()}
    assert back["slow"].verdict == "faster" and round(back["slow"].z, 2) == -5.41


def test_equal_values_count_half_in_the_comparison(session: SparkSession) -> None:
    """Before 1..20, after 11..30: 10 values are in both. Of 400 pairs, after is larger in 345 and equal in 10."""
    before, after = _samples(session, it=(20, 1, 1)), _samples(session, it=(20, 11, 1))
    [row] = comparison.compare(before, after).collect()
    variance = 400 / 12 * (41 - 10 * (2**3 - 2) / (40 * 39))
    assert row.z == pytest.approx((345 + 10 / 2 - 200) / variance**0.5)


def test_equal_runs_compare_without_a_difference(
    session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("before", "after"):
        failover.record(tmp_path / name)
    summary = summarise(tmp_path / "after", session, only=("elections",), against=tmp_path / "before")
    found = {(row.kind, row.name): row for row in summary["compared"]}
    assert len(summary["elections"]) == 2
    transmitted = found["handling", "outside:network Transmit"]
    assert (transmitted.before_count, transmitted.after_count, transmitted.ratio, transmitted.z) == (10, 10, 1, None)
    assert ("without a leader", "partitions") not in found, "these traces have no write of a partition's state"
    assert "Compared with --against, no time is clearly slower or faster." in page(summary, "two runs")
    assert run(["summary", str(tmp_path), "--only", "compared"]) == 2
    assert "--against cannot be combined" in capsys.readouterr().err
