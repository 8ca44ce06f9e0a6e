"""Writes the tables of docs/simulation.md from the actions and invariants of the code; `make docs` runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from actors.simulation.actions import KINDS
from actors.simulation.invariants import INVARIANTS
from tests.simulation.known_bugs import INCIDENTS

FILE = Path(__file__).resolve().parents[2] / "docs" / "simulation.md"

WHEN = {
    "StateWritten": "a partition's state is written",
    "EpochWritten": "the epoch is written",
    "Ordered": "a controller's request is sent",
    "ControllerDeleted": "/controller is deleted",
    "Handled": "a controller has dealt with it",
    "Failed": "a handler fails",
    "Marked": "a high watermark moves",
    "Moved": "a controller moves partitions or replicas",
    "Dealt": "a member of a group is told its part",
    "Rested": "the cluster was left alone",
    "Answered": "the cluster was left alone, and asked",
}


def document() -> str:
    """The whole file, with the tables as the code has them now."""
    text = FILE.read_text(encoding="utf-8")
    for title, rows in (
        ("Actions", _actions()),
        ("The invariants", _invariants()),
        ("Known bugs", _known_bugs()),
    ):
        table = "\n".join(rows)
        text = re.sub(rf"(?ms)^## {title}\n.*?(?=^## )", lambda _, t=title, b=table: f"## {t}\n\n{b}\n\n", text)  # type: ignore[misc]
    return text


def _actions() -> Iterator[str]:
    yield "| action | part | weight | lasts (s) | what is done |"
    yield "| --- | --- | --- | --- | --- |"
    for kind in KINDS:
        lasts = "" if kind.undo is None else f"{kind.seconds[0]:g} to {kind.seconds[1]:g}"
        said = " ".join((kind.do.__doc__ or "").split())
        yield f"| {kind.name} | {kind.part} | {kind.weight} | {lasts} | {said} |"


def _invariants() -> Iterator[str]:
    yield "| invariant | the rule it stands for | looked at when |"
    yield "| --- | --- | --- |"
    for row in INVARIANTS:
        yield f"| {row.name} | {row.rule} | {WHEN[row.on.__name__]} |"


def _known_bugs() -> Iterator[str]:
    yield "| incident | told in | the bug, as it is put in | what breaks | met after seeds |"
    yield "| --- | --- | --- | --- | --- |"
    for incident in INCIDENTS:
        bug = " ".join((incident.put.__doc__ or "").split())
        yield f"| {incident.name} | {incident.jira} | {bug} | {incident.breaks} | {incident.seeds} |"
    yield ""
    yield "`what breaks` is seen in the incident's scenario; how many seeds it takes is counted by `python -m"
    yield "tests.simulation.known_bugs`, and changes with whatever changes a run."


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
