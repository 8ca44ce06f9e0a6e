"""A summary names what is wrong with a folder of traces or of packed traces, and is partial on request.

Each row of a table has the damage, the expected words, and how many of the 37 deliveries a partial summary counts.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from actors.cli.app import run
from messages.trace.endings import KILLED, RUNNING
from messages.trace.files.errors import NotATrace
from messages.trace.files.segments import SUFFIX
from spark.errors import Incomplete
from spark.pack import MANIFEST, Packing
from spark.summary import summarise
from tests.spark import failover

LAST = 300
"""Bytes from a place inside the last delivery to the end of node 1's segment. Each delivery has its own frame."""


def _segment(folder: Path) -> Path:
    """Return the segment of node 1, whose run ended cleanly after 11 deliveries."""
    [segment] = (file for file in (folder / "b").glob(f"*{SUFFIX}") if "manifest" not in file.name)
    return segment


def _truncated_segment(folder: Path) -> None:
    whole = _segment(folder).read_bytes()
    _segment(folder).write_bytes(whole[:-LAST])


def _altered_segment(folder: Path) -> None:
    whole = bytearray(_segment(folder).read_bytes())
    whole[-LAST] ^= 1
    _segment(folder).write_bytes(whole)


def _missing_segment(folder: Path) -> None:
    _segment(folder).unlink()


def _missing_manifest(folder: Path) -> None:
    next((folder / "b").glob("*manifest*")).unlink()


def _stranger(folder: Path) -> None:
    (folder / f"stranger{SUFFIX}").write_bytes(b"no trace")


def _twin(folder: Path) -> None:
    shutil.copytree(folder / "b", folder / "again")


TRACES: tuple[tuple[Callable[[Path], None], str, int], ...] = (
    (_truncated_segment, "byte", 36),
    (_altered_segment, "checksum", 36),
    (_missing_segment, "is missing", 26),
    (_missing_manifest, "the manifest is missing", 37),
    (_stranger, "stranger", 37),
    (_twin, "is there 2 times", 37),
)


@pytest.mark.parametrize(("harm", "named", "counted"), TRACES, ids=[harm.__name__[1:] for harm, *_ in TRACES])
def test_damaged_traces_are_named_and_the_rest_is_counted(
    session: SparkSession, tmp_path: Path, harm: Callable[[Path], None], named: str, counted: int
) -> None:
    failover.record(tmp_path)
    harm(tmp_path)
    with pytest.raises(Incomplete, match=named):
        summarise(tmp_path, session)
    found = summarise(tmp_path, session, only=("messages",), partial=True)
    assert any(named in each for each in (*found.damage, *found.unreadable))
    assert sum(row.count for row in found["messages"]) == counted


def _rewrite(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    [file] = folder.glob("node1*.parquet")
    pq.write_table(change(pq.read_table(file)), file)


def _missing_columns(folder: Path) -> None:
    _rewrite(folder, lambda table: table.drop_columns(["event_ms", "items"]))


def _another_type(folder: Path) -> None:
    _rewrite(
        folder,
        lambda table: table.set_column(table.schema.get_field_index("took"), "took", table["took"].cast(pa.string())),
    )


def _truncated_parquet(folder: Path) -> None:
    [file] = folder.glob("node1*.parquet")
    file.write_bytes(file.read_bytes()[:-9])


def _no_parquet(folder: Path) -> None:
    (folder / "empty.parquet").touch()


PACKED: tuple[tuple[Callable[[Path], None], str, int], ...] = (
    (_missing_columns, "no column items, event_ms", 37),
    (_another_type, "other types in took", 26),
    (_truncated_parquet, "is no Parquet", 26),
    (_no_parquet, "is no Parquet", 37),
)


@pytest.mark.parametrize(("harm", "named", "counted"), PACKED, ids=[harm.__name__[1:] for harm, *_ in PACKED])
def test_damaged_packed_files_are_named_and_the_rest_is_counted(
    session: SparkSession, tmp_path: Path, harm: Callable[[Path], None], named: str, counted: int
) -> None:
    failover.record(tmp_path / "traces")
    Packing(tmp_path / "traces", tmp_path / "packed").finish()
    harm(tmp_path / "packed")
    with pytest.raises(Incomplete, match=named):
        summarise(tmp_path / "packed", session)
    found = summarise(tmp_path / "packed", session, only=("messages",), partial=True)
    assert [named in each for each in found.unreadable] == [True]
    assert sum(row.count for row in found["messages"]) == counted


def test_a_packed_folder_that_is_being_written_to_is_what_it_was(session: SparkSession, tmp_path: Path) -> None:
    failover.record(tmp_path / "traces")
    Packing(tmp_path / "traces", tmp_path / "packed").finish()
    (tmp_path / "packed" / "node1-000000-0.part").write_bytes(b"PAR1, and no more yet")
    assert sum(row.count for row in summarise(tmp_path / "packed", session, only=("messages",))["messages"]) == 37
    (tmp_path / "packed" / MANIFEST).write_text("{}")
    with pytest.raises(NotATrace, match="Pack the traces again"):
        summarise(tmp_path / "packed", session)


def test_a_trace_that_is_being_written_to_is_read_as_far_as_it_is_written(
    session: SparkSession, tmp_path: Path
) -> None:
    """A running recorder and a killed one leave no gap, so the summary needs no `partial`."""
    node = failover.first(tmp_path)
    node.recorder.flush()
    for how, act in ((RUNNING, lambda: None), (KILLED, lambda: failover.kill(node.recorder))):
        act()
        found = summarise(tmp_path, session, only=())
        assert [(run.deliveries, run.ending) for run in found["runs"]] == [(26, how)]
    shutil.rmtree(tmp_path / "a", ignore_errors=True)


def test_the_command_names_what_is_missing_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark.summary.open_session", lambda master: pytest.fail("Spark starts"))
    failover.record(tmp_path)
    _truncated_segment(tmp_path)
    _stranger(tmp_path)
    assert run(["summary", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    first, *named = err.splitlines()
    assert not out and "--partial" in first and len(named) == 2 and "stranger" in named[1]
