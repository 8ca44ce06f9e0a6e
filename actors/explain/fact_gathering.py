"""Read a trace once and collect the facts that `kafka-actors why` needs.

Rule 1: a controller is serial. What it learns and asks for belongs to the event whose end it tells the metrics next: it
        says how long that took and had waited, so it is known when the event came. What came before it, and is not over
        by such a report, is over without a word, and did nothing.
Rule 2: an expired session ends all that a controller has before it.
Rule 3: what a question writes is a fact when the answer says that ZooKeeper has taken it; its place is the question's.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from actors.core.controller.events import REQUESTS
from actors.core.controller.gauges import EVENT_TIME, EVENT_WAIT
from actors.explain.trace_facts import (
    BrokerResponse,
    ControllerEvent,
    Deletion,
    Dropped,
    ErrorAnswered,
    FaultMet,
    Idle,
    LeaderAndIsrSent,
    LogTruncation,
    NodeFaultChange,
    NodeRun,
    ReplicasAssigned,
    RequestFailed,
    RequestRefused,
    Seen,
    StateWrite,
    Term,
    TraceFacts,
    TracePosition,
    Waiting,
)
from actors.explain.transaction_facts import TransactionFactReader
from messages import events
from messages.cluster import TopicPartition
from messages.error_codes import NONE
from messages.store import OK
from messages.trace.endings import KILLED
from messages.trace.runs import Run, RunRecords, ending
from messages.trace.schema import DELIVERIES, TraceRecord

CONTROLLER = "ControllerActor"
PARTITION = "PartitionActor"
WRITES = ("CreatePartitionStates", "UpdatePartitionStates")
LOOKS = ("Get", "Watch", "StartWatching")
"""How questions to ZooKeeper begin that change nothing there."""

RESPONSES = {each.__name__ for each in events.ResponseReceived.__subclasses__()}
"""Brokers' answers: that there is nothing to be done about one is the rule."""

ENDS = {
    "SessionExpired": "its ZooKeeper session expired",
    "ControllerShutdown": "its node was stopped",
    "ControllerMoved": "it was fenced: /controller_epoch had been raised by another",
    "ConnectionLoss": "the outcome of a write could not be known",
    "LostAnswer": "an answer did not come in time",
}
"""What ends a term, by the name of the message or failure, in words."""

REFUSABLE = (
    "AlterPartitionReassignmentsRequest",
    "ControlledShutdownRequest",
    "CreatePartitionsRequest",
    "CreateTopicsRequest",
    "DeleteTopicsRequest",
)
"""Requests with refused items to report."""

NOT_DONE = ("Failure", "TopicExists")
"""Answers to a question that changed nothing."""

NOT_IN_OFFICE = "it was not the controller"
CLOSE = 1e-4
"""Times within this number of seconds are equal."""


def gather(runs: Iterable[Run], partition: TopicPartition | None = None) -> TraceFacts:
    """The facts of these runs; orders to brokers only of `partition`, where one is named.

    Raises TraceError for a run that is damaged.
    """
    facts = TraceFacts()
    for run in runs:
        _Pass(run, facts, partition).go()
    return facts.in_order()


class _PendingEvent(NamedTuple):
    """A controller event in the queue, with its session and whether the controller was active."""

    event: ControllerEvent
    generation: int
    in_office: bool


