"""Format explanations as lines of text and as JSON; both have the same content.

Rule 1: the first line is the verdict. The chain follows, and then each question with the lines of its answer.
Rule 2: a line ends with the time and the node of the delivery that proves it. With `pointers`, the options follow that
        make `kafka-actors replay DIR` stop at this delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from actors.trace.explanation import TraceExplanation, TraceLine

Clock = Callable[[float], str]
"""Returns a time in seconds since 1970 as text."""


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
