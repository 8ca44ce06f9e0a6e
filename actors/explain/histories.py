"""Look up histories in the facts of a trace: states of partitions, assignments, deletions, and runs of brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.explain.fact_gathering import TraceFacts
from messages.cluster import TopicPartition
from messages.facts.declarations import NodeRun, ReplicasAssigned, StateWrite, TopicDeletionStep, TracePosition


def state_history(facts: TraceFacts, partition: TopicPartition) -> list[StateWrite]:
    """Return the states of a partition in the order of the versions of the partition's znode.

    If the topic was deleted and created again, only the states after the last creation are returned. If a state was
    both written and read, the write is returned.
    """
    deleted = deletions_of(facts, partition.topic)
    states = facts.states.get(partition, [])
    last = max((sum(each < state.place for each in deleted) for state in states), default=0)
    found: dict[object, StateWrite] = {}
    for state in states:
        key = state.version if state.version >= 0 else state.place
        if sum(each < state.place for each in deleted) == last and (key not in found or not state.read):
            found[key] = state
    return sorted(found.values(), key=lambda state: (state.version, state.place))


def pending_deletion(facts: TraceFacts, topic: str) -> list[TopicDeletionStep]:
    """Return the steps that queued a topic for deletion, if this deletion has not ended."""
    steps = [each for each in facts.deletions if topic in each.topics]
    over = max((number for number, each in enumerate(steps, 1) if each.step == "deleted"), default=0)
    return [each for each in steps[over:] if each.step == "queued"]


def deletions_of(facts: TraceFacts, topic: str) -> list[TracePosition]:
    """Return the positions at which the topic's znodes were removed."""
    return [each.place for each in facts.deletions if each.step == "deleted" and topic in each.topics]


def assignment_of(facts: TraceFacts, partition: TopicPartition) -> ReplicasAssigned | None:
    """Return the first observation of the current assignment; None if there is none.

    If the write that made the assignment is recorded, this write is the first observation. Later events read or write
    the same assignment again.
    """
    since: ReplicasAssigned | None = None
    for fact in reversed(facts.assignments.get(partition, [])):
        if since is not None and replicas_of(fact) != replicas_of(since):
            break
        since = fact
    return since


def replicas_of(assigned: ReplicasAssigned) -> tuple[tuple[int, ...], ...]:
    """Return the replicas, the replicas that are being added, and the replicas that are being removed."""
    return assigned.replicas, assigned.adding, assigned.removing


def latest_assignments(facts: TraceFacts, topic: str) -> list[ReplicasAssigned]:
    """Return the last recorded assignment of each partition of a topic."""
    latest = {fact.partition: fact for fact in facts.assignments_of_topics.get(topic, [])}
    return [latest[partition] for partition in sorted(latest)]


def since_when(history: Sequence[StateWrite], what: Callable[[StateWrite], object]) -> StateWrite:
    """Return the earliest state since which every state has the same `what(state)` as the last state."""
    since = history[-1]
    for state in reversed(history):
        if what(state) != what(history[-1]):
            break
        since = state
    return since


def registered_run(facts: TraceFacts, broker: int, noticed: TracePosition) -> NodeRun | None:
    """Return the run that made the broker's last registration that a controller read before `noticed`.

    If no controller's read is recorded, or no recorded run made that registration, return the last recorded run of the
    broker that registered before `noticed`. Return None if there is no such run.
    """
    node_runs = [each for each in facts.node_runs if each.place.node == broker and each.registered]
    epochs = [each.brokers[broker] for each in facts.seen if each.place < noticed and broker in each.brokers]
    for node_run in node_runs:
        if epochs and epochs[-1] in dict(node_run.registered):
            return node_run
    registered = [each for each in node_runs if each.registered[0][1] <= noticed.at]
    return max(registered, key=lambda each: each.registered[0][1], default=None)


def target_of(assigned: ReplicasAssigned) -> list[int]:
    """Return the replicas after the reassignment."""
    return [broker for broker in assigned.replicas if broker not in assigned.removing]


def ids(brokers: Sequence[int]) -> str:
    """Return broker ids as text: [1, 2]."""
    return f"[{', '.join(map(str, brokers))}]"


def counted(times: int) -> str:
    """Return a number of occurrences as text: once, 3 times."""
    return "once" if times == 1 else f"{times} times"


def end_of_record(facts: TraceFacts) -> TracePosition:
    """Return the last recorded position of the trace."""
    return max((node_run.place for node_run in facts.node_runs), default=TracePosition(0.0, 0, "", 0))
