"""docs/explanation/journey.md: the recorded path of one controller event, from a simulated cluster.

`python -m tests.docs.journey` writes the page. The cluster is deterministic, so that a test can compare the page.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from actors.public.simulated import SimulatedCluster
from messages.trace.runs import RunRecords, find_runs
from messages.trace.schema import DELIVERIES, TraceRecord
from tests.layering import ROOT

FILE = ROOT / "docs" / "explanation" / "journey.md"
TOPIC = "orders"
WIDTH = 72
"""Characters of a payload; longer ones are cut."""

INTRODUCTION = """\
# The journey of one event

*Generated from a recorded run by `make docs`.*

A broker is killed. This page shows what the controller's node records then. The cluster is a
simulated one of three brokers, with a topic `orders` of three partitions and three replicas
each. Broker {victim} leads `orders-{partition}`. Node {controller} is the controller. A line
begins with the number of the delivery, counted from the first one here, and with the delivery
that sent the message ("outside": it came from outside the actor system). Then follow the
milliseconds since ZooKeeper's notification, sender, receiver, message type and payload.
Messages to the metrics gateway are left out.
"""

CONCLUSION = """\
{milliseconds:.1f} ms after ZooKeeper's notification this broker has the new leader of `orders-{partition}`. Before
that, ZooKeeper waited for the session of the dead broker to expire: 6 s in this cluster.

## Look for yourself

`kafka-actors summary DIR` counts these messages for all nodes. `kafka-actors why partition T-P DIR` explains the change
of leader, with the run and delivery of each step. `kafka-actors replay DIR` gives what came from outside to the same
actors at the same times. It compares every other message, and every call of disk, clock or chance, with the record.
"""


class Step(NamedTuple):
    """A section of the page: the deliveries up to and including the first of a type, or with such a payload."""

    title: str
    last: str
    text: str


STEPS = (
    Step(
        "ZooKeeper reports a change",
        "BrokerChange",
        """\
The session of the broker expired, and two watches fired. The store puts answers, watch events and session states into
one queue, in the order of arrival, and injects them into the actor system. ZkBridgeActor finds the watcher in its table
(`zk_bridge/watches.py`). A deleted `/brokers/ids/N` has no watcher there. Changed children of `/brokers/ids` are a
`BrokerChange` for the controller. The event has the generation of its session: the controller drops events of a session
that has expired.""",
    ),
    Step(
        "The controller reads the brokers",
        '"Brokers"',
        """\
The handler is the generator `changed` in `actors/core/controller/broker_changes.py`. It only decides, and does no I/O.
The shell around it (`actors/runtime/flow.py`) sends each question as an `Ask` to the bridge, and stashes all other mail
until the `Answer` with that id arrives: one event ends before the next begins. The bridge arms the watch *before* it
reads, so that no change between the two is missed.""",
    ),
    Step(
        "A channel closes, a leader is elected",
        '"WriteResults"',
        """\
The flow yields questions and instructions such as `CloseChannel`, which the shell executes at once. The partition moves
to OfflinePartition and back to OnlinePartition by the table in `actors/core/controller/states.py`. The strategy in
`actors/core/controller/elections.py` elects the first live replica of the ISR. The state that the controller knows is
written without reading it again. The write is one transaction: the check of `/controller_epoch` fences it, and the
version of the znode guards it against a change by the old leader. After a conflict the state is read first.""",
    ),
    Step(
        "The controller sends its requests",
        "StoreWrite",
        """\
A step collects its requests per broker (`actors/core/controller/batch.py`) and sends them at its end. Each channel is a
FIFO with one request in flight: UpdateMetadata waits for the response to LeaderAndIsr. The network gateway owns the
sockets, and encodes `Transmit` with `messages/wire`. Meanwhile the flow continues: the second `Ask` takes the dead
broker out of the ISRs of the other partitions, in one transaction for all of them.""",
    ),
    Step(
        "A broker obeys",
        "ClientResponse",
        """\
This node is a broker, too. The request to itself arrives at its own listener. The checks - the controller's epoch, and
the broker epoch of the request - are in `actors/core/broker/replica_manager.py`. The rules of the roles are in
`actors/core/broker/partition.py`. Each partition is an actor, the only one that touches its directory.""",
    ),
    Step(
        "The response is an event",
        "LeaderAndIsrResponseReceived",
        """\
