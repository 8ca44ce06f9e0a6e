"""Generate the pages of the paths: recorded messages of a simulated cluster, with an explanation of each step.

`python -m tests.docs.paths` writes the pages, and prints how many files' functions run during a page's deliveries. The
cluster is deterministic, so that a test can compare the pages.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from actors.public.simulated import SimulatedCluster
from actors.runtime.kernel.kernel import Kernel
from messages.apis.produce import ACKS_ALL, ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.trace.files.runs import RunRecords, find_runs
from messages.trace.schema import DELIVERIES, TraceRecord
from messages.wire.record_batch import batch_of
from tests.docs.markdown import wrap_paragraphs
from tests.layering import PACKAGES, ROOT

FOLDER = ROOT / "docs" / "explanation"
TOPIC = "orders"
WIDTH = 72
"""Maximum number of characters of a payload; longer payloads are cut."""
HIDDEN = frozenset(
    """
    client_host listener connection correlation_id isolation_level max_bytes forgotten throttle_time_ms rest near
    aborted_transactions preferred_read_replica record_errors error_message connect_timeout endpoint min_bytes rack_id
    log_append_time_ms alive at_least_one version timeout_ms transactional_id channel again current_leader_epoch
    partition_max_bytes idle_until log_start_offset last_stable_offset last_fetched_epoch diverging_epoch adding
    replica_id session_epoch max_wait_ms error_code crc ask_epoch throttled used_at
    """.split()
)
"""Fields that the pages of produce and fetch leave out of payloads."""


class Step(NamedTuple):
    """A section of a page.

    It ends with the first delivery of the type `last`, or, if `last` is quoted, the first with `last` in its payload.
    """

    title: str
    last: str
    text: str


class RecordedPath(NamedTuple):
    """A page: its texts, and the function that records its deliveries."""

    file: Path
    title: str
    introduction: str
    steps: tuple[Step, ...]
    conclusion: str
    record: Callable[[], tuple[list[TraceRecord], dict[str, object]]]
    hidden: frozenset[str] = frozenset()


LEGEND = """\
Each line below is a delivery: one message that an actor or an external endpoint received. The line begins with the
number of the delivery, counted from the first delivery on this page. After the arrow comes the number of the delivery
during which the message was sent; "outside" means that the message came from outside the actor system, or was sent
before the first delivery on this page. Next are the milliseconds since the first delivery, the sender, the receiver,
the message type and the payload. Payloads are shortened; messages to the metrics gateway are
left out."""

# ------------------------------------------------------------------------------------------------- a controller event

CONTROLLER_STEPS = (
    Step(
        "ZooKeeper reports a change",
        "BrokerChange",
        """\
The ZooKeeper session of broker 1 expired, and two watches of node 0 fired. The store puts answers, watch events and
session states into one queue in the order of their arrival, and sends them to ZkBridgeActor. The bridge finds the
subscriber in its table of watches (`zk_bridge/watches.py`). A deleted `/brokers/ids/N` has no subscriber there. Changed
children of `/brokers/ids` are a `BrokerChange` for the controller. The event has the generation number of node 0's own
session. If that session has expired, the controller drops the event.""",
    ),
    Step(
        "The controller reads the brokers",
        '"Brokers"',
        """\
The handler is the generator `changed` in `actors/core/controller/broker_changes.py`. It does no I/O. Its actor
(`actors/runtime/flow/flow.py`) sends each question as an `Ask` to the bridge, and stashes other messages until the
`Answer` with the same id arrives: the next event waits until this one ends. The `StoreRead`
sets the watch before it reads, so that no change in between is missed.""",
    ),
    Step(
        "A channel closes, a leader is elected",
        '"WriteResults"',
        """\
The flow yields questions. It also yields instructions such as `CloseChannel`, which its actor executes at once. The
partition changes to OfflinePartition and back to OnlinePartition, as the table in `actors/core/controller/states.py`
defines. The strategy in `actors/core/controller/elections.py` elects the first live replica of the ISR. The controller
writes the state without reading it first. The write is one transaction: the check of `/controller_epoch` fences it, and
the check of the znode's version ensures that it does not overwrite a change that the old leader made. After a conflict
the controller reads the state.""",
    ),
    Step(
        "The controller sends its requests",
        "StoreWrite",
        """\
