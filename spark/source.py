"""A Spark data source for traces. Users register its subclass, which is in `spark.public`.

Rule 1: a task reads a slice of a segment file (whole frames), not the whole file. So any number of workers can share
        one large run.
Rule 2: a read covers the records that existed when it was planned. Unreadable parts are left out.
        `messages.trace.files.runs` lists these parts and how each run ended. If a run has two copies, only one of them
        is read.
Rule 3: a folder that still grows can be read as a stream, too: `GrowingTraces`.
Rule 4: options select the records to read by node, run, actor and time (`spark.selection`). A query's conditions on
        the columns `node`, `run`, `actor` and `at` also select the records to read, if the session has
        spark.sql.python.filterPushdown.enabled (Spark 4.1 and newer).
Rule 5: workers read the files at the paths that the planner found, in a folder that all of them can read. A relative
        path is relative to the current folder of the driver or, with Spark Connect, of the server.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from messages.trace.files.errors import NotATrace
from messages.trace.files.runs import find_runs, grown
from spark.columns import ARROW, FACT_COLUMNS, SLICE_BYTES, batches, fact_batches, plan_slices, select_runs
from spark.errors import BadOption
from spark.selection import ALL, FACTS_TABLE, Selection, selection_of, table_of

Offset = dict[str, int]


class GrowingTraces(DataSourceStreamReader):
    """A Spark stream reader, which reads all runs below a folder and the records that are added to them.

    Rule 1: an offset maps the file name of each segment to the number of bytes that are read:
            {"RUN-000000.trace.zst": 4711}. This number is always the end of a frame. A frame that a node is still
            writing is read later.
    Rule 2: the records between two offsets are always the same, because written bytes never change. A restart from a
            checkpoint therefore reads the same records. If the folder contains two copies of a segment, only one is
            read.
    Rule 3: a damaged segment is read up to the damage. A node removes old segments to stay within `trace.max.bytes`; a
            segment that is removed before it is read is not in the results.
    """

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


FACTS: StructType = from_arrow_schema(pa.schema([(name, type) for name, (type, _) in FACT_COLUMNS.items()]))
SCHEMA: StructType = from_arrow_schema(ARROW)
"""The schema of `spark.columns` for Spark. Parsing it from text takes half a second the first time."""


class TraceSource(DataSource):
    """The Spark data source for traces. `spark.public` has the subclass that users register."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name.

        It differs from the name in `spark.public`, because Spark refuses to register that name a second time.
        """
        return "kafka-actors-traces"

    def schema(self) -> StructType:
        """Return the columns of a record (`spark.columns`)."""
        return FACTS if self._has_facts() else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the folder that the user passed to `load`.

        Raises:
            NotATrace: The folder contains no traces.
            BadOption: An option is invalid.
        """
        if self._has_facts():
            return FactsReader(self._folder(), selection_of(self.options))
        kind = FilteringReader if _PUSHDOWN in sys.modules else TraceReader
        return kind(self._folder(), selection_of(self.options))

    def streamReader(self, schema: StructType) -> GrowingTraces:
        """Return a stream reader for the folder that the user passed to `load`.

        Raises:
            NotATrace: The folder contains no traces.
            BadOption: An option is invalid, or the table is not that of the records.
        """
        if self._has_facts():
            raise BadOption("Only the table of records can be read as a stream, not the table of facts.")
        return GrowingTraces(self._folder(), selection_of(self.options))

    def _has_facts(self) -> bool:
        return table_of(self.options) == FACTS_TABLE

    def _folder(self) -> Path:
        if "path" not in self.options:
            raise NotATrace('No trace folder was given. Use spark.read.format("kafka-actors").load(DIR).')
        return Path(self.options["path"].removeprefix("file://")).absolute()  # executors work in other folders


_PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module of the process in which Spark plans a read with filters.

If filters are switched off, Spark refuses a reader with `pushFilters`.
"""
_COMPARISONS = {
    "EqualTo": "=",
    "In": "in",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
"""Spark's filters that a selection may express, by class name, because PySpark 4.0 lacks the classes."""


class TraceReader(DataSourceReader):
    """A Spark reader of all runs below a folder, of which each task reads a slice."""

    _parts: Callable[..., Sequence[Any]] = staticmethod(plan_slices)
    _batches: Callable[..., Iterator[pa.RecordBatch]] = staticmethod(batches)

    def __init__(self, folder: Path, selection: Selection = ALL) -> None:
        self._folder = folder
        self._selection = selection

    def partitions(self) -> Sequence[InputPartition]:
        """Return a task for each part of the trace, or one without a part."""
        parts = self._parts(find_runs(self._folder).runs, self._selection)
        return [InputPartition(each) for each in parts] or [InputPartition(None)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a part; this runs in Spark's workers."""
        if partition.value is not None:
            yield from self._batches(partition.value, self._selection)


class FactsReader(TraceReader):
    """A Spark reader of the facts of all runs below a folder (`messages.facts`), of which each task reads one."""

    _parts = staticmethod(select_runs)
    _batches = staticmethod(fact_batches)


class FilteringReader(TraceReader):
    """A TraceReader that applies the conditions of a query while it reads."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Take over the filters that a selection can express; yield the others."""
        for filter in filters:
            taken = self._narrow(filter)
            if taken is None:
                yield filter
            else:
                self._selection = taken

    def _narrow(self, filter: Any) -> Selection | None:
        comparison = _COMPARISONS.get(type(filter).__name__)
        if comparison is None or len(filter.attribute) != 1:
            return None
        return self._selection.narrow(filter.attribute[0], comparison, filter.value)
