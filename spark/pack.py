"""Convert traces to Parquet with the columns of `spark.columns`, for Spark and other tools.

    TARGET/RUN-000000-0.parquet      the slice of segment 0 that begins at byte 0
    TARGET/_RUN.facts.zst            the facts of the run (`messages.facts.indexed`); Spark ignores names with _
    TARGET/_runs.json                the end of each run, and what could not be read

Rule 1: a file holds a slice of frames; its metadata has the position at which the slice ends. If a run has continued or
        traces were added, packing again writes only the slices that are new or longer than before. A file gets its name
        when it is complete.
Rule 2: unreadable parts of a trace are left out, and listed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from messages.facts.indexed import decode_facts, readable_content_of
from messages.facts.trace_facts import TraceFacts, merge_runs
from messages.trace.files.errors import NotATrace
from messages.trace.files.runs import Run, RunList, Slice, find_runs, survey
from messages.trace.files.segments import index_name, parse_name
from messages.trace.text import compress, decompress
from spark.columns import ARROW, batches, plan_slices, select_runs

MANIFEST = "_runs.json"
_LANDED = "_spark_metadata"
"""The folder with the list of valid files, if Spark has stored them (`spark.follow`)."""
END = b"kafka_actors_end"
PARALLEL = 2
"""Minimum number of slices for several processes."""


class PackedRun(msgspec.Struct, frozen=True):
    """A run in packed traces: its name and node, how it ended, errors in its files, and parts of its header.

    `ending` and `faults` are as in `messages.trace.files.runs.RunCheck`, `detail` and `events` as in the header.
    """

    run: str
    node: int
    ending: str
    faults: tuple[str, ...]
    detail: str
    events: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True):
    """The list of all runs in packed traces, and of the files that could not be read."""

    runs: tuple[PackedRun, ...]
    unreadable: tuple[str, ...]


class Packing:
    """A running conversion of all traces below a folder to the packed format, in the folder `target`.

    The constructor starts the conversion, and `finish` waits for its end.

    Without `has_facts`, the target has no facts, so some sections of a summary cannot be computed from it.

    The constructor raises NotATrace if there is no such folder. It passes the manifest of the traces to `check`, which
    may raise other exceptions.
    """

    def __init__(
        self,
        folder: Path,
        target: Path,
        check: Callable[[Manifest], None] = lambda manifest: None,
        has_facts: bool = True,
    ) -> None:
        self.target = target
        found = find_runs(folder)
        self.manifest = tell(found)
        check(self.manifest)
        target.mkdir(parents=True, exist_ok=True)
        slices = plan_slices(found.runs)
        work = [partial(pack_facts, run, target) for run in select_runs(found.runs) if has_facts]  # longer than a slice
        work += [partial(pack_slice, each, target) for each in slices]
        self._pool = ProcessPoolExecutor(os.cpu_count()) if len(slices) >= PARALLEL else None
        self._counts = work if self._pool is None else [self._pool.submit(each).result for each in work]
        """Functions that write a part, or wait until a process has written it, and return its number of rows."""

    def finish(self) -> int:
        """Wait for the end; return the number of rows written, without those of slices that existed already."""
        rows = sum(count() for count in self._counts)
        if self._pool is not None:
            self._pool.shutdown()
        keep(self.manifest, self.target)
        return rows


def pack_slice(slice: Slice, target: Path) -> int:
    """Write a slice and return its number of rows; if the slice exists already in full, only return 0."""
    named = parse_name(slice.path.name)
    segment = 0 if named is None or named.segment is None else named.segment
    file = target / f"{slice.header.run}-{segment:06d}-{slice.start}.parquet"
    end = b"%d" % slice.end
    if file.exists() and (pq.read_schema(file).metadata or {}).get(END) == end:
        return 0
    part = file.with_suffix(".part")
    rows = 0
    with pq.ParquetWriter(part, ARROW.with_metadata({END: end}), compression="zstd", compression_level=1) as writer:
        for batch in batches(slice):
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=writer.schema))
            rows += batch.num_rows
    part.replace(file)
    return rows


def pack_facts(run: Run, target: Path) -> int:
    """Write the facts of a run; return 0, because they are not rows."""
    keep_facts(run.header.run, compress([readable_content_of(run)]), target)
    return 0


def keep_facts(run: str, content: bytes, target: Path) -> None:
    """Write the facts of a run, as compressed bytes, into a packed folder."""
    file = _facts_file(target, run)
    part = file.with_suffix(".part")
    part.write_bytes(content)
    part.replace(file)


def _facts_file(folder: Path, run: str) -> Path:
    return folder / f"_{index_name(run)}"


def packed_facts(folder: Path, manifest: Manifest) -> TraceFacts:
    """Return the facts in a packed folder.

    Raises:
        NotATrace: The facts of a run are missing or damaged.
    """
    try:
        files = dict.fromkeys(_facts_file(folder, run.run) for run in manifest.runs)
        return merge_runs([decode_facts(decompress(file.read_bytes())[:-1]) for file in files])
    except (OSError, ValueError) as error:
        raise NotATrace(f"{folder} has no facts: {error}. Pack the traces again, into an empty folder.") from error


def is_packed(folder: Path) -> bool:
    """Return whether the folder contains packed traces."""
    return (folder / MANIFEST).exists()


def keep(manifest: Manifest, folder: Path) -> None:
    """Write the manifest into the folder."""
    part = folder / (MANIFEST + ".part")
    part.write_bytes(msgspec.json.encode(manifest))
    part.replace(folder / MANIFEST)


def manifest(folder: Path) -> Manifest:
    """Return the manifest of a packed folder, with the faults of its files.

    Raises:
        NotATrace: The folder contains no packed traces.
    """
    try:
        beside = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise NotATrace(f"{folder / MANIFEST} cannot be read ({error}). Pack the traces again.") from error
    files = () if (folder / _LANDED).exists() else sorted(folder.glob("*.parquet"))
    gaps = tuple(filter(None, map(_gap, files)))
    return Manifest(beside.runs, (*beside.unreadable, *gaps))


def _gap(file: Path) -> str:
    """Return why a Parquet file is invalid (unreadable, or columns missing or different); "" if it is valid."""
    try:
        schema = pq.read_schema(file)
    except FileNotFoundError:  # replaced meanwhile, because its run was packed again
        return ""
    except (OSError, pa.ArrowException) as error:
        return f"{file} is no Parquet: {str(error).splitlines()[0]}"
    missing = [name for name in ARROW.names if name not in schema.names]
    other = [
        field.name for field in ARROW if field.name in schema.names and schema.field(field.name).type != field.type
    ]
    if other:
        return f"{file} has other types in {', '.join(other)}: packed by another version"
    return f"{file} has no column {', '.join(missing)}: packed by another version" if missing else ""


def tell(found: RunList) -> Manifest:
    """Check all frames of these runs, and return the manifest."""
    runs = []
    for run in found.runs:
        ending, faults = survey(run)
        events = tuple(type_ for type_, _ in run.header.events)
        runs.append(PackedRun(run.header.run, run.header.node, ending, faults, run.header.detail, events))
    return Manifest(tuple(runs), found.unreadable)