The flow collects its requests per broker (`actors/core/controller/batch.py`) and sends them together. Each channel has
a queue with one request in flight: UpdateMetadata waits for the response to LeaderAndIsr. The network gateway owns the
sockets and encodes `Transmit` with `messages/wire`. Meanwhile the flow continues: the next `Ask` removes the dead
broker from the ISRs of the other partitions, in one transaction.""",
    ),
    Step(
        "A broker executes the request",
        "ClientResponse",
        """\
This node is also a broker, and receives the request on its own listener. The checks of the controller epoch and the
broker epoch are in `actors/core/broker/replica_manager.py`. The rules of leaders and followers are in
`actors/core/broker/replica_role.py`. Each partition has an actor, and only this actor accesses the partition's
directory.""",
    ),
    Step(
        "The response is an event",
        "LeaderAndIsrResponseReceived",
        """\
Meanwhile this broker's replica, now a follower of the new leader, moves to the fetcher that reads from that leader. The
response becomes the event `LeaderAndIsrResponseReceived`. The controller is still handling the `BrokerChange`, so the
new event is stashed until the flow of `BrokerChange` ends.""",
    ),
)


_files: dict[tuple[str, int], set[str]] = {}
"""Node's run and number of a delivery -> files whose functions ran during it."""


@contextmanager
def watched_files() -> Iterator[None]:
    """Collect the files whose functions run while the block runs; do nothing while a test compares the pages."""
    current: set[str] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        nonlocal current
        if frame.f_code is Kernel.hand_out.__code__ and event == "call":
            kernel = frame.f_locals["self"]
            current = _files.setdefault((kernel.observer.run, kernel.n + 1), set())
        current.add(frame.f_code.co_filename)

    if __name__ == "__main__":
        sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(None)


NOT_COUNTED = "actors/simulation", "actors/public", "actors/node/memory", "messages/trace", "zk_bridge/memory"
"""The simulator, what it has instead of a real network and ZooKeeper, and the writer of traces."""


def files_of(node: int, records: Sequence[TraceRecord]) -> set[str]:
    """Return the product's files whose functions ran during these deliveries of a node, except NOT_COUNTED."""
    numbers = {record.n for record in records}
    own = (files for (run, n), files in _files.items() if n in numbers and run.startswith(f"node{node}-"))
    names = {file.removeprefix(f"{ROOT}/") for file in set().union(*own)}
    return {name for name in names if name.startswith(PACKAGES) and not name.startswith(NOT_COUNTED)}


def recorded(folder: Path, node: int) -> list[TraceRecord]:
    """Read the deliveries of a node, except those to the metrics gateway."""
    (run,) = (run for run in find_runs(folder).runs if run.header.node == node)
    found = [record for record in RunRecords(run) if record.kind in DELIVERIES]
    return [record for record in found if record.receiver != "outside:metrics"]


def holds(record: TraceRecord, *texts: str) -> bool:
    """Return whether the payload contains all these texts."""
    return all(text.encode() in bytes(record.payload) for text in texts)


def from_first(records: list[TraceRecord], *texts: str) -> list[TraceRecord]:
    """Return the records from the first one whose payload contains these texts."""
    begin = next(place for place, record in enumerate(records) if holds(record, *texts))
    return records[begin:]


