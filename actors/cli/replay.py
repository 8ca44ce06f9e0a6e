"""`kafka-actors replay DIR [--node N]`: stand the actors of recorded nodes up again, and compare all they do."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from actors.cli.app import FAILED, Failed
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
    console = Console(highlight=False, soft_wrap=True)
    table = Table()
    for column in ("node", "run", "ended", "inputs", "timers", "messages", "effects", "result"):
        table.add_column(column, justify="left" if column in ("run", "ended", "result") else "right", overflow="fold")
    for run in report.runs:
        result = "same" if run.ok else (run.problem and "not replayed") or "DIVERGED"
        counts = (str(number) for number in (run.inputs, run.timers, run.messages, run.effects))
        table.add_row(str(run.node), run.run, "stopped" if run.complete else "killed", *counts, result)
    if report.runs:
        console.print(table)
    for run in report.runs:
        for warning in run.warnings:
            console.print(f"node {run.node}, run {run.run}: {warning}", markup=False)
        if run.problem:
            console.print(f"node {run.node}, run {run.run} cannot be replayed: {run.problem}", markup=False)
        if run.divergence is not None:
            console.print(f"node {run.node}, run {run.run} diverged at {run.divergence.text()}", markup=False)
    for unreadable in report.unreadable:
        console.print(f"not readable: {unreadable}", markup=False)
    diverged = sum(run.divergence is not None for run in report.runs)
    console.print(f"{len(report.runs)} runs, {diverged} divergences")
