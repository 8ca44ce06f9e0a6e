"""Summarise the traces of a cluster: this module computes the sections of a summary.

Rule 1: a count includes deliveries only; what could not be read is counted separately.
Rule 2: a trace that breaks off, because its node was killed, is valid up to its last frame. The summary shows how each
        run ended. If a trace is damaged or unreadable, the summary fails, unless a partial summary is requested. A
        partial summary covers the records before the damage, and lists what is missing.
Rule 3: a column's name contains its unit: `at` and `*_at` are in seconds since 1970, `seconds` and `*_s` are in
        seconds, and `*_ms` are in milliseconds. All others are counts, shares or names.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import tempfile
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from messages.facts.indexed import decode_facts, readable_content_of
from messages.facts.trace_facts import TraceFacts, merge_runs
from messages.trace.files.errors import NotATrace
from messages.trace.files.runs import Run, find_runs
from spark import questions
from spark.columns import MALFORMED, select_runs
from spark.errors import Incomplete
from spark.facts import Facts
from spark.java import Java
from spark.logs import LogFacts, lines, nothing_known, read, text_files
from spark.pack import Manifest, Packing, is_packed, manifest, packed_facts, tell
from spark.results import QueryResult, Summary
from spark.section_names import BRIEF, COMPARED, LOGGED, MASTER, SECTIONS, TITLES, is_local
from spark.session import fit, open_session
from spark.source import SCHEMA, TraceSource

MOST_NAMED = 10
"""Maximum number of unreadable files named in an error."""
FROM_FACTS = ("failovers", "housekeeping")
"""Modules of sections that are computed from the facts of the traces."""
AT_ONCE = 3
"""Number of concurrent questions: Spark plans one while it runs another."""

BYTES_OF_LOG = 10
"""Number of slices with as much work as one Parquet file."""


def summarise(
    path: str | Path,
    session: SparkSession | None = None,
    print_line: Callable[[str], None] = lambda words: None,
    only: Collection[str] = BRIEF,
    master: str = MASTER,
    partial: bool = False,
    against: str | Path | None = None,
    stop: bool = True,
    java: Java | None = None,
) -> Summary:
    """Summarise all traces below `path`, or the Parquet files that `spark.pack` made of them.

    If the workers run on this machine, traces are packed first, while Spark starts; the workers of a cluster read the
    traces directly.

    Args:
        only: The sections; "runs" is always included, and "compared" is included if `against` is given.
        master: The Spark master of the new session, if `session` is None.
        partial: Whether to summarise the readable part of damaged traces.
        against: A folder of earlier traces to compare with.
        stop: Whether to stop the session at the end, if this function started it.
        java: A Java process that waits to become Spark's driver.

    Raises:
        NotATrace: There is no such folder.
        Incomplete: A trace cannot be read, and `partial` is false.
    """
    folders = [Path(each) for each in (path, against) if each is not None]
    here = is_local(master)
    check = functools.partial(_demand, partial=partial)
    has_facts = against is not None or any(each.name in only for each in SECTIONS if each.module in FROM_FACTS)
    with tempfile.TemporaryDirectory(prefix="kafka-actors-") as place:
        packings = {  # a Packing forks workers: this must happen before this process has threads
            folder: Packing(folder, Path(place) / str(number), check, has_facts)
            for number, folder in enumerate(folders)
            if here and not is_packed(folder)
        }
        if packings:
            print_line(f"reading {sum(len(each.manifest.runs) for each in packings.values())} runs, and starting Spark")
        with ThreadPoolExecutor(1) as starter:
            starting = starter.submit(lambda: session or open_session(master, java))
            for packing in packings.values():
                packing.finish()
            opened = starting.result()
        try:
            asked = [packings[folder].target if folder in packings else folder for folder in folders]
            return ask(opened, asked[0], print_line, only, partial, *asked[1:])
        finally:
            if session is None and stop:
                opened.stop()


def summarise_logs(
    path: str | Path,
    session: SparkSession | None = None,
    print_line: Callable[[str], None] = lambda words: None,
    only: Collection[str] = LOGGED,
    master: str = MASTER,
    zone: str = "UTC",
    stop: bool = True,
    java: Java | None = None,
) -> Summary:
    """Summarise the logs of Apache Kafka brokers below `path` (`spark.logs`); `zone` is the time zone of the logs.

    Sections in `only` that cannot be computed from logs are left out. For `stop` and `java`, see `summarise`.

    Raises:
        NotATrace: There is no such file or folder, or no log with known lines is in it.
    """
    folder = Path(path)
    if not folder.exists():
        raise NotATrace(f"{folder}: no such file or folder")
    files = list(text_files(folder))
    if not files:
        raise NotATrace(f"{folder} contains no text file")
    print_line("starting Spark")
    opened = session or open_session(master, java)
    try:
        fit(opened, sum(file.stat().st_size for file in files) // BYTES_OF_LOG)
        text = lines(opened, files)
        records = read(text, folder if folder.is_dir() else folder.parent, zone).persist()
        summary = _summary(LogFacts(records), print_line, set(LOGGED).intersection(only), partial=True)
        records.unpersist()
        if not summary["runs"]:
            reason = "; ".join(summary.unplaced) or nothing_known(text, len(files))
            raise NotATrace(f"{folder} contains no log with known lines: {reason}")
        return summary
    finally:
        if session is None and stop:
            opened.stop()


def ask(
    session: SparkSession,
    folder: Path,
    print_line: Callable[[str], None] = lambda words: None,
    only: Collection[str] = BRIEF,
    partial: bool = False,
    against: Path | None = None,
) -> Summary:
    """Summarise a folder in an existing session. Traces that are not packed take longer than packed traces.

    Raises:
        NotATrace: The folder does not exist.
        Incomplete: A trace cannot be read, and `partial` is false.
    """
    print_line("running the questions")
    before = None if against is None else _facts(session, against, partial)
    return _summary(_facts(session, folder, partial, before), print_line, only, partial)


def _facts(session: SparkSession, folder: Path, partial: bool, before: Facts | None = None) -> Facts:
    if is_packed(folder):
        beside = manifest(folder)
        _demand(beside, partial)
        few = fit(session, sum(file.stat().st_size for file in folder.glob("*.parquet")))
        reader = session.read.schema(SCHEMA).options(pathGlobFilter="*.parquet", ignoreCorruptFiles=partial)
        records = reader.parquet(str(folder))
        records = records.coalesce(1) if few else records
        return Facts(records, beside, lambda: packed_facts(folder, beside), before)
    found = find_runs(folder)
    beside = tell(found)
    _demand(beside, partial)
    fit(session, sum(path.stat().st_size for run in found.runs for path in run.paths))
    session.dataSource.register(TraceSource)
    records = session.read.format(TraceSource.name()).load(str(folder.resolve()))
    return Facts(records, beside, lambda: gather_facts(session, found.runs), before)


def gather_facts(session: SparkSession, runs: Sequence[Run]) -> TraceFacts:
    """Return the facts of these runs, which Spark's workers read, one task for each run."""
    unique = select_runs(runs)
    # Not mapInArrow, because that needs pandas.
    contents = session.sparkContext.parallelize(unique, len(unique) or 1).map(readable_content_of).collect()
    return merge_runs(map(decode_facts, contents))