@cache
def failed_broker() -> tuple[list[TraceRecord], dict[str, object]]:
    """Kill a leader that is not the controller; return the controller node's deliveries since its znode was deleted."""
    with tempfile.TemporaryDirectory() as name:
        with SimulatedCluster(3, seed=8, directory=name) as cluster:
            cluster.create_topic(TOPIC, 3)
            cluster.run(2.0)
            controller = cluster.controller_id
            leaders = [cluster.leader_of(TOPIC, number) for number in range(3)]
            victim = next(leader for leader in leaders if leader is not None and leader != controller)
            partition = leaders.index(victim)
            with watched_files():
                cluster.kill(victim)
                cluster.wait_for(lambda: cluster.leader_of(TOPIC, partition) not in (victim, None))
                cluster.run(1.0)
        assert controller is not None
        records = from_first(recorded(Path(name), controller), f'{{"kind":"deleted","path":"/brokers/ids/{victim}"}}')
    return records, {"controller": controller, "victim": victim, "partition": partition}


# ---------------------------------------------------------------------------------------------------- produce and fetch

PRODUCE_STEPS = (
    Step(
        "The leader appends",
        "LogMoved",
        """\
The listener reads the frame, validates the records (`messages/wire/batch_records.py`), and sends Produce and Fetch
requests to PartitionRequestsActor directly; other requests go to RequestHandlerActor. The request is split by
partition. PartitionActor checks the batch (`actors/core/broker/produce.py`), assigns offsets and the leader epoch, and
appends to its log. The log end offset is 1 now, but the high watermark is still 0. The produce request waits in the
partition's purgatory (`actors/core/broker/leader.py`), because `acks=all` needs all in-sync replicas.""",
    ),
    Step(
        "Waiting fetches are completed",
        "LogRead",
        """\
Followers poll with fetch sessions. The listener holds a fetch while there is no new data
(`actors/gateway/idle_polls.py`), so that idle polls are not messages. `LogMoved` says that the log has grown. Then
PartitionRequestsActor wakes the sessions that include this partition, and the listener sends it the held fetches as
`ClientRequests`. If a fetch names an offset, it is the next offset that the follower needs.""",
    ),
    Step(
        "The followers get the record",
        '"FetchResponse"',
        """\
The response has the bytes of the log. They are not decoded, and the trace has only their size and checksum. The high
watermark in the response is still 0, because the leader does not know yet that the followers have the record.""",
    ),
    Step(
        "The next fetches acknowledge it",
        "BatchesAppended",
        """\
A fetch at offset 1 means that the follower has everything below 1. When the last in-sync replica has asked for
offset 1, the leader raises the high watermark to 1 (broker.md 3.5), and the produce request is complete.""",
    ),
    Step(
        "The producer gets its response",
        '"ProduceResponse"',
        """\
The response has the offset of the first record. The followers learn the new high watermark from their next fetch
response: [the path of a follower's fetch](follower-fetch.md).""",
    ),
)

FETCH_STEPS = (
    Step(
        "The follower waits for data",
        "Transmit",
        """\
ReplicaFetcherActor has one connection to one other broker. In one fetch session (KIP-227) it fetches the partitions
that the other broker leads. The leader holds the request until there is data, or for `replica.fetch.wait.max.ms`. While
responses
are empty, the network gateway may repeat the request without a new message (`actors/gateway/idle_polls.py`).""",
    ),
    Step(
        "A record arrives",
        "Replicated",
        """\
The response has one batch. The fetcher checks the error codes and the leader epoch
(`actors/core/broker/fetcher.py`), and sends the bytes to PartitionActor as `Replicate`. PartitionActor appends
them unchanged, with the leader's offsets, and adopts the leader's high watermark and log start offset. `Replicated` has
the new log end offset.""",
    ),
    Step(
        "The next fetch is the acknowledgement",
        "Transmit",
        """\
The fetcher requests the next offset. From this offset the leader learns how far the follower's log reaches; there is no
separate acknowledgement.""",
    ),
    Step(
        "The high watermark arrives",
        "Replicated",
        """\
When all in-sync replicas have acknowledged the record, the leader raises its high watermark. The follower gets the new
high watermark with the next response, which has no records. A follower's high watermark may therefore be one round trip
behind. If this follower then becomes the leader, it starts with its own high watermark. A replica that becomes a
follower truncates its log by leader epochs (KIP-101), not to its high watermark.""",
    ),
)


