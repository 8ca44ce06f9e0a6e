"""What happened in a cluster, from the traces of all its nodes: the table of questions, and how they are asked.

Rule 1: a figure counts deliveries, and nothing that is not one; what could not be read is counted beside.
Rule 2: a trace that breaks off (a killed node) is as good as any other up to its last frame. How each run ended is
        told. Where something is damaged or cannot be read there is no answer, unless a partial one is asked for: of
        what comes before the damage, with what is missing beside it.
Rule 3: a column's name says its unit: `at` and `*_at` are seconds since 1970, `seconds` and `*_s` seconds, `*_ms`
        milliseconds; all others are counts, shares or names.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from messages.trace.errors import NotATrace, TraceError
from messages.trace.runs import find_runs
from spark.columns import MALFORMED
from spark.facts import Facts
from spark.logs import LOGGED, LogFacts, read
from spark.pack import Packing, Told, is_packed, tell, told
from spark.questions import chains, controller, failovers, handling, partitions, traffic
from spark.session import LOCAL_MASTER, MASTER, fit, open_session
from spark.source import SCHEMA, TraceSource

MOST_NAMED = 10
"""So many things that cannot be read are named in an error."""
AT_ONCE = 3
"""So many questions are asked at the same time: while one is planned, another is answered."""


BYTES_OF_LOG = 10
"""So many are as much work as one of Parquet."""


@dataclass(frozen=True)
class Question:
    """`ask` gives the answer's rows, in the order in which they are to be read; its docstring tells the columns."""

    title: str
    ask: Callable[[Facts], DataFrame]


COMPARED = "compared"

QUESTIONS: dict[str, Question] = {
    "runs": Question("Runs", lambda facts: facts.runs),
    "episodes": Question("Brokers that were gone", lambda facts: failovers.episodes(facts.deaths, facts.outages)),
    "unavailable": Question("Partitions without a leader", lambda facts: failovers.unavailability(facts.outages)),
    "messages": Question("Messages by actor and type", lambda facts: handling.messages(facts.delivered)),
    "events": Question("Controller events", lambda facts: controller.events(facts.delivered, facts.events)),
    "requests": Question("Requests to brokers", lambda facts: controller.requests(facts.delivered)),
    "elections": Question("Elections of a controller", lambda facts: controller.elections(facts.delivered)),
    "leadership": Question("Leaderships", lambda facts: failovers.leadership(facts.changes)),
    "round_trips": Question(
        "Round trips to brokers", lambda facts: controller.round_trips(facts.flights, facts.answers)
    ),
    "leader_elections": Question(
        "Leaders elected",
        lambda facts: partitions.leader_elections(facts.changes, facts.leaderships, facts.delivered),
    ),
    "isr_churn": Question("Changes of ISRs", lambda facts: partitions.isr_churn(facts.delivered)),
    "deletions": Question("Topics deleted", lambda facts: partitions.deletions(facts.delivered)),
    "reassignments": Question("Partitions reassigned", lambda facts: partitions.reassignments(facts.delivered)),
    "zookeeper": Question("Requests to ZooKeeper", lambda facts: traffic.zookeeper(facts.replies)),
    "clients": Question("Requests of clients", lambda facts: traffic.clients(facts.answers)),
    "records": Question("Records by partition", lambda facts: traffic.records(facts.delivered)),
    "failures": Question("Failures", lambda facts: handling.failures(facts.delivered)),
    "handled": Question("Controller events in order", lambda facts: facts.handled),
    "queue": Question("Queues over time", lambda facts: handling.queue(facts.delivered)),
    "latencies": Question(
        "How long things take",
        lambda facts: traffic.latencies(
            {
                "controller events": facts.handled,
                "requests to brokers": facts.flights,
                "requests to ZooKeeper": facts.replies,
                "requests of clients": facts.answers,
            }
        ),
    ),
    "fan_out": Question("What deliveries cause", lambda facts: chains.fan_out(facts.delivered)),
    "chains": Question(
        "From an event to its last LeaderAndIsr", lambda facts: chains.chains(facts.delivered, facts.answers)
    ),
    "actors": Question("Who writes to whom", lambda facts: handling.actors(facts.delivered)),
    COMPARED: Question("Against the other folder", lambda facts: facts.compared),
}
"""All that can be asked, by name; COMPARED where there is another folder."""

BRIEF = ("runs", "episodes", "unavailable", "messages", "events", "requests", "elections", "leadership")
"""What is asked where nothing is chosen."""


