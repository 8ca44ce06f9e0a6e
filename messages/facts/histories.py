"""Derive from the facts of a trace what no single node records: outages, ISR changes, and how brokers were lost.

Rule 1: facts of several nodes are joined by ids: a registration by the broker epoch, a state by the version of its
        znode. Inside a node, facts are joined by their run and event id.
Rule 2: a cause is not later than its effect. No join asks how near two facts are in time.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from messages import errors
from messages.apis.alter_partition import AlterPartitionRequest
from messages.cluster import NO_LEADER, TopicPartition
from messages.facts import declarations
from messages.facts.declarations import NodeRun, ReplicasAssigned, StateWrite, TopicDeletionStep, TracePosition
from messages.facts.trace_facts import TraceFacts, cache_with_facts
from messages.store import EXPIRED
from messages.trace.endings import KILLED
from messages.trace.schema import STOPPED


@cache_with_facts
def state_history(facts: TraceFacts, partition: TopicPartition) -> list[StateWrite]:
    """Return the states of a partition in the order of the versions of the partition's znode.

    If the topic was deleted and created again, only the states after the last creation are returned. There are none if
    the topic was created again without this partition. If a state was both written and read, the write is returned.
    """
    created = created_after(facts, partition.topic)
    return _in_order(state for state in facts.states.get(partition, ()) if state.place > created)


def _in_order(states: Iterable[StateWrite]) -> list[StateWrite]:
    found: dict[object, StateWrite] = {}
    for state in states:
        key = state.version if state.version >= 0 else state.place
        if key not in found or not state.read:
            found[key] = state
    return sorted(found.values(), key=lambda state: (state.version, state.place))


@cache_with_facts
def incarnations(facts: TraceFacts, partition: TopicPartition) -> list[list[StateWrite]]:
    """Return the states of a partition as `state_history` does, also those before deletions of its topic."""
    deleted = deletions_of(facts, partition.topic)
    found: list[list[StateWrite]] = [[] for _ in range(len(deleted) + 1)]
    for state in facts.states.get(partition, ()):
        found[bisect(deleted, state.place)].append(state)
    return [_in_order(states) for states in found if states]


def being_deleted(facts: TraceFacts, history: Sequence[StateWrite]) -> TopicDeletionStep | None:
    """Return the step by which a partition's topic was queued for deletion after the first of these states."""
    topic, begun = history[0].partition.topic, history[0].place
    steps = (
        each for each in facts.select(declarations.TopicDeletionStep) if topic in each.topics and each.place > begun
    )
    return next((each for each in steps if each.step in ("queued", "deleted")), None)


@cache_with_facts
def created_after(facts: TraceFacts, topic: str) -> TracePosition:
    """Return the topic's last deletion before its last recorded assignment; the begin of time without a deletion."""
    assigned = facts.assignments_of_topics.get(topic, [])
    last = assigned[-1].place if assigned else NO_POSITION
    return max((each for each in deletions_of(facts, topic) if each < last), default=NO_POSITION)


def pending_deletion(facts: TraceFacts, topic: str) -> list[TopicDeletionStep]:
    """Return the steps that queued a topic for deletion, if this deletion has not ended."""
    steps = [each for each in facts.select(declarations.TopicDeletionStep) if topic in each.topics]
    over = max((number for number, each in enumerate(steps, 1) if each.step == "deleted"), default=0)
    return [each for each in steps[over:] if each.step == "queued"]


@cache_with_facts
def deletions_of(facts: TraceFacts, topic: str) -> list[TracePosition]:
    """Return the positions at which the topic's znodes were removed."""
    return [each.place for each in facts.select(declarations.TopicDeletionStep, step="deleted") if topic in each.topics]


def assignment_of(facts: TraceFacts, partition: TopicPartition) -> ReplicasAssigned | None:
    """Return the first observation of the current assignment; None if there is none.

    If the write that made the assignment is recorded, this write is the first observation. Later events read or write
    the same assignment again.
    """
    since: ReplicasAssigned | None = None
    created = created_after(facts, partition.topic)
    for fact in reversed(facts.select(ReplicasAssigned, partition=partition)):
        if fact.place < created or (since is not None and replicas_of(fact) != replicas_of(since)):
            break
        since = fact
    return since


