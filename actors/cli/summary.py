"""`kafka-actors summary DIR [--json FILE] [--only QUESTION]...`: what Spark finds in the traces of all nodes."""

from __future__ import annotations

import json
import sys
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
from spark.summary import QUESTIONS, EpisodeRow, Summary, summarise

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
@click.option("--only", multiple=True, type=click.Choice(QUESTIONS), help="Ask this question. May be repeated.")
def command(directory: Path, json_file: Path | None, only: tuple[str, ...]) -> int:
    """Summarise all traces below DIR with Spark.

    Who died, who saw it when, which partitions had no leader for how long; messages and handling time by actor and
    message type, controller events, requests per broker, elections, and who led every partition over time.
    """
    try:
        summary = apart(partial(summarise, directory, say=_say, only=only or QUESTIONS))
    except (TraceError, SparkUnavailable, Ended) as error:
        raise Failed(str(error)) from error
    if json_file is not None:
        json_file.write_text(json.dumps(summary.as_dict(), indent=1) + "\n")
    _show(summary)
    if not summary.runs:
        what = "run that can be read" if summary.unreadable else "recorded run"
        raise Failed(f"{directory} holds no {what}")
    return FAILED if summary.damage or summary.unreadable else 0


def _say(words: str) -> None:
    """What is being done, for who looks at a terminal."""
    if sys.stderr.isatty():
        click.echo(f"{words} ...", err=True)


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
        "Brokers that were gone",
        (
            *("broker", "died", "how", "seen after s", "by", "after", "controller", "led", "led again after s"),
            *("without leader: p50 s", "p99 s", "partition-seconds"),
        ),
        [_episode(row) for row in summary.episodes],
    )
    yield _limited(
        "Partitions without a leader",
        ("partition", "times", "seconds", "longest", "to the end"),
        [
            (f"{r.topic}-{r.partition}", r.windows, _seconds(r.seconds), _seconds(r.longest), _yes(r.left))
            for r in summary.unavailable
        ],
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
        ("at", "partition", "before", "leader", "leader epoch", "controller", "controller epoch"),
        [
            (
                *(_time(r.at), f"{r.topic}-{r.partition}", "" if r.before is None else r.before),
                *(r.leader, r.leader_epoch, r.node, r.controller_epoch),
            )
            for r in sorted(summary.leadership, key=lambda row: row.at)
        ],
    )


def _episode(row: EpisodeRow) -> tuple[object, ...]:
    """A row of the table; of a session that ended without its process nothing is known of a death."""
    again = None if row.last_led_at is None else row.last_led_at - row.died_at
    return (
        *(row.broker, _time(row.died_at), row.ending or "session expired", _seconds(row.seen_at - row.died_at)),
        *(row.seen_by, row.after or "", _yes(row.was_controller), row.partitions, _seconds(again)),
        *(_seconds(row.p50), _seconds(row.p99), _seconds(row.partition_seconds)),
    )


def _limited(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    more = f" (the first {MOST_ROWS} of {len(rows)})" if len(rows) > MOST_ROWS else ""
    return table(title + more, columns, rows[:MOST_ROWS])


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f}"


def _yes(truth: bool) -> str:
    return "yes" if truth else ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"
