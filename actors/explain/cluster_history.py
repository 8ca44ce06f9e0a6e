"""List what a cluster's traces record: the events in order of time, rejected requests, and undecodable messages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from actors.explain.explanations import Answer, Sentence, sentence_of, terms
from actors.explain.step_texts import text_of, times_text
from messages.cluster import NO_LEADER, TopicPartition
from messages.error_names import name_of
from messages.facts import declarations
from messages.facts.declarations import StateWrite
from messages.facts.histories import state_history
from messages.facts.trace_facts import TraceFacts, group_by
from messages.trace.endings import KILLED
from messages.trace.schema import STOPPED

EVENTS = 40
"""Maximum number of events in a history; earlier ones are left out."""
NAMED = 5
"""Maximum number of partitions in a line."""

ENDED = {KILLED: "was killed, or its trace is cut off here", STOPPED: "stopped"}
"""End of a run -> text of the event. A run that has not ended has no event."""

SHOWN: tuple[type[Any], ...] = (declarations.OverridesChanged, declarations.RegistrationTaken)
"""Kinds of facts that are events as they are."""
USUAL = {("Metadata", 5), ("FindCoordinator", 15), ("JoinGroup", 79), ("ListOffsets", 78)}
"""(API, error code) of responses that every client receives at its start."""


def list_events(facts: TraceFacts, _: None) -> Answer:
    """Return the events in order of time: process runs, controller terms, leader changes and injected faults."""
    shown = (sentence_of(each) for kind in SHOWN for each in facts.select(kind))
    found = (*_processes(facts), *terms(facts, None), *_leaders(facts), *_faults(facts), *_node_faults(facts), *shown)
    lines = [line for line in found if line.place is not None]
    lines.sort(key=lambda line: line.place or ())
    left_out = len(lines) - EVENTS
    before = [Sentence(f"{left_out} earlier events are left out")] if left_out > 0 else []
    return [*before, *lines[-EVENTS:]]


def count_errors(facts: TraceFacts, _: None) -> Answer:
    """Return a sentence for each error code in responses: its count, its subjects, and its last response."""
    found = group_by(facts.select(declarations.ErrorAnswered), lambda each: (each.api, each.code))
    return [
        Sentence(
            f"{api}: {name_of(code)} {sum(each.times for each in answers)} times"
            f" ({_names(sorted({each.subject or 'all' for each in answers}))}), the last:",
            answers[-1].place,
        )
        for (api, code), answers in found.items()
        if (api, code) not in USUAL
    ]


def count_denials(facts: TraceFacts, _: None) -> Answer:
    """Return a sentence for each principal whose operations the authorizer refused: their number and the last one."""
    return [
        Sentence(
            f"{principal}: {times_text(sum(each.times for each in denials))}, the last: {text_of(denials[-1])}",
            denials[-1].place,
        )
        for principal, denials in group_by(
            facts.select(declarations.OperationDenied), lambda each: each.principal
        ).items()
    ]


def undecodable(facts: TraceFacts, _: None) -> Answer:
    """Return a sentence for each type of message that could not be decoded.

    The sentence has the number of these messages, and the reason and time of the last one.
    """
    return [
        Sentence(f"{name}: {times_text(len(found))}; the last: {found[-1].why}", found[-1].place)
        for name, found in group_by(facts.select(declarations.Undecodable), lambda each: each.type).items()
    ]


def _processes(facts: TraceFacts) -> Iterator[Sentence]:
    began: set[int] = set()
    for node_run in sorted(facts.select(declarations.NodeRun), key=lambda node_run: node_run.began):
        node = node_run.place.node
        if node in began:
            yield Sentence(f"broker {node} was started again", node_run.place._replace(at=node_run.began, n=1))
        began.add(node)
        if node_run.ending in ENDED:
            yield Sentence(f"broker {node} {ENDED[node_run.ending]}", node_run.place)


def _faults(facts: TraceFacts) -> Iterator[Sentence]:
    for met in facts.select(declarations.InjectedFaultReturned):
        value = f" ({met.value:g})" if met.value else ""
        yield Sentence(
            f"an injected fault was met: {met.fault}{value}, {met.api} of client {met.client_id} at broker"
            f" {met.place.node}",
            met.place,
        )


def _node_faults(facts: TraceFacts) -> Iterator[Sentence]:
    for fault in facts.select(declarations.NodeFaultChange):
        yield Sentence(node_fault_text(fault), fault.place)


def node_fault_text(fault: declarations.NodeFaultChange) -> str:
    """Return the text for a change of a node's fault."""
    value = f" ({fault.value:g})" if fault.value else ""
    hits = f"; hits: {fault.hits}" if fault.change == "removed" else ""
    return f"an injected fault was {fault.change}: {fault.fault}{value} of broker {fault.place.node}{hits}"


def _leaders(facts: TraceFacts) -> Iterator[Sentence]:
    """Yield one sentence for each group of partitions whose leader changed in the same way during one event."""
    changes: dict[tuple[object, ...], list[tuple[StateWrite, TopicPartition]]] = {}
    for partition in sorted(facts.states):
        for before, after in pairwise(state_history(facts, partition)):
            if before.leader != after.leader:
                event = after.place if after.event is None else after.event.place
                key = (event, before.leader, after.leader)
                changes.setdefault(key, []).append((after, partition))
    for (_, before_id, after_id), changed in changes.items():
        first = changed[0][0]
        named = _names([str(partition) for _, partition in changed])
        if after_id == NO_LEADER:
            what = f"lost {'its' if len(changed) == 1 else 'their'} leader, broker {before_id}"
        else:
            what = f"got a leader: broker {after_id}"
        during = f", during {first.event}" if first.event else ""
        yield Sentence(f"{named} {what}{during}", first.place)


def _names(names: list[str]) -> str:
    """Return the names as text: at most NAMED names, then the number of further names."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
