"""For `kafka-actors replay`, print which delivery changed an actor's state, and how two points of a run differ."""

from __future__ import annotations

import click

from actors.cli.display import printable
from actors.trace.changes import differences, last_change, value_text
from actors.trace.delivery_text import line_of
from actors.trace.moment import base_after
from actors.trace.reader import TraceDelivery, TraceRun
from actors.trace.state_path import parse_path
from messages.trace.files.runs import Run, RunRecords
from messages.trace.schema import DELIVERIES


def print_change(run: Run, text: str, until: int | None) -> int:
    """Print the last change of a part of a state; return the exit code.

    Raises:
        TraceError: The run is damaged or diverges.
    """
    path = parse_path(text)
    end = until if until is not None else last_delivery(run)
    change = last_change(run, path, end)
    if change is None:
        click.echo(f"no delivery up to {end} changed {path}")
        return 0
    click.echo(printable(line_of(TraceDelivery(TraceRun(run), change.record), many=False)))
    click.echo(printable(f"{path}: {value_text(change.before)} -> {value_text(change.after)}"))
    return 0


def print_difference(run: Run, moments: tuple[int, int] | None, actor: str | None) -> int:
    """Print how the states after one delivery differ from the states after another; return the exit code.

    Raises:
        TraceError: The run is damaged or diverges.
    """
    first, second = moments or (0, 0)
    for path, before, after in differences(base_after(run, first), base_after(run, second), actor):
        click.echo(printable(f"{path}: {value_text(before)} -> {value_text(after)}"))
    return 0


def last_delivery(run: Run) -> int:
    """Return the number of the last recorded delivery.

    Raises:
        Damaged: The trace is damaged.
        OSError: The trace cannot be read.
    """
    last = run.header.begins
    for batch in RunRecords(run).batches():
        last = next((each.n for each in reversed(batch) if each.kind in DELIVERIES), last)
    return last