@cache
def produced() -> tuple[list[list[TraceRecord]], int]:
    """Produce one record with acks=all; return the deliveries of each node, and the leader."""
    with tempfile.TemporaryDirectory() as name:
        with SimulatedCluster(3, seed=1, directory=name) as cluster:
            cluster.create_topic(TOPIC)
            cluster.run(3.0)
            leader = cluster.wait_for_leader(TOPIC)
            batch = batch_of([(b"key", b"first")], 1)
            part = ProducePartition(TopicPartition(TOPIC, 0), batch)
            with watched_files():
                cluster.ask(leader, ProduceRequest(8, None, ACKS_ALL, 3_000, (part,)))
                cluster.run(1.0)
        return [recorded(Path(name), node) for node in range(3)], leader


def produce() -> tuple[list[TraceRecord], dict[str, object]]:
    """Return the leader's deliveries from the Produce request on."""
    nodes, leader = produced()
    return from_first(nodes[leader], '"ProduceRequest"'), {"leader": leader}


def fetch() -> tuple[list[TraceRecord], dict[str, object]]:
    """Return the deliveries of a follower from its last fetch before the record on; it receives the high watermark."""
    nodes, leader = produced()
    for follower, records in enumerate(nodes):
        places = [place for place, each in enumerate(records) if each.type == "Replicate"]
        if follower != leader and any(holds(records[place], '"high_watermark":1') for place in places):
            first = next(place for place in places if '"size":0' not in bytes(records[place].payload).decode())
            begin = max(place for place in range(first) if records[place].type == "Transmit")
            return records[begin:], {"leader": leader, "follower": follower}
    raise LookupError("no follower received the high watermark")


PATHS = (
    RecordedPath(
        FOLDER / "controller-event.md",
        "The path of a controller event",
        "A broker is killed in a simulated cluster of three brokers. The topic `orders` has three partitions with "
        "three replicas each; broker {victim} led `orders-{partition}`. This page shows what node {controller}, the "
        "controller, records after that.",
        CONTROLLER_STEPS,
        "{milliseconds:.1f} ms after ZooKeeper's notification this broker knows the new leader of "
        "`orders-{partition}`. Before the notification, ZooKeeper waited until the session of the dead broker expired: "
        "6 s in this cluster.",
        failed_broker,
    ),
    RecordedPath(
        FOLDER / "produce.md",
        "The path of a produce with acks=all",
        "A client sends one record with `acks=all` to `orders-0`, in a simulated cluster of three brokers. This page "
        "shows what node {leader}, the leader, records.",
        PRODUCE_STEPS,
        "The producer waited {milliseconds:.1f} ms of virtual time: until the slower follower had received the record "
        "and sent its next fetch. `min.insync.replicas` is checked twice: before the append, and before the high "
        "watermark moves.",
        produce,
        HIDDEN,
    ),
    RecordedPath(
        FOLDER / "follower-fetch.md",
        "The path of a follower's fetch",
        "This page shows the other side of [a produce with acks=all](produce.md): what node {follower}, a follower of "
        "`orders-0`, records. Node {leader} is the leader.",
        FETCH_STEPS,
        "If the response has an error for a partition, the fetcher waits `replica.fetch.backoff.ms` before it fetches "
        "this partition again. After a new leader epoch the fetcher first asks the leader for the end offset of the "
        "follower's last epoch (OffsetsForLeaderEpoch), and truncates its log there (broker.md 4.4).",
        fetch,
        HIDDEN,
    ),
)

LOOK = """\
## Try it

`kafka-actors why partition T-P DIR` explains a change of leader. Each step of the explanation names the run (the
lifetime of a node's process) and the number of the delivery. `kafka-actors replay DIR --node N --until DELIVERY
--state ACTOR` replays the recorded actors up to a delivery, and prints an actor's state. [Explain an
incident](../tutorials/explain-an-incident.md) shows both commands."""


