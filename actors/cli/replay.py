"""`kafka-actors replay DIR [--node N]`: stand the actors of recorded nodes up again, and compare all they do."""

from __future__ import annotations

from pathlib import Path

import click

from actors.cli.app import FAILED, Failed
from actors.cli.display import console, table
from actors.runtime.replayer import ReplayReport, replay_directory
from messages.trace.codec import TraceError


@click.command("replay", epilog="Exit codes: 0 no divergence, 1 a divergence or nothing to replay, 2 wrong use.")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--node", type=int, help="Replay only this node's runs.")
def command(directory: Path, node: int | None) -> int:
    """Replay every run recorded below DIR, and compare every message sent and every effect.

    Stops at the first difference of a run: recorded against replayed, with the chain of what caused it.
    """
    try:
        report = replay_directory(directory, node)
    except TraceError as error:
        raise Failed(str(error)) from error
    _show(report)
    if not report.runs:
        raise Failed(f"{directory} holds no recorded run" + (f" of node {node}" if node is not None else ""))
    return 0 if report.ok else FAILED


def _show(report: ReplayReport) -> None:
    out = console()
    rows = [
        (
            *(run.node, run.run, "yes" if run.complete else "no"),
            *(run.deliveries, run.inputs, run.timers, run.messages, run.effects),
            "same" if run.ok else ("not replayed" if run.problem else "DIVERGED"),
        )
        for run in report.runs
    ]
    columns = ("node", "run", "clean stop", "deliveries", "inputs", "timers", "messages", "effects", "result")
    if rows:
        out.print(table(None, columns, rows))
    for run in report.runs:
        name = f"node {run.node}, run {run.run}"
        for warning in run.warnings:
            out.print(f"{name}: {warning}")
        if run.problem:
            out.print(f"{name} cannot be replayed: {run.problem}")
        if run.divergence is not None:
            out.print(f"{name} diverged at {run.divergence.text()}")
    for unreadable in report.unreadable:
        out.print(f"not readable: {unreadable}")
    diverged = sum(run.divergence is not None for run in report.runs)
    compared = sum(run.messages + run.effects for run in report.runs)
    out.print(f"{len(report.runs)} runs, {compared} messages and effects compared, {diverged} divergences")
