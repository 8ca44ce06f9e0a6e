"""`kafka-actors replay DIR`: run the recorded actors again and compare their messages and I/O calls with the trace.

With --until or --break, the replay stops at the given point; --state prints an actor's state at that point.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from actors.cli.app import FAILED, CommandFailed
from actors.cli.display import console, printable, table
from actors.cli.usage_errors import DAMAGED_OR_DIFFERENT, exit_codes, wrong_use
from actors.runtime.trace.divergence import message_line
from actors.runtime.trace.replay_report import ReplayReport, RunReplay
from actors.runtime.trace.replayer import Replay, replay_directory
from actors.trace.changes import differences, last_change, value_text
from actors.trace.delivery_text import line_of
from actors.trace.moment import ACTORS, base_after, state_in
from actors.trace.reader import TraceDelivery, TraceRun, open_trace
from actors.trace.state_path import parse_path
from messages.trace.endings import ending_text
from messages.trace.errors import TraceError
from messages.trace.files.runs import Run, RunRecords, find_runs
from messages.trace.schema import DELIVERIES


@click.command(
    "replay",
    epilog=exit_codes(DAMAGED_OR_DIFFERENT, success="no difference"),
)
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--node", type=int, help="Replay only the runs of this node.")
@click.option("--run", "name", help="Replay only the run with this id.")
@click.option(
    "--from",
    "begin",
    metavar="SEQ",
    type=click.IntRange(1),
    help="Start at the last snapshot before delivery number SEQ.",
)
@click.option("--until", metavar="SEQ", type=click.IntRange(1), help="Stop after delivery number SEQ.")
@click.option("--break", "break_at", metavar="EVENT", help="Stop before the first message of this class is handled.")
@click.option("--state", "actor", metavar="ACTOR", help="Print the final state of this actor as JSON.")
@click.option(
    "--changed",
    metavar="ACTOR:PATH",
    help="Print the last delivery (up to --until) that changed this part of an actor's state.",
)
@click.option(
    "--diff",
    nargs=2,
    metavar="N M",
    type=click.IntRange(0),
    help="Print how the states after deliveries N and M differ.",
)
def command(
    directory: Path,
    node: int | None,
    name: str | None,
    begin: int | None,
    until: int | None,
    break_at: str | None,
    actor: str | None,
    changed: str | None,
    diff: tuple[int, int] | None,
) -> int:
    """Replay every run recorded below DIR, and compare each message and each I/O call with the trace.

    Replay stops at the first difference of a run, and prints the recorded and the replayed message with the chain of
    causes. A run whose beginning was removed is replayed from its first snapshot. --until, --break, --state, --changed
    and --diff need one run: select it with --node or --run. ACTOR is an address such as ControllerActor.3, a class name
    if the run has only one actor of that class, or a class with the actor's partition, broker or group:
    PartitionActor:pay-0, BrokerChannelActor:2, GroupActor:readers. PATH names a part of the state that --state prints,
    such as _context.epoch or _channels[1]. --diff prints how the states of all actors differ between two deliveries.
    With --state ACTOR, it compares only the states of this actor.
    """
    try:
        if changed is not None or diff is not None:
            if changed is not None and (diff is not None or actor is not None or break_at is not None):
                raise wrong_use("--changed cannot be combined with --diff, --state or --break")
            run = open_trace(directory).only_run(node, name).run
            return print_change(run, changed, until) if changed is not None else print_difference(run, diff, actor)
        if until is None and break_at is None and actor is None:
            report = replay_directory(directory, ACTORS, node, begin, name)
            show(report)
            demand(report.runs, report.unreadable, directory, node)
            return 0 if report.ok else FAILED
        found = find_runs(directory)
        runs = [each for each in found.runs if node in (None, each.header.node) and name in (None, each.header.run)]
        demand(runs, found.unreadable, directory, node)
        if len(runs) > 1:
            names = ", ".join(f"{each.header.run} (node {each.header.node})" for each in runs)
            raise CommandFailed(
                f"{directory} holds {len(runs)} runs: select one with --run or --node. The runs are {names}"
            )
        return _replay(runs[0], begin, until, break_at, actor)
    except TraceError as error:
        raise CommandFailed(str(error)) from error


def demand(runs: object, unreadable: tuple[str, ...], directory: Path, node: int | None) -> None:
    """Check that a run exists.

    Raises:
        CommandFailed: No run exists, or none is readable.
    """
    if not runs:
        what = "readable run" if unreadable else "recorded run"
        raise CommandFailed(f"{directory} contains no {what}" + (f" of node {node}" if node is not None else ""))


def _replay(run: Run, begin: int | None, until: int | None, break_at: str | None, actor: str | None) -> int:
    """Replay a run up to the requested point, and return the exit code.

    The state is printed on standard output, everything else on standard error.
    """
    replay = Replay(run, ACTORS, begin, until, break_at)
    result = replay.result()
    out = console(stderr=True)
    if not result.ok:
        show(ReplayReport((result,)))
        return FAILED
    if replay.stopped_at is not None:
        out.print(f"stopped before delivery {replay.stopped_at.n}: {message_line(replay.stopped_at)}")
    elif break_at is not None or (until is not None and until > replay.base.n):
        raise CommandFailed(f"the run ends after {replay.base.n} messages: " + _not_met(until, break_at))
    if actor is not None:
        click.echo(json.dumps(state_in(replay.base, actor), indent=2, ensure_ascii=False))
    return 0


def _not_met(until: int | None, break_at: str | None) -> str:
    return f"there is no delivery {until}" if break_at is None else f"nothing delivered is a {break_at}"


def show(report: ReplayReport) -> None:
    """Print the results of the replays."""
    out = console()
    rows = [
        (
            *(run.node, run.run, run.ending),
            *(run.deliveries, run.inputs, run.timers, run.messages, run.effects, run.snapshots),
            run.result,
        )
        for run in report.runs
    ]
    columns = ("node", "run", "ending", "deliveries", "inputs", "timers", "messages", "effects", "snapshots", "result")
    if rows:
        out.print(table(None, columns, rows))
    for run in report.runs:
        for line in _result_lines(run):
            out.print(f"node {run.node}, run {run.run}{line}")
    for unreadable in report.unreadable:
        out.print(f"not readable: {unreadable}")
    diverged = sum(run.divergence is not None for run in report.runs)
    compared = sum(run.messages + run.effects for run in report.runs)
    out.print(f"{len(report.runs)} runs, {compared} messages and effects compared, {diverged} divergences")


def _result_lines(run: RunReplay) -> list[str]:
    """Return the lines about one run."""
    lines = [f": {warning}" for warning in run.warnings]
    if not run.complete and not run.problem:
        lines.append(f": {ending_text(run.ending)}" + (f" ({run.why})" if run.why else ""))
    if run.problem:
        lines.append(f" cannot be replayed: {run.problem}")
    if run.divergence is not None:
        lines.append(f" diverged at {run.divergence.text()}")
    return lines


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
