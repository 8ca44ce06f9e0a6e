"""Read the logs of Apache Kafka brokers into the columns that traces have, so that `summary` works on them.

Every text file is read, whatever its name, also if it is compressed with gzip or bzip2. `FORMS` lists the forms of
lines; any text may precede a line, such as the name of a container.

Rule 1: the table `LINES` has a pattern and columns for each kind of line. The patterns are valid for Kafka 2.0 to 3.9.
        Other lines are ignored. A line that several files of a folder have is counted once.
Rule 2: the time of a partition's state change is the time when the controller logs the change, just before it sends the
        request. A trace would contain this request; for logs, the line is used in its place.
Rule 3: the lines from a broker's start to its next start are a run; the lines before the first start are a run, too. A
        broker counts as running until it logs its shutdown. A killed broker does not log it, and the last line of a
        broker with little to log may be much older than its death. A broker without a logged shutdown therefore counts
        as gone from the time when a controller noticed its absence.
        Lines have no ids: what a controller logs is joined with its last logged event by time.
Rule 4: a line belongs to the broker that it names in its brackets ("[Controller id=1]"). Other lines, such as
        "starting", belong to the only broker that the lines of the same stream name: a file with its rotated
        predecessors, or the lines with the same prefix in it. Kafka's own files (`_OWN_FILES`) may also take the only
        broker of their folder. What remains has no node.
Rule 5: at level INFO, Kafka does not log requests. From Kafka 2.7 on, the expansion of an ISR is logged only as "ISR
        updated to"; reassignments are logged at TRACE only.
"""

from __future__ import annotations

import bz2
import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, StringType

from messages.cluster import TopicPartition
from messages.facts import declarations
from messages.facts.trace_facts import TraceFacts
from messages.trace.endings import RUNNING
from messages.trace.schema import SENT, STOPPED
from spark.facts import Facts
from spark.pack import Manifest
from spark.questions.controller import CONTROLLER
from spark.source import SCHEMA

STARTED, SERVING, ENDED = "Started", "Serving", "ShutDown"
"""Types of lines about the start and end of a broker."""
FORMS = (
    "[TIME] LEVEL message (logger)",
    "TIME LEVEL message (logger) [thread]",
    "TIME LEVEL logger: message",
)
"""The forms of lines: Kafka's, Strimzi's and Cloudera's. TIME is 2024-05-01 23:59:59,123. `_HEAD` has them all."""
_HEAD = (
    r"^(.*?)\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{3})\]? +([A-Z]+) +"
    r"(?:(.*) \(([^()\s:]+)(?::\d+)?\)(?: \[[^\[\]]*\])?|(\w+(?:\.[\w$]+)+): (.*))\s*$"
)
_PARTS = ("prefix", "time", "level", "message", "logger", "logger_before", "message_after")
_NODE = (
    r"^\[[^\[\]]*?(?:\b(?:id|(?:broker|node|controller|replica)(?:Id)?)=|"
    r"(?:Manager|Coordinator|[Bb]roker|[Cc]ontroller)[ -])(\d+)"
)
"""The broker that a line names. In "[ReplicaFetcher replicaId=1, leaderId=0, fetcherId=0]" this is broker 1."""
_OWN_FILES = r"/(?:server|controller|state-change)\.log[^/]*$"
_ROTATED = r"(?:\.\d[\d.-]*)?(?:\.gz|\.bz2)?$"
_DATED = r"\d{4}-\d\d-\d\d[ T][\d:.,]+Z?"
"""The time that `docker logs -t` and `kubectl logs --timestamps` put before a line."""
_WRONG = ("ERROR", "FATAL")

_STATE: Any = SCHEMA["states"].dataType
_TYPES = {field.name: field.dataType for field in (*_STATE.elementType, *SCHEMA)}
"""The types of the fields of a partition's state, and of the columns."""


