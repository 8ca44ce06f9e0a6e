"""Writes the tables of docs/simulation.md from the actions and invariants of the code; `make docs` runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from actors.simulation.actions import KINDS
from actors.simulation.invariants import INVARIANTS
from tests.simulation.known_bugs import KNOWN_BUGS

FILE = Path(__file__).resolve().parents[2] / "docs" / "simulation.md"

WHEN = {
    "PartitionStateWritten": "a partition state is written",
    "ControllerEpochWritten": "/controller_epoch is written",
    "RequestSent": "a controller's request is sent",
    "ControllerDeleted": "/controller is deleted",
    "EventHandled": "the controller has handled the event",
    "HandlerFailed": "a message handler fails",
    "HighWatermarkMoved": "a high watermark moves",
    "StateChanged": "a controller changes states of partitions or replicas",
    "AssignmentReceived": "a group member receives its assignment",
    "ClusterAtRest": "the cluster is at rest",
    "ClusterQueried": "the cluster is at rest and has been queried",
}


def document() -> str:
    """Return the whole file with the tables generated from the code."""
    text = FILE.read_text(encoding="utf-8")
    for title, rows in (
        ("Actions", _actions()),
        ("Invariants", _invariants()),
        ("Known bugs", _known_bugs()),
    ):
        table = "\n".join(rows)
        text = re.sub(rf"(?ms)^## {title}\n.*?(?=^## )", lambda _, t=title, b=table: f"## {t}\n\n{b}\n\n", text)  # type: ignore[misc]
    return text


def _actions() -> Iterator[str]:
    yield "| action | group | weight | duration (s) | effect |"
    yield "| --- | --- | --- | --- | --- |"
    for kind in KINDS:
        lasts = "" if kind.undo is None else f"{kind.seconds[0]:g} to {kind.seconds[1]:g}"
        effect = " ".join((kind.do.__doc__ or "").split())
        yield f"| {kind.name} | {kind.part} | {kind.weight} | {lasts} | {effect} |"


def _invariants() -> Iterator[str]:
    yield "| invariant | rule | checked when |"
    yield "| --- | --- | --- |"
    for row in INVARIANTS:
        yield f"| {row.name} | {row.rule} | {WHEN[row.on.__name__]} |"


def _known_bugs() -> Iterator[str]:
    yield "| bug | source | the patched-in behaviour | violated invariant | seeds until found |"
    yield "| --- | --- | --- | --- | --- |"
    for bug in KNOWN_BUGS:
        patched = " ".join((bug.put.__doc__ or "").split())
        yield f"| {bug.name} | {bug.jira} | {patched} | {bug.breaks} | {bug.seeds} |"
    yield ""
    yield "The test runs each bug's own schedule and expects the violated invariant. `python -m"
    yield "tests.simulation.known_bugs` counts the seeds until random schedules find the bug; the number changes with"
    yield "the code."


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
