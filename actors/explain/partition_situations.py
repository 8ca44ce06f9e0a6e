"""Tables of verdicts (short diagnoses) about partitions and topics, and functions that find which verdict fits.

The rows are in the order of importance. `kafka-actors why` prints the first that applies.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from actors.explain import causes
from actors.explain.situation import Remedy, Seen, Situation, last_of
from actors.explain.step_texts import NO_CAUSE, cut_off, ids, text_of, times_text
from messages import errors
from messages.cluster import NO_LEADER, TopicPartition
from messages.events import READ_STATE
from messages.facts import declarations, histories
from messages.facts.trace_facts import TraceFacts

# ---------------------------------------------------------------------------------------------------------- partitions


def _refused_topic(facts: TraceFacts, topic: str) -> list[declarations.RequestRefused]:
    refused = [
        each
        for each in facts.select(declarations.RequestRefused, subject=topic)
        if each.request in ("CreateTopics", "CreatePartitions")
    ]
    return [each for each in refused if each.code != errors.NOT_CONTROLLER] or refused


def _never_created(facts: TraceFacts, topic: str) -> Seen | None:
    refused = [] if topic in facts.assignments_of_topics else _refused_topic(facts, topic)
    return Seen(refused[-1], {"topic": topic}, refused[-1].place.at) if refused else None


def _unknown(facts: TraceFacts, topic: str) -> Seen | None:
    known = topic in facts.assignments_of_topics
    return None if known else Seen(None, {"topic": topic})


def is_deleted(facts: TraceFacts, topic: str) -> Seen | None:
    """Find the topic's last deletion, unless the topic was created again after it."""
    over = histories.deletions_of(facts, topic)
    if not over or any(each.place > over[-1] for each in facts.assignments_of_topics.get(topic, [])):
        return None
    [step] = facts.select(declarations.TopicDeletionStep, place=over[-1], step="deleted")[:1]
    return Seen(step, {"topic": topic}, step.place.at)


def _pending_deletion(facts: TraceFacts, topic: str) -> Seen | None:
    queued = histories.pending_deletion(facts, topic)
    if not queued:
        return None
    blocked = _blocker(facts, topic, queued[0].place)
    if blocked is None:
        return Seen(queued[0], {"topic": topic, "what": "is being deleted"}, queued[0].place.at)
    broker, partition = blocked.broker, blocked.partition
    what = f"is not deleted: replica {broker} of {partition} cannot be deleted"
    return Seen(blocked, {"topic": topic, "what": what}, queued[0].place.at)


def _blocker(facts: TraceFacts, topic: str, queued: declarations.TracePosition) -> causes.DeletionBlocked | None:
    """Return the replica that delays the topic's deletion; None if no replica does."""
    failed = [
        each
        for each in facts.select(declarations.ReplicaDeletionFailed)
        if each.partition.topic == topic and each.place >= queued
    ]
    for each in histories.latest_assignments(facts, topic):
        for broker in each.replicas:
            gone = causes.gone_at_end(facts, broker)
            if gone is not None:
                return causes.DeletionBlocked(max(queued, gone.place), each.partition, broker, errors.NONE)
    if failed:
        return causes.DeletionBlocked(failed[-1].place, failed[-1].partition, failed[-1].broker, failed[-1].code)
    return None


def _of_topic(find: Callable[[TraceFacts, str], Seen | None]) -> Callable[[TraceFacts, TopicPartition], Seen | None]:
    """Return a function that takes a partition and applies `find` to the partition's topic."""
    return lambda facts, partition: find(facts, partition.topic)


def _partition_unknown(facts: TraceFacts, partition: TopicPartition) -> Seen | None:
    if histories.assignment_of(facts, partition) is not None or histories.state_history(facts, partition):
        return None
    is_old = bool(facts.select(declarations.ReplicasAssigned, partition=partition))
    return Seen(
        None, {"what": "its topic was created again without it" if is_old else "no node in this trace knows it"}
    )


def _never_led(facts: TraceFacts, partition: TopicPartition) -> Seen | None:
    assigned = histories.assignment_of(facts, partition)
    if assigned is None or histories.state_history(facts, partition):
        return None
    return _not_elected(facts, partition, assigned, assigned.replicas, "assignment", assigned.place.at)