def replicas_of(assigned: ReplicasAssigned) -> tuple[tuple[int, ...], ...]:
    """Return the replicas, the replicas that are being added, and the replicas that are being removed."""
    return assigned.replicas, assigned.adding, assigned.removing


def latest_assignments(facts: TraceFacts, topic: str) -> list[ReplicasAssigned]:
    """Return the last recorded assignment of each partition of a topic, without those of an earlier topic."""
    created = created_after(facts, topic)
    latest = {fact.partition: fact for fact in facts.assignments_of_topics.get(topic, []) if fact.place > created}
    return [latest[partition] for partition in sorted(latest)]


def led_since(facts: TraceFacts, state: StateWrite) -> StateWrite:
    """Return the first state of the term of this state's leader."""
    history = next((each for each in incarnations(facts, state.partition) if state in each), [state])
    return since_when(history[: history.index(state) + 1], lambda each: each.leader)


NO_POSITION = TracePosition(0.0, 0, "", 0)
"""A position before all others."""


def since_when(history: Sequence[StateWrite], what: Callable[[StateWrite], object]) -> StateWrite:
    """Return the earliest state since which every state has the same `what(state)` as the last state."""
    since = history[-1]
    for state in reversed(history):
        if what(state) != what(history[-1]):
            break
        since = state
    return since


@cache_with_facts
def registered_run(facts: TraceFacts, broker: int, noticed: TracePosition) -> NodeRun | None:
    """Return the run that made the broker's last registration that a controller read before `noticed`.

    If no controller's read is recorded, or no recorded run made that registration, return the last recorded run of the
    broker that registered before `noticed`. Return None if there is no such run.
    """
    node_runs = [each for each in facts.select(declarations.NodeRun, node=broker) if each.registered]
    epochs = [
        each.brokers[broker]
        for each in facts.select(declarations.BrokersRead)
        if each.place < noticed and broker in each.brokers
    ]
    for node_run in node_runs:
        if epochs and epochs[-1] in dict(node_run.registered):
            return node_run
    registered = [each for each in node_runs if each.registered[0][1] <= noticed.at]
    return max(registered, key=lambda each: each.registered[0][1], default=None)


# -------------------------------------------------------------------------------------------------- brokers that left


@cache_with_facts
def absences(facts: TraceFacts, broker: int) -> list[declarations.BrokerGone]:
    """Return the times in which a broker was not registered in ZooKeeper, in order of time."""
    found = []
    for gone in facts.absences.get(broker, ()):
        node_run, silence = ended_run(facts, broker, gone.noticed), silence_of(facts, broker, gone.noticed)
        since = gone.noticed.at if silence is None else silence.began
        since = since if node_run is None else node_run.end
        late = gone.noticed.at - since if node_run is not None and node_run.ending == KILLED else 0.0
        found.append(gone._replace(since=since, late=late))
    return found


def ended_run(facts: TraceFacts, broker: int, noticed: TracePosition) -> NodeRun | None:
    """Return the run that made the broker's last registration before `noticed`, if its process had ended by then."""
    node_run = registered_run(facts, broker, noticed)
    return node_run if node_run is not None and node_run.end <= noticed.at else None


def silence_of(facts: TraceFacts, broker: int, noticed: TracePosition) -> declarations.RecordingGap | None:
    """Return the time in which a broker did not run, for example because it was suspended, if it includes `noticed`."""
    gaps = (each for each in facts.select(declarations.RecordingGap, node=broker) if each.began <= noticed.at)
    return next((each for each in gaps if noticed.at <= each.place.at), None)


def broker_gone(facts: TraceFacts, broker: int, until: TracePosition) -> declarations.BrokerGone | None:
    """Return the absence of a broker at this position; None if controllers saw it as alive, or had never seen it."""
    gone = [
        each for each in absences(facts, broker) if each.place <= until and (each.back is None or each.back > until)
    ]
    return gone[-1] if gone else None


