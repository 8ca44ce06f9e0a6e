"""What a record says of partitions, topics, brokers and controllers, gathered in one pass of each run.

Rule 1: a fact names the delivery that shows it, of a node's run, and its time: `replay --node N --until N` goes there.
Rule 2: a controller is serial, so what it asks ZooKeeper for belongs to the event at the head of its queue: the oldest
        one delivered of which it has not said yet that it is over (it says so to the metrics).
Rule 3: a state is a fact when ZooKeeper has taken it: the question tells which, the answer whether.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from actors.core.controller.gauges import EVENT_TIME, EVENT_WAIT
from messages.cluster import TopicPartition
from messages.events import EVENTS
from messages.store import OK
from messages.trace.runs import Records, Run
from messages.trace.schema import DELIVERIES, Record

CONTROLLER = "ControllerActor"
WRITES = ("CreatePartitionStates", "UpdatePartitionStates")
ENDS = {
    "SessionExpired": "its ZooKeeper session expired",
    "ControllerShutdown": "its node was stopped",
    "ControllerMoved": "it was fenced: /controller_epoch had been raised by another",
    "ConnectionLoss": "the outcome of a write could not be known",
    "LostAnswer": "an answer did not come in time",
}
"""What ends a term, by the name of the message or failure, in words."""


class Place(NamedTuple):
    """Where a fact stands: when (seconds since 1970), and which delivery of whose run."""

    at: float
    node: int
    run: str
    n: int


class Written(NamedTuple):
    """A partition's state was written; `by` whom, and during which of its events."""

    place: Place
    partition: TopicPartition
    leader: int
    epoch: int
    isr: tuple[int, ...]
    by: str
    event: str


class Assigned(NamedTuple):
    """A partition has these replicas; some of them may be on their way in or out."""

    place: Place
    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    event: str


class Seen(NamedTuple):
    """A controller saw these brokers registered, with their epochs."""

    place: Place
    by: int
    brokers: dict[int, int]
    event: str


class Term(NamedTuple):
    """A controller's term began (`epoch`), or ended (`why`)."""

    place: Place
    broker: int
    epoch: int
    why: str


class Deletion(NamedTuple):
    """What happened to the deletion of topics: `step` is asked, queued, ineligible or deleted."""

    place: Place
    step: str
    topics: tuple[str, ...]
    event: str


class Refusal(NamedTuple):
    """A broker could not be told something: its connection failed."""

    place: Place
    broker: int
    reason: str


class Handled(NamedTuple):
    """An event was over: how long it took and had waited, in milliseconds."""

    place: Place
    event: str
    took: float
    waited: float


@dataclasses.dataclass
class Facts:
    """All facts of some runs, each kind in order of time."""

    written: list[Written] = dataclasses.field(default_factory=list)
    assigned: list[Assigned] = dataclasses.field(default_factory=list)
    seen: list[Seen] = dataclasses.field(default_factory=list)
    terms: list[Term] = dataclasses.field(default_factory=list)
    deletions: list[Deletion] = dataclasses.field(default_factory=list)
    refusals: list[Refusal] = dataclasses.field(default_factory=list)
    handled: list[Handled] = dataclasses.field(default_factory=list)
    waiting: list[tuple[Place, str]] = dataclasses.field(default_factory=list)
    """The events of which no end is recorded."""

    def in_order(self) -> Facts:
        """The same, sorted."""
        for field in dataclasses.fields(self):
            getattr(self, field.name).sort(key=lambda fact: fact[0])
        return self


def gather(runs: Iterable[Run]) -> Facts:
    """The facts of these runs. Raises TraceError for a run that is damaged."""
    facts = Facts()
    for run in runs:
        _Pass(run, facts).go()
    return facts.in_order()


