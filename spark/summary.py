"""What happened in a cluster, from the traces of all its nodes: the first questions anybody asks.

Rule 1: a figure counts deliveries, and nothing that is not one; what could not be read is counted beside.
Rule 2: a trace that breaks off (a killed node) is as good as any other up to its last frame. How each run ended is
        told, and what is damaged.
Rule 3: a request counts when the channel hands it to the network. The same request handed over again after a failure
        is a retransmission and counted apart (controller.md 5: the channel resends until it is answered).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from messages.trace.schema import FULL
from spark import failovers
from spark.columns import DDL, DELIVERIES, MALFORMED
from spark.failovers import CONTROLLER
from spark.pack import Packing, Told, is_packed, told
from spark.session import fit, open_session

CONTROLLED_SHUTDOWN = "ControlledShutdown"
"""The event that comes as a client's own request, forwarded."""

CONTROLLER_REQUESTS = ("LeaderAndIsrRequest", "StopReplicaRequest", "UpdateMetadataRequest")
"""What a controller sends to brokers, by message type."""

AT_ONCE = 3
"""So many questions are asked at the same time: while one is planned, another is answered."""


@dataclass(frozen=True)
class RunRow:
    """One run of one node. Times are seconds since 1970; `ending` is how it ended (`messages.trace.runs`).

    Of a run whose `detail` is not "full" the payloads are missing: what is read in them is not counted.
    """

    node: int
    run: str
    deliveries: int
    first_at: float
    last_at: float
    ending: str
    detail: str = FULL


@dataclass(frozen=True)
class MessageRow:
    """Deliveries of one message type to one class of actors, in all nodes; an outsider stands for itself by address.

    `seconds` is handling time, `waited` time in the queue, both summed; `longest` the longest handling.
    """

    actor: str
    type: str
    count: int
    failed: int
    seconds: float
    longest: float
    waited: float


@dataclass(frozen=True)
class EventRow:
    """Events of one type that a node's controller received."""

    node: int
    type: str
    count: int


@dataclass(frozen=True)
class RequestRow:
    """Requests of one type from one node's controller to one broker; `partitions` summed over first transmissions."""

    node: int
    broker: int
    type: str
    count: int
    partitions: int
    retransmissions: int


@dataclass(frozen=True)
class ElectionRow:
    """A node won the election."""

    at: float
    node: int
    epoch: int


@dataclass(frozen=True)
class LeadershipRow:
    """A controller (on `node`) first told brokers of another leader; -1: none, -2: being deleted. `before`: of the
    leader until then, None where that is not known. A new epoch of the same leader is no row."""

    at: float
    node: int
    topic: str
    partition: int
    before: int | None
    leader: int
    leader_epoch: int
    controller_epoch: int


@dataclass(frozen=True)
class EpisodeRow:
    """A broker was gone, and what followed (`spark.failovers`). Times are seconds since 1970, durations seconds.

    It died at `died_at`, its `run` (None: not in these traces, or it goes on) with this `ending`; the controller on
    `seen_by` saw it at `seen_at`, by its event `after`. It led `partitions`; the last of them had a leader again at
    `last_led_at`, `left` of them never. `p50`, `p99` and `partition_seconds` are of the times without a leader.
    """

    broker: int
    died_at: float
    seen_at: float
    seen_by: int
    after: str | None
    was_controller: bool
    run: str | None
    ending: str | None
    partitions: int
    left: int
    last_led_at: float | None
    p50: float | None
    p99: float | None
    partition_seconds: float | None


@dataclass(frozen=True)
class UnavailableRow:
    """A partition that had no leader: in so many windows, `seconds` in all, the longest; `left`: and still has none."""

    topic: str
    partition: int
    windows: int
    seconds: float
    longest: float
    left: bool


