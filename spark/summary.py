"""What happened in a cluster, from the traces of all its nodes: the first questions anybody asks.

Rule 1: a figure counts deliveries, and nothing that is not one; what could not be read is counted beside.
Rule 2: a trace that breaks off (a killed node) is as good as any other up to its last frame. How each run ended is
        told, and what is damaged.
Rule 3: a request counts when the channel hands it to the network. The same request handed over again after a failure
        is a retransmission and counted apart (controller.md 5: the channel resends until it is answered).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from messages.trace.runs import Found, find_runs, survey
from messages.trace.schema import FULL
from spark.records import MALFORMED, deliveries, read_all
from spark.session import open_session

CONTROLLER = "ControllerActor"

CONTROLLED_SHUTDOWN = "ControlledShutdown"
"""The event that comes as a client's own request, forwarded."""

CONTROLLER_REQUESTS = ("LeaderAndIsrRequest", "StopReplicaRequest", "UpdateMetadataRequest")
"""What a controller sends to brokers, by message type."""

_STATES = "array<struct<partition:array<string>,leader:int,leader_epoch:int,controller_epoch:int>>"


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
    """A controller (on `node`) first told brokers of this leadership; leader -1: none, -2: being deleted."""

    at: float
    node: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    controller_epoch: int


@dataclass(frozen=True)
class Summary:
    """The answers. `malformed` lines and `unreadable` files are in none of them, nor what follows a file's `damage`."""

    runs: tuple[RunRow, ...]
    messages: tuple[MessageRow, ...]
    events: tuple[EventRow, ...]
    requests: tuple[RequestRow, ...]
    elections: tuple[ElectionRow, ...]
    leadership: tuple[LeadershipRow, ...]
    malformed: int
    unreadable: tuple[str, ...]
    damage: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


def summarise(path: str | Path, session: SparkSession | None = None) -> Summary:
    """The summary of all traces below `path`; without a session, one is started and stopped.

    Raises NotATrace where there is no such folder.
    """
    found = find_runs(Path(path))
    own = open_session() if session is None else None
    try:
        records = read_all(session or own, found.runs).cache()  # type: ignore[arg-type]
        try:
            return _summary(records, found)
        finally:
            records.unpersist()
    finally:
        if own is not None:
            own.stop()


def _summary(records: DataFrame, found: Found) -> Summary:
    delivered = deliveries(records)
    surveys = [(run.header.run, survey(run)) for run in found.runs]
    endings = {run: found_out.ending for run, found_out in surveys}
    details = {run.header.run: run.header.detail for run in found.runs}
    event_types = tuple(dict.fromkeys(type_ for run in found.runs for type_, _ in run.header.events))
    return Summary(
        runs=tuple(
            RunRow(**row.asDict(), ending=endings[row.run], detail=details[row.run]) for row in runs(records).collect()
        ),
        messages=_collect(MessageRow, messages(delivered)),
        events=_collect(EventRow, events(delivered, event_types)),
        requests=_collect(RequestRow, requests(delivered)),
        elections=_collect(ElectionRow, elections(delivered)),
        leadership=_collect(LeadershipRow, leadership(delivered)),
        malformed=records.where(records.kind == MALFORMED).count(),
        unreadable=found.unreadable,
        damage=tuple(fault for _, found_out in surveys for fault in found_out.faults),
    )


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
    request = f.get_json_object("payload", "$.request.request[0]")
    asked = (delivered.type == "Forwarded") & (request == "ControlledShutdownRequest")
    type_ = f.when(asked, CONTROLLED_SHUTDOWN).otherwise(delivered.type)
    chosen = delivered.where(delivered.actor == CONTROLLER).withColumn("type", type_)
    chosen = chosen.where(chosen.type.isin(*types, CONTROLLED_SHUTDOWN))
    return chosen.groupBy("node", "type").agg(f.count("*").alias("count")).orderBy("node", "type")


def _transmissions(delivered: DataFrame) -> DataFrame:
    """Requests handed to the network by channels: their type, content and broker, and whether a failure came before."""
    mail = delivered.where(delivered.type.isin("Transmit", "TransmitFailed"))
    channel = f.when(mail.type == "Transmit", mail.sender).otherwise(mail.receiver)
    before = Window.partitionBy("run", "channel_actor").orderBy("n")
    mail = mail.withColumn("channel_actor", channel)
    mail = mail.withColumn("again", f.coalesce(f.lag("type").over(before) == "TransmitFailed", f.lit(False)))
    sent = mail.where(mail.type == "Transmit").withColumn("request", f.get_json_object("payload", "$.request[0]"))
    sent = sent.where(sent.request.isin(*CONTROLLER_REQUESTS))
    channels = delivered.where(delivered.type == "StartChannel").select(
        "run",
        f.col("receiver").alias("channel_actor"),
        f.get_json_object("payload", "$.broker_id").cast("int").alias("broker"),
    )
    return sent.join(channels, ["run", "channel_actor"]).select(
        "node",
        "at",
        "n",
        "again",
        "request",
        "broker",
        f.from_json(f.get_json_object("payload", "$.request[1].partition_states"), _STATES).alias("states"),
    )


def requests(delivered: DataFrame) -> DataFrame:
    """RequestRow: requests by node, broker and type."""
    sent = _transmissions(delivered)
    first = (~sent.again).cast("int")
    grouped = sent.groupBy("node", "broker", sent.request.alias("type")).agg(
        f.sum(first).alias("count"),
        f.sum(first * f.size("states")).alias("partitions"),
        f.sum(sent.again.cast("int")).alias("retransmissions"),
    )
    return grouped.orderBy("node", "broker", "type")


def elections(delivered: DataFrame) -> DataFrame:
    """ElectionRow: the elections that were won, in order of time."""
    answers = delivered.where((delivered.actor == CONTROLLER) & (delivered.type == "Answer"))
    won = answers.where(f.get_json_object("payload", "$.result[0]") == "Elected")
    epoch = f.get_json_object("payload", "$.result[1].epoch").cast("int")
    return won.select("at", "node", epoch.alias("epoch")).orderBy("at", "node")


def leadership(delivered: DataFrame) -> DataFrame:
    """LeadershipRow: each leadership of each partition when brokers were first told of it, in order of time.

    From LeaderAndIsr and UpdateMetadata requests: of a partition without any live replica only the latter speaks.
    """
    sent = _transmissions(delivered).where(f.col("request") != "StopReplicaRequest")
    each = sent.select("at", "node", f.explode("states").alias("state")).select(
        "at",
        "node",
        f.col("state.partition")[0].alias("topic"),
        f.col("state.partition")[1].cast("int").alias("partition"),
        f.col("state.leader").alias("leader"),
        f.col("state.leader_epoch").alias("leader_epoch"),
        f.col("state.controller_epoch").alias("controller_epoch"),
    )
    told = each.groupBy("topic", "partition", "leader", "leader_epoch", "controller_epoch").agg(
        f.min(f.struct("at", "node")).alias("first")
    )
    return told.select(
        "first.at", "first.node", "topic", "partition", "leader", "leader_epoch", "controller_epoch"
    ).orderBy("topic", "partition", "at", "leader_epoch")