def end_of_registration(facts: TraceFacts, gone: declarations.BrokerGone) -> declarations.RegistrationEnd | None:
    """Return why a broker's registration ended: its session expired, or its process failed, stopped or was silent.

    The broker epoch gives the run that registered, and the end of this registration in the run: its next registration,
    or the end of the run. None if the trace does not show why.
    """
    node_run = registered_run(facts, gone.broker, gone.noticed)
    if node_run is None:
        return None
    run = node_run.place.run
    begun = dict(node_run.registered).get(gone.epoch, node_run.began)
    over = min((at for _, at in node_run.registered if at > begun), default=math.inf)
    expired = facts.select(declarations.SessionChanged, state=EXPIRED)
    ends: list[declarations.SessionChanged | declarations.NodeFailure | declarations.StopRequested]
    ends = [*expired, *facts.select(declarations.NodeFailure), *facts.select(declarations.StopRequested)]
    ends = [each for each in ends if each.place.run == run and begun <= each.place.at <= over]
    first = min(ends, key=lambda each: each.place, default=None)
    if isinstance(first, declarations.SessionChanged):
        return first
    if first is not None and first.place <= gone.noticed:
        return node_run if isinstance(first, declarations.StopRequested) and node_run.ending == STOPPED else first
    if over < math.inf or node_run.place > gone.noticed:
        return None  # the process ran on
    silent = declarations.RecordingGap(node_run.place, gone.noticed.at - node_run.place.at)
    return node_run if node_run.ending in (KILLED, STOPPED) else silent


# --------------------------------------------------------------------------------------------------- partitions


def outages(facts: TraceFacts, partition: TopicPartition) -> list[declarations.Outage]:
    """Return the times in which a partition had no leader; the last one may last. See `outages_in`."""
    return outages_in(facts, state_history(facts, partition))


def outages_in(facts: TraceFacts, history: Sequence[StateWrite]) -> list[declarations.Outage]:
    """Return the times in which the partition with these states had no leader.

    A controller may replace a lost leader with a single write. A topic that is queued for deletion loses no leader.
    """
    found = []
    led: StateWrite | None = None
    gap: list[StateWrite] = []
    for state in history:
        if state.leader == NO_LEADER:
            gap.append(state)
            continue
        if gap or (
            led is not None and led.leader != state.leader and broker_gone(facts, led.leader, state.place) is not None
        ):
            found.append(_outage(facts, led or gap[0], gap, state))
        led, gap = state, []
    if gap:
        deleted = being_deleted(facts, history)
        if deleted is None or gap[0].place < deleted.place:
            until = math.inf if deleted is None else deleted.place.at
            found.append(_outage(facts, led or gap[0], gap, None)._replace(until=until))
    return found


def _outage(
    facts: TraceFacts, led: StateWrite, gap: Sequence[StateWrite], after: StateWrite | None
) -> declarations.Outage:
    outage = declarations.Outage(led.place, led.partition, 0.0, math.inf, declarations.EVENT, led, tuple(gap), after)
    first = outage.first
    noticed = first.place if first.event is None else first.event.place
    node_run, elected = ended_run(facts, led.leader, noticed), led_since(facts, led).taken
    silence = silence_of(facts, led.leader, noticed)
    since, shown_by = noticed.at, declarations.EVENT
    if silence is not None:
        since, shown_by = max(silence.began, elected), declarations.SILENCE
    if node_run is not None:
        is_dead = node_run.end <= elected
        since = elected if is_dead else node_run.end
        shown_by = declarations.ELECTION if is_dead else declarations.LAST_RECORD
    outage = outage._replace(place=first.place, since=since, shown_by=shown_by)
    if after is None:
        return outage
    wanted = {"partition": led.partition, "broker": after.leader, "epoch": after.epoch}
    order = next(iter(facts.select(declarations.LeaderAndIsrSent, **wanted)), None)
    if order is None or not order.sent:
        return outage._replace(order=order, until=after.taken)
    return outage._replace(order=order, until=order.answered if order.outcome == errors.NONE else order.sent)