@dataclass(frozen=True)
class Answer:
    """Rows, in the order of the question; each has a value for each column."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    def __iter__(self) -> Iterator[SimpleNamespace]:
        """The rows, with a column's value under its name."""
        return (SimpleNamespace(**row) for row in self.as_dicts())

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> SimpleNamespace:
        return SimpleNamespace(**dict(zip(self.columns, self.rows[index], strict=True)))

    def as_dicts(self) -> list[dict[str, Any]]:
        """As plain values."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class Incomplete(TraceError):
    """Not everything can be read, and a partial answer was not asked for; the text names what is missing."""


@dataclass(frozen=True)
class Summary:
    """The answers by question. `malformed` lines and `unreadable` files are in none, nor what follows `damage`."""

    answers: Mapping[str, Answer]
    malformed: int
    unreadable: tuple[str, ...]
    damage: tuple[str, ...] = ()

    def __getitem__(self, question: str) -> Answer:
        """The answer; an empty one where that was not asked."""
        return self.answers.get(question, Answer())

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        answers = {name: answer.as_dicts() for name, answer in self.answers.items()}
        beside = {"malformed": self.malformed, "unreadable": self.unreadable, "damage": self.damage}
        return {**answers, **beside}


def summarise(
    path: str | Path,
    session: SparkSession | None = None,
    say: Callable[[str], None] = lambda words: None,
    only: Collection[str] = BRIEF,
    master: str = MASTER,
    partial: bool = False,
    against: str | Path | None = None,
    stop: bool = True,
) -> Summary:
    """The summary of all traces below `path`, or of what `spark.pack` made of them.

    Without a session, one is started at `master`; `stop` it, unless that is for who ends this process (`spark.apart`).
    `say` is told what is being done. Asked are the questions of `only`, always "runs", and "compared" where there is
    another folder, `against` which to compare. On this machine traces are packed first, while Spark starts; a cluster's
    workers read them where they lie. Raises NotATrace where there is no such folder, Incomplete where something below
    one cannot be read, unless the answer may be `partial`.
    """
    folders = [Path(each) for each in (path, against) if each is not None]
    here = master.startswith(LOCAL_MASTER)
    check = functools.partial(_demand, partial=partial)
    with tempfile.TemporaryDirectory(prefix="kafka-actors-") as place:
        packings = {  # their processes begin before there are threads
            folder: Packing(folder, Path(place) / str(number), check)
            for number, folder in enumerate(folders)
            if here and not is_packed(folder)
        }
        if packings:
            say(f"reading {sum(len(each.told.runs) for each in packings.values())} runs, and starting Spark")
        with ThreadPoolExecutor(1) as starter:
            starting = starter.submit(lambda: session or open_session(master))
            for packing in packings.values():
                packing.finish()
            opened = starting.result()
        try:
            asked = [packings[folder].target if folder in packings else folder for folder in folders]
            return ask(opened, asked[0], say, only, partial, *asked[1:])
        finally:
            if session is None and stop:
                opened.stop()


def summarise_logs(
    path: str | Path,
    session: SparkSession | None = None,
    say: Callable[[str], None] = lambda words: None,
    only: Collection[str] = LOGGED,
    master: str = MASTER,
    zone: str = "UTC",
    stop: bool = True,
) -> Summary:
    """The summary of what the logs of Apache's brokers below `path` tell (`spark.logs`); `zone` is that of their times.

    Asked are those questions of `only` that logs can answer. For `stop`, see `summarise`. Raises NotATrace where there
    is no such folder.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise NotATrace(f"{folder}: no such folder")
    say("starting Spark")
    opened = session or open_session(master)
    try:
        fit(opened, sum(file.stat().st_size for file in folder.rglob("*.log*")) // BYTES_OF_LOG)
        return _summary(LogFacts(read(opened, folder, zone)), say, set(LOGGED).intersection(only), partial=True)
    finally:
        if session is None and stop:
            opened.stop()


def ask(
    session: SparkSession,
    folder: Path,
    say: Callable[[str], None] = lambda words: None,
    only: Collection[str] = BRIEF,
    partial: bool = False,
    against: Path | None = None,
) -> Summary:
    """The answers of a session that is there, from what is packed or, slower, from traces where they lie. Raises
    NotATrace, Incomplete."""
    say("asking")
    before = None if against is None else _facts(session, against, partial)
    return _summary(_facts(session, folder, partial, before), say, only, partial)


def _facts(session: SparkSession, folder: Path, partial: bool, before: Facts | None = None) -> Facts:
    if is_packed(folder):
        beside = told(folder)
        _demand(beside, partial)
        few = fit(session, sum(file.stat().st_size for file in folder.glob("*.parquet")))
        reader = session.read.schema(SCHEMA).options(pathGlobFilter="*.parquet", ignoreCorruptFiles=partial)
        records = reader.parquet(str(folder))
        return Facts(records.coalesce(1) if few else records, beside, before, few)
    found = find_runs(folder)
    beside = tell(found)
    _demand(beside, partial)
    fit(session, sum(path.stat().st_size for run in found.runs for path in run.paths))
    session.dataSource.register(TraceSource)
    return Facts(session.read.format(TraceSource.name()).load(str(folder.resolve())), beside, before)


def _demand(told: Told, partial: bool, malformed: int = 0) -> None:
    missing = [*(fault for run in told.runs for fault in run.faults), *told.unreadable]
    if malformed:
        missing.append(f"{malformed} lines are no records")
    if missing and not partial:
        more = f"\n... and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        raise Incomplete("\n".join(missing[:MOST_NAMED]) + more)


def _summary(facts: Facts, say: Callable[[str], None], only: Collection[str], partial: bool) -> Summary:
    asked = ["runs", *(name for name in QUESTIONS if name in only and name not in ("runs", COMPARED))]
    asked += [COMPARED] if facts.before is not None else []
    answers = {}
    with ThreadPoolExecutor(AT_ONCE) as askers:
        malformed = askers.submit(lambda: facts.records.where(facts.records.kind == MALFORMED).count())
        # A frame is made while the one before is asked; one after the other, for what is kept is made once.
        waiting = [(name, askers.submit(_collect, QUESTIONS[name].ask(facts))) for name in asked]
        for count, (name, answer) in enumerate(waiting, 1):
            answers[name] = answer.result()
            say(f"{count} of {len(waiting)} questions answered: {name}")
    facts.close()
    _demand(facts.told, partial, malformed.result())
    damage = tuple(fault for run in facts.told.runs for fault in run.faults)
    return Summary(answers, malformed.result(), facts.told.unreadable, damage)


def _collect(frame: DataFrame) -> Answer:
    return Answer(tuple(frame.columns), tuple(tuple(row) for row in frame.collect()))