def sections(path: RecordedPath, records: list[TraceRecord]) -> Iterator[tuple[Step, list[TraceRecord]]]:
    """Yield each step with its deliveries."""
    rest = iter(records)
    for step in path.steps:
        found = []
        for record in rest:
            if record.type == "WakeupMessage":
                continue
            found.append(record)
            if record.type == step.last or (step.last.startswith('"') and holds(record, f"[{step.last}")):
                break
        else:
            raise LookupError(f"no {step.last} ends the step {step.title!r}")
        yield step, found


def short(value: Any, hidden: frozenset[str]) -> str:
    """Return a payload in one line, without empty and hidden fields."""
    if isinstance(value, dict) and "partition_states" in value:
        states = value["partition_states"]
        return ", ".join(
            "{0[0]}-{0[1]}: leader {1}, leader epoch {2}, ISR {3}".format(
                state["partition"], state["leader"], state["leader_epoch"], state["isr"]
            )
            for state in states
        )
    if isinstance(value, dict):
        for name in ("request", "response"):
            inner = value.get(name)
            if hidden and isinstance(inner, list) and len(inner) == 2 and isinstance(inner[1], dict):
                return f"{inner[0]} {short(inner[1], hidden)}"
        shown = {name: each for name, each in value.items() if name not in hidden and each not in ([], None)}
        return "{" + ", ".join(f"{name}: {short(each, hidden)}" for name, each in shown.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(short(each, hidden) for each in value) + "]"
    return str(value)


def line(record: TraceRecord, first: TraceRecord, hidden: frozenset[str]) -> str:
    """Format a delivery for the page: one line with its route and type, and one with its payload."""
    cause = str(record.cause - first.n + 1) if record.cause >= first.n else "outside"
    text = short(json.loads(bytes(record.payload)), hidden)
    text = text if len(text) <= WIDTH else text[: WIDTH - 4] + " ..."
    milliseconds = (record.taken_at - first.taken_at) * 1000
    head = f"{record.n - first.n + 1:4} <- {cause:7} {milliseconds:+6.2f}  {record.sender} -> {record.receiver}"
    return f"    {head:70} {record.type}\n{'':26}{text}".rstrip()


def diagram(records: Sequence[TraceRecord]) -> Iterator[str]:
    """Yield the lines of a sequence diagram of the deliveries."""
    yield from ("```mermaid", "sequenceDiagram")
    for record in records:
        names = [re.sub(r"^outside:|\.\d+$", "", name) for name in (record.sender, record.receiver)]
        inner = re.search(rb'"(?:request|response)":\["(\w+)"', bytes(record.payload))
        label = f"{record.type} ({inner[1].decode()})" if inner else record.type
        yield f"    {names[0]}->>{names[1]}: {label}"
    yield "```"


def document(path: RecordedPath) -> str:
    """Record the path and return its page."""
    logging.disable(logging.CRITICAL)
    try:
        records, named = path.record()
    finally:
        logging.disable(logging.NOTSET)
    steps = list(sections(path, records))
    shown = [record for _, found in steps for record in found]
    milliseconds = (shown[-1].taken_at - shown[0].taken_at) * 1000
    generated = "`make docs` generates this page from a recorded run; a test checks that it is up to date."
    parts = [f"# {path.title}", generated]
    parts.append(wrap_paragraphs(path.introduction.format(**named)))
    if len(shown) <= 40:
        parts.append("\n".join(diagram(shown)))
    parts.append(wrap_paragraphs(LEGEND))
    for number, (step, found) in enumerate(steps, 1):
        lines = "\n".join(line(record, shown[0], path.hidden) for record in found)
        parts += [f"## {number}. {step.title}", lines, wrap_paragraphs(step.text)]
    parts += ["## The result", wrap_paragraphs(path.conclusion.format(milliseconds=milliseconds, **named))]
    parts.append(wrap_paragraphs(LOOK))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for each in PATHS:
        each.file.write_text(document(each), encoding="utf-8")
        passed, named = each.record()
        shown = [record for _, found in sections(each, passed) for record in found]
        node = named.get("controller", named.get("follower", named.get("leader")))
        print(f"{each.file.name}: {len(files_of(node, shown))} files, {len(shown)} deliveries")
