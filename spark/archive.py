"""Create the archive of Spark's Java classes. With this archive, Spark starts faster (`spark.java`)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from messages.facts.indexed import encode_facts
from messages.trace.schema import SENT
from messages.trace.text import compress
from spark.columns import ARROW, STATE
from spark.java import archive, home, link, prepare_once, record
from spark.pack import Manifest, PackedRun, keep, keep_facts
from spark.questions.controller import CONTROLLER
from spark.session import open_session
from spark.summary import summarise

_STATE = dict.fromkeys(field.name for field in STATE) | {"topic": "t", "partition": 0, "leader": 0, "leader_epoch": 0}
_RECORDS: tuple[dict[str, Any], ...] = (
    {"actor": CONTROLLER, "type": "BrokerChange"},
    {"type": "Transmit", "request": "UpdateMetadataRequest", "channel": "c", "broker": 0, "states": [_STATE]},
    {"type": "Samples", "subject": "BrokerChange", "event_ms": 1.0, "event_queue_ms": 0.0, "items": 1},
)
"""An event of a controller, the request that it causes, and its end: rows for the sections of a usual summary."""


def prepare(say: Callable[[str], None] = print) -> Path:
    """Create the archive of Spark's classes, unless it exists, and return its folder. This takes half a minute.

    `say` is called if another process is creating the archive.

    Raises:
        SparkUnavailable: Spark cannot be started.
        OSError: The archive cannot be written.
    """
    laid_out = home()
    prepare_once(laid_out, _lay_out, say)
    return laid_out


def _lay_out(laid_out: Path) -> None:
    """Create the folder `laid_out` and its archive of Spark's classes.

    The JVM first computes a small summary, which loads all needed classes. It then writes the archive.
    """
    link(laid_out)
    part = laid_out / "classes.part"
    with tempfile.TemporaryDirectory(prefix="kafka-actors-") as folder:
        _smallest(Path(folder))
        session = open_session(archive_to=part)
        summarise(folder, session)
        gateway = session.sparkContext._gateway
        record(laid_out, gateway.proc.pid)
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # Spark's JVM then shuts down, and writes the archive while doing so
        gateway.proc.wait()
    part.replace(archive(laid_out))


def _smallest(folder: Path) -> None:
    """Write a trace of a few records in the format of `spark.pack`."""
    blank = dict.fromkeys(ARROW.names) | {"run": "none", "node": 0, "kind": SENT, "failed": False}
    blank |= dict.fromkeys(("at", "waited", "took"), 0.0)
    rows = [blank | {"n": n, "at": float(n)} | fields for n, fields in enumerate(_RECORDS, 1)]
    pq.write_table(pa.Table.from_pylist(rows, ARROW), folder / "none-000000-0.parquet", compression="zstd")
    keep_facts("none", compress([encode_facts(())]), folder)
    keep(Manifest((PackedRun("none", 0, "stopped", (), "full", ()),), ()), folder)
