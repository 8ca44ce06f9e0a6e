"""Sections of a summary about what brokers do to records and clients: cleaning, retention, throttles, failed logins."""

from __future__ import annotations

from messages.facts.declarations import (
    AuthenticationFailures,
    ClientThrottled,
    LogPartCleaned,
    LogStartMoved,
    LogTruncated,
)
from messages.facts.trace_facts import TraceFacts, group_by
from spark.results import QueryResult, table


def cleanings(facts: TraceFacts) -> QueryResult:
    """Count how often each broker removed records of a partition, by the reason.

    Returns:
        node, partition, reason (cleaner, truncation, the setting of the retention, retention, or a client's
        DeleteRecords request), times, first (lowest offset concerned), until (the offset before which records were
        removed last), at (the last time).
    """
    rows: dict[tuple[int, str, str], list[tuple[int, int, float]]] = {}
    for cleaned in facts.select(LogPartCleaned):
        key = cleaned.place.node, str(cleaned.partition), "cleaner"
        rows.setdefault(key, []).append((cleaned.first, cleaned.end, cleaned.place.at))
    for moved in facts.select(LogStartMoved):
        by = moved.setting or moved.how if moved.client_id is None else f"client {moved.client_id}"
        key = moved.place.node, str(moved.partition), by
        rows.setdefault(key, []).append((max(moved.before, 0), moved.start, moved.place.at))
    for cut in facts.select(LogTruncated):
        if cut.end > cut.to:
            key = cut.place.node, str(cut.partition), "truncation"
            rows.setdefault(key, []).append((cut.to, cut.end, cut.place.at))
    return table(
        "node partition reason times first until at",
        (
            (*key, len(found), min(first for first, _, _ in found), found[-1][1], found[-1][2])
            for key, found in sorted(rows.items())
        ),
    )


def throttles(facts: TraceFacts) -> QueryResult:
    """Count how often each broker throttled a client, by the quota.

    Returns:
        node, user, client_id, quota, owner (the entity that has the quota), bound (per second), times, longest_ms,
        at (the last time).
    """
    rows = group_by(
        facts.select(ClientThrottled),
        lambda each: (each.place.node, each.user, each.client_id, each.quota, each.owner, each.bound),
    )
    return table(
        "node user client_id quota owner bound times longest_ms at",
        (
            (*key, sum(each.times for each in found), max(each.longest_ms for each in found), found[-1].place.at)
            for key, found in sorted(rows.items())
        ),
    )


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
    return table("node listener mechanism count first_at last_at", sorted(rows, key=lambda row: (-row[3], row)))
