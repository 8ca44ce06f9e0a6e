"""Draw the figures of the HTML report; times are in UTC.

Rule 1: a figure shows the same values as the table below it. Of many partitions or topics, the MOST extreme are drawn.
Rule 2: figures have no background and no text colour of their own: the page sets both, light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import plotly.graph_objects as go

from spark.results import Summary

MOST = 40
_ALERT = "#d62728"
"""The colour of missing leaders and failures."""
_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf")


def figures(summary: Summary) -> dict[str, go.Figure]:
    """Return the figures with data, by their question."""
    drawn = {name: draw(summary) for name, draw in FIGURES.items()}
    return {name: figure for name, figure in drawn.items() if figure.data}


def _when(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def _colour(node: int) -> str:
    return _ALERT if node < 0 else _COLOURS[node % len(_COLOURS)]


def _figure(traces: Iterable[Any], height: int = 340, **layout: Any) -> go.Figure:
    figure = go.Figure(list(traces))
    transparent = "rgba(0,0,0,0)"
    figure.update_layout(
        height=height,
        margin={"l": 10, "r": 10, "t": 10, "b": 40},
        paper_bgcolor=transparent,
        plot_bgcolor=transparent,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        **layout,
    )
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    return figure


def _tall(rows: int) -> int:
    return 120 + 18 * rows


def _spans(rows: Sequence[tuple[str, float, float, str, str, str]], height: int | None = None) -> go.Figure:
    """Return a Gantt chart; each row has a line, begin, end, group, colour and text."""
    grouped: dict[str, list[tuple[str, float, float, str, str, str]]] = {}
    for row in rows:
        grouped.setdefault(row[3], []).append(row)
    traces = [
        go.Bar(
            orientation="h",
            name=group,
            y=[line for line, *_ in of],
            base=[_when(begin) for _, begin, *_ in of],
            x=[max(end - begin, 0.001) * 1000 for _, begin, end, *_ in of],
            marker_color=of[0][4],
            hovertext=[words for *_, words in of],
            hoverinfo="text",
        )
        for group, of in sorted(grouped.items())
    ]
    lines = len({line for line, *_ in rows})
    return _figure(
        traces,
        height or _tall(lines),
        barmode="overlay",
        xaxis={"type": "date"},
        yaxis={"autorange": "reversed", "type": "category", "dtick": 1},
    )


# ---------------------------------------------------------------------------------------------------- the figures


def timeline(summary: Summary) -> go.Figure:
    """Draw the controllers' events from begin to end, deaths, and elections."""
    nodes: dict[int, list[SimpleNamespace]] = {}
    for event in summary["handled"]:
        nodes.setdefault(event.node, []).append(event)
    traces = [
        go.Scatter(
            name=f"controller {node}",
            mode="markers",
            x=[_when(event.at) for event in of],
            y=[event.event for event in of],
            marker={"color": _colour(node), "size": [6 + 3 * math.log2(1 + event.ms) for event in of], "opacity": 0.6},
            hovertext=[
                f"{event.event} on node {node}<br>took {event.ms:.1f} ms, had waited {event.queue_ms:.1f} ms"
                for event in of
            ],
            hoverinfo="text+x",
        )
        for node, of in sorted(nodes.items())
    ]
    marks = [(row.died_at, f"broker {row.broker} gone", _ALERT) for row in summary["episodes"]]
    marks += [(row.at, f"node {row.node} elected", _colour(row.node)) for row in summary["elections"]]
    figure = _figure(traces, 420 if traces else 160, xaxis={"type": "date"})
    for at, words, colour in marks[:MOST]:
        figure.add_vline(x=_when(at), line={"color": colour, "dash": "dot"})
        figure.add_annotation(
            x=_when(at), y=1, yref="paper", text=words, showarrow=False, textangle=-90, xanchor="right"
        )
    return figure


