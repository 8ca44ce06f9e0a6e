"""The sections of a summary that are computed from facts, without Spark."""

from __future__ import annotations

from messages.facts.declarations import NodeRun
from messages.facts.trace_facts import TraceFacts
from spark.questions import failovers
from spark.results import QueryResult, Summary
from spark.section_names import SECTIONS


def summary_of(facts: TraceFacts) -> Summary:
    """Return the summary's sections about failovers, and its runs."""
    runs = [(each.place.node, each.began, each.place.at, each.ending) for each in facts.select(NodeRun)]
    answers = {"runs": QueryResult(("node", "first_at", "last_at", "ending"), tuple(runs))}
    names = [each.name for each in SECTIONS if each.module == "failovers"]
    return Summary(answers | {name: getattr(failovers, name)(facts) for name in names}, 0, ())
