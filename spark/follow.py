"""Follow the traces of a running cluster: store new records as Parquet exactly once, and recompute the summary.

    KEPT/part-*.parquet      rows of `spark.columns`
    KEPT/_spark_metadata     Spark's list of the complete files
    KEPT/_checkpoint         Spark's offsets: how much of the traces has been read (`spark.source`)
    KEPT/_runs.json          the end of each run, and what could not be read, as `spark.pack` writes it
    KEPT/_follower           locked by the process that follows the traces, so that only one process does

Rule: records are stored incrementally, and a restart continues after the last stored record. Every section of the
        summary is computed anew from all stored records. Each figure therefore has one definition, and is exact while
        the traces grow.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from messages.trace.files.runs import ending, find_runs
from spark.columns import select_runs
from spark.errors import AlreadyFollowed
from spark.java import Java
from spark.pack import keep, pack_facts, tell
from spark.results import Summary
from spark.section_names import BRIEF, MASTER
from spark.session import open_session
from spark.source import TraceSource
from spark.summary import ask

EVERY_S = 5.0
"""Seconds between two checks of a folder."""


@contextmanager
def only_follower(kept: Path) -> Iterator[None]:
    """Lock `kept` against other followers while the block runs; the lock also ends with the process.

    Raises:
        AlreadyFollowed: Another process holds the lock.
    """
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "_follower").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyFollowed(f"another --follow keeps what it reads in {kept}: one at a time may") from None
        yield


def land(session: SparkSession, folder: Path, kept: Path) -> None:
    """Store all readable records below `folder` that have not been stored yet."""
    session.dataSource.register(TraceSource)
    checkpoint = kept / "_checkpoint"
    again = True
    while again:
        again = _broken_off(checkpoint)  # if a batch was interrupted, this query completes only that batch
        stream = session.readStream.format(TraceSource.name()).load(str(folder.resolve())).writeStream
        stream = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        stream.start(str(kept), format="parquet").awaitTermination()


def _broken_off(checkpoint: Path) -> bool:
    """Return whether a batch was begun and not completed."""
    begun, ended = ({file.name for file in (checkpoint / log).glob("[0-9]*")} for log in ("offsets", "commits"))
    return not begun <= ended


def follow(
    folder: Path,
    kept: Path,
    say: Callable[[str], None] = lambda words: None,
    only: Collection[str] = BRIEF,
    master: str = MASTER,
    java: Java | None = None,
) -> Iterator[Summary]:
    """Yield a summary of all records below `folder`, and a new summary whenever records have been added.

    The iterator never ends.

    `kept` is the folder for the stored records; an earlier process may have stored some already. For `java`, see
    `spark.summary.summarise`.

    Raises:
        AlreadyFollowed: Another follower stores its records in `kept`.
        NotATrace: The folder does not exist.
        SparkUnavailable: Spark cannot be started.
    """
    seen = _sizes_and_ends(folder)
    with only_follower(kept):
        say("starting Spark")
        session = open_session(master, java)
        while True:
            land(session, folder, kept)
            found = find_runs(folder)
            for run in select_runs(found.runs):
                pack_facts(run, kept)
            keep(tell(found), kept)
            yield ask(session, kept, say, only, partial=True)
            say("waiting for more")
            while seen == (seen := _sizes_and_ends(folder)):
                time.sleep(EVERY_S)


def _sizes_and_ends(folder: Path) -> object:
    """Return a value that changes when records are added: the sizes of the segments, and the ends of the runs."""
    runs = find_runs(folder).runs
    return [(run.header.run, ending(run), run.faults, [_size(path) for path in run.paths]) for run in runs]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a node removes old segments at its size limit
        return 0
