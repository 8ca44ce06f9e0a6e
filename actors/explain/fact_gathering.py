"""Collect the facts of several runs, and join a controller's facts with their event."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from messages.cluster import TopicPartition
from messages.facts import facts as facts_of_run
from messages.facts.declarations import (
    BrokerResponse,
    BrokersRead,
    ControllerEvent,
    ControllerEventHandled,
    ControllerTermChanged,
    ErrorAnswered,
    EventWithoutEffect,
    Fact,
    InjectedFaultReturned,
    LeaderAndIsrSent,
    LogTruncation,
    NodeFaultChange,
    NodeRun,
    PendingEvent,
    ReassignmentRequestRemoved,
    ReplicasAssigned,
    RequestFailed,
    RequestRefused,
    StateWrite,
    TopicDeletionStep,
    TransactionDecision,
    TransactionMarked,
    TransactionRequest,
    Undecodable,
)
from messages.trace.files.runs import Run


@dataclasses.dataclass
class TraceFacts:
    """The facts of the runs of a trace, in one list for each kind, sorted by time."""

    written: list[StateWrite] = dataclasses.field(default_factory=list)
    assigned: list[ReplicasAssigned] = dataclasses.field(default_factory=list)
    dropped: list[ReassignmentRequestRemoved] = dataclasses.field(default_factory=list)
    seen: list[BrokersRead] = dataclasses.field(default_factory=list)
    terms: list[ControllerTermChanged] = dataclasses.field(default_factory=list)
    deletions: list[TopicDeletionStep] = dataclasses.field(default_factory=list)
    orders: list[LeaderAndIsrSent] = dataclasses.field(default_factory=list)
    failures: list[RequestFailed] = dataclasses.field(default_factory=list)
    answered: list[BrokerResponse] = dataclasses.field(default_factory=list)
    refused: list[RequestRefused] = dataclasses.field(default_factory=list)
    errors: list[ErrorAnswered] = dataclasses.field(default_factory=list)
    faults: list[InjectedFaultReturned] = dataclasses.field(default_factory=list)
    node_faults: list[NodeFaultChange] = dataclasses.field(default_factory=list)
    cuts: list[LogTruncation] = dataclasses.field(default_factory=list)
    handled: list[ControllerEvent] = dataclasses.field(default_factory=list)
    idle: list[EventWithoutEffect] = dataclasses.field(default_factory=list)
    waiting: list[PendingEvent] = dataclasses.field(default_factory=list)
    transaction_requests: list[TransactionRequest] = dataclasses.field(default_factory=list)
    decisions: list[TransactionDecision] = dataclasses.field(default_factory=list)
    marked: list[TransactionMarked] = dataclasses.field(default_factory=list)
    lives: list[NodeRun] = dataclasses.field(default_factory=list)
    undecodable: list[Undecodable] = dataclasses.field(default_factory=list)


_LISTS: dict[type, Callable[[TraceFacts], list[Any]]] = {
    StateWrite: lambda facts: facts.written,
    ReplicasAssigned: lambda facts: facts.assigned,
    ReassignmentRequestRemoved: lambda facts: facts.dropped,
    BrokersRead: lambda facts: facts.seen,
    ControllerTermChanged: lambda facts: facts.terms,
    TopicDeletionStep: lambda facts: facts.deletions,
    LeaderAndIsrSent: lambda facts: facts.orders,
    RequestFailed: lambda facts: facts.failures,
    BrokerResponse: lambda facts: facts.answered,
    RequestRefused: lambda facts: facts.refused,
    ErrorAnswered: lambda facts: facts.errors,
    InjectedFaultReturned: lambda facts: facts.faults,
    NodeFaultChange: lambda facts: facts.node_faults,
    LogTruncation: lambda facts: facts.cuts,
    EventWithoutEffect: lambda facts: facts.idle,
    PendingEvent: lambda facts: facts.waiting,
    TransactionRequest: lambda facts: facts.transaction_requests,
    TransactionDecision: lambda facts: facts.decisions,
    TransactionMarked: lambda facts: facts.marked,
    NodeRun: lambda facts: facts.lives,
    Undecodable: lambda facts: facts.undecodable,
}
"""Kind of fact -> its list. Controller events are added separately."""


def gather(runs: Iterable[Run], partition: TopicPartition | None = None) -> TraceFacts:
    """Return the facts of these runs.

    Args:
        partition: Partition of the LeaderAndIsr requests to collect; None for all.

    Raises:
        TraceError: A run is damaged.
    """
    gathered = TraceFacts()
    for run in runs:
        events: dict[int, ControllerEvent] = {}
        found: list[Fact] = []
        for fact in facts_of_run(run, partition):
            match fact:
                case ControllerEvent():
                    events[fact.place.n] = fact
                case ControllerEventHandled(_, event):
                    events[event.place.n] = event
                    gathered.handled.append(event)
                case _:
                    found.append(fact)
        for fact in found:
            _LISTS[type(fact)](gathered).append(_joined(fact, events))
    for field in dataclasses.fields(gathered):
        getattr(gathered, field.name).sort(key=lambda fact: fact.place)
    return gathered


def _joined(fact: Any, events: dict[int, ControllerEvent]) -> Any:
    """Return the fact with its controller event, if it has an empty field for it and the event is recorded."""
    if "event" not in fact._fields or fact.event is not None:
        return fact
    event = events.get(fact.place.event_id)
    return fact if event is None else fact._replace(event=event)