@dataclass(frozen=True)
class Summary:
    """The answers. `malformed` lines and `unreadable` files are in none of them, nor what follows a file's `damage`."""

    runs: tuple[RunRow, ...]
    messages: tuple[MessageRow, ...]
    events: tuple[EventRow, ...]
    requests: tuple[RequestRow, ...]
    elections: tuple[ElectionRow, ...]
    leadership: tuple[LeadershipRow, ...]
    episodes: tuple[EpisodeRow, ...]
    unavailable: tuple[UnavailableRow, ...]
    malformed: int
    unreadable: tuple[str, ...]
    damage: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


QUESTIONS = ("messages", "events", "requests", "elections", "leadership", "episodes", "unavailable")
"""What can be asked for by itself; runs, and what could not be read, are told in any case."""


def summarise(
    path: str | Path,
    session: SparkSession | None = None,
    say: Callable[[str], None] = lambda words: None,
    only: Sequence[str] = QUESTIONS,
) -> Summary:
    """The summary of all traces below `path`, or of what `spark.pack` made of them.

    Without a session, one is started and stopped. `say` is told what is being done. What is not among `only` is not
    asked, and empty. Raises NotATrace where there is no such folder.
    """
    folder = Path(path)
    if is_packed(folder):
        return _asked(folder, told(folder), session, say, only)
    with tempfile.TemporaryDirectory(prefix="kafka-actors-") as place:
        packing = Packing(folder, Path(place))  # its processes begin before there are threads
        say(f"reading {len(packing.told.runs)} runs, and starting Spark")
        with ThreadPoolExecutor(1) as starter:
            starting = starter.submit(lambda: session or open_session())
            packing.finish()
            opened = starting.result()
        try:
            return _asked(Path(place), packing.told, opened, say, only)
        finally:
            if session is None:
                opened.stop()


def _asked(
    folder: Path, told: Told, session: SparkSession | None, say: Callable[[str], None], only: Sequence[str]
) -> Summary:
    """The answers from packed rows."""
    opened = session or open_session()
    try:
        say("asking")
        fit(opened, sum(file.stat().st_size for file in folder.glob("*.parquet")))
        return _summary(opened.read.schema(DDL).parquet(str(folder)), told, say, only)
    finally:
        if session is None:
            opened.stop()


def _summary(records: DataFrame, told: Told, say: Callable[[str], None], only: Sequence[str]) -> Summary:
    delivered = records.where(records.kind.isin(*DELIVERIES))
    endings = {run.run: run.ending for run in told.runs}
    details = {run.run: run.detail for run in told.runs}
    event_types = tuple(dict.fromkeys(event for run in told.runs for event in run.events))
    lived = runs(records)
    moved = failovers.changes(failovers.told(delivered)).persist()
    gone = f.broadcast(failovers.deaths(delivered, lived)).persist()
    left = failovers.outages(gone, moved)
    asked: dict[str, Callable[[], Any]] = {
        "runs": lambda: tuple(
            RunRow(**row.asDict(), ending=endings[row.run], detail=details[row.run]) for row in lived.collect()
        ),
        "messages": lambda: _collect(MessageRow, messages(delivered)),
        "events": lambda: _collect(EventRow, events(delivered, event_types)),
        "requests": lambda: _collect(RequestRow, requests(delivered)),
        "elections": lambda: _collect(ElectionRow, failovers.elections(delivered)),
        "leadership": lambda: _collect(
            LeadershipRow, moved.drop("led_at").orderBy("topic", "partition", "at", "leader_epoch")
        ),
        "episodes": lambda: tuple(
            EpisodeRow(**row.asDict(), ending=endings.get(row.run)) for row in failovers.episodes(gone, left).collect()
        ),
        "unavailable": lambda: _collect(UnavailableRow, failovers.unavailability(left)),
        "malformed": lambda: records.where(records.kind == MALFORMED).count(),
    }
    answers: dict[str, Any] = dict.fromkeys(QUESTIONS, ())
    asked = {name: question for name, question in asked.items() if name in only or name not in QUESTIONS}
    with ThreadPoolExecutor(AT_ONCE) as askers:
        waiting = [(name, askers.submit(question)) for name, question in asked.items()]
        for count, (name, answer) in enumerate(waiting, 1):
            answers[name] = answer.result()
            say(f"{count} of {len(asked)} questions answered: {name}")
    moved.unpersist()
    gone.unpersist()
    damage = tuple(fault for run in told.runs for fault in run.faults)
    return Summary(**answers, unreadable=told.unreadable, damage=damage)


