"""Compose the text of `kafka-actors why` from the facts of a trace: one function for each kind of question.

Rule: An answer is a list of lines. Each line has the trace position of its evidence; a line about missing records has
      none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

from actors.explain.causes import cause_of, chain_of, refusal_of
from actors.explain.step_texts import ids, reason_of, text_of
from messages import errors
from messages.cluster import NO_LEADER, TopicPartition
from messages.error_names import name_of
from messages.facts import declarations, histories
from messages.facts.trace_facts import TraceFacts, group_by
from messages.trace.endings import KILLED

LAST = 5
"""Maximum number of entries of a history."""
MOMENT = 0.0005
"""Seconds: a part of an outage that is not longer is left out."""


class Sentence(NamedTuple):
    """A sentence of an explanation, with the trace position of the fact that it states."""

    text: str
    place: declarations.TracePosition | None = None


Answer = list[Sentence]


def sentence_of(fact: declarations.Fact) -> Sentence:
    """Return the sentence that states a fact."""
    return Sentence(text_of(fact), fact.place)


def cause_text(facts: TraceFacts, fact: declarations.Fact) -> str:
    """Return the cause of a fact as the end of a sentence; "" without one."""
    cause = cause_of(facts, fact)
    return "" if cause is None else f": {text_of(cause)}"


# ----------------------------------------------------------------------------------------------------------- partition


def leader(facts: TraceFacts, partition: TopicPartition) -> Answer:
    """Explain the partition's leader, or why it has none."""
    history = histories.state_history(facts, partition)
    if not history or any(each > history[-1].place for each in histories.deletions_of(facts, partition.topic)):
        return []
    now, since = history[-1], histories.since_when(history, lambda state: state.leader)
    refused = refusal_of(facts, partition, now.place)
    refusal = [] if refused is None else [sentence_of(refused)]
    if now.leader != NO_LEADER:
        leads = Sentence(f"broker {now.leader} has been the leader since {_wrote(since)}", since.place)
        gone = _alive(facts, now.leader, only_gone=True)
        return [leads, *gone, *(refusal if gone else [])]
    lines = [Sentence(f"no leader since {_wrote(since)}: its ISR is {ids(now.isr)}", since.place)]
    return [*lines, *(each for broker in now.isr for each in _alive(facts, broker)), *refusal]


def why_not_preferred(facts: TraceFacts, partition: TopicPartition) -> Answer:
    """Explain why a replica other than the preferred one leads."""
    history, assigned = histories.state_history(facts, partition), histories.assignment_of(facts, partition)
    if not history or assigned is None or history[-1].leader in (NO_LEADER, *assigned.replicas[:1]):
        return []
    now, wanted = history[-1], assigned.replicas[0]
    lines = [
        Sentence(
            f"the preferred leader is broker {wanted}, of the replicas {ids(assigned.replicas)}",
            assigned.place,
        )
    ]
    if wanted in now.isr:
        back = histories.since_when(history, lambda state: wanted in state.isr)
        led = [state for state in history if state.leader == wanted and state.place >= back.place]
        since = "and was elected since then" if led else "but was not elected since then"
        lines.append(Sentence(f"broker {wanted} has been in the ISR since {_wrote(back)}, {since}", back.place))
    else:
        lines.append(Sentence(f"broker {wanted} is not in the ISR and cannot be elected"))
    return lines


def isr(facts: TraceFacts, partition: TopicPartition) -> Answer:
    """Explain why replicas are not in the ISR."""
    history, assigned = histories.state_history(facts, partition), histories.assignment_of(facts, partition)
    lines = []
    left = {each.broker: each for each in histories.isr_changes(facts, partition) if not each.joined}
    for broker in assigned.replicas if history and assigned is not None else ():
        if broker not in history[-1].isr:
            since, was = history[0], " (from the start of the trace)"
            if broker in left:
                since, was = left[broker].after, f"; the ISR was {ids(left[broker].before.isr)} before"
            lines.append(Sentence(f"broker {broker} has not been in the ISR since {_wrote(since)}{was}", since.place))
            lines += _alive(facts, broker)
    return lines


