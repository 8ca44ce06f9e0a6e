"""`kafka-actors summary DIR [--json FILE]`: what Spark finds in the traces of all nodes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import click
from rich.table import Table

from actors.cli.app import FAILED, Failed
from actors.cli.display import console, table
from messages.trace.errors import TraceError
from messages.trace.runs import worded
from messages.trace.schema import FULL
from spark.apart import Ended, apart
from spark.session import SparkUnavailable
from spark.summary import Summary, summarise

MOST_ROWS = 60
"""So many rows of a table are shown; the JSON has all."""


@click.command("summary")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all of it here too.",
)
def command(directory: Path, json_file: Path | None) -> int:
    """Summarise all traces below DIR with Spark.

    Messages and handling time by actor and message type, controller events, requests per broker, elections, and the
    leaderships of every partition over time.
    """
    try:
        summary = apart(partial(summarise, directory))
    except (TraceError, SparkUnavailable, Ended) as error:
        raise Failed(str(error)) from error
    if json_file is not None:
        json_file.write_text(json.dumps(summary.as_dict(), indent=1) + "\n")
    _show(summary)
    if not summary.runs:
        what = "run that can be read" if summary.unreadable else "recorded run"
        raise Failed(f"{directory} holds no {what}")
    return FAILED if summary.damage or summary.unreadable else 0


def _show(summary: Summary) -> None:
    out = console()
    for each in _tables(summary):
        if each.row_count:
            out.print(each)
    for run in summary.runs:
        if run.detail != FULL:
            out.print(
                f"run {run.run} holds no payloads (trace.detail={run.detail}): what is read in them is not counted"
            )
    for damage in summary.damage:
        out.print(f"damaged, and not counted from there on: {damage}")
    if summary.malformed:
        out.print(f"{summary.malformed} malformed lines were not counted")
    for unreadable in summary.unreadable:
        out.print(f"not readable: {unreadable}")


def _tables(summary: Summary) -> Iterable[Table]:
    yield _limited(
        "Runs",
        ("node", "run", "deliveries", "from", "to", "ending"),
        [(r.node, r.run, r.deliveries, _time(r.first_at), _time(r.last_at), worded(r.ending)) for r in summary.runs],
    )
    yield _limited(
        "Messages by actor and type",
        ("actor", "message", "count", "failed", "handling ms", "longest ms", "waited ms"),
        [
            (r.actor, r.type, r.count, r.failed, _ms(r.seconds), _ms(r.longest), _ms(r.waited))
            for r in sorted(summary.messages, key=lambda row: -row.count)
        ],
    )
    yield _limited("Controller events", ("node", "event", "count"), [(r.node, r.type, r.count) for r in summary.events])
    yield _limited(
        "Requests to brokers",
        ("node", "broker", "request", "count", "partitions", "sent again"),
        [(r.node, r.broker, r.type, r.count, r.partitions, r.retransmissions) for r in summary.requests],
    )
    yield _limited("Elections", ("at", "node", "epoch"), [(_time(r.at), r.node, r.epoch) for r in summary.elections])
    yield _limited(
        "Leaderships",
        ("at", "partition", "leader", "leader epoch", "controller", "controller epoch"),
        [
            (_time(r.at), f"{r.topic}-{r.partition}", r.leader, r.leader_epoch, r.node, r.controller_epoch)
            for r in summary.leadership
        ],
    )


def _limited(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    more = f" (the first {MOST_ROWS} of {len(rows)})" if len(rows) > MOST_ROWS else ""
    return table(title + more, columns, rows[:MOST_ROWS])


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%H:%M:%S.%f")[:-3]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"