def leaders(summary: Summary) -> go.Figure:
    """Draw the leaders of partitions over time, those with the most changes first."""
    runs, changes = summary["runs"], summary["leadership"]
    end = max((run.last_at for run in runs), default=0.0)
    partitions: dict[tuple[str, int], list[SimpleNamespace]] = {}
    for change in changes:
        partitions.setdefault((change.topic, change.partition), []).append(change)
    chosen = sorted(partitions, key=lambda key: (-len(partitions[key]), key))[:MOST]
    rows = []
    for topic, partition in chosen:
        of = partitions[topic, partition]
        for change, until in zip(of, [*(later.at for later in of[1:]), end], strict=True):
            who = "none" if change.leader == -1 else "being deleted" if change.leader < 0 else f"broker {change.leader}"
            words = f"{topic}-{partition}: {who}, epoch {change.leader_epoch}, from controller {change.node}"
            rows.append((f"{topic}-{partition}", change.at, until, who, _colour(change.leader), words))
    return _spans(rows)


def unavailable(summary: Summary) -> go.Figure:
    """Draw the seconds without a leader, the worst partitions first."""
    rows = list(summary["unavailable"])[:MOST]
    names = [f"{row.topic}-{row.partition}" for row in rows]
    bars = go.Bar(
        orientation="h", y=names, x=[row.seconds for row in rows], marker_color=_ALERT, name="without a leader"
    )
    return _figure(
        [bars] if rows else [],
        _tall(len(rows)),
        xaxis={"title": "seconds without a leader"},
        yaxis={"autorange": "reversed", "type": "category", "dtick": 1},
    )


def queues(summary: Summary) -> go.Figure:
    """Draw the number of waiting messages in each node's queue."""
    nodes: dict[int, list[SimpleNamespace]] = {}
    for moment in summary["queue"]:
        nodes.setdefault(moment.node, []).append(moment)
    traces = [
        go.Scatter(
            name=f"node {node}",
            x=[_when(moment.at) for moment in of],
            y=[moment.depth for moment in of],
            line={"color": _colour(node), "shape": "hv"},
        )
        for node, of in sorted(nodes.items())
    ]
    return _figure(traces, yaxis={"title": "messages waiting", "type": "log"}, xaxis={"type": "date"})


def latencies(summary: Summary) -> go.Figure:
    """Draw the durations by kind, as bars of doubling width."""
    kinds: dict[str, list[SimpleNamespace]] = {}
    for row in summary["latencies"]:
        kinds.setdefault(row.kind, []).append(row)
    uptos = sorted({row.upto_ms for row in summary["latencies"]})
    traces = [
        go.Bar(name=kind, x=[f"{row.upto_ms:g}" for row in of], y=[row.count for row in of])
        for kind, of in sorted(kinds.items())
    ]
    order = {"title": "up to (ms)", "type": "category", "categoryarray": [f"{upto:g}" for upto in uptos]}
    return _figure(traces, xaxis=order, yaxis={"title": "count", "type": "log"}, barmode="group")


STEPS = {
    "queue_ms": "in the event queue",
    "decide_ms": "handled by the controller",
    "channel_ms": "queued for the broker",
    "network_ms": "network and broker queue",
    "apply_ms": "applied by the broker",
}
"""The steps of a LeaderAndIsr request, in order."""


def critical(summary: Summary) -> go.Figure:
    """Draw the steps of the last request of each event, the slowest events first."""
    last = sorted((row for row in summary["chains"] if row.last), key=lambda row: -row.total_ms)[:MOST]
    names = [f"{row.event}, {_when(row.at):%H:%M:%S.%f}"[:-3] + f" to broker {row.broker}" for row in last]
    traces = [
        go.Bar(
            orientation="h",
            name=words,
            y=names,
            x=[getattr(row, step) or 0.0 for row in last],
            marker_color=colour,
            hovertemplate="%{x:.1f} ms",
        )
        for (step, words), colour in zip(STEPS.items(), _COLOURS, strict=False)
    ]
    return _figure(
        traces if last else [],
        _tall(len(last)),
        barmode="stack",
        xaxis={"title": "ms from the event to its last LeaderAndIsr"},
        yaxis={"autorange": "reversed", "type": "category", "dtick": 1},
    )