def epoch(facts: TraceFacts, partition: TopicPartition) -> Answer:
    """Explain why the leader epoch increased and which node last wrote the state."""
    history = histories.state_history(facts, partition)
    if not history:
        return []
    words = "last state read from ZooKeeper" if history[-1].read else "last state"
    grown = [history[0], *(now for before, now in itertools.pairwise(history) if before.epoch != now.epoch)]
    answer = [Sentence(f"{words}: {_wrote(history[-1])}", history[-1].place)]
    for each in grown[-LAST:]:
        led = f"leader epoch {each.epoch}, leader {each.leader}, ISR {ids(each.isr)}"
        answer.append(Sentence(f"{led}: {_wrote(each)}", each.place))
    return answer


def isr_history(facts: TraceFacts, partition: TopicPartition) -> Answer:
    """List the last changes of the ISR, each with its reason."""
    lines = []
    for before, after in itertools.pairwise(histories.state_history(facts, partition)):
        if set(before.isr) != set(after.isr):
            change = f"{ids(before.isr)} -> {ids(after.isr)}, {_wrote(after)}"
            lines.append(Sentence(change + cause_text(facts, after), after.place))
    return lines[-2 * LAST :]


def reassignment(facts: TraceFacts, partition: TopicPartition) -> Answer:
    """Explain why the reassignment is not complete."""
    history, assigned = histories.state_history(facts, partition), histories.assignment_of(facts, partition)
    if assigned is None or not (assigned.adding or assigned.removing):
        return []
    what = f"adding {ids(assigned.adding)}, removing {ids(assigned.removing)}"
    event = assigned.event or "an admin request"
    how = f"by {event}" if assigned.written else f"found in ZooKeeper by {event}"
    lines = [Sentence(f"{what}, {how}", assigned.place)]
    in_sync = history[-1].isr if history else ()
    for broker in histories.target_of(assigned):
        if broker not in in_sync:
            lines.append(Sentence(f"waits for broker {broker}, which is not in the ISR {ids(in_sync)}"))
            lines += _alive(facts, broker)
    return lines


def why_reassignment_ended(facts: TraceFacts, partition: TopicPartition) -> Answer:
    """Explain why a reassignment was rejected, cancelled or replaced."""
    lines = [
        Sentence(f"an admin request was rejected: {reason_of(each)}", each.place)
        for each in facts.select(declarations.RequestRefused, subject=partition)
    ]
    assigned = facts.select(declarations.ReplicasAssigned, partition=partition)
    for each in facts.select(declarations.ReassignmentRequestRemoved):
        now = next((one for one in reversed(assigned) if one.place <= each.place), None)
        if each.partition == partition and (now is None or now.adding or now.removing or now.replicas != each.replicas):
            taken = f"the request for {ids(each.replicas)} was removed from /admin/reassign_partitions"
            lines.append(Sentence(f"{taken} during {each.event}", each.place))
    for before, after in itertools.pairwise(assigned):
        if histories.replicas_of(before) == histories.replicas_of(after):
            continue
        origin = [broker for broker in before.replicas if broker not in before.adding]
        back = [broker for broker in before.adding if broker not in after.replicas]
        if back and set(after.replicas) - set(after.adding) <= set(origin):
            how = f"replaced by one to {ids(histories.target_of(after))}" if after.adding else "cancelled"
            by = after.event or "an admin request"
            given_up = f"the reassignment was {how}, and {ids(back)} were not added, by {by}"
            lines.append(Sentence(given_up, after.place))
    return lines[-LAST:]


def outages(facts: TraceFacts, partition: TopicPartition) -> Answer:
    """Explain the times without a leader, and the duration of each step of the failovers."""
    lines: list[Sentence] = []
    for each in histories.outages(facts, partition):
        if each.after is not None:
            lines += _outage(facts, each, each.after)
            continue
        lasts = f"{histories.end_of_record(facts).at - each.since:.3f} s without a leader until the end of the trace"
        lines.append(Sentence(f"{lasts}, since {_lost_by(each)}", each.place))
    return lines[-LAST:]


