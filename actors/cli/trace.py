"""`kafka-actors trace`: print and pack traces, and restore message contents that trace.detail=inputs leaves out."""

from __future__ import annotations

from pathlib import Path

import click

from actors.cli import replay, trace_export, trace_show
from actors.cli.app import FAILED, FOLDER, CommandFailed
from actors.cli.extras import need
from actors.cli.usage_errors import DAMAGED, DAMAGED_OR_DIFFERENT, exit_codes
from actors.runtime.trace.expansion import expand
from actors.runtime.trace.replay_report import ReplayReport
from messages.trace.errors import TraceError
from messages.trace.files.runs import find_runs


@click.group("trace")
def command() -> None:
    """Print traces, restore omitted message contents, or convert traces to other formats."""


command.add_command(trace_show.command)
command.add_command(trace_export.command)


@command.command("expand", epilog=exit_codes(DAMAGED_OR_DIFFERENT, success="done"))
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--to",
    "target",
    metavar="TARGET",
    required=True,
    type=FOLDER,
    help="The folder for the new traces; it must not be inside DIR.",
)
@click.option("--node", type=int, help="Expand only the runs of this node.")
def expand_traces(directory: Path, target: Path, node: int | None) -> int:
    """Copy every run below DIR to TARGET, as if the run had been recorded with trace.detail=full.

    This command replays each run to restore the message contents that the trace leaves out, and compares the replayed
    messages with the trace.
    """
    if target.resolve().is_relative_to(directory.resolve()):
        raise CommandFailed(
            f"{target} is inside {directory}. Choose a folder outside it, so that no run is read twice."
        )
    try:
        found = find_runs(directory)
        runs = [each for each in found.runs if node in (None, each.header.node)]
        replay.demand(runs, found.unreadable, directory, node)
        report = ReplayReport(tuple(expand(each, replay.ACTORS, target) for each in runs), found.unreadable)
    except TraceError as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        raise CommandFailed(f"{error.filename or target}: {error.strerror}") from error
    replay.show(report)
    return 0 if report.ok else FAILED


@command.command("pack", epilog=exit_codes(DAMAGED))
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("target", metavar="TARGET", type=FOLDER)
def pack_traces(directory: Path, target: Path) -> int:
    """Write all traces below DIR as Parquet files to the folder TARGET, for `summary`, Spark or other programs.

    If TARGET exists, the command writes only the runs that are missing or incomplete in TARGET.
    docs/reference/trace-columns.md describes the columns.
    """
    need("spark", "trace pack")
    from spark.pack import Packing  # importing Arrow is slow

    try:
        packing = Packing(directory, target)
        rows = packing.finish()
    except TraceError as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        raise CommandFailed(f"{error.filename or target}: {error.strerror}") from error
    manifest = packing.manifest
    faults = [fault for run in manifest.runs for fault in run.faults]
    for words in (*(f"damaged, and left out from there on: {fault}" for fault in faults), *manifest.unreadable):
        click.echo(words, err=True)
    if not manifest.runs:
        raise CommandFailed(f"{directory} contains no recorded run")
    click.echo(f"{rows} rows written, of {len(manifest.runs)} runs, in {target}")
    return FAILED if faults or manifest.unreadable else 0
