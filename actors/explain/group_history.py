"""Explain from traces how a consumer group came to its state: coordinators, rebalances, and refused requests."""

from __future__ import annotations

from collections.abc import Callable

from actors.explain.causes import cause_of
from actors.explain.explanations import LAST, Answer, Sentence
from actors.explain.fact_gathering import TraceFacts
from actors.explain.step_texts import text_of
from messages.error_names import name_of

USUAL = ("MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS")
"""Names of errors that members get in the normal course of a rebalance."""


def coordinators(facts: TraceFacts, group: str) -> Answer:
    """List the brokers that coordinated the group."""
    return [Sentence(text_of(each), each.place) for each in facts.hosted if each.group == group][-LAST:]


def rebalances(facts: TraceFacts, group: str) -> Answer:
    """List the last states of the group, each with the member or timer that caused it."""
    lines = []
    for each in [each for each in facts.group_states if each.group == group][-2 * LAST :]:
        cause = cause_of(facts, each)
        lines.append(Sentence(f"{each.state}" + (f": {text_of(cause)}" if cause is not None else ""), each.place))
    return lines


def refused(facts: TraceFacts, group: str) -> Answer:
    """List the last requests that the coordinator refused."""
    errors = [each for each in facts.errors if each.group == group and name_of(each.code) not in USUAL]
    return [Sentence(text_of(each), each.place) for each in errors[-LAST:]]


QUESTIONS: tuple[tuple[str, Callable[[TraceFacts, str], Answer]], ...] = (
    ("Which broker coordinates it, and why?", coordinators),
    ("Which states did it have last, and why?", rebalances),
    ("Which requests were refused?", refused),
)
"""Question about a consumer group, and the function that answers it."""