def _outage(facts: TraceFacts, outage: declarations.Outage, after: declarations.StateWrite) -> Answer:
    """Return a sentence with the duration of an outage and of each step of the failover.

    Returns:
        One sentence. Empty if the event that wrote `after` or the first state of the gap is not recorded.
    """
    gap, before, began, event = outage.gap, outage.led, outage.since, after.event
    first = outage.first.event
    if first is None or event is None:
        return []
    noticed, heard = first.place.at, event.place.at
    isr = (gap[-1] if gap else before).isr
    passed_over = bool(gap) and histories.broker_gone(facts, after.leader, event.place) is None
    candidates = isr if passed_over else (*isr, after.leader)
    alive, ready = _alive_times(facts, candidates), _ready_at(facts, after.leader, heard)
    able = ready if noticed < ready and not passed_over else heard
    unseen = noticed - began - _seconds_outside(alive, began, noticed)
    unable = able - noticed - _seconds_outside(alive, noticed, able)
    waited = (event.waited or 0) / 1000
    shares = [
        (unseen, _unseen(facts, before, first)),
        (_seconds_outside(alive, began, able), f"with no live replica in the ISR {ids(isr)}"),
        (unable, f"with no electable replica in the ISR {ids(isr)}"),
        (heard - able, f"until the controller received {event.words} ({event.kind}) for broker {after.leader}"),
    ]
    parts = [(took, what) for took, what in shares if took > MOMENT]
    parts.append((waited, "in the controller's event queue"))
    parts.append((after.place.at - heard - waited, "until the controller elected a leader"))
    parts.append((after.taken - after.place.at, "until ZooKeeper stored the state"))
    order = outage.order
    if order is not None and order.sent:
        parts.append((order.sent - after.taken, f"until broker {after.leader} received LeaderAndIsr"))
        if order.outcome is not None:
            rejected = f"rejected the request: {name_of(order.outcome)}"
            how = "became leader and responded" if order.outcome == errors.NONE else rejected
            parts.append((order.answered - order.sent, f"until it {how}"))
    took = sum(took for took, _ in parts)
    total = f"{took:.3f} s without a leader, from {_lost_by(outage)} until broker {after.leader} led: "
    return [Sentence(total + ", ".join(f"{took:.3f} s {what}" for took, what in parts), after.place)]


def _unseen(facts: TraceFacts, before: declarations.StateWrite, first: declarations.ControllerEvent) -> str:
    """Return the text about the time from the loss of the leader until the controller noticed the loss.

    If the leader was killed, the text names the timeout of its ZooKeeper session.
    """
    node_run = histories.ended_run(facts, before.leader, first.place)
    received = f"the controller received {first.words} ({first.kind})"
    silence = histories.silence_of(facts, before.leader, first.place)
    if silence is not None or (node_run is not None and node_run.ending == KILLED):
        return f"until the ZooKeeper session of broker {before.leader} timed out and {received}"
    return f"until {received}"


def _lost_by(outage: declarations.Outage) -> str:
    """Return what shows that the leader was lost, as text."""
    event, broker = outage.first.event, outage.led.leader
    received = "the event" if event is None else f"{event.words} ({event.kind})"
    return {
        declarations.ELECTION: f"the election of broker {broker}",
        declarations.LAST_RECORD: f"the last record of broker {broker}",
        declarations.SILENCE: f"the last record of broker {broker} before its process was suspended or held up",
        declarations.EVENT: f"the controller received {received}",
    }[outage.shown_by]


Interval = tuple[float, float]


