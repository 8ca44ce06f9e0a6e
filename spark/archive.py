"""Making the archive of Spark's classes (spark.shared_classes)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from messages.trace.schema import SENT
from spark.columns import ARROW
from spark.pack import RunTold, Told, keep
from spark.session import open_session
from spark.shared_classes import archive
from spark.summary import summarise


def prepare() -> Path:
    """Make the archive by asking the questions that are asked where none is chosen, of a trace of one message.

    Half a minute. Raises SparkUnavailable, OSError.
    """
    target = archive()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="kafka-actors-") as folder:
        _smallest(Path(folder))
        session = open_session(java=f'"-XX:ArchiveClassesAtExit={part}"')
        summarise(folder, session)
        gateway = session.sparkContext._gateway
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # at which Spark's JVM ends, and writes
        gateway.proc.wait()
    part.replace(target)
    return target


def _smallest(folder: Path) -> None:
    """What `spark.pack` would make of a trace with one message."""
    row = dict.fromkeys(ARROW.names) | {"run": "none", "node": 0, "n": 1, "kind": SENT, "at": 0.0, "failed": False}
    pq.write_table(pa.Table.from_pylist([row], ARROW), folder / "none-000000-0.parquet", compression="zstd")
    keep(Told((RunTold("none", 0, "stopped", (), "full", ()),), ()), folder)