class LinePattern(NamedTuple):
    """A pattern for a kind of log line, and the columns with which such a line is read.

    The pattern has a named group for each column that the line contains, or for each field of a partition's state.
    `constants` has the other columns.
    """

    pattern: str
    constants: Mapping[str, str | int]

    @property
    def plain(self) -> str:
        """The pattern without names, as Spark reads it."""
        return re.sub(r"\(\?P<\w+>", "(", self.pattern)

    def columns(self) -> dict[str, Column]:
        """Return the columns of a line that matches the pattern."""
        groups = re.compile(self.pattern).groupindex
        found = {name: _value(name, f.regexp_extract("message", self.plain, group)) for name, group in groups.items()}
        if "topic" in found:
            fields = (
                found.get(each.name, f.lit(None)).cast(each.dataType).alias(each.name) for each in _STATE.elementType
            )
            found["states"] = f.array(f.struct(*fields))
        return found | {name: f.lit(value) for name, value in self.constants.items()}


def _value(name: str, text: Column) -> Column:
    """Return the value of a text in the type of the column or field `name`.

    A list of numbers has any form: 1,2 or List(1, 2), or brokers with their epochs. Epochs are left out.
    """
    match _TYPES[name]:
        case ArrayType(elementType=StringType()):
            return f.split(text, ", ?")
        case ArrayType():
            return f.regexp_extract_all(f.regexp_replace(text, r"brokerEpoch=-?\d+", ""), f.lit(r"(\d+)"))
        case StringType():
            return text
        case kind:
            return text.try_cast(kind)


def _field(name: str, group: str, value: str = r"-?\d+") -> str:
    """Return a pattern that finds the value after `name=` or `name=[` in the rest of a line, if it is there."""
    return rf"(?=(?:.*?\b{name}=\[?(?P<{group}>{value}))?)"


_LIST = r"(?:\d+(?:, ?)?)*"


def _event(kind: str, **more: str) -> dict[str, str | int]:
    return {"actor": CONTROLLER, "type": kind, **more}


_ORDER = {"type": "Transmit", "request": "LeaderAndIsrRequest"}
_PARTITION = r"(?P<topic>.+)-(?P<partition>\d+)"

LINES: tuple[LinePattern, ...] = (
    LinePattern(
        r"successfully elected as the controller(?:\. Epoch incremented to (?P<epoch>\d+))?",
        _event("Answer", request="Elected"),
    ),
    LinePattern(
        r"Newly added brokers: .*all live brokers: (?P<brokers>[\d,]*)$", _event("BrokerChange", request="Brokers")
    ),
    LinePattern(
        r"Currently active brokers in the cluster: \w+\((?P<brokers>.*)\)$", _event("Answer", request="Brokers")
    ),
    LinePattern(r"New topics: \[", _event("TopicChange")),
    LinePattern(r"New partitions to be added ", _event("PartitionModifications")),
    LinePattern(r"Delete topics listener fired for topics \S+ to be deleted", _event("TopicDeletion")),
    LinePattern(
        r"Processing automatic preferred replica leader election", _event("AutoPreferredReplicaLeaderElection")
    ),
    LinePattern(r"Starting (?:preferred )?replica leader election .*for partitions ", _event("ReplicaLeaderElection")),
    LinePattern(r"Shutting down broker \d+$", _event("ControlledShutdown")),
    LinePattern(r"Handling log directory failure for brokers", _event("LogDirEventNotification")),
    LinePattern(r"Starting topic deletion for topics (?P<topics>.+)$", {"type": "Ask"}),
    LinePattern(r"Deletion of topic (?P<topics>.+) successfully completed", {"type": "StoreWrite"}),
    LinePattern(
        rf"(?:\bepoch=(?P<controller_epoch>-?\d+).*)?Changed partition {_PARTITION} from \w+ to OnlinePartition "
        r"with state LeaderAndIsr\(leader=(?P<leader>-?\d+), ?leaderEpoch=(?P<leader_epoch>\d+), ?isr\w*=(?P<isr>.*), ?"
        r"(?:zkVersion|leaderRecoveryState)=",
        _ORDER,
    ),
    LinePattern(
        rf"Partition {_PARTITION} state changed to \(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[\d,]*),"
        r".*LeaderEpoch:(?P<leader_epoch>\d+),.*ControllerEpoch:(?P<controller_epoch>\d+)\)",
        _ORDER,
    ),
    LinePattern(
        r"Sending become-\w+ LeaderAndIsr request "
        + _field("controllerEpoch", "controller_epoch")
        + _field("leader", "leader")
        + _field("leaderEpoch", "leader_epoch")
        + _field("isr", "isr", _LIST)
        + _field("addingReplicas", "adding", _LIST)
        + _field("removingReplicas", "removing", _LIST)
        + rf".* to broker (?P<broker>\d+) for partition {_PARTITION}$",
        _ORDER,
    ),
    LinePattern(
        rf"\[Partition {_PARTITION} broker=\d+\] (?:Shrinking ISR from|Expanding ISR from|ISR updated to) "
        r"(?:[\d,]* to )?\[?(?P<isr>[\d,]*)",
        {"type": "ChangeIsr"},
    ),
    LinePattern(r"^starting$", {"type": STARTED}),
    LinePattern(r"^\[KafkaServer id=\d+\] started$", {"type": SERVING}),
    LinePattern(r"^\[KafkaServer id=\d+\] shut down completed$", {"type": ENDED}),
)
"""The known lines; a line is of the first kind whose pattern it matches."""