def _alive_times(facts: TraceFacts, brokers: Iterable[int]) -> list[Interval]:
    """Return the sorted intervals in which one of these brokers was registered and ran.

    The intervals of a broker are taken from its runs. If the trace has no run of the broker, they are taken from the
    broker lists that controllers read.
    """
    times: list[Interval] = []
    for broker in brokers:
        node_runs = facts.select(declarations.NodeRun, node=broker)
        times += [(each.registered[0][1], each.end) for each in node_runs if each.registered]
        if not node_runs:
            ends = [*(each.place.at for each in facts.select(declarations.BrokersRead)[1:]), math.inf]
            times += [
                (each.place.at, end)
                for each, end in zip(facts.select(declarations.BrokersRead), ends, strict=False)
                if broker in each.brokers
            ]
    return sorted(times)


def _seconds_outside(times: Iterable[Interval], begin: float, end: float) -> float:
    """Return the seconds from `begin` to `end` outside of these sorted intervals."""
    without, covered = 0.0, begin
    for start, stop in times:
        without += max(0.0, min(start, end) - covered)
        covered = max(covered, min(stop, end))
    return without + max(0.0, end - covered)


def _ready_at(facts: TraceFacts, broker: int, heard: float) -> float:
    """Return the start of the interval that contains `heard` and in which the broker was registered and ran.

    The broker was elected leader; `heard` is the time when the controller received the event that caused the election.
    Both times are in seconds since 1970. The result is minus infinity if no such interval is recorded.
    """
    return max((since for since, end in _alive_times(facts, (broker,)) if since <= heard <= end), default=-math.inf)


def heard(facts: TraceFacts, partition: TopicPartition) -> Answer:
    """List the brokers that do not have the partition's latest state in ZooKeeper, and explain why."""
    history, assigned = histories.state_history(facts, partition), histories.assignment_of(facts, partition)
    lines: list[Sentence] = []
    for broker in assigned.replicas if history and assigned is not None else ():
        answer = facts.select(declarations.LeaderAndIsrSent, broker=broker, partition=partition)
        obeyed = [each for each in answer if each.outcome == errors.NONE]
        now = history[-1]
        if obeyed and obeyed[-1].epoch >= now.epoch:
            continue
        knows = f"has leader epoch {obeyed[-1].epoch}, not {now.epoch}" if obeyed else "received no leader for it"
        last = answer[-1] if answer and answer[-1].outcome != errors.NONE else None
        if last is None:
            why = "no newer request was sent"
        elif last.outcome is None:
            how = "was sent but has no response" if last.sent else "is queued for the broker"
            why = f"epoch {last.epoch} {how}" + (f": {last.why}" if last.why else "")
        else:
            why = f"epoch {last.epoch} was sent and rejected: {name_of(last.outcome)}"
        lines.append(Sentence(f"broker {broker} {knows}: {why}", last.place if last is not None else None))
        lines += _alive(facts, broker, only_gone=True)
    return lines


def why_records_missing(facts: TraceFacts, partition: TopicPartition) -> Answer:
    """Explain why records are missing."""
    cuts = facts.select(declarations.LogTruncated, partition=partition)
    lines = [sentence_of(cut) for cut in cuts if not 0 <= cut.end <= cut.to]
    moved = facts.select(declarations.LogStartMoved, partition=partition)
    for before, after in itertools.pairwise(histories.state_history(facts, partition)) if lines else ():
        if after.leader not in (NO_LEADER, *before.isr):
            isr = ids(before.isr)
            unclean = f"broker {after.leader} was elected uncleanly, out of the ISR {isr}: {_wrote(after)}"
            lines.append(Sentence(unclean, after.place))
    cleaned = {each.place.node: each for each in facts.select(declarations.LogPartCleaned, partition=partition)}
    lines += [*map(sentence_of, moved), *map(sentence_of, cleaned.values())]
    return sorted(lines, key=lambda line: line.place or declarations.TracePosition(0.0, 0, "", 0))[-LAST:]


# --------------------------------------------------------------------------------------------------------------- topic


