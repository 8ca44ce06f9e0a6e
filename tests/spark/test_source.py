"""The data source: what users' sessions register, its options, and the filters that it takes over from Spark."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNotNull, LessThanOrEqual, Not

from messages.trace.files.errors import NotATrace
from spark.columns import batches
from spark.errors import BadOption
from spark.pack import Packing
from spark.public import DefaultSource
from spark.selection import ALL, Selection, selection_of
from spark.source import SCHEMA, FilteringReader, GrowingTraces, TraceReader, TraceSource
from spark.summary import ask
from tests.layering import ROOT
from tests.spark import failover


def rows_of(reader: TraceReader) -> list[dict[str, Any]]:
    """Return all rows that the reader's tasks read."""
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


@pytest.mark.soak
@pytest.mark.long
def test_traces_where_they_lie_answer_as_what_is_packed_does(session: SparkSession, tmp_path: Path) -> None:
    """`ask` reads the traces through the data source, as a cluster's workers do."""
    failover.record(tmp_path / "traces")
    Packing(tmp_path / "traces", tmp_path / "packed").finish()
    only = ("requests",)
    assert ask(session, tmp_path / "traces", only=only) == ask(session, tmp_path / "packed", only=only)


def test_a_relative_path_is_read_by_workers_in_other_folders(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(traces.parent)
    source = TraceSource({"path": traces.name})
    stream = source.streamReader(SCHEMA)
    slices = [task.value for task in stream.partitions({}, stream.latestOffset())]
    slices += [task.value for task in source.reader(SCHEMA).partitions()]  # type: ignore[attr-defined]
    assert slices and all(slice.path.is_absolute() for slice in slices)


def test_the_module_that_every_session_imports_imports_no_more_than_pyspark() -> None:
    program = (
        "import sys, pyspark.sql.datasource; before = set(sys.modules)\n"
        "import spark.public; print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "['spark', 'spark.public']\n", done.stderr


def test_each_option_of_the_source_selects_its_rows(traces: Path) -> None:
    everything = rows_of(TraceReader(traces))
    middle = sorted(row["at"] for row in everything)[len(everything) // 2]
    run = everything[0]["run"]
    for options, chosen in {
        ("node", "1,2"): lambda row: row["node"] in (1, 2),
        ("run", run): lambda row: row["run"] == run,
        ("actor", "ControllerActor"): lambda row: row["actor"] == "ControllerActor",
        ("from", str(middle)): lambda row: row["at"] >= middle,
        ("to", str(middle)): lambda row: row["at"] < middle,
    }.items():
        found = rows_of(TraceReader(traces, selection_of(dict([options]))))
        assert found == [row for row in everything if chosen(row)], options
        assert 0 < len(found) < len(everything), options
    growing = GrowingTraces(traces, selection_of({"node": "1"}))
    read = [row for task in growing.partitions({}, growing.latestOffset({})) for row in growing.read(task)]
    assert {node for batch in read for node in batch.column("node").to_pylist()} == {1}


def test_times_are_seconds_or_iso_8601_in_utc() -> None:
    assert selection_of({"From": "2026-01-31T12:00:00"}).start == 1769860800.0
    assert selection_of({"from": "2026-01-31T13:00:00+01:00", "to": "1769860800.5"}) == Selection(
        start=1769860800.0, end=1769860800.5
    )


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("node", "one"), "node='one' is not a list of broker ids such as 0 or 0,2"),
        (("from", "noon"), "from='noon' is not a time such as 2026-01-31T12:00:00"),
        (("nodes", "1"), "Unknown option 'nodes'. The options are node, run, actor, from, to"),
    ],
)
def test_a_bad_option_is_named(option: tuple[str, str], words: str) -> None:
    with pytest.raises(BadOption, match=words.replace("(", r"\(")):
        selection_of(dict([option]))


def test_a_missing_folder_is_named() -> None:
    with pytest.raises(NotATrace, match="No trace folder was given"):
        DefaultSource({}).reader(DefaultSource({}).schema())


def test_conditions_on_columns_are_taken_over_and_others_returned(traces: Path) -> None:
    everything = rows_of(TraceReader(traces))
    at = sorted(row["at"] for row in everything)[3]
    own = [
        In(("node",), (0, 2)),
        EqualTo(("actor",), "ControllerActor"),
        GreaterThan(("at",), at),
        LessThanOrEqual(("at",), at + 5),
    ]
    others = [IsNotNull(("at",)), Not(EqualTo(("node",), 1)), EqualTo(("type",), "Answer"), GreaterThan(("node",), 1)]
    reader = FilteringReader(traces)
    assert list(reader.pushFilters([*own, *others])) == others
    assert rows_of(reader) == [
        row
        for row in everything
        if row["node"] in (0, 2) and row["actor"] == "ControllerActor" and at < row["at"] <= at + 5
    ]


def test_a_selection_keeps_both_of_two_conditions() -> None:
    first = ALL.narrow("node", "in", (0, 1))
    assert first is not None
    assert first.narrow("node", "=", 1) == Selection(nodes=frozenset({1}))
    assert first.narrow("node", "=", 2) == Selection(nodes=frozenset())
    assert ALL.narrow("at", ">", 1.0) == Selection(start=math.nextafter(1.0, 2.0))
    assert ALL.narrow("at", "<", None) is None


@pytest.mark.soak
@pytest.mark.long
def test_a_session_with_pushdown_reads_only_what_is_asked(session: SparkSession, traces: Path) -> None:
    session.dataSource.register(DefaultSource)
    read = session.read.format("kafka-actors").load(str(traces))
    wanted = read.where("node = 1 and at > 0")
    expected = wanted.collect()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        again = session.read.format("kafka-actors").load(str(traces)).where("node = 1 and at > 0")
        assert again.collect() == expected
        plan = again._jdf.queryExecution().optimizedPlan().toString()
    finally:
        session.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert "node#" in plan and "Filter" in plan  # Spark still applies the other filters, such as isnotnull
    assert "= 1)" not in plan


def test_rows_of_a_slice_are_selected_before_they_are_built(traces: Path) -> None:
    [task, *_] = TraceReader(traces).partitions()
    assert list(batches(task.value, Selection(actors=frozenset()))) == []  # type: ignore[attr-defined]