_Row = TypeVar("_Row")


def _collect(row: type[_Row], frame: DataFrame) -> tuple[_Row, ...]:
    return tuple(row(**found.asDict()) for found in frame.collect())


# ------------------------------------------------------------------------------------------------ the questions


def runs(records: DataFrame) -> DataFrame:
    """RunRow without `ending` and `detail`: each run with its deliveries; of all rows, not only deliveries."""
    seen = records.where(records.kind != MALFORMED)
    grouped = seen.groupBy("node", "run").agg(
        f.max("n").alias("deliveries"),
        f.min("at").alias("first_at"),
        f.max("at").alias("last_at"),
    )
    return grouped.orderBy("node", "first_at")


def messages(delivered: DataFrame) -> DataFrame:
    """MessageRow: deliveries and handling time by actor class and message type, most time first."""
    actor = f.when(delivered.actor == "", delivered.receiver).otherwise(delivered.actor)
    # Each request() from outside has an address of its own, with a number; they are one outsider.
    actor = f.regexp_replace(actor, r"^(outside:request(er)?)\.\d+$", "$1")
    grouped = delivered.groupBy(actor.alias("actor"), "type").agg(
        f.count("*").alias("count"),
        f.sum(delivered.failed.cast("int")).alias("failed"),
        f.sum("took").alias("seconds"),
        f.max("took").alias("longest"),
        f.sum("waited").alias("waited"),
    )
    return grouped.orderBy(f.desc("seconds"), "actor", "type")


def events(delivered: DataFrame, types: Sequence[str]) -> DataFrame:
    """EventRow: the controllers' events by node and type; `types` are those that the traces' headers name.

    A controlled shutdown comes as the client's own request.
    """
    asked = (delivered.type == "Forwarded") & (delivered.request == "ControlledShutdownRequest")
    type_ = f.when(asked, CONTROLLED_SHUTDOWN).otherwise(delivered.type)
    chosen = delivered.where(delivered.actor == CONTROLLER).withColumn("type", type_)
    chosen = chosen.where(chosen.type.isin(*types, CONTROLLED_SHUTDOWN))
    return chosen.groupBy("node", "type").agg(f.count("*").alias("count")).orderBy("node", "type")


def requests(delivered: DataFrame) -> DataFrame:
    """RequestRow: requests by node, broker and type. What follows a failure on its channel is sent again (rule 3)."""
    channel = Window.partitionBy("run", "channel").orderBy("n").rowsBetween(Window.unboundedPreceding, -1)
    outcome = f.when(f.col("type").isin("TransmitFailed", "Received"), f.col("type"))
    mail = delivered.where(f.col("broker").isNotNull() & f.col("channel").isNotNull()).withColumn(
        "again", f.coalesce(f.last(outcome, ignorenulls=True).over(channel) == "TransmitFailed", f.lit(False))
    )
    sent = mail.where(f.col("type").isin("Transmit", "ChannelPart") & f.col("request").isin(*CONTROLLER_REQUESTS))
    whole, first = (f.col("type") == "Transmit").cast("int"), (~f.col("again")).cast("int")
    grouped = sent.groupBy("node", "broker", f.col("request").alias("type")).agg(
        f.sum(whole * first).alias("count"),
        f.sum(first * f.size("states")).alias("partitions"),
        f.sum(whole * (1 - first)).alias("retransmissions"),
    )
    return grouped.orderBy("node", "broker", "type")
