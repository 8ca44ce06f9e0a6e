"""Traces as a data source of Spark's: `spark.read.format("kafka-actors").load(DIR)`.

Rule 1: tasks read slices of frames, not files: any number of workers can share one large run.
Rule 2: what is planned is what was there when it was planned. What cannot be read is left out; `messages.trace.runs`
        says what that is, and how each run ended. A run that is there twice is read once.
Rule 3: a folder that still grows can be read as a stream, too: `spark.growing`.
Rule 4: workers read the files at the paths that the planner found: a folder that all of them see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from messages.trace.errors import NotATrace
from messages.trace.runs import Slice, find_runs
from spark.columns import ARROW, batches, planned
from spark.growing import GrowingTraces

SCHEMA: StructType = from_arrow_schema(ARROW)
"""Of `spark.columns`, for Spark; not as its own text, for that has to be parsed, the first time for half a second."""


class TraceSource(DataSource):
    """All records of all nodes below a folder; the columns are `spark.columns`."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return "kafka-actors"

    def schema(self) -> StructType:
        """See `spark.columns`."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the folder that `load` names. Raises NotATrace where there is none."""
        return TraceReader(self._folder())

    def streamReader(self, schema: StructType) -> GrowingTraces:
        """A reader of what grows in the folder that `load` names. Raises NotATrace where there is none."""
        return GrowingTraces(self._folder())

    def _folder(self) -> Path:
        if "path" not in self.options:
            raise NotATrace('The trace folder is missing. Use spark.read.format("kafka-actors").load(DIR).')
        return Path(self.options["path"].removeprefix("file://"))


class _SliceOfTrace(InputPartition):
    def __init__(self, slice: Slice) -> None:
        self.slice = slice


class TraceReader(DataSourceReader):
    """Reads all runs below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def partitions(self) -> Sequence[InputPartition]:
        """A task for each slice."""
        return [_SliceOfTrace(each) for each in planned(find_runs(self._folder).runs)] or [InputPartition(None)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The batches of a slice; runs in Spark's workers."""
        if isinstance(partition, _SliceOfTrace):
            yield from batches(partition.slice)
