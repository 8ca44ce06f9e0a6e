"""Alterations of recorded runs: of single bytes, or of records, with all checksums corrected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from actors.runtime.trace.recorder import Recorder
from messages.trace.files.runs import Run, RunRecords, find_runs
from messages.trace.files.writer import RunWriter
from messages.trace.schema import ENDED, SCHEMA_VERSION, Header, TraceRecord
from messages.trace.text import compress

Row = dict[str, Any]
"""A record as column -> value, where all values are plain JSON."""


def kill(recorder: Recorder) -> None:
    """Close the recorder's files and write nothing more, as if its process had been killed."""
    assert recorder._writer is not None
    recorder._writer.close()


def only_run(folder: Path) -> Run:
    """Return the only run below the folder."""
    [run] = find_runs(folder).runs
    return run


def rows_of(run: Run) -> list[Row]:
    """Return the records of a run as rows."""
    columns = TraceRecord.__struct_fields__
    return [
        dict(zip(columns, msgspec.json.decode(msgspec.json.encode(record)), strict=True)) for record in RunRecords(run)
    ]


def write(
    folder: Path, header: Header, rows: Iterable[Row], per_frame: int = 1 << 30, segment_bytes: int = 1 << 30
) -> Path:
    """Write these records as a run and return its folder. Without an end record, the run looks killed."""
    writer = RunWriter(folder, header, segment_bytes)
    after, waiting = 0, list(rows)
    while waiting:
        count = next((place for place, row in enumerate(waiting[:per_frame]) if row["kind"] == ENDED), per_frame)
        part, waiting = waiting[:count], waiting[count:]
        if part:
            lines = [msgspec.json.encode(list(row.values())) for row in part]
            writer.write(compress(lines), len(lines), after)
            after = part[-1]["n"]
        if waiting and waiting[0]["kind"] == ENDED:
            end = msgspec.json.encode(list(waiting.pop(0).values()))
            writer.end(msgspec.json.decode(end, type=TraceRecord))
    writer.close()
    return folder


def damage(run: Run) -> None:
    """Flip a bit in a run's last file."""
    content = bytearray(run.paths[-1].read_bytes())
    content[len(content) * 3 // 4] ^= 1
    run.paths[-1].write_bytes(bytes(content))


def make_older(run: Run) -> None:
    """Replace a run by one of the previous schema version."""
    rows = rows_of(run)
    for path in run.folder.iterdir():
        path.unlink()
    write(run.folder, msgspec.structs.replace(run.header, schema_version=SCHEMA_VERSION - 1), rows)


def rewritten(folder: Path, change: Callable[[Row], Row | None], **header: Any) -> Path:
    """Write the run again next to the original, with correct checksums, and return the new folder.

    `change` returns the new record, or None to omit it. `header` has changed fields of the header.
    """
    run = only_run(folder)
    changed = [row for old in rows_of(run) if (row := change(old)) is not None]
    altered = msgspec.structs.replace(run.header, **header)
    return write(folder.parent / f"{folder.name}-altered", altered, changed)
