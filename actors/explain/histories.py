"""Look up histories in the facts of a trace: states of partitions, assignments, deletions, and runs of brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from actors.explain.fact_gathering import TraceFacts
from messages.cluster import TopicPartition
from messages.facts.declarations import NodeRun, ReplicasAssigned, StateWrite, TopicDeletionStep, TracePosition
from messages.trace.schema import STOPPED


def state_history(facts: TraceFacts, partition: TopicPartition) -> list[StateWrite]:
    """Return the states of a partition in the order of the versions of the partition's znode.

    If the topic was deleted and created again, only the states after the last creation are returned. There are none if
    the topic was created again without this partition. If a state was both written and read, the write is returned.
    """
    created = created_after(facts, partition.topic)
    found: dict[object, StateWrite] = {}
    for state in facts.states.get(partition, []):
        key = state.version if state.version >= 0 else state.place
        if state.place > created and (key not in found or not state.read):
            found[key] = state
    return sorted(found.values(), key=lambda state: (state.version, state.place))


def created_after(facts: TraceFacts, topic: str) -> TracePosition:
    """Return the topic's last deletion before its last recorded assignment; the begin of time without a deletion."""
    assigned = facts.assignments_of_topics.get(topic, [])
    last = assigned[-1].place if assigned else NO_POSITION
    return max((each for each in deletions_of(facts, topic) if each < last), default=NO_POSITION)


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
    created = created_after(facts, partition.topic)
    for fact in reversed(facts.assignments.get(partition, [])):
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
    history = [each for each in state_history(facts, state.partition) if each.version <= state.version]
    return since_when([*history, state], lambda each: each.leader)


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
    return max((node_run.place for node_run in facts.node_runs), default=NO_POSITION)


# ------------------------------------------------------------------------------------------- the end of the recording


def is_registered(facts: TraceFacts, broker: int) -> bool:
    """Return whether the broker is registered in ZooKeeper.

    The last list that a controller read decides, unless the broker's last run registered or stopped after it.
    """
    read = facts.seen[-1] if facts.seen else None
    node_runs = [each for each in facts.node_runs if each.place.node == broker and each.registered]
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
    for seen in reversed(facts.seen):
        if broker in seen.brokers:
            break
        missing = seen.place
    node_runs = [each for each in facts.node_runs if each.place.node == broker]
    last = max(node_runs, key=lambda each: each.began, default=None)
    return last is None or last.ending == STOPPED or last.end <= missing.at


def registered_among(facts: TraceFacts, brokers: Iterable[int]) -> list[int]:
    """Return those of these brokers that are registered at the end."""
    return [broker for broker in brokers if is_registered(facts, broker)]


def is_of_last_run(facts: TraceFacts, place: TracePosition) -> bool:
    """Return whether the node of this position was not started again after it."""
    return not any(each.place.node == place.node and each.began > place.at for each in facts.node_runs)
