"""Draw the figures of the HTML report; times are in UTC.

Rule: A figure shows the same values as the table below it. A figure draws at most MOST partitions or topics, those with
      the largest values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC

from messages.facts.trace_facts import group_by
from spark import drawing
from spark.formatting import count_text, duration, moment
from spark.questions import INTERNAL
from spark.results import Summary
from spark.timeline import COLOURS, colour

MOST = 40
MOST_EVENTS = 1000
"""Maximum number of events in a figure: the longest ones."""
Span = tuple[str, float, float, str, str]
"""A lane, begin, end, colour and words."""


def figures(summary: Summary) -> dict[str, drawing.Chart]:
    """Return the figures that have data, by the name of their section."""
    drawn = {name: draw(summary) for name, draw in FIGURES.items() if len(summary[name])}
    return {name: chart for name, chart in drawn.items() if chart.lanes}


def _clock(at: float) -> str:
    return f"{moment(at, UTC, at, at)}.{int(at * 1000) % 1000:03d}"


def _spans(words: str, rows: Sequence[Span], legend: Iterable[tuple[str, str]]) -> drawing.Chart:
    """Draw a lane for each name, with its spans."""
    lanes: dict[str, list[drawing.Box]] = {}
    for name, begin, end, kind, label in rows:
        lanes.setdefault(name, []).append(drawing.Box(begin, end, kind, label, 0.1, 0.9))
    begin, end = min((row[1] for row in rows), default=0.0), max((row[2] for row in rows), default=0.0)
    drawn = [drawing.Lane(name, boxes) for name, boxes in lanes.items()]
    return drawing.Chart(
        words, drawn, drawing.time_axis(begin, end, UTC), list(dict.fromkeys(legend)), long_labels=True
    )


def _bars(
    words: str,
    rows: Sequence[tuple[str, Sequence[tuple[float, str, str]]]],
    unit: str,
    legend: Iterable[tuple[str, str]] = (),
) -> drawing.Chart:
    """Draw a lane for each name, with its parts (size, colour, words) one after the other."""
    lanes = []
    for name, parts in rows:
        boxes, at = [], 0.0
        for size, kind, label in parts:
            boxes.append(drawing.Box(at, at + size, kind, label, 0.1, 0.9))
            at += size
        lanes.append(drawing.Lane(name, boxes))
    most = max((sum(size for size, *_ in parts) for _, parts in rows), default=0.0)
    return drawing.Chart(words, lanes, drawing.number_axis(most), list(dict.fromkeys(legend)), unit, long_labels=True)


# ---------------------------------------------------------------------------------------------------- the figures


def draw_controller_events(summary: Summary) -> drawing.Chart:
    """Draw the controllers' events, each from its start to its end."""
    events = sorted(summary["handled"], key=lambda event: -event.ms)[:MOST_EVENTS]
    events.sort(key=lambda event: event.at)
    rows = [
        (
            event.event,
            event.at,
            event.at + event.ms / 1000,
            colour(event.node),
            f"{event.event} on node {event.node} at {_clock(event.at)}: {event.ms:.1f} ms",
        )
        for event in events
    ]
    return _spans("Controller events over time", rows, _controllers(event.node for event in events))


def leaders(summary: Summary) -> drawing.Chart:
    """Draw the leaders of partitions over time; the partitions with the most changes come first."""
    partitions = group_by(summary["leadership"], lambda change: (change.topic, change.partition))
    chosen = sorted(partitions, key=lambda key: (key[0].startswith(INTERNAL), -len(partitions[key]), key))[:MOST]
    end, rows, legend = summary.end, [], []
    for topic, partition in chosen:
        of = partitions[topic, partition]
        for change, until in zip(of, [*(later.at for later in of[1:]), end], strict=True):
            if change.leader < -1:
                continue  # the topic is being deleted
            lost, name = change.leader < 0, f"{topic}-{partition}"
            who, kind = ("no leader", "bad") if lost else (f"broker {change.leader}", colour(change.leader))
            label = f"{name}: {who} from {_clock(change.at)}, epoch {change.leader_epoch}, controller {change.node}"
            rows.append((name, change.at, until, kind, label))
            legend.append((kind, who))
    return _spans("Leaders of partitions over time", rows, sorted(legend, key=lambda each: each[1]))


def unavailable(summary: Summary) -> drawing.Chart:
    """Draw the longest time (s) without a leader for each topic."""
    end = summary.end
    topics: dict[str, list[tuple[float, bool]]] = {}
    for row in summary["unavailable"]:
        longest, still = row.longest_s, row.since_at is not None
        seconds = max(longest, end - row.since_at) if still else longest
        topics.setdefault(row.topic, []).append((seconds, still))
    ranked = sorted(topics.items(), key=lambda item: (item[0].startswith(INTERNAL), -max(item[1])[0], -len(item[1])))
    rows = []
    for topic, of in ranked[:MOST]:
        open_count, longest = sum(still for _, still in of), max(of)[0]
        open_ = f" ({open_count:,} not over)" if open_count else ""
        words = f"{topic}: {count_text(len(of), 'partition')}, at most {duration(longest)}{open_}"
        rows.append((words, [(longest, "bad", words)]))
    return _bars("Longest time without a leader by topic", rows, "seconds")


