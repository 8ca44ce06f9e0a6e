"""Why it is so: a table of questions, each with the function that answers it from the facts of a record.

Rule: an answer is lines, each with the place that shows it, or without one where it says what the record lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from actors.cli.trace_facts import Assigned, Facts, Place, Seen, Written
from messages.cluster import NO_LEADER, TopicPartition

LAST = 5
"""Of a history, so many entries are told."""


class Line(NamedTuple):
    """A sentence, and where the record shows it."""

    text: str
    place: Place | None = None


Answer = list[Line]


# ----------------------------------------------------------------------------------------------------------- partition


def leader(facts: Facts, partition: TopicPartition) -> Answer:
    """Why has it no leader, or this one?"""
    history = _history(facts, partition)
    if not history:
        assigned = _assigned(facts, partition)
        if assigned is None:
            return [Line(f"nobody in this record knows {partition}")]
        return [
            Line(f"never led: its replicas are {_ids(assigned.replicas)}, and no state was written", assigned.place)
        ]
    now, since = history[-1], _since(history, lambda state: state.leader)
    if now.leader != NO_LEADER:
        return [Line(f"broker {now.leader} leads it, since {_wrote(since)}", since.place)]
    lines = [Line(f"no leader since {_wrote(since)}: its ISR is {_ids(now.isr)}", since.place)]
    for broker in now.isr:
        gone = _alive(facts, broker)
        lines.append(gone if gone is not None else Line(f"whether broker {broker} is alive, no controller has told"))
    return lines


def preferred(facts: Facts, partition: TopicPartition) -> Answer:
    """Why does another than the preferred replica lead it?"""
    history, assigned = _history(facts, partition), _assigned(facts, partition)
    if not history or assigned is None or history[-1].leader in (NO_LEADER, *assigned.replicas[:1]):
        return []
    now, wanted = history[-1], assigned.replicas[0]
    lines = [
        Line(f"the preferred leader is broker {wanted}, of the replicas {_ids(assigned.replicas)}", assigned.place)
    ]
    if wanted in now.isr:
        back = _since(history, lambda state: wanted in state.isr)
        lines.append(Line(f"it is in the ISR since {_wrote(back)}; no preferred election since", back.place))
    else:
        lines.append(Line("it is not in the ISR, and cannot be elected"))
    return lines


def isr(facts: Facts, partition: TopicPartition) -> Answer:
    """Why are replicas not in the ISR?"""
    history, assigned = _history(facts, partition), _assigned(facts, partition)
    lines = []
    for broker in assigned.replicas if history and assigned is not None else ():
        if broker not in history[-1].isr:
            left = _since(history, lambda state, broker=broker: broker in state.isr)  # type: ignore[misc]
            before = [state for state in history if state.place < left.place]
            was = f"; it was {_ids(before[-1].isr)} before" if before else ", from the beginning of the record"
            lines.append(Line(f"broker {broker} is not in the ISR since {_wrote(left)}{was}", left.place))
            gone = _alive(facts, broker)
            lines += [gone] if gone is not None else []
    return lines


def epoch(facts: Facts, partition: TopicPartition) -> Answer:
    """Why did its epoch grow, and who wrote its state last?"""
    history = _history(facts, partition)
    if not history:
        return []
    told = [Line(f"the last to write its state: {_wrote(history[-1])}", history[-1].place)]
    grown = [
        now
        for before, now in zip([None, *history], history, strict=False)
        if before is None or before.epoch != now.epoch
    ]
    for state in grown[-LAST:]:
        told.append(
            Line(
                f"leader epoch {state.epoch}, leader {state.leader}, ISR {_ids(state.isr)}: {_wrote(state)}",
                state.place,
            )
        )
    return told


def reassignment(facts: Facts, partition: TopicPartition) -> Answer:
    """Why does its reassignment not finish?"""
    history, assigned = _history(facts, partition), _assigned(facts, partition)
    if assigned is None or not (assigned.adding or assigned.removing):
        return []
    lines = [
        Line(
            f"adding {_ids(assigned.adding)}, removing {_ids(assigned.removing)}, by {assigned.event or 'an admin'}",
            assigned.place,
        )
    ]
    in_sync = history[-1].isr if history else ()
    target = [broker for broker in assigned.replicas if broker not in assigned.removing]
    for broker in target:
        if broker not in in_sync:
            gone = _alive(facts, broker)
            lines.append(Line(f"waits for broker {broker}, which is not in the ISR {_ids(in_sync)}"))
            lines += [gone] if gone is not None else []
    return lines


# --------------------------------------------------------------------------------------------------------------- topic


def deletion(facts: Facts, topic: str) -> Answer:
    """Why is it not deleted?"""
    steps = [fact for fact in facts.deletions if topic in fact.topics]
    if not steps:
        known = any(fact.partition.topic == topic for fact in facts.assigned)
        return [Line("no deletion of it is recorded" if known else f"nobody in this record knows topic {topic}")]
    words = {
        "asked": "its deletion was asked for",
        "queued": "queued for deletion",
        "ineligible": "not eligible for deletion",
        "deleted": "its znodes were removed",
    }
    last: dict[str, Line] = {}
    for fact in steps:
        last.setdefault(fact.step, Line(f"{words[fact.step]}, first during {fact.event or 'a request'}", fact.place))
    lines = list(last.values())
    if "deleted" not in last:
        lines.append(Line("not deleted at the end of the record"))
        brokers = {broker for fact in facts.assigned if fact.partition.topic == topic for broker in fact.replicas}
        lines += [gone for broker in sorted(brokers) if (gone := _alive(facts, broker, only_gone=True)) is not None]
        moving = [fact for fact in _latest(facts, topic) if fact.adding or fact.removing]
        lines += [Line(f"{fact.partition} is being reassigned", fact.place) for fact in moving]
    return lines


# -------------------------------------------------------------------------------------------------------------- broker


def alive(facts: Facts, broker: int) -> Answer:
    """Why does it count as dead, or alive?"""
    lines = []
    before: dict[int, int | None] = {}
    for seen in facts.seen:
        now = seen.brokers.get(broker)
        if seen.by in before and before[seen.by] == now:
            continue
        if now is not None:
            bounced = before.get(seen.by) is not None
            what = "registered anew" if bounced else "alive"
            lines.append(Line(f"{what} for controller {seen.by}, with broker epoch {now}: {seen.event}", seen.place))
        elif seen.by in before:
            lines.append(Line(f"gone for controller {seen.by}: {seen.event}", seen.place))
        before[seen.by] = now
    return lines[-LAST:] or [Line(f"no controller in this record has seen broker {broker}")]


def unreachable(facts: Facts, broker: int) -> Answer:
    """Why does it not get requests?"""
    refusals = [fact for fact in facts.refusals if fact.broker == broker]
    if not refusals:
        return []
    last = refusals[-1]
    return [Line(f"requests to it failed {len(refusals)} times, the last time: {last.reason}", last.place)]


# ---------------------------------------------------------------------------------------------------------- controller


def terms(facts: Facts, _: None) -> Answer:
    """Who was controller when, and why did it change?"""
    lines, in_office = [], None
    for fact in facts.terms:
        if fact.epoch >= 0:
            lines.append(Line(f"broker {fact.broker} was elected, epoch {fact.epoch}", fact.place))
            in_office = fact.broker
        elif fact.broker == in_office:
            lines.append(Line(f"broker {fact.broker} ended its term: {fact.why}", fact.place))
            in_office = None
    return lines or [Line("nobody was elected in this record")]


def busy(facts: Facts, _: None) -> Answer:
    """What is it doing at the end, and what waits behind it?"""
    return [
        Line(f"{'at work' if not number else 'waiting'} at the end of the record: {event}", place)
        for number, (place, event) in enumerate(facts.waiting[:LAST])
    ]


def slow(facts: Facts, _: None) -> Answer:
    """Which events made everything slow?"""
    slowest = sorted(facts.handled, key=lambda fact: (-fact.took, fact.place))[:LAST]
    return [
        Line(f"{each.event} took {each.took:.1f} ms, after {each.waited:.1f} ms in the queue", each.place)
        for each in slowest
    ]


QUESTIONS: dict[str, tuple[tuple[str, Callable[..., Answer]], ...]] = {
    "partition": (
        ("Who leads it, and why?", leader),
        ("Why not the preferred replica?", preferred),
        ("Who is not in the ISR, and why?", isr),
        ("Why does its reassignment not finish?", reassignment),
        ("Why did its epoch grow?", epoch),
    ),
    "topic": (("Why is it not deleted?", deletion),),
    "broker": (("Why does it count as dead, or alive?", alive), ("Why does it not get requests?", unreachable)),
    "controller": (
        ("Who was controller when, and why did it change?", terms),
        ("What is it doing, and what waits?", busy),
        ("Which events were slowest?", slow),
    ),
}
"""What is asked of each kind of subject, and the answer to it."""


# ------------------------------------------------------------------------------------------------------------- details


def _history(facts: Facts, partition: TopicPartition) -> list[Written]:
    return [state for state in facts.written if state.partition == partition]


def _assigned(facts: Facts, partition: TopicPartition) -> Assigned | None:
    return next((fact for fact in reversed(facts.assigned) if fact.partition == partition), None)


def _latest(facts: Facts, topic: str) -> list[Assigned]:
    latest = {fact.partition: fact for fact in facts.assigned if fact.partition.topic == topic}
    return [latest[partition] for partition in sorted(latest)]


def _since(history: Sequence[Written], what: Callable[[Written], object]) -> Written:
    """The first of the last states that have all the same of it."""
    since = history[-1]
    for state in reversed(history):
        if what(state) != what(history[-1]):
            break
        since = state
    return since


def _alive(facts: Facts, broker: int, only_gone: bool = False) -> Line | None:
    """Since when a broker is seen, or not seen any more; None where nobody has looked."""
    if not facts.seen:
        return None
    here = broker in facts.seen[-1].brokers
    if here and only_gone:
        return None
    since: Seen = facts.seen[-1]
    for seen in reversed(facts.seen):
        if (broker in seen.brokers) != here:
            break
        since = seen
    state = "alive" if here else "gone"
    return Line(f"broker {broker} is {state} for controller {since.by}, since {since.event}", since.place)


def _wrote(state: Written) -> str:
    return f"{state.by} wrote it" + (f" during {state.event}" if state.event else "")


def _ids(brokers: Sequence[int]) -> str:
    return f"[{', '.join(map(str, brokers))}]"
