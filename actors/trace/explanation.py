"""The facts and the explanations of `actors.explain`, as `kafka_actors.trace` returns them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from actors.explain import cluster_history, transaction_history
from actors.explain.explanations import QUESTIONS as OF_ONE
from actors.explain.fact_gathering import TraceFacts, gather
from messages.cluster import TopicPartition
from messages.facts.declarations import ControllerEvent, TracePosition
from messages.trace.errors import TraceError
from messages.trace.files.runs import Run
from messages.trace.schema import FULL

QUESTIONS = {**OF_ONE, "transaction": transaction_history.QUESTIONS, "cluster": cluster_history.QUESTIONS}
"""The questions about each kind of subject, with the functions that answer them."""

UNNAMED = ("controller", "cluster")
"""The subjects that need no name."""


class TraceFact(NamedTuple):
    """Something that happened, and the delivery that shows it.

    `at` is in seconds since 1970, `kind` the class of the fact, `fields` its values by name.
    """

    at: float
    node: int
    run: str
    seq: int
    kind: str
    fields: dict[str, Any]

    @property
    def time(self) -> datetime:
        """The time of the fact."""
        return datetime.fromtimestamp(self.at, UTC)

    @property
    def text(self) -> str:
        """The fact in one line."""
        return " ".join([self.kind, *(f"{name}={value}" for name, value in self.fields.items())])


class TraceLine(NamedTuple):
    """One sentence of the output of `why`, and the recorded delivery that proves it.

    `at`, `node`, `run` and `seq` are None for a sentence about missing parts of the trace.
    """

    text: str
    at: float | None = None
    node: int | None = None
    run: str | None = None
    seq: int | None = None


class TraceAnswer(NamedTuple):
    """A question and the lines that answer it."""

    question: str
    lines: tuple[TraceLine, ...]


def facts_of(runs: Sequence[Run]) -> Iterator[TraceFact]:
    """Yield the facts of these runs in the order of time.

    Raises:
        TraceError: A run is damaged.
    """
    need_payloads(runs)
    facts: TraceFacts = gather(runs)
    found = [_fact(each) for field in dataclasses.fields(facts) for each in getattr(facts, field.name)]
    found.sort(key=lambda fact: (fact.at, fact.node, fact.seq))
    return iter(found)


def answers_about(runs: Sequence[Run], about: str, name: str | int | None) -> list[TraceAnswer]:
    """Return the answers about a subject.

    Raises:
        ValueError: The subject is malformed.
        TraceError: A run is damaged.
    """
    if about not in QUESTIONS:
        raise ValueError(f"{about!r} is not one of {', '.join(QUESTIONS)}")
    if (name is None) != (about in UNNAMED):
        raise ValueError(f"{about} needs a name" if name is None else f"{about} has no name")
    subject = _subject(about, name)
    need_payloads(runs)
    facts = gather(runs, subject if isinstance(subject, TopicPartition) else None)
    answers = []
    for question, answer in QUESTIONS[about]:
        lines = answer(facts, subject)
        if lines:
            answers.append(
                TraceAnswer(question, tuple(TraceLine(line.text, *(line.place or ())[:4]) for line in lines))
            )
    return answers


def need_payloads(runs: Sequence[Run]) -> None:
    """Check that the traces have the contents of messages.

    Raises:
        TraceError: A run's trace omits them.
    """
    for run in runs:
        if run.header.detail != FULL:
            raise TraceError(
                f"run {run.header.run} has no payloads (trace.detail={run.header.detail}): "
                "restore them with `kafka-actors trace expand`"
            )


def _subject(about: str, name: str | int | None) -> Any:
    if about == "partition":
        topic, _, number = str(name).rpartition("-")
        if not topic or not number.isdigit():
            raise ValueError(f"{name!r} is not a partition such as orders-0")
        return TopicPartition(topic, int(number))
    if about == "broker":
        if not str(name).isdigit():
            raise ValueError(f"{name!r} is not the id of a broker")
        return int(str(name))
    return name


def _fact(fact: Any) -> TraceFact:
    place: TracePosition = fact[0]
    fields = {name: _plain(value) for name, value in zip(fact._fields[1:], fact[1:], strict=True)}
    kept = {name: value for name, value in fields.items() if value not in (None, "", ())}
    return TraceFact(place.at, place.node, place.run, place.n, type(fact).__name__, kept)


def _plain(value: Any) -> Any:
    if isinstance(value, ControllerEvent):
        return value.name
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value