def queues(summary: Summary) -> drawing.Chart:
    """Draw the number of waiting messages in each node's queue, on a logarithmic scale."""
    rows = list(summary["queue"])
    axis = drawing.time_axis(min(row.at for row in rows), max(row.at for row in rows), UTC)
    most = max(row.depth for row in rows)
    lanes = []
    for node, of in sorted(group_by(rows, lambda row: row.node).items()):
        points = [(row.at, math.log1p(row.depth)) for row in of]
        deepest = max(row.depth for row in of)
        words = f"node {node}: at most {deepest:,} messages waited"
        lanes.append(
            drawing.Lane(
                f"node {node}", [drawing.Area(points, math.log1p(most), colour(int(node)), words)], 30, f"≤ {deepest:,}"
            )
        )
    return drawing.Chart("Messages waiting in queues over time", lanes, axis)


def latencies(summary: Summary) -> drawing.Chart:
    """Draw a histogram of durations for each kind. Column limits are powers of two; heights are logarithmic."""
    rows = list(summary["latencies"])
    uptos = sorted({row.upto_ms for row in rows})
    most = math.log1p(max(row.count for row in rows))
    lanes = []
    for number, (kind, of) in enumerate(sorted(group_by(rows, lambda row: row.kind).items())):
        boxes = [
            drawing.Box(
                uptos.index(row.upto_ms) + 0.05,
                uptos.index(row.upto_ms) + 0.95,
                f"c{number % COLOURS}",
                f"{kind}: {row.count:,} up to {row.upto_ms:g} ms",
                1 - math.log1p(row.count) / most,
            )
            for row in of
        ]
        lanes.append(drawing.Lane(kind, boxes, 40, f"{sum(row.count for row in of):,}"))
    every = math.ceil(len(uptos) / 6)
    ticks = [(place + 1.0, f"{upto:g}") for place, upto in enumerate(uptos) if place % every == 0]
    return drawing.Chart(
        "Latencies by kind", lanes, drawing.Axis(0.0, float(len(uptos)), ticks), unit="up to (ms)", long_labels=True
    )


STEPS = {
    "queue_ms": "in the event queue",
    "decide_ms": "handled by the controller",
    "channel_ms": "queued for the broker",
    "network_ms": "network and broker queue",
    "apply_ms": "applied by the broker",
}
"""The steps of a LeaderAndIsr request, in order."""


def critical(summary: Summary) -> drawing.Chart:
    """For each controller event, draw the steps of the request that ended last. The slowest events come first."""
    last = sorted((row for row in summary["chains"] if row.last), key=lambda row: -row.total_ms)[:MOST]
    rows = [
        (
            f"{row.event}, {_clock(row.at)} to broker {row.broker}",
            [
                (getattr(row, step) or 0.0, f"c{number}", f"{getattr(row, step) or 0.0:.1f} ms {words}")
                for number, (step, words) in enumerate(STEPS.items())
            ],
        )
        for row in last
    ]
    legend = [(f"c{number}", words) for number, words in enumerate(STEPS.values())]
    return _bars("Time from an event to its last LeaderAndIsr", rows, "ms", legend)


def network(summary: Summary) -> drawing.Chart:
    """Draw the numbers of messages between actors, for the pairs with the largest numbers."""
    rows = [
        (f"{_actor(edge.sender)} → {_actor(edge.receiver)}", [(edge.count, "c0", f"{edge.count:,} messages")])
        for edge in list(summary["actors"])[:MOST]
    ]
    return _bars("Messages between actors", rows, "messages")


def deletions(summary: Summary) -> drawing.Chart:
    """Draw each topic deletion: the time until the last order to stop a replica, then until the znode's removal."""
    end, rows = summary.end, []
    for row in list(summary["deletions"])[:MOST]:
        stopped, gone = row.stopped_at or row.gone_at or end, row.gone_at or end
        stopped = max(stopped, row.queued_at)
        rows.append((row.topic, row.queued_at, stopped, "c1", f"{row.topic}: stopping replicas"))
        if gone > stopped:
            how, kind = ("removing znodes", "c0") if row.gone_at else ("not deleted", "bad")
            rows.append((row.topic, stopped, gone, kind, f"{row.topic}: {how}"))
    legend = (("c1", "stopping replicas"), ("c0", "removing znodes"), ("bad", "not deleted"))
    return _spans("Deletions of topics over time", rows, legend)


def reassignments(summary: Summary) -> drawing.Chart:
    """Draw reassignments of partitions."""
    end, rows = summary.end, []
    for row in list(summary["reassignments"])[:MOST]:
        name = f"{row.topic}-{row.partition}"
        words = f"{name}: adding {row.adding or 'none'}, removing {row.removing or 'none'}"
        rows.append((name, row.began_at, row.ended_at or end, "c0" if row.ended_at else "bad", words))
    return _spans("Reassignments over time", rows, (("c0", "complete"), ("bad", "not complete")))


def skew(summary: Summary) -> drawing.Chart:
    """Draw the bytes produced to the largest partitions, by leader."""
    chosen = list(summary["records"])[:MOST]
    rows = [
        (
            f"{row.topic}-{row.partition}",
            [(row.bytes, colour(row.node), f"{row.bytes:,} bytes, led by broker {row.node}")],
        )
        for row in chosen
    ]
    return _bars(
        "Bytes produced by partition", rows, "bytes", sorted((colour(row.node), f"led by {row.node}") for row in chosen)
    )


def _controllers(nodes: Iterable[int]) -> list[tuple[str, str]]:
    return [(colour(node), f"controller {node}") for node in sorted(set(nodes))]


def _actor(name: str) -> str:
    return name.removesuffix("Actor")


FIGURES: dict[str, Callable[[Summary], drawing.Chart]] = {
    "handled": draw_controller_events,
    "leadership": leaders,
    "unavailable": unavailable,
    "queue": queues,
    "latencies": latencies,
    "deletions": deletions,
    "reassignments": reassignments,
    "records": skew,
    "chains": critical,
    "actors": network,
}
"""Figures by their question."""
