"""The classes for facts, which `kafka_actors.trace` returns, and for explanations, which `why` returns.

Rule 1: of an explanation as text, the first line is the verdict. The chain follows, and then each question with the
        lines of its answer. The JSON form has the same content.
Rule 2: a line ends with the time and the node of the delivery that proves it. With `pointers`, the options follow that
        make `kafka-actors replay DIR` stop at this delivery.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from actors.explain.subjects import SUBJECTS, subject_of
from actors.explain.verdicts import Clock, verdict_of
from messages.facts.declarations import Fact, TracePosition, fields_of
from messages.facts.trace_facts import TraceFacts, gather
from messages.trace.errors import TraceError
from messages.trace.files.runs import Run, find_runs
from messages.trace.schema import FULL

MOST_SHOWN = 100
"""Maximum number of facts that a notebook shows."""


@contextmanager
def with_payloads(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Yield the runs with the contents of all messages; restored runs exist until the end of the `with` block.

    Raises:
        TraceError: A replay differs from its trace, or is impossible.
    """
    complete = [run for run in runs if run.header.detail == FULL]
    if len(complete) == len(runs):
        yield complete
        return
    with tempfile.TemporaryDirectory(prefix="kafka-actors-") as folder:
        for run in runs:
            if run.header.detail != FULL:
                _restore(run, Path(folder))
        restored = {run.header.run: run for run in (*complete, *find_runs(Path(folder)).runs)}
        yield [restored[run.header.run] for run in runs]


def _restore(run: Run, folder: Path) -> None:
    from actors.runtime.trace.expansion import expand  # takes 0.5 s, and few traces need it
    from actors.trace.moment import ACTORS

    result = expand(run, ACTORS, folder)
    if not result.ok:
        reason = result.problem or "the replayed run differs from the trace (see `kafka-actors replay`)"
        raise TraceError(
            f"run {run.header.run} was recorded without message contents (trace.detail={run.header.detail}),"
            f" and replaying it did not restore them: {reason}"
        )


class TraceFact(NamedTuple):
    """Something that happened, and the delivery that shows it.

    `at` is the time in seconds since 1970, `kind` is the class of the fact, and `fields` has the fact's values by name.
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
    """One sentence of the output of `kafka-actors why`, and the recorded delivery that proves it.

    `at`, `node`, `run` and `seq` are None for a sentence that no single delivery proves.
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


class TraceExplanation(NamedTuple):
    """The output of `kafka-actors why` about a partition, broker, group or other part of a cluster.

    Attributes:
        verdict: One sentence that says what is or was wrong, and why.
        chain: The causes, from the observed state back to the first cause; empty if nothing is wrong.
        answers: Further questions with their answers, such as "How did its ISR change, and why?".
    """

    verdict: str
    chain: tuple[TraceLine, ...]
    answers: tuple[TraceAnswer, ...]

    def _repr_html_(self) -> str:
        """Return the explanation as HTML, which notebooks show."""
        answers = (f"<p>{escape(question)}</p>{_html_list('ul', lines)}" for question, lines in self.answers)
        return f"<p><b>{escape(self.verdict)}</b></p>{_html_list('ol', self.chain)}{''.join(answers)}"


def _html_list(tag: str, lines: Sequence[TraceLine]) -> str:
    """Return lines as a list in HTML, each with the time and node of the delivery that proves it."""
    items = (
        escape(line.text) + (f" <small>{utc(line.at)}, node {line.node}</small>" if line.at is not None else "")
        for line in lines
    )
    return f"<{tag}>{''.join(f'<li>{item}</li>' for item in items)}</{tag}>" if lines else ""


class FactList(list[TraceFact]):
    """The facts of a trace in the order of time; a notebook shows the first MOST_SHOWN as a table."""

    def _repr_html_(self) -> str:
        shown = self[:MOST_SHOWN]
        rows = (
            (utc(each.at), each.node, each.kind, ", ".join(f"{k}={v}" for k, v in each.fields.items()))
            for each in shown
        )
        more = f"<p>{len(self) - len(shown)} more</p>" if len(shown) < len(self) else ""
        return html_table(("time", "node", "fact", "fields"), rows) + more


