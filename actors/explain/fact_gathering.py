"""Collect the facts that several nodes recorded; find the controller event behind each fact of a controller."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeVar, get_args, get_type_hints

from messages.cluster import TopicPartition
from messages.facts import declarations
from messages.facts import facts as facts_of_run
from messages.trace.endings import RUNNING
from messages.trace.files.runs import Run


@dataclasses.dataclass
class TraceFacts:
    """The facts of the runs of a trace, in one list for each kind, sorted by time."""

    written: list[declarations.StateWrite] = dataclasses.field(default_factory=list)
    assigned: list[declarations.ReplicasAssigned] = dataclasses.field(default_factory=list)
    dropped: list[declarations.ReassignmentRequestRemoved] = dataclasses.field(default_factory=list)
    seen: list[declarations.BrokersRead] = dataclasses.field(default_factory=list)
    elected: list[declarations.ControllerElected] = dataclasses.field(default_factory=list)
    resigned: list[declarations.ControllerResigned] = dataclasses.field(default_factory=list)
    deletions: list[declarations.TopicDeletionStep] = dataclasses.field(default_factory=list)
    orders: list[declarations.LeaderAndIsrSent] = dataclasses.field(default_factory=list)
    failures: list[declarations.RequestFailed] = dataclasses.field(default_factory=list)
    answered: list[declarations.BrokerResponse] = dataclasses.field(default_factory=list)
    refused: list[declarations.RequestRefused] = dataclasses.field(default_factory=list)
    errors: list[declarations.ErrorAnswered] = dataclasses.field(default_factory=list)
    faults: list[declarations.InjectedFaultReturned] = dataclasses.field(default_factory=list)
    node_faults: list[declarations.NodeFaultChange] = dataclasses.field(default_factory=list)
    cuts: list[declarations.LogTruncated] = dataclasses.field(default_factory=list)
    handled: list[declarations.ControllerEvent] = dataclasses.field(default_factory=list)
    idle: list[declarations.EventWithoutEffect] = dataclasses.field(default_factory=list)
    waiting: list[declarations.PendingEvent] = dataclasses.field(default_factory=list)
    transaction_requests: list[declarations.TransactionRequest] = dataclasses.field(default_factory=list)
    decisions: list[declarations.TransactionDecision] = dataclasses.field(default_factory=list)
    marked: list[declarations.TransactionMarked] = dataclasses.field(default_factory=list)
    lagged: list[declarations.FollowerLagged] = dataclasses.field(default_factory=list)
    failed_fetches: list[declarations.FetchFailed] = dataclasses.field(default_factory=list)
    refusals: list[declarations.StateChangeRefused] = dataclasses.field(default_factory=list)
    throttles: list[declarations.ReplicationThrottled] = dataclasses.field(default_factory=list)
    minimums: list[declarations.MinInsyncReplicas] = dataclasses.field(default_factory=list)
    sessions: list[declarations.SessionChanged] = dataclasses.field(default_factory=list)
    deleted_controllers: list[declarations.ControllerZnodeDeleted] = dataclasses.field(default_factory=list)
    taken_ids: list[declarations.RegistrationTaken] = dataclasses.field(default_factory=list)
    failed_disks: list[declarations.LogDirectoryFailed] = dataclasses.field(default_factory=list)
    failed_nodes: list[declarations.NodeFailure] = dataclasses.field(default_factory=list)
    stops: list[declarations.StopRequested] = dataclasses.field(default_factory=list)
    gaps: list[declarations.RecordingGap] = dataclasses.field(default_factory=list)
    undeleted: list[declarations.ReplicaDeletionFailed] = dataclasses.field(default_factory=list)
    hosted: list[declarations.GroupHosted] = dataclasses.field(default_factory=list)
    coordinator_reads: list[declarations.CoordinatorPartitionRead] = dataclasses.field(default_factory=list)
    group_states: list[declarations.GroupStateChanged] = dataclasses.field(default_factory=list)
    member_actions: list[declarations.GroupMemberAction] = dataclasses.field(default_factory=list)
    node_runs: list[declarations.NodeRun] = dataclasses.field(default_factory=list)
    undecodable: list[declarations.Undecodable] = dataclasses.field(default_factory=list)

    def terms(self) -> list[declarations.ControllerElected | declarations.ControllerResigned]:
        """Return the beginnings and ends of all controllers' terms, in the order of their time."""
        return sorted((*self.elected, *self.resigned), key=lambda each: each.place)

    @cached_property
    def states(self) -> dict[TopicPartition, list[declarations.StateWrite]]:
        """The states by partition; cached, because one explanation may read the states of many partitions."""
        return _grouped(self.written, lambda state: state.partition)

    @cached_property
    def assignments(self) -> dict[TopicPartition, list[declarations.ReplicasAssigned]]:
        """The assignments by partition."""
        return _grouped(self.assigned, lambda assigned: assigned.partition)

    @cached_property
    def assignments_of_topics(self) -> dict[str, list[declarations.ReplicasAssigned]]:
        """The assignments by topic."""
        return _grouped(self.assigned, lambda assigned: assigned.partition.topic)


_K = TypeVar("_K")
_V = TypeVar("_V")


def _grouped(values: Iterable[_V], key: Callable[[_V], _K]) -> dict[_K, list[_V]]:
    groups: dict[_K, list[_V]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


_NAMES: dict[type, str] = {
    get_args(hint)[0]: name for name, hint in get_type_hints(TraceFacts).items() if name != "handled"
}
"""Kind of fact -> the name of its list. Controller events are added separately."""


def gather(runs: Iterable[Run], partition: TopicPartition | None = None, until: float = math.inf) -> TraceFacts:
    """Return the facts of these runs.

    Args:
        partition: Partition of the LeaderAndIsr requests to collect; None for all.
        until: Time in seconds since 1970; messages that were delivered later are not read.

    Raises:
        TraceError: A run is damaged.
    """
    gathered = TraceFacts()
    for run in runs:
        events: dict[int, declarations.ControllerEvent] = {}
        found: list[declarations.Fact] = []
        for fact in facts_of_run(run, partition, until):
            match fact:
                case declarations.ControllerEvent():
                    events[fact.place.n] = fact
                case declarations.ControllerEventHandled(_, event):
                    events[event.place.n] = event
                    gathered.handled.append(event)
                case _:
                    found.append(fact)
        for fact in found:
            getattr(gathered, _NAMES[type(fact)]).append(_joined(fact, events))
    for field in dataclasses.fields(gathered):
        getattr(gathered, field.name).sort(key=lambda fact: fact.place)
    return gathered


def before(facts: TraceFacts, at: float) -> TraceFacts:
    """Return the facts before a time, in seconds since 1970; a run that ended later counts as still running."""
    earlier = TraceFacts()
    for field in dataclasses.fields(facts):
        kept = [
            fact for fact in getattr(facts, field.name) if fact.place.at < at or isinstance(fact, declarations.NodeRun)
        ]
        setattr(earlier, field.name, kept)
    earlier.node_runs = [
        node_run if node_run.place.at < at else node_run._replace(ending=RUNNING)
        for node_run in facts.node_runs
        if node_run.began < at
    ]
    return earlier


def _joined(fact: Any, events: dict[int, declarations.ControllerEvent]) -> Any:
    """Return the fact with its empty field `event` filled.

    The fact is returned unchanged if its `event` is not empty, if it has no such field, or if the event is not
    recorded.
    """
    if "event" not in fact._fields or fact.event is not None:
        return fact
    event = events.get(fact.place.event_id)
    return fact if event is None else fact._replace(event=event)
