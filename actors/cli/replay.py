"""`kafka-actors replay DIR [--node N]`: stand the actors of recorded nodes up again, and compare all they do."""

from __future__ import annotations

from pathlib import Path

import click

from actors.cli.app import FAILED, Failed
from actors.cli.display import console, table
from actors.node.node import NodeActor
from actors.runtime.replay_report import ReplayReport
from actors.runtime.replayer import replay_directory
from messages.trace.errors import TraceError
from messages.trace.runs import worded

ACTORS = (NodeActor,)
"""The top-level actors of a node: what a trace names beside them is not stood up."""


@click.command("replay", epilog="Exit codes: 0 no divergence, 1 a divergence, damage or no record, 2 wrong use.")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--node", type=int, help="Replay only this node's runs.")
def command(directory: Path, node: int | None) -> int:
    """Replay every run recorded below DIR, and compare every message sent and every effect.

    Stops at the first difference of a run: recorded against replayed, with the chain of what caused it.
    """
    try:
        report = replay_directory(directory, ACTORS, node)
    except TraceError as error:
        raise Failed(str(error)) from error
    _show(report)
    if not report.runs:
        what = "run that can be read" if report.unreadable else "recorded run"
        raise Failed(f"{directory} holds no {what}" + (f" of node {node}" if node is not None else ""))
    return 0 if report.ok else FAILED


def _show(report: ReplayReport) -> None:
    out = console()
    rows = [
        (
            *(run.node, run.run, run.ending),
            *(run.deliveries, run.inputs, run.timers, run.messages, run.effects),
            run.result,
        )
        for run in report.runs
    ]
    columns = ("node", "run", "ending", "deliveries", "inputs", "timers", "messages", "effects", "result")
    if rows:
        out.print(table(None, columns, rows))
    for run in report.runs:
        name = f"node {run.node}, run {run.run}"
        for warning in run.warnings:
            out.print(f"{name}: {warning}")
        if not run.complete and not run.problem:
            out.print(f"{name}: {worded(run.ending)}" + (f" ({run.why})" if run.why else ""))
        if run.problem:
            out.print(f"{name} cannot be replayed: {run.problem}")
        if run.divergence is not None:
            out.print(f"{name} diverged at {run.divergence.text()}")
    for unreadable in report.unreadable:
        out.print(f"not readable: {unreadable}")
    diverged = sum(run.divergence is not None for run in report.runs)
    compared = sum(run.messages + run.effects for run in report.runs)
    out.print(f"{len(report.runs)} runs, {compared} messages and effects compared, {diverged} divergences")