def deletion(facts: TraceFacts, topic: str) -> Answer:
    """Explain why the topic is not deleted."""
    assigned = facts.assignments_of_topics.get(topic, [])
    made = [fact.place for fact in assigned if fact.written]
    over = [place for place in histories.deletions_of(facts, topic) if any(place < each for each in made)]
    deletions = [each for each in facts.select(declarations.TopicDeletionStep) if topic in each.topics]
    steps = [each for each in deletions if not over or each.place > max(over)]
    if not steps:
        return []
    words = {
        "asked": "its deletion was requested",
        "queued": "queued for deletion",
        "ineligible": "not eligible for deletion",
        "deleted": "its znodes were removed",
    }
    last: dict[str, Sentence] = {}
    for fact in steps:
        last.setdefault(
            fact.step, Sentence(f"{words[fact.step]}, first during {fact.event or 'a request'}", fact.place)
        )
    lines = list(last.values())
    lines += [
        Sentence(f"a request was rejected: {reason_of(each)}", each.place)
        for each in facts.select(declarations.RequestRefused, subject=topic, request="DeleteTopics")
    ]
    if "deleted" not in last:
        lines.append(Sentence("not deleted at the end of the trace"))
        brokers = {broker for fact in assigned for broker in fact.replicas}
        lines += [each for broker in sorted(brokers) for each in _alive(facts, broker, only_gone=True)]
        moving = [fact for fact in histories.latest_assignments(facts, topic) if fact.adding or fact.removing]
        lines += [Sentence(f"{fact.partition} is being reassigned", fact.place) for fact in moving]
    return lines


def why_not_created(facts: TraceFacts, topic: str) -> Answer:
    """Explain why the topic was not created, or has fewer partitions or replicas than requested."""
    lines = [
        Sentence(f"{each.request} was rejected: {reason_of(each)}", each.place)
        for each in facts.select(declarations.RequestRefused, subject=topic)
        if each.request in ("CreateTopics", "CreatePartitions")
    ]
    latest = histories.latest_assignments(facts, topic)
    if lines and latest:
        replicas = sorted({len(each.replicas) for each in latest})
        lines.append(Sentence(f"it has {len(latest)} partitions of {' or '.join(map(str, replicas))} replicas"))
    return lines[-LAST:]


def identity(facts: TraceFacts, topic: str) -> Answer:
    """List the creations and deletions of a topic that was deleted, each with the request for it."""
    deleted = [each for each in facts.select(declarations.TopicDeletionStep, step="deleted") if topic in each.topics]
    lines = [Sentence(f"deleted: {text_of(chain_of(facts, each)[-1])}", each.place) for each in deleted]
    begins = [histories.NO_POSITION, *(each.place for each in deleted)] if deleted else []
    assigned = facts.assignments_of_topics.get(topic, [])
    for first in filter(None, (next((each for each in assigned if each.place > begin), None) for begin in begins)):
        how = "created" if first.written else "found in ZooKeeper"
        lines.append(Sentence(f"{how} by {first.event or 'an admin request'}", first.place))
    return sorted(dict.fromkeys(lines), key=lambda line: line.place or ())[-LAST:]


# -------------------------------------------------------------------------------------------------------------- broker


def alive(facts: TraceFacts, broker: int) -> Answer:
    """Explain why the controller considers the broker alive or dead."""
    lines = []
    before: dict[int, int | None] = {}
    for seen in facts.select(declarations.BrokersRead):
        now = seen.brokers.get(broker)
        if seen.by in before and before[seen.by] == now:
            continue
        if now is not None:
            bounced = before.get(seen.by) is not None
            what = "registered again" if bounced else "alive"
            lines.append(
                Sentence(f"{what} for controller {seen.by}, with broker epoch {now}: {seen.event}", seen.place)
            )
        elif any(epoch is not None for epoch in before.values()):
            lines.append(Sentence(f"gone for controller {seen.by}: {seen.event}", seen.place))
        before[seen.by] = now
    return lines[-LAST:] or [Sentence(f"no controller in this trace has seen broker {broker}")]