EVENTS = (
    *("BrokerChange", "TopicChange", "PartitionModifications", "TopicDeletion", "LogDirEventNotification"),
    *("AutoPreferredReplicaLeaderElection", "ReplicaLeaderElection", "ControlledShutdown"),
)
"""The controller's events among them."""

_FIELDS = ("actor", "type", "error", "request", "epoch", "broker", "brokers", "states", "topics")
"""The columns that a line may fill."""


def text_files(place: Path) -> Iterator[Path]:
    """Yield `place` itself if it is a file, otherwise the text files below it. A file with a zero byte is no text."""
    for path in [place] if place.is_file() else sorted(place.rglob("*")):
        try:
            with _OPENERS.get(path.suffix, open)(path, "rb") as file:
                start = file.read(8192)
        except (OSError, EOFError, ValueError):
            continue
        if start and b"\0" not in start:
            yield path


_OPENERS: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


def lines(session: SparkSession, files: Sequence[Path]) -> DataFrame:
    """Return the lines of these files that have one of the `FORMS`.

    Columns: file, block, line (order of lines in a file), and prefix, time, level, message, logger.
    """
    # Spark takes a path as a glob pattern.
    escaped = [re.sub(r"([*?{}\[\]\\])", r"\\\1", str(file.resolve())) for file in files]
    text = session.read.text([f"file://{path}" for path in escaped])
    decoded = f.url_decode(f.replace(f.col("_metadata.file_path"), f.lit("+"), f.lit("%2B")))
    file = f.regexp_replace(decoded, "^file:/+", "/").alias("file")
    # Lines of a file are ordered by the start of their block, and within a block by the ids that Spark assigns.
    order = (f.col("_metadata.file_block_start").alias("block"), f.monotonically_increasing_id().alias("line"))
    parts = [f.regexp_extract("value", _HEAD, group).alias(name) for group, name in enumerate(_PARTS, 1)]
    return (
        text.select(file, *order, *parts)
        .where(f.col("time") != "")
        .select(
            *("file", "block", "line", "time", "level"),
            f.trim(f.regexp_replace("prefix", _DATED, "")).alias("prefix"),
            f.concat("message", "message_after").alias("message"),
            f.concat("logger", "logger_before").alias("logger"),
        )
    )


def nothing_known(lines: DataFrame, files: int) -> str:
    """Return why these lines have no known kind; `files` is the number of files."""
    if lines.isEmpty():
        return f"no line of its text files ({files}) has one of these forms: {'; '.join(FORMS)}"
    return (
        "its lines have a known form, but none of them is a message of a broker's start or end, of the controller, "
        "of a change of a leader or an ISR, or an error"
    )


