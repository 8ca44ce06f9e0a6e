"""A Spark stream of the records that are added to traces: `spark.readStream.format("kafka-actors").load(DIR)`.

Rule 1: an offset maps the file name of each segment to the number of bytes that are read: {"RUN-000000.trace.zst":
        4711}. This number is always the end of a frame. A frame that a node is still writing is read later.
Rule 2: the records between two offsets are always the same, because written bytes never change. A restart from a
        checkpoint therefore reads the same records. If the folder contains two copies of a segment, only one is read.
Rule 3: a damaged segment is read up to the damage, as in `spark.source`. A node removes old segments to stay within
        `trace.max.bytes`; a segment that is removed before it is read is not in the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from messages.trace.files.runs import find_runs, grown
from spark.columns import SLICE_BYTES, batches
from spark.selection import ALL, Selection

Offset = dict[str, int]


class GrowingTraces(DataSourceStreamReader):
    """A Spark stream reader, which reads all runs below a folder and the records that are added to them."""

    def __init__(self, folder: Path, selection: Selection = ALL) -> None:
        self._folder = folder
        self._selection = selection

    def initialOffset(self) -> Offset:
        """Return the offset before all records."""
        return {}

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:
        """Return the offset after all readable records.

        Spark before 4.2 does not pass `start`. Without `start`, all segments are checked from their beginning.
        """
        read = start or {}
        slices = {name: list(grown(path, read.get(name, 0))) for name, path in self._segments().items()}
        return read | {name: found[-1].end for name, found in slices.items() if found}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return a task for each slice of frames between two offsets."""
        paths = self._segments()
        return [
            InputPartition(each)
            for name, upto in end.items()
            if name in paths
            for each in grown(paths[name], start.get(name, 0), upto, SLICE_BYTES)
        ]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a slice; this runs in Spark's workers."""
        with suppress(FileNotFoundError):
            yield from batches(partition.value, self._selection)

    def _segments(self) -> dict[str, Path]:
        """Return the segments' files by name."""
        runs = [run for run in find_runs(self._folder).runs if self._selection.has_run(run.header.run, run.header.node)]
        return {path.name: path for run in reversed(runs) for path in run.paths}
