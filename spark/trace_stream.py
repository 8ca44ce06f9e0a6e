"""A Spark stream of the records that are added to traces: `spark.readStream.format("kafka-actors").load(DIR)`.

Rule 1: an offset is how many bytes of each segment have been read, by its file's name: {"RUN-000000.trace.zst": 4711}.
        It ends behind a whole frame; what a node is still writing waits for the next look.
Rule 2: between two offsets there is always the same: bytes that were written never change. So a restart
        from a checkpoint reads what he would have read. A segment that is there twice is read once.
Rule 3: what is damaged ends its segment, as it does for `spark.source`. A segment that was removed before it was read
        (a node keeps within `trace.max.bytes`) is in no answer.
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
        """Nothing has been read."""
        return {}

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:
        """What can be read now; Spark before 4.2 does not say what has been, and all is looked through again."""
        read = start or {}
        slices = {name: list(grown(path, read.get(name, 0))) for name, path in self._segments().items()}
        return read | {name: found[-1].end for name, found in slices.items() if found}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """A task for each slice of frames between two offsets."""
        paths = self._segments()
        return [
            InputPartition(each)
            for name, upto in end.items()
            if name in paths
            for each in grown(paths[name], start.get(name, 0), upto, SLICE_BYTES)
        ]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The batches of a slice; runs in Spark's workers."""
        with suppress(FileNotFoundError):
            yield from batches(partition.value, self._selection)

    def _segments(self) -> dict[str, Path]:
        """The segments' files by name."""
        runs = [run for run in find_runs(self._folder).runs if self._selection.has_run(run.header.run, run.header.node)]
        return {path.name: path for run in reversed(runs) for path in run.paths}
