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
    principal
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
    """A page, and the function that records its deliveries. `paths_text` has a file of its name with its texts."""

    file: Path
    record: Callable[[], tuple[list[TraceRecord], dict[str, object]]]
    hidden: frozenset[str] = frozenset()

    @property
    def texts(self) -> tuple[str, str, list[Step], str]:
        """Return the page's title, its introduction, its steps and its conclusion.

        The heading of a step has the end of its section after a bar.
        """
        text = (Path(__file__).parent / "paths_text" / self.file.name).read_text(encoding="utf-8")
        head, *steps, result = re.split(r"(?m)^##? ", text)[1:]
        title, introduction = head.split("\n", 1)
        found = [Step(*each.split("\n", 1)[0].split(" | "), each.split("\n", 1)[1].strip()) for each in steps]
        return title, introduction.strip(), found, result.partition("\n")[2].strip()


LEGEND = """\
Each line below is a delivery: one message that an actor or an external endpoint received. The line begins with the
number of the delivery, counted from the first delivery on this page. After the arrow comes the number of the delivery
during which the message was sent; "outside" means that the message came from outside the actor system, or was sent
before the first delivery on this page. Next are the milliseconds since the first delivery, the sender, the receiver,
the message type and the payload. Payloads are shortened; messages to the metrics gateway are
left out."""

# ------------------------------------------------------------------------------------------------- a controller event


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
    RecordedPath(FOLDER / "controller-event.md", failed_broker),
    RecordedPath(FOLDER / "produce.md", produce, HIDDEN),
    RecordedPath(FOLDER / "follower-fetch.md", fetch, HIDDEN),
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
    for step in path.texts[2]:
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
    title, introduction, _, conclusion = path.texts
    parts = [f"# {title}", generated, wrap_paragraphs(introduction.format(**named))]
    if len(shown) <= 40:
        parts.append("\n".join(diagram(shown)))
    parts.append(wrap_paragraphs(LEGEND))
    for number, (step, found) in enumerate(steps, 1):
        lines = "\n".join(line(record, shown[0], path.hidden) for record in found)
        parts += [f"## {number}. {step.title}", lines, wrap_paragraphs(step.text)]
    parts += ["## The result", wrap_paragraphs(conclusion.format(milliseconds=milliseconds, **named))]
    parts.append(wrap_paragraphs(LOOK))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for each in PATHS:
        each.file.write_text(document(each), encoding="utf-8")
        passed, named = each.record()
        shown = [record for _, found in sections(each, passed) for record in found]
        node = named.get("controller", named.get("follower", named.get("leader")))
        print(f"{each.file.name}: {len(files_of(node, shown))} files, {len(shown)} deliveries")
