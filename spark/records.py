"""All records of all nodes below a folder, as one DataFrame.

Rule 1: the schema is written out, never inferred: an empty trace has the same columns as a full one.
Rule 2: a line that is no record is a row of kind MALFORMED, so that it can be counted; nothing else ever sums it up.
Rule 3: a torn end, or damage, costs the rows of its file that follow, and nobody else's; `messages.trace.runs` says
        where. What it takes for one run is read once: files of runs that are there twice only where they were first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from messages.trace.runs import Run, segment_rows
from messages.trace.schema import DELIVERIES, Header, Record

MALFORMED = "malformed"

SCHEMA = StructType(
    [
        StructField("run", StringType(), False),
        StructField("node", IntegerType(), False),
        StructField("n", LongType(), False),
        StructField("kind", StringType(), False),
        StructField("cause", LongType(), False),
        StructField("sender", StringType(), False),
        StructField("receiver", StringType(), False),
        StructField("actor", StringType(), False),
        StructField("type", StringType(), False),
        StructField("at", DoubleType(), False),
        StructField("waited", DoubleType(), False),
        StructField("took", DoubleType(), False),
        StructField("effects", IntegerType(), False),
        StructField("failed", BooleanType(), False),
        StructField("payload", StringType(), True),
    ]
)
"""`at` is when the message was taken from the queue, in seconds since 1970; `waited` and `took` are seconds.

`effects` counts the port calls. `payload` is JSON (messages.trace.codec), or the line itself where it is MALFORMED.
"""


def read_all(session: SparkSession, runs: Iterable[Run]) -> DataFrame:
    """Every row of these runs: deliveries, events of runs, malformed lines. In no order."""
    once = {run.header.run: run for run in reversed(list(runs))}
    paths = [_escaped(path.resolve()) for run in once.values() for path in run.paths]
    if not paths:
        return session.createDataFrame([], SCHEMA)
    files = session.read.format("binaryFile").load(paths).select("path", "content")
    return session.createDataFrame(files.rdd.flatMap(_rows), SCHEMA, verifySchema=False)


def _escaped(path: Path) -> str:
    """The path as Spark takes it, to which some characters are patterns."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path))


def deliveries(records: DataFrame) -> DataFrame:
    """Those rows that are deliveries."""
    return records.where(records.kind.isin(*DELIVERIES))


def _rows(file: Any) -> Iterator[tuple[Any, ...]]:
    """One segment's rows; runs in Spark's workers."""
    for header, row in segment_rows(bytes(file.content), Path(file.path)):
        if isinstance(row, Record):
            yield _row(header, row)
        else:
            text = row.decode(errors="replace")
            yield header.run, header.node, 0, MALFORMED, 0, "", "", "", "", 0.0, 0.0, 0.0, 0, False, text


def _row(header: Header, record: Record) -> tuple[Any, ...]:
    return (
        header.run,
        header.node,
        record.n,
        record.kind,
        record.cause,
        record.sender,
        record.receiver,
        record.actor,
        record.type,
        record.taken_at + header.clock_offset,
        record.taken_at - record.queued_at,
        record.finished_at - record.taken_at,
        len(record.effects),
        record.error is not None,
        bytes(record.payload).decode(),
    )