def unreachable(facts: TraceFacts, broker: int) -> Answer:
    """Explain why the broker receives no requests."""
    failures = facts.select(declarations.RequestFailed, broker=broker)
    if not failures:
        return []
    last = failures[-1]
    lines = [Sentence(f"requests to it failed {len(failures)} times, the last time: {last.reason}", last.place)]
    answered = [each for each in facts.select(declarations.BrokerResponse, broker=broker) if each.place > last.place]
    return lines + [Sentence("it has responded to requests since then", each.place) for each in answered[-1:]]


def leaves(facts: TraceFacts, broker: int) -> Answer:
    """Explain why the broker's controlled shutdown was rejected."""
    lines = []
    for each in facts.select(declarations.RequestRefused, subject=broker, request="ControlledShutdown"):
        if each.code:
            lines.append(Sentence(f"rejected: {reason_of(each)}", each.place))
            continue
        lines.append(Sentence(f"{len(each.left)} of its partitions could not get another leader", each.place))
        for partition in each.left[:LAST]:
            states = [state for state in histories.state_history(facts, partition) if state.place <= each.place]
            why = f": its ISR is {ids(states[-1].isr)}" if states else ""
            lines.append(Sentence(f"{partition} keeps its leader{why}", states[-1].place if states else None))
    return lines[-2 * LAST :]


# ---------------------------------------------------------------------------------------------------------- controller


def terms(facts: TraceFacts, _: None) -> Answer:
    """List the controllers, their terms and why each term ended."""
    lines = []
    for term in facts.terms:
        lines.append(Sentence(f"broker {term.broker} was elected, epoch {term.epoch}", term.place))
        if term.ended is not None:
            why = term.ended.why or f"it resigned during {term.ended.event}"
            lines.append(Sentence(f"broker {term.broker} ended its term: {why}", term.ended.place))
    return sorted(lines, key=lambda line: line.place or ()) or [Sentence("no controller was elected in this trace")]


def busy(facts: TraceFacts, _: None) -> Answer:
    """List the events that are being handled or queued at the end of the trace."""
    lines = []
    for each in facts.select(declarations.PendingEvent)[:LAST]:
        doing = f"in progress, waiting for {each.waits_for}" if each.waits_for else "in the queue"
        lines.append(Sentence(f"at the end of the trace {doing}, {each.age:.3f} s old: {each.event}", each.place))
    return lines


def slow(facts: TraceFacts, _: None) -> Answer:
    """List the slowest events."""
    slowest = sorted(facts.select(declarations.ControllerEvent), key=lambda event: (-(event.took or 0), event.place))[
        :LAST
    ]
    return [
        Sentence(f"{each} took {each.took:.1f} ms, after {each.waited:.1f} ms in the queue", each.place)
        for each in slowest
    ]


def idle(facts: TraceFacts, _: None) -> Answer:
    """List the events without an effect, by reason."""
    reasons = group_by(facts.select(declarations.EventWithoutEffect), lambda each: each.why)
    return [
        Sentence(f"{len(events)} because {why}; the last: {events[-1].event}", events[-1].place)
        for why, events in reasons.items()
    ]


# ------------------------------------------------------------------------------------------------------------- details


def _alive(facts: TraceFacts, broker: int, only_gone: bool = False) -> Answer:
    """Return the sentence that states whether the broker is alive or gone for a controller, and since which event.

    Returns:
        Empty if the trace has no list of brokers; with `only_gone`, also if the broker is alive.
    """
    absent = facts.absences.get(broker, [])
    if absent and absent[-1].back is None:
        gone = absent[-1]
        return [Sentence(f"broker {broker} is gone for controller {gone.by}, since {gone.event}", gone.place)]
    since = [
        each
        for each in facts.select(declarations.BrokersRead)
        if broker in each.brokers and (not absent or absent[-1].back is None or each.place >= absent[-1].back)
    ]
    return [
        Sentence(f"broker {broker} is alive for controller {each.by}, since {each.event}", each.place)
        for each in ([] if only_gone else since[:1])
    ]


def _wrote(state: declarations.StateWrite) -> str:
    return f"{state.by} {'found it in ZooKeeper' if state.read else 'wrote it'}" + (
        f" during {state.event}" if state.event else ""
    )
