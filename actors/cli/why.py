"""`kafka-actors why`: explain from a trace how a partition, topic, broker or other subject came to its state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from actors.cli.app import CommandFailed
from actors.cli.display import printable
from actors.cli.usage_errors import wrong_use
from actors.explain import cluster_history, transaction_history
from actors.explain.explanations import QUESTIONS as OF_ONE
from actors.explain.explanations import Sentence
from actors.explain.fact_gathering import gather
from messages.cluster import TopicPartition
from messages.trace.errors import TraceError
from messages.trace.files.runs import find_runs
from messages.trace.schema import FULL


class Subject(NamedTuple):
    """A kind of object that `kafka-actors why` explains, such as a partition, and how its name is written."""

    form: str
    read: Callable[[str], object]


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    if not topic:
        raise ValueError(text)
    return TopicPartition(topic, int(number))


SUBJECTS = {
    "partition": Subject("TOPIC-NUMBER", _partition),
    "topic": Subject("TOPIC", str),
    "broker": Subject("ID", int),
    "transaction": Subject("TRANSACTIONAL-ID", str),
}


QUESTIONS = {**OF_ONE, "transaction": transaction_history.QUESTIONS, "cluster": cluster_history.QUESTIONS}
"""Kind of subject -> its questions, and the functions that answer them."""


@click.command("why", epilog="Exit codes: 0 success, 1 a missing or damaged trace, 2 usage error.")
@click.argument("about", metavar="|".join(QUESTIONS), type=click.Choice([*QUESTIONS]))
@click.argument("name", required=False)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path), required=False)
def command(about: str, name: str | None, directory: Path | None) -> int:
    """Explain the state of a partition, broker, transaction or another subject from the traces below DIR.

    `partition T-P`: leader, ISR, reassignment. `topic T`: a pending deletion or creation. `broker N`: why it counts as
    dead. `controller`: terms and elections. `transaction ID`: its state, and why it was aborted or fenced. `cluster`:
    what happened, in order. The cluster may still be running.

    Each line of the output ends with --run RUN --until DELIVERY. Pass these options to `kafka-actors replay DIR` to
    stop at that delivery; add --state to print an actor's state.
    """
    if about not in SUBJECTS and directory is None and name is not None:
        directory, name = Path(name), None
    if directory is None or (name is None) != (about not in SUBJECTS):
        form = SUBJECTS[about].form + " " if about in SUBJECTS else ""
        raise wrong_use(f"expected: why {about} {form}DIR")
    if not directory.exists():
        raise wrong_use(f"{directory} does not exist")
    subject = _read(about, name)
    try:
        found = find_runs(directory)
        if not found.runs:
            raise CommandFailed(f"{directory} contains no recorded run")
        for run in found.runs:
            if run.header.detail != FULL:
                raise CommandFailed(
                    f"run {run.header.run} has no payloads (trace.detail={run.header.detail}): "
                    "restore them with `kafka-actors trace expand`"
                )
        facts = gather(found.runs, subject if about == "partition" else None)
    except TraceError as error:
        raise CommandFailed(str(error)) from error
    for question, answer in QUESTIONS[about]:
        lines = answer(facts, subject)
        if lines:
            click.echo(question)
            for line in lines:
                click.echo(printable(f"  {_line_text(line)}"))
    return 0


def _read(about: str, name: str | None) -> Any:
    """Return the subject with this name; raise click.UsageError for an invalid name."""
    if name is None:
        return None
    form, read = SUBJECTS[about]
    try:
        return read(name)
    except ValueError:
        raise wrong_use(f"'{name}' is no {about}: it should be {form}") from None


def _line_text(line: Sentence) -> str:
    if line.place is None:
        return line.text
    at, node, run, n, _ = line.place
    return (
        f"{line.text} [{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S.%f}Z, node {node}, --run {run} --until {n}]"
    )
