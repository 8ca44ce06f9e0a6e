"""Alters records: by single bytes, or in the format, with all checksums corrected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from actors.runtime.trace.recorder import Recorder
from messages.trace.files.runs import Run, RunRecords, find_runs
from messages.trace.files.writer import RunWriter
from messages.trace.schema import ENDED, Header, TraceRecord
from messages.trace.text import compress

Row = dict[str, Any]
"""A record by its columns, all of it plain JSON values."""


def kill(recorder: Recorder) -> None:
    """What a kill of its process does to a recorder: the system closes its files, and that is all."""
    assert recorder._writer is not None
    recorder._writer.close()


def only_run(folder: Path) -> Run:
    """The run below the folder."""
    [run] = find_runs(folder).runs
    return run


def rows_of(run: Run) -> list[Row]:
    """The records of a run."""
    columns = TraceRecord.__struct_fields__
    return [
        dict(zip(columns, msgspec.json.decode(msgspec.json.encode(record)), strict=True)) for record in RunRecords(run)
    ]


def write(
    folder: Path, header: Header, rows: Iterable[Row], per_frame: int = 1 << 30, segment_bytes: int = 1 << 30
) -> Path:
    """These records as a run; without an end record it is one that was killed."""
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


def rewritten(folder: Path, change: Callable[[Row], Row | None], **header: Any) -> Path:
    """The run again, beside the original, each record as `change` returns it (None: left out), all sums right."""
    run = only_run(folder)
    changed = [row for old in rows_of(run) if (row := change(old)) is not None]
    altered = msgspec.structs.replace(run.header, **header)
    return write(folder.parent / f"{folder.name}-altered", altered, changed)