def isr_changes(facts: TraceFacts, partition: TopicPartition) -> list[declarations.IsrChange]:
    """Return each broker that joined or left the ISR of a partition, in order of time."""
    return [
        declarations.IsrChange(
            after.place,
            partition,
            broker,
            broker in after.isr,
            before,
            after,
            None if broker in after.isr else reason_to_leave(facts, after, broker),
        )
        for before, after in pairwise(state_history(facts, partition))
        for broker in sorted(set(before.isr) ^ set(after.isr))
    ]


_DISK_EVENTS = ("LogDirEventNotification", "LeaderAndIsrResponseReceived")


def reason_to_leave(facts: TraceFacts, state: StateWrite, broker: int) -> declarations.ReasonToLeave | None:
    """Return why a broker is not in the ISR, or not the leader, in a state that was written.

    A leader removes a follower that lags: it writes the state itself, or requests it from the controller.
    """
    if state.event is None or state.event.kind == AlterPartitionRequest.__name__:
        wanted = {"broker": broker, "version": state.version - 1}
        lagged = facts.select(declarations.FollowerLagged, partition=state.partition, **wanted)
        if state.event is None:
            return next((each for each in lagged if each.place.run == state.place.run), None)
        return min(lagged, key=lambda each: abs(each.place.at - state.place.at), default=state.event)
    is_of_disk = state.event.kind in _DISK_EVENTS
    disk = facts.last(declarations.LogDirectoryFailed, state.place, node=broker) if is_of_disk else None
    return broker_gone(facts, broker, state.place) or disk or state.event


def target_of(assigned: ReplicasAssigned) -> list[int]:
    """Return the replicas after the reassignment."""
    return [broker for broker in assigned.replicas if broker not in assigned.removing]


def end_of_record(facts: TraceFacts) -> TracePosition:
    """Return the last recorded position of the trace."""
    return max((node_run.place for node_run in facts.select(declarations.NodeRun)), default=NO_POSITION)


# ------------------------------------------------------------------------------------------- the end of the recording


def is_registered(facts: TraceFacts, broker: int) -> bool:
    """Return whether the broker is registered in ZooKeeper.

    The last list that a controller read decides, unless the broker's last run registered or stopped after it.
    """
    read = facts.select(declarations.BrokersRead)[-1] if facts.select(declarations.BrokersRead) else None
    node_runs = [each for each in facts.select(declarations.NodeRun, node=broker) if each.registered]
    last = max(node_runs, key=lambda each: each.began, default=None)
    if last is not None and last.ending == STOPPED and (read is None or last.end > read.place.at):
        return False
    if last is not None and (read is None or last.registered[-1][1] > read.place.at):
        return True
    return read is not None and broker in read.brokers


def is_down(facts: TraceFacts, broker: int) -> bool:
    """Return whether the broker is not registered and no process of it is known to run, so that a start can help.

    The whole recording may have ended with the processes, so the end of a killed process counts only if a controller
    noticed it.
    """
    if is_registered(facts, broker):
        return False
    missing = end_of_record(facts)
    for seen in reversed(facts.select(declarations.BrokersRead)):
        if broker in seen.brokers:
            break
        missing = seen.place
    node_runs = facts.select(declarations.NodeRun, node=broker)
    last = max(node_runs, key=lambda each: each.began, default=None)
    return last is None or last.ending == STOPPED or last.end <= missing.at


def registered_among(facts: TraceFacts, brokers: Iterable[int]) -> list[int]:
    """Return those of these brokers that are registered at the end."""
    return [broker for broker in brokers if is_registered(facts, broker)]


def is_of_last_run(facts: TraceFacts, place: TracePosition) -> bool:
    """Return whether the node of this position was not started again after it."""
    return not any(each.began > place.at for each in facts.select(declarations.NodeRun, node=place.node))