def read(lines: DataFrame, root: Path, zone: str = "UTC") -> DataFrame:
    """Return the lines of known kinds, with the columns of `spark.columns`.

    Args:
        lines: As `lines` returns them.
        root: The folder that contains all files. Names of runs begin with the folder of a file below it.
        zone: The time zone of the logs.

    The column `run` identifies a broker's process by the folder of its logs, its broker if the folder has several, and
    the time of its start. The column `node` is null if the broker is unknown; the run is then the file.
    """
    below = f.replace("file", f.lit(f"{root.resolve()}/"), f.lit(""))
    named = lines.withColumns(
        {
            "place": f.replace(f.regexp_replace("file", "/[^/]*$", ""), f.lit(f"{root.resolve()}/"), f.lit("")),
            "stream": f.concat_ws(" ", f.regexp_replace("file", _ROTATED, ""), "prefix"),
            "who": f.regexp_extract("message", _NODE, 1).try_cast("int"),
        }
    )
    streams = named.groupBy("place", "stream").agg(f.collect_set("who").alias("ids"))
    of_place = f.array_distinct(f.flatten(f.collect_list("ids").over(Window.partitionBy("place"))))
    streams = streams.withColumn("of_place", of_place)

    def only(ids: str) -> Column:
        return f.when(f.size(ids) == 1, f.get(f.col(ids), f.lit(0)))

    own = f.when((f.size("ids") == 0) & f.col("file").rlike(_OWN_FILES), only("of_place"))
    local = f.to_timestamp(f.translate("time", "T.", " ,"), "yyyy-MM-dd HH:mm:ss,SSS")
    known = named.withColumn("extracted", _values_of_line()).where(f.col("extracted").isNotNull())
    # The same line in two files, such as server.log and the standard output, has the same number among equal lines.
    equal = ("time", "level", "message", "logger")
    number = f.row_number().over(Window.partitionBy("file", *equal).orderBy("block", "line"))
    placed = (
        known.withColumn("number", number)
        .join(f.broadcast(streams), ["place", "stream"])
        .withColumns(
            {
                "node": f.coalesce("who", only("ids"), own),
                "at": f.to_utc_timestamp(local, zone).cast("double"),
                "type": f.col("extracted.type"),
            }
        )
    )
    placed = placed.dropDuplicates(["place", "node", *equal, "number"])
    in_time = Window.partitionBy("place", "node").orderBy("at", "block", "line")
    turn = f.when(f.col("type").isin(STARTED, SERVING, ENDED), f.col("type"))
    before = f.last(turn, ignorenulls=True).over(in_time.rowsBetween(Window.unboundedPreceding, -1))
    # Of several brokers in one stream, "starting" has no broker.
    starts = (f.col("type") == STARTED) | ((f.col("type") == SERVING) & (f.coalesce(before, f.lit(ENDED)) != STARTED))
    placed = placed.withColumn("starts", starts)
    began = f.last(f.when(f.col("starts"), f.col("at")), ignorenulls=True).over(in_time)
    broker = f.when(f.size("of_place") > 1, f.concat(f.lit("broker "), "node"))
    process = f.concat_ws(" since ", f.concat_ws(" ", "place", broker), began.cast("timestamp").cast("string"))
    found = placed.select(
        f.when(f.col("node").isNull(), below).otherwise(process).alias("run"),
        "node",
        f.row_number().over(in_time).alias("n"),
        f.lit(SENT).alias("kind"),
        "at",
        "extracted.*",
    )
    given = set(found.columns)
    return found.select(
        *(
            (f.col(field.name) if field.name in given else f.lit(None)).cast(field.dataType).alias(field.name)
            for field in SCHEMA
        )
    )


def _values_of_line() -> Column:
    """Return the values of a line as one struct; null for an unknown line."""

    def struct(extracted: Mapping[str, Column]) -> Column:
        return f.struct(*(extracted.get(name, f.lit(None)).cast(SCHEMA[name].dataType).alias(name) for name in _FIELDS))

    wrong = struct({"actor": f.col("logger"), "type": f.col("level"), "error": f.col("message")})
    extracted = f.when(f.col("level").isin(*_WRONG), wrong)
    for line in reversed(LINES):
        extracted = f.when(f.col("message").rlike(line.plain), struct(line.columns())).otherwise(extracted)
    return extracted


