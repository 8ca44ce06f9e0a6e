"""Sections of a summary about what brokers do to records and clients in time: cleaning, retention, and throttles."""

from __future__ import annotations

from messages.facts.declarations import ClientThrottled, LogPartCleaned, LogStartMoved, LogTruncated
from messages.facts.trace_facts import TraceFacts, group_by
from spark.results import QueryResult


def cleanings(facts: TraceFacts) -> QueryResult:
    """Count how often each broker removed records of a partition, by the reason.

    Returns:
        node, partition, reason (cleaner, truncation, the setting of the retention, retention, or a client's
        DeleteRecords request), times, first (lowest offset concerned), until (the offset before which records were
        removed last), at (the last time).
    """
    columns = "node", "partition", "reason", "times", "first", "until", "at"
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
    return QueryResult(
        columns,
        tuple(
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
    columns = "node", "user", "client_id", "quota", "owner", "bound", "times", "longest_ms", "at"
    rows = group_by(
        facts.select(ClientThrottled),
        lambda each: (each.place.node, each.user, each.client_id, each.quota, each.owner, each.bound),
    )
    return QueryResult(
        columns,
        tuple(
            (*key, sum(each.times for each in found), max(each.longest_ms for each in found), found[-1].place.at)
            for key, found in sorted(rows.items())
        ),
    )