class _Pass:
    """One pass of one run."""

    def __init__(self, run: Run, facts: Facts) -> None:
        self.facts = facts
        self.run = run
        self.events = {name for name, _ in run.header.events} or {event.__name__ for event in EVENTS}
        self.broker: dict[str, int] = {}
        """Controllers by address: their broker ids."""
        self.queue: dict[str, list[tuple[Place, str, str]]] = {}
        """The events of a controller that are not over: where delivered, type, and whom they are about."""
        self.asked: dict[tuple[str, int], tuple[Place, Any, str]] = {}
        """Questions about states under way: by who asked, and its number."""

    def go(self) -> None:
        """Read all records."""
        for record in Records(self.run):
            if record.kind in DELIVERIES:
                self._take(record)
        for queue in self.queue.values():
            self.facts.waiting += [(place, f"{kind} {about}".rstrip()) for place, kind, about in queue]

    def _take(self, record: Record) -> None:
        place = Place(
            record.taken_at + self.run.header.clock_offset, self.run.header.node, self.run.header.run, record.n
        )
        if record.actor == CONTROLLER:
            self._to_controller(place, record)
        take = _TAKEN.get(record.type)
        if take is not None:
            take(self, place, record, json.loads(bytes(record.payload)))

    def _to_controller(self, place: Place, record: Record) -> None:
        """Mail of a controller: an event, or its end."""
        kind, payload = record.type, {}
        if kind in ("Forwarded", "WakeupMessage", "StartController", "Answer") or kind in self.events or kind in ENDS:
            payload = json.loads(bytes(record.payload))
        if kind == "StartController":
            self.broker[record.receiver] = payload["settings"]["node_id"]
        elif kind == "Forwarded":
            self._begun(place, record.receiver, payload["request"]["request"][0], "")
        elif kind == "WakeupMessage" and payload["payload"][0] in self.events:
            self._begun(place, record.receiver, payload["payload"][0], "")
        elif kind in self.events:
            fields = [value for name, value in payload.items() if name != "generation" and type(value) in (int, str)]
            about = map(str, sorted(fields, key=lambda value: type(value) is int))  # a topic, then its partition
            self._begun(place, record.receiver, kind, " ".join(about))
        failed = (
            payload["result"][1].get("name", "") if kind == "Answer" and payload["result"][0] == "Failure" else kind
        )
        if failed in ENDS and record.receiver in self.broker:
            self.facts.terms.append(Term(place, self.broker[record.receiver], -1, ENDS[failed]))

    def _begun(self, place: Place, controller: str, kind: str, about: str) -> None:
        self.queue.setdefault(controller, []).append((place, kind, about))

    def _event(self, controller: str) -> str:
        """The event that a controller is at (rule 2), as it is told."""
        queue = self.queue.get(controller)
        if not queue:
            return ""
        (_, _, _, n), kind, about = queue[0]
        return f"{kind} {about}".rstrip() + f" (delivery {n})"

    def samples(self, place: Place, record: Record, payload: Any) -> None:
        """A controller says that an event is over."""
        values = {name: (value, dict(labels).get("event")) for name, value, labels in payload["values"]}
        took, kind = values.get(EVENT_TIME, (0.0, None))
        queue = self.queue.get(record.sender, [])
        ended = next((at for at, entry in enumerate(queue) if entry[1] == kind), None)
        if kind is None or ended is None:
            return
        begun, _, about = queue.pop(ended)
        self.facts.handled.append(Handled(begun, f"{kind} {about}".rstrip(), took, values[EVENT_WAIT][0]))

    def ask(self, place: Place, record: Record, payload: Any) -> None:
        """A question to ZooKeeper's bridge."""
        name, question = payload["question"]
        event = self._event(record.sender)
        if name in WRITES:
            self.asked[record.sender, payload["id"]] = place, question["states"], event
        elif name in ("SetAssignments", "CreateTopic"):
            self._assigned(place, question["topics"] if name == "SetAssignments" else [question["topic"]], event)
        elif name == "RequestTopicDeletion":
            self.facts.deletions.append(Deletion(place, "asked", (question["topic"],), event))
        elif name == "DeleteTopics":
            self.facts.deletions.append(Deletion(place, "deleted", tuple(question["topics"]), event))
        elif name == "QueueDeletions":
            topics = tuple(each["topic"] for each in question["topics"])
            self.facts.deletions.append(Deletion(place, "queued", topics, event))

    def answer(self, place: Place, record: Record, payload: Any) -> None:
        """An answer, of ZooKeeper's bridge or of the deletion."""
        name, result = payload["result"]
        event = self._event(record.receiver)
        broker = self.broker.get(record.receiver, place.node)
        if name == "Elected":
            self.facts.terms.append(Term(place, broker, result["epoch"], ""))
        elif name == "Brokers" and record.actor == CONTROLLER:
            found = {each["id"]: each["epoch"] for each in result["brokers"]}
            self.facts.seen.append(Seen(place, broker, found, event))
        elif name == "Assignments":
            self._assigned(place, result["topics"], event)
        elif name == "DeletionPlan":
            for kind, step in result["steps"]:
                if kind == "DeletionSets" and step["ineligible"]:
                    self.facts.deletions.append(Deletion(place, "ineligible", tuple(step["ineligible"]), event))
        elif name == "WriteResults":
            asked, states, event = self.asked.pop((record.receiver, payload["id"]), (place, [], ""))
            who = f"controller {broker}" if record.actor == CONTROLLER else f"broker {place.node}, which leads it"
            for (tp, state), (_, code, _) in zip(states, result["results"], strict=False):
                if code == OK:
                    self.facts.written.append(
                        Written(
                            *(asked, TopicPartition(*tp), state["leader"], state["leader_epoch"], tuple(state["isr"])),
                            *(who, event),
                        )
                    )

    def failed(self, place: Place, record: Record, payload: Any) -> None:
        """A connection to a broker failed."""
        _, found, rest = payload["channel"].partition("-broker-")
        if found:
            self.facts.refusals.append(Refusal(place, int(rest.partition("-")[0]), payload["reason"]))

    def _assigned(self, place: Place, topics: Any, event: str) -> None:
        for topic, partitions in topics:
            for number, each in partitions:
                replicas, adding, removing = (tuple(each[name]) for name in ("replicas", "adding", "removing"))
                partition = TopicPartition(topic, number)
                self.facts.assigned.append(Assigned(place, partition, replicas, adding, removing, event))


_TAKEN: dict[str, Callable[[_Pass, Place, Record, Any], None]] = {
    "Samples": _Pass.samples,
    "Ask": _Pass.ask,
    "Answer": _Pass.answer,
    "TransmitFailed": _Pass.failed,
}
"""What is taken out of whose payload."""