def _demand(manifest: Manifest, partial: bool, malformed: int = 0) -> None:
    missing = [*(fault for run in manifest.runs for fault in run.faults), *manifest.unreadable]
    if malformed:
        missing.append(f"{malformed} lines are no records")
    if missing and not partial:
        more = f"\n... and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        raise Incomplete("\n".join(missing[:MOST_NAMED]) + more)


def _summary(facts: Facts, print_line: Callable[[str], None], only: Collection[str], partial: bool) -> Summary:
    asked = ["runs", *(name for name in TITLES if name in only and name not in ("runs", COMPARED))]
    asked += [COMPARED] if facts.before is not None else []
    answers = {}
    with ThreadPoolExecutor(AT_ONCE) as askers:
        malformed = askers.submit(lambda: facts.records.where(facts.records.kind == MALFORMED).count())
        unplaced = askers.submit(facts.records_without_node)
        # This thread makes the data frame of the next question while other threads compute the answers to the previous
        # questions. Only one thread makes data frames, so that a cached data frame is made once.
        waiting = [(name, askers.submit(_collect, _answer(name, facts))) for name in asked]
        for count, (name, answer) in enumerate(waiting, 1):
            answers[name] = answer.result()
            print_line(f"{count} of {len(waiting)} questions answered: {name}")
    _demand(facts.manifest, partial, malformed.result())
    damage = tuple(fault for run in facts.manifest.runs for fault in run.faults)
    return Summary(answers, malformed.result(), facts.manifest.unreadable, damage, unplaced.result())


def _answer(name: str, facts: Facts) -> DataFrame | QueryResult:
    """Return the data frame or the result of a section, from the function that `SECTIONS` names."""
    [module] = [each.module for each in SECTIONS if each.name == name]
    if not module:
        frame: DataFrame = getattr(facts, name)
        return frame
    question: Callable[..., Any] = getattr(importlib.import_module(f"{questions.__name__}.{module}"), name)
    return question(*(getattr(facts, taken) for taken in inspect.signature(question).parameters))


def _collect(frame: DataFrame | QueryResult) -> QueryResult:
    if isinstance(frame, QueryResult):
        return frame
    return QueryResult(tuple(frame.columns), tuple(tuple(row) for row in frame.collect()))