def no_leader(facts: TraceFacts, partition: TopicPartition) -> Seen | None:
    """Find a partition without a leader at the end of the recording.

    The last state can have a leader nevertheless: one that is gone, or one that the controller does not know because it
    cannot read the state.
    """
    history = histories.state_history(facts, partition)
    if not history:
        return None
    now = history[-1]
    if now.leader == NO_LEADER:
        since = histories.since_when(history, lambda state: state.leader)
        lost = [each.since for each in histories.outages(facts, partition) if each.after is None]
        return _not_elected(facts, partition, since, now.isr, "ISR", lost[0] if lost else since.taken)
    gone = causes.gone_at_end(facts, now.leader)
    if gone is not None and gone.place > now.place and causes.refusal_of(facts, partition, gone.place) is not None:
        return _not_elected(facts, partition, gone, now.isr, "ISR", gone.since)
    refused = causes.refusal_of(facts, partition, now.place)
    if refused is not None and READ_STATE in {each.what for each in causes.chain_of(facts, refused)}:
        return _not_elected(facts, partition, refused, now.isr, "ISR", refused.place.at)
    return None


def _not_elected(
    facts: TraceFacts,
    partition: TopicPartition,
    since: declarations.StateWrite
    | declarations.ReplicasAssigned
    | declarations.BrokerGone
    | declarations.StateChangeRefused,
    candidates: tuple[int, ...],
    what: str,
    at: float,
) -> Seen:
    """Return why none of these brokers was elected: none is registered, the controller refused, or it is unknown.

    Args:
        since: The fact since which the partition has no leader.
        what: What the candidates are: "ISR" or "assignment".
    """
    alive = histories.registered_among(facts, candidates)
    state = f"no replica in its {what} {ids(candidates)} is alive"
    values: dict[str, Any] = {"alive": alive, "isr": ids(candidates), "state": state}
    if not alive:
        return Seen(since, values, at)
    refused = causes.refusal_of(
        facts, partition, max(since.place, min(_registered_since(facts, each) for each in alive))
    )
    values["state"] = (
        f"the controller did not elect any of the live brokers {ids(alive)} of its {what} {ids(candidates)}"
    )
    if refused is None:
        return Seen(since, {**values, "why": NO_CAUSE}, at)
    return Seen(refused, {**values, "why": f", because {text_of(causes.chain_of(facts, refused)[-1])}"}, at)


def _registered_since(facts: TraceFacts, broker: int) -> declarations.TracePosition:
    """Return the first of the last reads of the registered brokers that all have this broker."""
    since = histories.end_of_record(facts)
    for seen in reversed(facts.select(declarations.BrokersRead)):
        if broker not in seen.brokers:
            break
        since = seen.place
    return since


def _is_down(facts: TraceFacts, seen: Seen) -> bool:
    return histories.is_down(facts, seen.values["broker"])


def _can_be_elected(facts: TraceFacts, seen: Seen) -> bool:
    return histories.is_registered(facts, seen.values["preferred"])


def _none_is_alive(facts: TraceFacts, seen: Seen) -> bool:
    return not seen.values["alive"]