def html_table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table in HTML, whose cells are text."""
    lines = [f"<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"


def facts_of(runs: Sequence[Run]) -> FactList:
    """Return the facts of these runs in the order of time.

    Raises:
        TraceError: A run is damaged, or its omitted payloads cannot be restored.
    """
    with with_payloads(runs) as complete:
        found = FactList(_fact(each) for each in gather(complete).all())
    found.sort(key=lambda fact: (fact.at, fact.node, fact.seq))
    return found


def explain(
    runs: Sequence[Run],
    about: str,
    name: str | int | None,
    until: float = math.inf,
    clock: Clock | None = None,
) -> TraceExplanation:
    """Explain a subject.

    Args:
        runs: The runs of the trace.
        about: The kind of the subject, such as "topic".
        name: Its name; None for controller and cluster.
        until: Time of the last deliveries to read, in seconds since 1970.
        clock: Formats a time for the text of the verdict. None means that times are in UTC.

    Raises:
        ValueError: The subject is malformed.
        TraceError: A run is damaged, or its omitted payloads cannot be restored.
    """
    (explanation,) = explain_all(runs, ((about, name),), until, clock)
    return explanation


def explain_all(
    runs: Sequence[Run],
    subjects: Iterable[tuple[str, str | int | None]],
    until: float = math.inf,
    clock: Clock | None = None,
) -> list[TraceExplanation]:
    """Explain several subjects, each given by its kind and name, as `explain` does; the runs are read once."""
    named = [(about, subject_named(about, name)) for about, name in subjects]
    with with_payloads(runs) as complete:
        facts = gather(complete, until)
    return [explain_facts(facts, about, subject, clock or utc) for about, subject in named]


def subject_named(about: str, name: str | int | None) -> object:
    """Return the subject of a kind with this name. Raises ValueError if it is malformed."""
    if about not in SUBJECTS:
        raise ValueError(f"{about!r} cannot be explained; use one of {', '.join(SUBJECTS)}")
    if (name is None) != (not SUBJECTS[about].form):
        raise ValueError(
            f"why({about!r}) needs the name of the {about} as another argument"
            if name is None
            else f"why({about!r}) takes no name"
        )
    return None if name is None else subject_of(about, str(name))


def explain_facts(facts: TraceFacts, about: str, subject: object, clock: Clock) -> TraceExplanation:
    """Explain a subject from the facts of a trace."""
    verdict = verdict_of(facts, about, subject, clock)
    answers = []
    for question, answer in SUBJECTS[about].questions:
        lines = answer(facts, subject)
        if lines:
            answers.append(TraceAnswer(question, tuple(_line(*each) for each in lines)))
    return TraceExplanation(verdict.text, tuple(_line(*each) for each in verdict.steps), tuple(answers))


def _line(text: str, place: TracePosition | None) -> TraceLine:
    return TraceLine(text, *(place or ())[:4])


def explanation_lines(explanation: TraceExplanation, clock: Clock, pointers: bool) -> Iterator[str]:
    """Yield the lines of an explanation."""
    yield explanation.verdict
    for number, line in enumerate(explanation.chain):
        yield f"  {'because ' if number else ''}{line_text(line, clock, pointers)}"
    for question, lines in explanation.answers:
        yield question
        for line in lines:
            yield f"  {line_text(line, clock, pointers)}"


def line_text(line: TraceLine, clock: Clock, pointers: bool = False) -> str:
    """Return a line as text, with the time and the node of the delivery that proves it."""
    if line.at is None:
        return line.text
    pointer = f", --run {line.run} --until {line.seq}" if pointers else ""
    return f"{line.text} [{clock(line.at)}, node {line.node}{pointer}]"


def explanation_json(explanation: TraceExplanation, clock: Clock) -> dict[str, Any]:
    """Return an explanation as plain values."""
    return {
        "verdict": explanation.verdict,
        "chain": [_plain(line, clock) for line in explanation.chain],
        "answers": [
            {"question": question, "lines": [_plain(line, clock) for line in lines]}
            for question, lines in explanation.answers
        ],
    }


def _plain(line: TraceLine, clock: Clock) -> dict[str, Any]:
    text, at, node, run, delivery = line
    if at is None:
        return {"text": text}
    return {"text": text, "time": clock(at), "at": at, "node": node, "run": run, "delivery": delivery}


def utc(at: float) -> str:
    """Return a time in seconds since 1970 as text in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S.%f}Z"


def _fact(fact: Fact) -> TraceFact:
    place = fact.place
    return TraceFact(place.at, place.node, place.run, place.n, type(fact).__name__, fields_of(fact))
