"""Find the verdict about a subject, and the causes behind it, from the visible effect back to the first cause.

Rule 1: `subjects.SUBJECTS` lists, for each kind of subject, the situations in the order of their importance. The first
        one that is found in the facts is the verdict.
Rule 2: a verdict is one sentence: what is or was wrong, since when, and why. The placeholder `{why}` in the text of a
        situation is replaced by the first cause. A remedy follows if `Situation.lasts` is true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from actors.explain.causes import chain_of
from actors.explain.explanations import Sentence, sentence_of
from actors.explain.situation import Seen, Situation, first_needed
from actors.explain.step_texts import NO_CAUSE, remedy_for, text_of, values_of
from actors.explain.subjects import SUBJECTS
from messages.facts import declarations
from messages.facts.declarations import NodeRun
from messages.facts.trace_facts import TraceFacts, facts_before
from messages.trace.endings import KILLED
from messages.trace.schema import STOPPED

TOGETHER = 1.5
"""Seconds between the stops of two brokers of a cluster that is shut down."""


def shutdown_of(facts: TraceFacts) -> float | None:
    """Return when the shutdown of the whole cluster began, in seconds since 1970, such as the one that ends a test.

    A verdict describes the cluster before its shutdown. During a shutdown the brokers stop one after another, so
    partitions lose their leaders. This is not a fault.

    Returns:
        None if no node stopped, or if the last run of a node has another ending than "stopped" or "killed". Also None
        if a node was killed after the shutdown began.
    """
    last = {
        node_run.place.node: node_run
        for node_run in sorted(facts.select(declarations.NodeRun), key=lambda node_run: node_run.began)
    }
    if any(node_run.ending not in (STOPPED, KILLED) for node_run in last.values()):
        return None
    began = None
    for at in sorted(
        (_stop_time(facts, node_run) for node_run in last.values() if node_run.ending == STOPPED), reverse=True
    ):
        if began is not None and began - at > TOGETHER:
            break
        began = at
    killed = [node_run.end for node_run in last.values() if node_run.ending == KILLED]
    return None if began is None or max(killed, default=began) > began else began


def _stop_time(facts: TraceFacts, node_run: NodeRun) -> float:
    """Return when a broker began to stop, in seconds since 1970."""
    asked = facts.last(declarations.StopRequested, node_run.place, run=node_run.place.run)
    return node_run.end if asked is None else asked.place.at


Clock = Callable[[float], str]
"""Returns a time in seconds since 1970 as text."""


class Verdict(NamedTuple):
    """The verdict about a subject, and the causes behind it, from the visible effect back to the first cause."""

    text: str
    steps: tuple[Sentence, ...] = ()


def verdict_of(facts: TraceFacts, about: str, subject: object, clock: Clock) -> Verdict:
    """Return the verdict about a subject.

    If the trace ends with a shutdown of the cluster, the verdict is about the time before this shutdown.
    """
    stopped = shutdown_of(facts)
    if stopped is not None:
        facts = facts_before(facts, stopped)
    for situation in SUBJECTS[about].situations:
        seen = situation.find(facts, subject)
        if seen is not None:
            text, steps = _verdict(facts, situation, seen, str(subject), clock)
            end = "" if stopped is None else f" The cluster was stopped at {clock(stopped)}."
            return Verdict(text + end, steps)
    # The last situation of each kind of subject always matches.
    raise AssertionError(f"internal error: no situation of the table SUBJECTS applies to {about} {subject}")


def _verdict(facts: TraceFacts, situation: Situation, seen: Seen, subject: str, clock: Clock) -> Verdict:
    chain = [] if seen.fact is None else chain_of(facts, seen.fact)
    values = {
        **({} if seen.fact is None else values_of(seen.fact)),
        "subject": subject,
        "since": clock(seen.since),
        "until": clock(seen.until),
        "seconds": seen.until - seen.since,
        "why": f", because {text_of(chain[-1])}" if len(chain) > 1 else NO_CAUSE,
        "first": text_of(chain[0]) if chain else "",
        **seen.values,
    }
    text = situation.verdict.format(**values) + "."
    if situation.lasts:
        remedy = remedy_for(facts, chain[-1]) if chain else ""
        remedy = remedy or first_needed(situation.remedies, facts, seen, values)
        text = f"{text} {remedy}".rstrip()
    return Verdict(text, tuple(map(sentence_of, chain)))