class LogFacts(Facts):
    """The log lines of Apache Kafka brokers, as Spark data frames for several sections of a summary."""

    def __init__(self, records: DataFrame) -> None:
        super().__init__(records, Manifest((), ()), self._facts)
        self.delivered = self.records
        self.events = EVENTS

    @cached_property
    def runs(self) -> DataFrame:
        """Each broker process.

        Columns: node, run, lines (number of known lines), first_at, last_at, ending (null if unknown), detail.
        """
        grouped = (
            self.records.where(f.col("node").isNotNull())
            .groupBy("node", "run")
            .agg(
                f.count("*").alias("lines"),
                f.min("at").alias("first_at"),
                f.max("at").alias("last_at"),
                f.max(f.when(f.col("type") == ENDED, STOPPED)).alias("ending"),
            )
        )
        return grouped.withColumn("detail", f.lit("log")).orderBy("node", "first_at")

    def records_without_node(self) -> tuple[str, ...]:
        """Return a sentence for each file with known lines whose broker is unknown."""
        counts = self.records.where(f.col("node").isNull()).groupBy("run").count().orderBy("run")
        return tuple(f"{row[1]} lines of {row[0]} name no broker, and could not be placed" for row in counts.collect())

    def _facts(self) -> TraceFacts:
        """Read facts from the lines: brokers' runs, elections, lists of brokers, states of partitions, deletions."""
        run = self.records.where(f.col("type").isin(STARTED, SERVING)).groupBy("run")
        served_at = f.max(f.when(f.col("type") == SERVING, f.col("at"))).alias("served_at")
        begun = run.agg(f.min_by("type", "n").alias("first"), served_at)
        # A broker that logs its start and never serves was refused, because another broker had its id.
        came = f.when(f.col("first") == STARTED, f.col("served_at")).otherwise(f.col("first_at"))
        runs = self.runs.join(begun, "run", "left").select("*", came.alias("came_at")).collect()
        is_fact = (f.col("actor") == CONTROLLER) | f.col("states").isNotNull() | f.col("topics").isNotNull()
        columns = ("at", "node", "run", "n", "type", "request", "epoch", "brokers", "states", "topics")
        rows = self.records.where(is_fact & f.col("node").isNotNull()).select(*columns).collect()
        return TraceFacts([*map(_node_run, runs), *_facts_of(sorted(rows, key=lambda row: (row.at, row.n)))])


def _node_run(row: Row) -> declarations.NodeRun:
    registered = () if row.came_at is None else ((-1, row.came_at),)
    place = declarations.TracePosition(row.last_at, row.node, row.run, row.lines)
    return declarations.NodeRun(place, row.first_at, row.ending or RUNNING, registered)


def _facts_of(rows: Iterable[Row]) -> Iterator[declarations.Fact]:
    """Yield the facts in lines, in order of time.

    Lines have no ids, so they are joined by time: states have the order of their lines, and what a controller logs
    belongs to its last logged event or election. A leader logs its ISR without its epoch.
    """
    known: dict[TopicPartition, declarations.StateWrite] = {}
    events: dict[str, declarations.ControllerEvent] = {}
    for row in rows:
        place = declarations.TracePosition(row.at, row.node, row.run, row.n)
        if row.type in EVENTS or row.request == "Elected":
            events[row.run] = declarations.ControllerEvent(place, row.request if row.request == "Elected" else row.type)
        if row.request == "Elected":
            yield declarations.ControllerElected(place, row.node, -1 if row.epoch is None else row.epoch)
        if row.brokers is not None:
            yield declarations.BrokersRead(place, row.node, dict.fromkeys(row.brokers, 0), events.get(row.run))
        for topic in row.topics or ():
            yield declarations.TopicDeletionStep(place, "queued" if row.type == "Ask" else "deleted", (topic,))
        for state in row.states or ():
            partition = TopicPartition(state.topic, state.partition)
            before, isr = known.get(partition), tuple(state.isr)
            if row.type == "Transmit":
                written = partition, state.leader, state.leader_epoch, isr, f"controller {row.node}", row.at
                known[partition] = declarations.StateWrite(place, *written, events.get(row.run))
            else:
                written = partition, row.node, before.epoch if before else 0, isr, f"broker {row.node}", row.at
                known[partition] = declarations.StateWrite(place, *written)
            yield known[partition]