class _Desk:
    """The progress of a controller: its pending events, and its results and open requests since its last event."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.pending: list[_PendingEvent] = []
        self.learnt: list[tuple[list[Any], Any]] = []
        """Facts of the current event, and the lists that they are added to."""
        self.open: dict[int, str] = {}
        """Requests without a response."""
        self.last: ControllerEvent | None = None
        self.in_office = False
        self.dead_generation = 0
        self.busy = False
        """Whether the current event has done more than read."""

    def reported(self, kind: str, came: float) -> int | None:
        """Return the index of the pending event of this kind that was queued at that time, None if there is none."""
        same = [(abs(each.event.place.at - came), n) for n, each in enumerate(self.pending) if each.event.kind == kind]
        apart, nearest = min(same, default=(CLOSE, None))
        return nearest if apart < CLOSE else None

    def settle(self, event: ControllerEvent | None) -> None:
        """Assign the collected facts to this event."""
        for facts, fact in self.learnt:
            facts.append(fact._replace(event=event))
        self.learnt.clear()
        self.busy = False

    def why_idle(self, pending: _PendingEvent) -> str:
        """Return why an event ended without a write or request."""
        if 0 < pending.generation <= self.dead_generation:
            return "it came from a session that was over"
        if not (pending.in_office and self.in_office):
            return NOT_IN_OFFICE
        if pending.event.kind in RESPONSES:
            return "it was the answer of a channel that had been closed"
        return "the record does not tell why"


class _Pass:
    """The reader of one run of a trace, which collects the facts."""

    def __init__(self, run: Run, facts: TraceFacts, partition: TopicPartition | None) -> None:
        self.facts = facts
        self.transactions = TransactionFactReader(facts)
        self.run = run
        self.partition = partition
        self.events = {name for name, _ in run.header.events} or {event.__name__ for event in events.EVENTS}
        self.desks: dict[str, _Desk] = {}
        """Controllers by address."""
        self.asked: dict[tuple[str, int], tuple[TracePosition, Any]] = {}
        """Questions about states under way: by asker and number."""
        self.requests: dict[tuple[str, int, int], Any] = {}
        """Requests that a controller may refuse: by listener, connection and number."""
        self.channels: dict[str, int] = {}
        """To which broker a channel leads, by its address."""
        self.answered: dict[int, TracePosition] = {}
        """Where brokers last answered a controller's request."""
        self.ahead: dict[tuple[str, str], list[Any]] = {}
        """What came to a channel ahead of a LeaderAndIsr, or of an answer."""
        self.orders: dict[str, list[list[LeaderAndIsrSent]]] = {}
        """By channel, what of each LeaderAndIsr in its queue is of interest."""
        self.log_ends: dict[str, int] = {}
        self.versions: dict[TopicPartition, int] = {}
        """Of each partition's state znode, as this run knew it last."""
        self.registered: list[tuple[int, float]] = []
        """Broker epochs of this run, with the time of each registration."""
        self.pending: dict[tuple[str, int], list[tuple[list[Any], Any]]] = {}
        """Facts that a question makes true once it succeeds, and where they go: by sender and number."""

    def go(self) -> None:
        """Read all records."""
        first = last = None
        for record in RunRecords(self.run):
            if record.kind in DELIVERIES:
                last = self._place(record)
                first = first or last
                self._take(last, record)
        if first is None or last is None:
            return
        self.facts.answered += [BrokerResponse(each, broker) for broker, each in self.answered.items()]
        how = ending(self.run)
        self.facts.lives.append(NodeRun(last, first.at, how, tuple(self.registered)))
        for desk in self.desks.values():
            self._at_the_end(desk, last)
            if desk.in_office and how == KILLED:
                self.facts.terms.append(
                    Term(last, desk.broker, -1, "its process was killed, and this is its last record")
                )
        for queue in self.orders.values():
            self.facts.orders += [order for orders in queue for order in orders]

    def _place(self, record: TraceRecord) -> TracePosition:
        header = self.run.header
        return TracePosition(record.taken_at + header.clock_offset, header.node, header.run, record.n)

    def _at_the_end(self, desk: _Desk, last: TracePosition) -> None:
        """What a controller has before it at the end of the record; nothing, if it waits for no answer."""
        desk.settle(desk.pending[0].event if desk.pending else None)
        if not desk.open:
            self._idle(desk, len(desk.pending))
        for number, (event, *_) in enumerate(desk.pending):
            waits_for = ", ".join(dict.fromkeys(desk.open.values())) if number == 0 else ""
            self.facts.waiting.append(Waiting(event.place, event, last.at - event.place.at, waits_for))

    def _take(self, place: TracePosition, record: TraceRecord) -> None:
        if record.type == "Received" and record.receiver in self.channels:
            self.answered[self.channels[record.receiver]] = place
        if record.actor == CONTROLLER:
            self._to_controller(place, record)
        elif record.actor == PARTITION and record.effects:
            self._on_disk(place, record)
        taken = _TAKEN.get(record.type)
        if taken is not None:
            payload = bytes(record.payload)
            wanted = [of for mark, of in taken if mark.search(payload)]
            read = json.loads(payload) if wanted else None
            for of in wanted:
                of(self, place, record, read)

    # ------------------------------------------------------------------------------------------------ controllers

    def _to_controller(self, place: TracePosition, record: TraceRecord) -> None:
        """Mail of a controller: an event, an answer, its end."""
        kind, payload = record.type, {}
        if kind in ("Forwarded", "WakeupMessage", "StartController", "Answer") or kind in self.events or kind in ENDS:
            payload = json.loads(bytes(record.payload))
        if kind == "StartController":
            self.desks[record.receiver] = _Desk(payload["settings"]["node_id"])
        desk = self.desks.get(record.receiver)
        if desk is None:
            desk = self.desks[record.receiver] = _Desk(place.node)
        if kind == "SessionExpired":
            self._expired(desk, place, payload["generation"])
        failed = kind
        if kind == "Answer":
            desk.open.pop(payload["id"], None)
            name, result = payload["result"]
            failed = result.get("name", "") if name == "Failure" else ""
        elif kind == "Forwarded":
            request = payload["request"]
            if request["request"][0] in REFUSABLE:
                key = payload["client"], request["connection"], request["correlation_id"]
                self.requests[key] = request["request"]
            self._came(desk, place, request["request"][0])
        elif kind == "WakeupMessage" and payload["payload"][0] in self.events:
            self._came(desk, place, payload["payload"][0])
        elif kind in self.events:
            fields = [value for name, value in payload.items() if name != "generation" and type(value) in (int, str)]
            about = map(str, sorted(fields, key=lambda value: type(value) is int))  # a topic, then its partition
            self._came(desk, place, kind, " ".join(about), payload.get("generation", 0))
        if failed in ENDS:
            self.facts.terms.append(Term(place, desk.broker, -1, ENDS[failed]))

    def _came(self, desk: _Desk, place: TracePosition, kind: str, about: str = "", generation: int = 0) -> None:
        desk.pending.append(_PendingEvent(ControllerEvent(place, kind, about), generation, desk.in_office))

    def _expired(self, desk: _Desk, place: TracePosition, generation: int) -> None:
        """Rule 2."""
        desk.settle(desk.pending[0].event if desk.pending else None)
        if desk.open:
            why = "the ZooKeeper session expired before it was done"
            self.facts.idle += [Idle(each.event.place, each.event, why) for each in desk.pending]
            desk.pending.clear()
        self._idle(desk, len(desk.pending))
        desk.open.clear()
        desk.in_office, desk.dead_generation = False, generation

    def _idle(self, desk: _Desk, count: int) -> None:
        """The first `count` pending events ended without a write or request."""
        over, desk.pending = desk.pending[:count], desk.pending[count:]
        self.facts.idle += [Idle(each.event.place, each.event, desk.why_idle(each)) for each in over]

    def samples(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """A controller says that an event is over (rule 1)."""
        desk = self.desks.get(record.sender)
        values = {name: (value, dict(labels).get("event")) for name, value, labels in payload["values"]}
        took, kind = values.get(EVENT_TIME, (0.0, None))
        if desk is None or kind is None:
            return
        waited = values[EVENT_WAIT][0]
        over = desk.reported(kind, record.queued_at + self.run.header.clock_offset - (took + waited) / 1000)
        if over is not None:
            self._idle(desk, over)
            event = desk.last = desk.pending.pop(0).event._replace(waited=waited, took=took)
            self.facts.handled.append(event)
            if not desk.busy and kind not in RESPONSES:
                self.facts.idle.append(Idle(event.place, event, "there was nothing to be done"))
        elif desk.last is not None and desk.last.kind != kind:
            desk.last = None  # it came before the record begins
        desk.settle(desk.last)  # of the event before, if it failed, and this is the end of what followed

    def ask(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """A question to ZooKeeper's bridge, or to the deletion."""
        name, question = payload["question"]
        desk = self.desks.get(record.sender)
        if desk is not None:
            begun = next((n for n, each in enumerate(desk.pending) if each.event.place.n == record.cause), 0)
            self._idle(desk, begun)
            desk.open[payload["id"]] = name
            desk.busy = desk.busy or (record.actor == "ZkBridgeActor" and not name.startswith(LOOKS))

        def pend(facts: list[Any], *learnt: Any) -> None:
            self.pending[record.sender, payload["id"]] = [(facts, fact) for fact in learnt]

        if name in WRITES:
            self.asked[record.sender, payload["id"]] = place, question["states"]
        elif name == "SetAssignments":
            pend(self.facts.assigned, *_assignments(place, question["topics"], written=True))
        elif name == "CreateTopic":
            pend(self.facts.assigned, *_assignments(place, [question["topic"]], written=True))
        elif name == "RequestTopicDeletion":
            pend(self.facts.deletions, Deletion(place, "asked", (question["topic"],)))
        elif name == "DeleteTopics":
            pend(self.facts.deletions, Deletion(place, "deleted", tuple(question["topics"])))
        elif name == "QueueDeletions":
            pend(self.facts.deletions, Deletion(place, "queued", tuple(each["topic"] for each in question["topics"])))
        elif name == "RemoveReassignments":
            requests = [(TopicPartition(*partition), tuple(replicas)) for partition, replicas in question["requests"]]
            pend(self.facts.dropped, *(Dropped(place, *request) for request in requests))
        elif desk is not None and name == "StopWatching" and events.BrokerChange.__name__ in question["events"]:
            desk.in_office = False
            self._learn(desk, self.facts.terms, Term(place, desk.broker, -1, ""))

    def answer(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """An answer, of ZooKeeper's bridge or of the deletion."""
        name, result = payload["result"]
        desk = self.desks.get(record.receiver)
        done = self.pending.pop((record.receiver, payload["id"]), ())
        for facts, fact in done if name not in NOT_DONE else ():
            self._learn(desk, facts, fact)
        if name == "BrokerRegistered":
            self.registered.append((result["epoch"], place.at))
        elif name == "Elected" and desk is not None:
            desk.in_office = True
            self._learn(desk, self.facts.terms, Term(place, desk.broker, result["epoch"], ""))
        elif name == "Brokers" and desk is not None:
            found = {each["id"]: each["epoch"] for each in result["brokers"]}
            self._learn(desk, self.facts.seen, Seen(place, desk.broker, found))
        elif name == "Assignments":
            for assigned in _assignments(place, result["topics"], written=False):
                self._learn(desk, self.facts.assigned, assigned)
        elif name == "DeletionPlan":
            for kind, step in result["steps"]:
                if kind == "DeletionSets" and step["ineligible"]:
                    ineligible = Deletion(place, "ineligible", tuple(step["ineligible"]))
                    self._learn(desk, self.facts.deletions, ineligible)
        elif name == "WriteResults":
            asked, states = self.asked.pop((record.receiver, payload["id"]), (place, []))
            by = f"controller {desk.broker}" if desk is not None else f"broker {place.node}, which leads it,"
            for (tp, state), (_, code, version) in zip(states, result["results"], strict=False):
                if code == OK:
                    self._state(desk, StateWrite(asked, *_state(tp, state), by, place.at, None, version))
        elif name == "PartitionStates" and desk is not None:
            for tp, state, _ in result["states"]:
                if state is not None and self.partition in (None, tuple(tp)):
                    by, version = f"controller {desk.broker}", state["zk_version"]
                    self._state(desk, StateWrite(place, *_state(tp, state), by, place.at, None, version, read=True))

    def _state(self, desk: _Desk | None, state: StateWrite) -> None:
        """A partition's state, unless it is the one that this run knew last."""
        if self.versions.get(state.partition) != state.version:
            self.versions[state.partition] = state.version
            self._learn(desk, self.facts.written, state)

    def _learn(self, desk: _Desk | None, facts: list[Any], fact: Any) -> None:
        """A fact; of a controller's, its event is set later."""
        if desk is None:
            facts.append(fact)
        else:
            desk.learnt.append((facts, fact))

    # ------------------------------------------------------------------------------------------------ refusals

    def response(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """What a client, or a broker, was answered."""
        desk = self.desks.get(record.sender)
        if desk is not None:
            desk.busy = True
        key = record.receiver, payload["connection"], payload["correlation_id"]
        request = self.requests.pop(key, None)
        if request is not None:
            kind = request[0].removesuffix("Request")
            self.facts.refused += [
                RequestRefused(place, kind, *each) for each in _refusals(request[1], payload["response"][1])
            ]

    def errors(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """Error codes in answers to clients and brokers."""
        for each in payload.get("responses", (payload,)):
            name, response = each["response"]
            found = Counter(_errors(response, ""))
            for (code, subject), times in found.items():
                api = name.removesuffix("Response")
                self.facts.errors.append(ErrorAnswered(place, api, code, subject, times))

    def fault(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """A request met an injected fault."""
        fields = (payload[name] for name in ("fault", "value", "api", "client_id"))
        self.facts.faults.append(FaultMet(place, *fields))

    def node_fault(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """A fault of the node was injected, met or removed."""
        fields = (payload[name] for name in ("fault", "value", "change", "hits"))
        self.facts.node_faults.append(NodeFaultChange(place, *fields))

    # ------------------------------------------------------------------------------------------------ orders

    def channel(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """A channel to a broker is opened."""
        self.channels[record.receiver] = payload["broker_id"]

    def part(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """A part of a LeaderAndIsr comes to a channel ahead of it, or one of the answer to it."""
        part = payload["part"][1] if record.type == "ChannelPart" else payload
        if record.receiver in self.channels:
            self.ahead.setdefault((record.receiver, record.type), []).extend(part["entries"])

    def ordered(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """A LeaderAndIsr is put into a channel's queue."""
        broker = self.channels.get(record.receiver)
        states = [*self.ahead.pop((record.receiver, "LeaderAndIsrPart"), ()), *payload["partition_states"]]
        if broker is not None:
            orders = [
                LeaderAndIsrSent(
                    place, broker, TopicPartition(*each["partition"]), each["leader"], each["leader_epoch"]
                )
                for each in states
                if self.partition in (None, tuple(each["partition"]))
            ]
            self.orders.setdefault(record.receiver, []).append(orders)

    def transmit(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """A LeaderAndIsr is sent, not for the first time perhaps."""
        queue = self.orders.get(record.sender)
        if queue:
            queue[0] = [order._replace(sent=order.sent or place.at) for order in queue[0]]

    def received(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """The answer to a channel's request: to the first LeaderAndIsr in the queue, if that is one."""
        answered = self.ahead.pop((record.receiver, "ChannelPart"), [])
        name, response = payload["response"]
        queue = self.orders.get(record.receiver)
        if name != "LeaderAndIsrResponse" or not queue:
            return
        codes = {tuple(each["partition"]): each["error_code"] for each in (*answered, *response["partition_errors"])}
        for order in queue.pop(0):
            code = response["error_code"] or codes.get(order.partition, NONE)
            self.facts.orders.append(order._replace(answered=place.at, outcome=code))

    def failed(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """A connection to a broker failed."""
        broker, reason = self.channels.get(record.receiver), payload["reason"]
        if broker is not None:
            self.facts.failures.append(RequestFailed(place, broker, reason))
            queue = self.orders.get(record.receiver, [])
            queue[:] = [[order._replace(why=reason) for order in orders] for orders in queue]

    # ------------------------------------------------------------------------------------------------ logs

    def _on_disk(self, place: TracePosition, record: TraceRecord) -> None:
        """What a replica did to its log."""
        for effect in record.effects:
            end = _LOG_END.get(effect.method)
            if effect.port != "logs" or effect.error or end is None:
                continue
            path = effect.args[0]
            if effect.method in ("truncate", "restart"):
                topic, _, number = path.rpartition("/")[2].rpartition("-")
                partition = TopicPartition(topic, int(number))
                self.facts.cuts.append(LogTruncation(place, partition, self.log_ends.get(path, -1), effect.result[end]))
            self.log_ends[path] = effect.result[end]


def _errors(value: Any, subject: str) -> Iterator[tuple[int, str]]:
    """The error codes anywhere in an answer, each with the topic or partition that it is about ("" if none is)."""
    if isinstance(value, dict):
        partition, name = value.get("partition"), value.get("topic", value.get("name"))
        if isinstance(partition, list):
            subject = str(TopicPartition(*partition))
        elif isinstance(name, str):
            subject = name
        if value.get("error_code"):
            yield value["error_code"], subject
        value = value.values()
    elif not isinstance(value, list):
        return
    for each in value:
        yield from _errors(each, subject)


def _state(partition: Any, state: Any) -> tuple[TopicPartition, int, int, tuple[int, ...]]:
    return TopicPartition(*partition), state["leader"], state["leader_epoch"], tuple(state["isr"])


def _assignments(place: TracePosition, topics: Any, written: bool) -> Iterator[ReplicasAssigned]:
    """The assignments of a message's topics."""
    for topic, partitions in topics:
        for number, each in partitions:
            replicas, adding, removing = (tuple(each[name]) for name in ("replicas", "adding", "removing"))
            yield ReplicasAssigned(place, TopicPartition(topic, number), replicas, adding, removing, None, written)


def _refusals(asked: Any, answer: Any) -> Iterator[tuple[Any, ...]]:
    """Of an answer to one of REFUSABLE: what it refuses, with which code, and why."""
    if "remaining_partitions" in answer:
        left = tuple(TopicPartition(*each) for each in answer["remaining_partitions"])
        if answer["error_code"] or left:
            yield asked["broker_id"], answer["error_code"], "", left
    for each in answer.get("responses", ()):
        for one in each["partitions"]:
            if one["error_code"]:
                partition = TopicPartition(each["name"], one["partition_index"])
                yield partition, one["error_code"], one["error_message"] or ""
    for each in answer.get("topics", ()):
        if each["error_code"]:
            yield each["name"], each["error_code"], each.get("error_message") or ""


_LOG_END = {
    "open": 1,
    "append": 0,
    "append_as_coordinator": 0,
    "append_marker": 0,
    "replicate": 1,
    "truncate": 1,
    "restart": 1,
}
"""Where the result of a call of the port "logs" says where the log ends now."""

_ANY = re.compile(b"")
_ANSWERED = "|".join(f'"{request.__name__.removesuffix("Request")}Response"' for request in REQUESTS)
_TRANSACTIONAL = re.compile(rb'"(InitProducerId|AddPartitionsToTxn|AddOffsetsToTxn|EndTxn)(Request|Response)"')
_REFUSED = re.compile(rb'"error_code":(?!0[,}])')
_TAKEN: dict[str, tuple[tuple[re.Pattern[bytes], Callable[[_Pass, TracePosition, TraceRecord, Any], None]], ...]] = {
    "Samples": ((re.compile(EVENT_TIME.encode()), _Pass.samples),),
    "Ask": ((_ANY, _Pass.ask),),
    "Answer": ((_ANY, _Pass.answer),),
    "ClientResponse": (
        (re.compile(_ANSWERED.encode()), _Pass.response),
        (_TRANSACTIONAL, lambda run, *taken: run.transactions.responded(*taken)),
        (_REFUSED, _Pass.errors),
    ),
    "ClientResponses": ((_REFUSED, _Pass.errors),),
    "FaultInjected": ((_ANY, _Pass.fault),),
    "NodeFaultInjected": ((_ANY, _Pass.node_fault),),
    "StartChannel": ((_ANY, _Pass.channel),),
    "LeaderAndIsrPart": ((_ANY, _Pass.part),),
    "LeaderAndIsrRequest": ((_ANY, _Pass.ordered),),
    "Transmit": ((re.compile(b'"LeaderAndIsrRequest"'), _Pass.transmit),),
    "ChannelPart": ((re.compile(b'"PartitionErrorsPart"'), _Pass.part),),
    "Received": ((re.compile(b'"(LeaderAndIsr|StopReplica)Response"'), _Pass.received),),
    "TransmitFailed": ((_ANY, _Pass.failed),),
    "Forwarded": ((_TRANSACTIONAL, lambda run, *taken: run.transactions.requested(*taken)),),
    "BatchesAppended": ((re.compile(b"__transaction_state"), lambda run, *taken: run.transactions.appended(*taken)),),
    "SendMarkers": ((_ANY, lambda run, *taken: run.transactions.decided(*taken)),),
    "PartitionsMarked": ((_ANY, lambda run, *taken: run.transactions.marked(*taken)),),
}
"""What is taken out of whose payload, where it holds such bytes."""
