"""Sections of a summary about clients: the authentications that failed."""

from __future__ import annotations

from messages.facts.declarations import AuthenticationFailures
from messages.facts.trace_facts import TraceFacts, group_by
from spark.results import QueryResult


def authentications(facts: TraceFacts) -> QueryResult:
    """Count failed authentications, those with the most first.

    Returns:
        node, listener, mechanism (TLS: the handshake failed; empty: the client has chosen none), count, first_at,
        last_at.
    """
    found = group_by(
        facts.select(AuthenticationFailures), lambda each: (each.place.node, each.listener, each.mechanism)
    )
    rows = [
        (*which, sum(each.times for each in same), same[0].place.at, same[-1].place.at) for which, same in found.items()
    ]
    columns = ("node", "listener", "mechanism", "count", "first_at", "last_at")
    return QueryResult(columns, tuple(sorted(rows, key=lambda row: (-row[3], row))))
