"""`kafka-actors why`: explain from a trace how a partition, topic, broker or other subject came to its state."""

from __future__ import annotations

import json
import math
import shlex
import sys
from datetime import datetime
from pathlib import Path

import click

from actors.cli.app import PROGRAM, CommandFailed
from actors.cli.display import printable
from actors.cli.usage_errors import DAMAGED, Time, exit_codes, wrong_use
from actors.explain.subjects import SUBJECTS, subject_of
from actors.trace.explanation import TraceExplanation, explain, explanation_json, explanation_lines, utc
from messages.trace.errors import TraceError
from messages.trace.files.runs import find_runs


@click.command("why", epilog=exit_codes(DAMAGED))
@click.argument("about", metavar="|".join(SUBJECTS), type=click.Choice([*SUBJECTS]))
@click.argument("name", required=False)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path), required=False)
@click.option("--at", type=Time(), help="Explain the state at this time (ISO 8601 or seconds since 1970).")
@click.option("--local", is_flag=True, help="Print times in this machine's time zone; the default is UTC.")
@click.option(
    "--pointers",
    is_flag=True,
    help="End each line with the options that make `replay` stop at the delivery it is about.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the explanation as one JSON object.")
def command(
    about: str,
    name: str | None,
    directory: Path | None,
    at: float | None,
    local: bool,
    pointers: bool,
    as_json: bool,
) -> int:
    """Explain the state of a partition, broker, consumer group or another subject from the traces below DIR.

    The first line is the verdict: what is or was wrong, since when, why, and what to do. The chain of causes follows,
    from the visible effect back to the first fault, request or action. The details come last.

    `partition T-P`: leader, ISR, refused producers, reassignment. `topic T`: a pending deletion or creation.
    `broker N`: why it left or is slow. `controller`: terms and elections. `transaction ID`: its state, and why
    it was aborted or fenced. `consumer-group G`: rebalances and coordinators. `producer P` (client id, producer id or
    transactional id): refused requests. `client C` (principal or client id): operations that ACLs do not allow.
    `cluster`: what happened, in order.

    With --pointers, lines that describe a recorded delivery end with --run RUN --until DELIVERY. Pass these options to
    `kafka-actors replay DIR` to stop at that delivery; add --state to print an actor's state. The traces may be those
    of a running cluster.
    """
    form = SUBJECTS[about].form
    if not form and directory is None and name is not None:
        directory, name = Path(name), None
    if directory is None or (name is None) != (not form):
        raise wrong_use(f"expected: why {about} {form and form + ' '}DIR")
    if not directory.exists():
        raise wrong_use(f"{directory} does not exist")
    if name is not None:
        try:
            subject_of(about, name)
        except ValueError as error:
            raise wrong_use(str(error)) from None
    clock = local_time if local else utc
    try:
        found = find_runs(directory)
        if not found.runs:
            raise CommandFailed(f"{directory} contains no recorded run")
        explanation = explain(found.runs, about, name, math.inf if at is None else at, clock)
    except TraceError as error:
        raise CommandFailed(str(error)) from error
    if as_json:
        click.echo(json.dumps(explanation_json(explanation, clock), indent=2, ensure_ascii=False))
    else:
        for line in explanation_lines(explanation, clock, pointers):
            click.echo(printable(line))
        if sys.stdout.isatty():
            click.echo(f"To look at it: {page_command(directory, about, name, explanation)}")
    return 0


def page_command(directory: Path, about: str, name: str | None, explanation: TraceExplanation) -> str:
    """Return the command that opens the page of the trace at the moment of the first line of the chain."""
    at = next((line.at for line in explanation.chain if line.at is not None), None)
    words = [PROGRAM, "trace", "show", str(directory), "--ui"]
    words += [f"--{about}", str(name)] if about in ("partition", "topic", "broker") else []
    return shlex.join(words if at is None else [*words, "--from", repr(at)])


def local_time(at: float) -> str:
    """Return a time (given in seconds since 1970) as text in this machine's time zone."""
    moment = datetime.fromtimestamp(at).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S.%f%z}"