def network(summary: Summary) -> go.Figure:
    """Draw the messages between actors in a circle, for the largest counts; the width shows the count."""
    edges = list(summary["actors"])[: 2 * MOST]
    names = list(dict.fromkeys(name for edge in edges for name in (edge.sender, edge.receiver)))
    places = {
        name: (math.cos(2 * math.pi * n / len(names)), math.sin(2 * math.pi * n / len(names)))
        for n, name in enumerate(names)
    }
    most = max((edge.count for edge in edges), default=1)
    lines = [
        go.Scatter(
            x=[places[edge.sender][0], places[edge.receiver][0]],
            y=[places[edge.sender][1], places[edge.receiver][1]],
            mode="lines",
            line={"width": 1 + 8 * edge.count / most, "color": _COLOURS[0]},
            opacity=0.35,
            hoverinfo="skip",
            showlegend=False,
        )
        for edge in edges
    ]
    handled: dict[str, int] = {}
    for edge in edges:
        handled[edge.receiver] = handled.get(edge.receiver, 0) + edge.count
    dots = go.Scatter(
        x=[places[name][0] for name in names],
        y=[places[name][1] for name in names],
        mode="markers+text",
        text=[name.removesuffix("Actor") for name in names],
        textposition=["middle right" if places[name][0] >= 0 else "middle left" for name in names],
        hovertext=[f"{name}: {handled.get(name, 0)} messages" for name in names],
        hoverinfo="text",
        marker={"size": 10, "color": _COLOURS[1]},
        showlegend=False,
    )
    hidden = {"visible": False}
    return _figure(
        [*lines, dots] if edges else [],
        620,
        xaxis={**hidden, "range": [-1.9, 1.9]},
        yaxis={**hidden, "range": [-1.15, 1.15]},
    )


def deletions(summary: Summary) -> go.Figure:
    """Draw deleted topics: queued until the last replica was ordered to stop, then until the znode was removed."""
    end = max((run.last_at for run in summary["runs"]), default=0.0)
    rows = []
    for row in list(summary["deletions"])[:MOST]:
        stopped, gone = row.stopped_at or row.gone_at or end, row.gone_at or end
        stopped = max(stopped, row.queued_at)
        rows.append(
            (row.topic, row.queued_at, stopped, "stopping replicas", _COLOURS[1], f"{row.topic}: stopping replicas")
        )
        if gone > stopped:
            how = "removing znodes" if row.gone_at else "not deleted"
            rows.append((row.topic, stopped, gone, how, _COLOURS[0] if row.gone_at else _ALERT, f"{row.topic}: {how}"))
    return _spans(rows)


def reassignments(summary: Summary) -> go.Figure:
    """Draw reassignments of partitions."""
    end = max((run.last_at for run in summary["runs"]), default=0.0)
    rows = []
    for row in list(summary["reassignments"])[:MOST]:
        name, how = f"{row.topic}-{row.partition}", "moved" if row.ended_at else "not finished"
        words = f"{name}: to {row.adding or 'none'}, from {row.removing or 'none'}"
        rows.append((name, row.began_at, row.ended_at or end, how, _COLOURS[0] if row.ended_at else _ALERT, words))
    return _spans(rows)


def skew(summary: Summary) -> go.Figure:
    """Draw the bytes produced to the largest partitions, by leader."""
    nodes: dict[int, list[SimpleNamespace]] = {}
    for row in list(summary["records"])[:MOST]:
        nodes.setdefault(row.node, []).append(row)
    traces = [
        go.Bar(
            name=f"led by {node}",
            x=[f"{row.topic}-{row.partition}" for row in of],
            y=[row.bytes for row in of],
            marker_color=_colour(node),
        )
        for node, of in sorted(nodes.items())
    ]
    return _figure(traces, yaxis={"title": "bytes produced"}, xaxis={"type": "category"}, barmode="stack")


FIGURES: dict[str, Callable[[Summary], go.Figure]] = {
    "handled": timeline,
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