REFUSED = (errors.NOT_ENOUGH_REPLICAS, errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def _refused_produces(facts: TraceFacts, partition: TopicPartition) -> list[declarations.ErrorAnswered]:
    created = histories.created_after(facts, partition.topic)
    return [
        each
        for each in facts.select(declarations.ErrorAnswered, api="Produce", subject=str(partition))
        if each.code in REFUSED and each.place > created
    ]


def _producers_refused(facts: TraceFacts, partition: TopicPartition, lasts: bool) -> Seen | None:
    refused = _refused_produces(facts, partition)
    if not refused:
        return None
    minimum = causes.minimum_of(facts, partition, histories.end_of_record(facts))
    history = histories.state_history(facts, partition)
    if lasts != (bool(history) and len(history[-1].isr) < minimum):
        return None
    isr = next((each.isr for each in reversed(history) if each.place <= refused[-1].place), ())
    values = {
        "times": times_text(sum(each.times for each in refused)),
        "size": len(isr),
        "isr": ids(isr),
        "minimum": minimum,
    }
    return Seen(refused[-1], values, refused[0].place.at, refused[-1].place.at)


def _lost_records(facts: TraceFacts, partition: TopicPartition) -> Seen | None:
    """Find the last truncation of the partition's log that an unclean election caused."""
    created = histories.created_after(facts, partition.topic)
    cuts = [
        each
        for each in facts.select(declarations.LogTruncated, partition=partition)
        if not 0 <= each.end <= each.to and each.place > created
    ]
    for cut in reversed(cuts):
        elected = causes.cause_of(facts, cut)
        before = causes.before_of(facts, elected) if isinstance(elected, declarations.StateWrite) else None
        if isinstance(elected, declarations.StateWrite) and before is not None and elected.leader not in before.isr:
            return Seen(cut, {"leader": elected.leader, "isr": ids(before.isr), "lost": cut_off(cut)}, cut.place.at)
    return None


def out_of_sync(facts: TraceFacts, partition: TopicPartition) -> Seen | None:
    """Find a replica that is not in the ISR at the end of the trace, and the time when it left the ISR."""
    history, assigned = histories.state_history(facts, partition), histories.assignment_of(facts, partition)
    if not history or assigned is None:
        return None
    wanted = [each for each in assigned.replicas if each not in (*assigned.adding, *assigned.removing)]
    missing = [broker for broker in wanted if broker not in history[-1].isr]
    if not missing:
        return None
    left = histories.since_when(history, lambda state: missing[0] in state.isr)
    return Seen(left, {"broker": missing[0], "isr": ids(history[-1].isr)}, left.taken)


def _reassigning(facts: TraceFacts, partition: TopicPartition) -> Seen | None:
    waits, assigned = causes.waits_for(facts, partition), histories.assignment_of(facts, partition)
    if waits is None or assigned is None:
        return None
    return Seen(waits, {"broker": waits.broker, "target": ids(histories.target_of(assigned))}, waits.place.at)


def _was_without_leader(facts: TraceFacts, partition: TopicPartition) -> Seen | None:
    """Find the last interval without a leader that is over."""
    ended = [each for each in histories.outages(facts, partition) if each.after is not None]
    last = ended[-1] if ended else None
    if last is None or last.after is None:
        return None
    return Seen(last.first, {"leader": last.after.leader}, last.since, last.until)


def _was_out_of_sync(facts: TraceFacts, partition: TopicPartition) -> Seen | None:
    """Find the last interval in which a replica was out of the ISR."""
    found: Seen | None = None
    left: dict[int, declarations.IsrChange] = {}
    for change in histories.isr_changes(facts, partition):
        shrunk = left.pop(change.broker, None)
        if not change.joined:
            left[change.broker] = change
        elif shrunk is not None:
            values = {"broker": change.broker, "isr": ids(change.after.isr)}
            found = Seen(shrunk.after, values, shrunk.after.taken, change.after.taken)
    return found


def _not_preferred(facts: TraceFacts, partition: TopicPartition) -> Seen | None:
    history, assigned = histories.state_history(facts, partition), histories.assignment_of(facts, partition)
    if not history or assigned is None or history[-1].leader in (NO_LEADER, *assigned.replicas[:1]):
        return None
    since = histories.since_when(history, lambda state: state.leader)
    return Seen(since, {"preferred": assigned.replicas[0]}, since.taken)


def _leader_moved(facts: TraceFacts, partition: TopicPartition) -> Seen | None:
    history = histories.state_history(facts, partition)
    since = histories.since_when(history, lambda state: state.leader) if history else None
    if since is None or since is history[0]:
        return None
    return Seen(since, since=since.taken)


def _find_leader(facts: TraceFacts, partition: TopicPartition) -> Seen | None:
    history = histories.state_history(facts, partition)
    since = histories.since_when(history, lambda state: state.leader)
    return Seen(None, {"leader": since.leader, "isr": ids(history[-1].isr)}, since.taken)


_OF_TOPICS = (
    Situation(_never_created, "topic {topic} was never created: at {since} {first}", True),
    Situation(_unknown, "no node in this trace knows topic {topic}, and no request for it was refused"),
    Situation(is_deleted, "topic {topic} was deleted at {since}"),
    Situation(_pending_deletion, "topic {topic} has been queued for deletion since {since} and {what}{why}", True),
)
"""The situations of a whole topic, which its partitions share."""

OF_PARTITIONS = (
    Situation(
        no_leader,
        "{subject} has had no leader since {since}: {state}{why}",
        True,
        (Remedy("Start a broker of the ISR {isr}.", _none_is_alive),),
    ),
    Situation(
        partial(_producers_refused, lasts=True),
        "producers with acks=all have been refused with {error_name} for {subject} since {since} ({times}): the ISR"
        " {isr} has {size} of the {minimum} replicas that min.insync.replicas requires{why}",
        True,
        (Remedy("Bring replicas back into the ISR."),),
    ),
    Situation(
        _lost_records,
        "{subject} lost records at {since}: broker {leader}, which was not in the ISR {isr}, was elected (unclean), and"
        " {lost} were cut off{why}",
        True,
        (Remedy("Send the lost records again; unclean.leader.election.enable=false prevents such losses."),),
    ),
    Situation(
        _reassigning,
        "the reassignment of {subject} to {target} has waited for broker {broker} since {since}{why}",
        True,
        (
            Remedy("Start broker {broker}, or cancel the reassignment.", _is_down),
            Remedy("Wait until broker {broker} has caught up, or cancel the reassignment."),
        ),
    ),
    Situation(
        out_of_sync,
        "broker {broker} has been out of the ISR {isr} of {subject} since {since}{why}",
        True,
        (Remedy("Start broker {broker}.", _is_down), Remedy("Find out why broker {broker} does not fetch.")),
    ),
    Situation(
        partial(_producers_refused, lasts=False),
        "producers with acks=all were refused with {error_name} for {subject} from {since} to {until} ({times}): the"
        " ISR {isr} had {size} of the {minimum} replicas that min.insync.replicas requires{why}",
    ),
    Situation(
        _was_without_leader,
        "{subject} had no leader from {since} to {until} ({seconds:.1f} s), when broker {leader} was elected{why}",
    ),
    Situation(
        _was_out_of_sync,
        "broker {broker} was out of the ISR of {subject} from {since} to {until}{why}",
    ),
    Situation(
        _not_preferred,
        "broker {leader} has led {subject} since {since}, not the preferred broker {preferred}{why}",
        True,
        (Remedy("Run kafka-actors leader-election, or wait for the periodic check.", _can_be_elected),),
    ),
    Situation(_leader_moved, "broker {leader} has led {subject} since {since}{why}"),
    Situation(
        last_of(lambda facts, partition: facts.select(declarations.RequestRefused, subject=partition)),
        "a reassignment of {subject} was refused at {since}: {first}",
    ),
)

NEVER_LED = Situation(
    _never_led,
    "{subject} never had a leader since it was created at {since}: {state}{why}",
    True,
    (Remedy("Start a broker of {isr}.", _none_is_alive),),
)


# ------------------------------------------------------------------------------------------------------------- topics


MOST_CANDIDATES = 20
"""Partitions whose situation is examined for a verdict about a topic or cluster."""


def most_troubled(facts: TraceFacts, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return at most MOST_CANDIDATES partitions to examine, the most troubled first.

    The sort criteria, the most important first: the partition has no leader or the controller refused to change its
    state, its topic is not internal, producers were refused, the ISR lacks replicas, the partition has more state
    changes.
    """
    unchanged = {each.partition for each in facts.select(declarations.StateChangeRefused)}
    refused = {each.subject for each in facts.select(declarations.ErrorAnswered, api="Produce") if each.code in REFUSED}

    def rank(partition: TopicPartition) -> tuple[object, ...]:
        states = facts.states.get(partition, ())
        assigned = facts.select(declarations.ReplicasAssigned, partition=partition)
        last = states[-1] if states else None
        replicas = len(assigned[-1].replicas) if assigned else 0
        return (
            last is not None and last.leader != NO_LEADER and partition not in unchanged,
            partition.topic.startswith("__"),
            str(partition) not in refused,
            last is not None and len(last.isr) >= replicas,
            -len(states),
            partition,
        )

    return heapq.nsmallest(MOST_CANDIDATES, partitions, rank)


Candidates = Callable[[TraceFacts, Any], Iterable[TopicPartition]]
"""Returns the partitions of a topic or cluster that a verdict about it examines, in this order."""


def in_any(candidates: Candidates, situation: Situation) -> Situation:
    """Return the situation of a topic or cluster of which any partition from `candidates` is in `situation`."""

    def find(facts: TraceFacts, subject: object) -> Seen | None:
        for partition in candidates(facts, subject):
            seen = situation.find(facts, partition)
            if seen is not None:
                return seen._replace(values={**seen.values, "subject": str(partition)})
        return None

    return situation._replace(find=find)


def _troubled_of(facts: TraceFacts, topic: str) -> list[TopicPartition]:
    return most_troubled(facts, [each.partition for each in histories.latest_assignments(facts, topic)])


_worst = partial(in_any, _troubled_of)


def _has_leaders(facts: TraceFacts, topic: str) -> Seen | None:
    created = histories.created_after(facts, topic)
    first = next(each.place for each in facts.assignments_of_topics[topic] if each.place > created)
    return Seen(None, {"partitions": len(histories.latest_assignments(facts, topic))}, first.at)


PARTITION = (
    *(each._replace(find=_of_topic(each.find)) for each in _OF_TOPICS),
    Situation(_partition_unknown, "{subject} does not exist: {what}"),
    NEVER_LED,
    *OF_PARTITIONS,
    Situation(_find_leader, "broker {leader} has led {subject} since {since}, and all replicas are in the ISR {isr}"),
)

TOPIC = (
    *_OF_TOPICS,
    *map(_worst, (NEVER_LED, *OF_PARTITIONS[:5])),
    Situation(last_of(_refused_topic), "a request for {subject} was refused at {since}: {first}"),
    *map(_worst, OF_PARTITIONS[5:]),
    Situation(
        _has_leaders,
        "{subject} has existed since {since}: all of its {partitions} partitions have leaders and full ISRs",
    ),
)