The new follower meanwhile moves to the fetcher of the new leader.
`LeaderAndIsrResponseReceived` is mail like any other. The controller still handles the
`BrokerChange`, so that it waits in the stash until that flow has ended.""",
    ),
)


def live(folder: Path) -> tuple[int, int, int]:
    """Record the run below a folder; return the controller, the killed broker, and the partition that it led."""
    with SimulatedCluster(3, seed=1, directory=folder) as cluster:
        cluster.create_topic(TOPIC, 3)
        cluster.run(2.0)
        controller = cluster.controller_id
        leaders = [cluster.leader_of(TOPIC, number) for number in range(3)]
        victim = next(leader for leader in leaders if leader is not None and leader != controller)
        partition = leaders.index(victim)
        cluster.kill(victim)
        cluster.wait_for(lambda: cluster.leader_of(TOPIC, partition) not in (victim, None))
        cluster.run(1.0)
    assert controller is not None
    return controller, victim, partition


def recorded(folder: Path, controller: int, victim: int) -> list[TraceRecord]:
    """Read the deliveries of the controller's node since ZooKeeper's notification, without those to the metrics."""
    (run,) = (run for run in find_runs(folder).runs if run.header.node == controller)
    records = [record for record in RunRecords(run) if record.kind in DELIVERIES]
    fired = f'{{"kind":"deleted","path":"/brokers/ids/{victim}"}}'.encode()
    begin = next(place for place, record in enumerate(records) if bytes(record.payload) == fired)
    return [record for record in records[begin:] if record.receiver != "outside:metrics"]


def sections(records: list[TraceRecord]) -> Iterator[tuple[Step, list[TraceRecord]]]:
    """The deliveries of each step."""
    rest = iter(records)
    for step in STEPS:
        found = []
        for record in rest:
            found.append(record)
            name = step.last
            if record.type == name or (name.startswith('"') and f"[{name}".encode() in bytes(record.payload)):
                break
        else:
            raise LookupError(f"no {step.last} ends the step {step.title!r}")
        yield step, found


def short(value: Any) -> str:
    """A payload in one line."""
    if isinstance(value, dict) and "partition_states" in value:
        states = value["partition_states"]
        return ", ".join(
            "{0[0]}-{0[1]}: leader {1}, leader epoch {2}, ISR {3}".format(
                state["partition"], state["leader"], state["leader_epoch"], state["isr"]
            )
            for state in states
        )
    if isinstance(value, dict):
        parts = (f"{name}: {short(each)}" for name, each in value.items() if each not in ([], None))
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(short, value)) + "]"
    return str(value)


def line(record: TraceRecord, first: TraceRecord) -> str:
    """A delivery as a line of the page."""
    cause = str(record.cause - first.n + 1) if record.cause >= first.n else "outside"
    text = short(json.loads(bytes(record.payload)))
    text = text if len(text) <= WIDTH else text[: WIDTH - 4] + " ..."
    milliseconds = (record.taken_at - first.taken_at) * 1000
    head = f"{record.n - first.n + 1:4} <- {cause:7} {milliseconds:+6.2f}  {record.sender} -> {record.receiver}"
    return f"    {head:70} {record.type}\n{'':26}{text}"


def document() -> str:
    """The page."""
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory() as folder:
            controller, victim, partition = live(Path(folder))
            records = recorded(Path(folder), controller, victim)
    finally:
        logging.disable(logging.NOTSET)
    named = {"controller": controller, "victim": victim, "partition": partition}
    parts = [INTRODUCTION.format(**named)]
    last = records[0]
    for number, (step, found) in enumerate(sections(records), 1):
        shown = "\n".join(line(record, records[0]).rstrip() for record in found)
        parts.append(f"## {number}. {step.title}\n\n{shown}\n\n{step.text}\n")
        last = found[-1]
    milliseconds = (last.taken_at - records[0].taken_at) * 1000
    return "\n".join([*parts, CONCLUSION.format(milliseconds=milliseconds, **named)])


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
