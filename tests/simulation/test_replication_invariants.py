"""Each invariant of requests, logs and producers is violated with a mutant that breaks its rule, and holds without it.

`tests/simulation/schedules` has the schedules: a paragraph is a title and the lines of a schedule.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.simulation.run import run
from actors.simulation.schedule import parse
from tests.simulation.mutants.catalogue import BY_NAME
from tests.simulation.patches import Change

DELETES = Change("actors.core.controller.shutdown:controlled_shutdown", "delete=False", "delete=True")
MUTANTS = {**BY_NAME, "controlled shutdown deletes the followers' logs": DELETES}


def schedules(name: str) -> dict[str, str]:
    """Return the schedules of a file by their titles."""
    text = (Path(__file__).parent / "schedules" / f"{name}.txt").read_text(encoding="utf-8")
    paragraphs = (each.partition("\n") for each in text.split("\n\n") if not each.startswith("#"))
    return {title: lines for title, _, lines in paragraphs}


VIOLATIONS = schedules("violations")


@pytest.mark.parametrize("title", VIOLATIONS)
def test_an_invariant_is_violated_with_its_bug_only(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, invariant = title.split(" | ")
    schedule = parse(f"brokers 3\nduration 34\nsteady yes\n{VIOLATIONS[title]}")
    without = run(schedule)
    assert without.violation is None, without.violation
    MUTANTS[name].apply(monkeypatch)
    violation = run(schedule, only=(invariant,)).violation
    assert violation is not None and violation.invariant == invariant, violation


@pytest.mark.parametrize("lines", [pytest.param(lines, id=title) for title, lines in schedules("legal").items()])
def test_an_invariant_allows_what_kafka_does_too(lines: str) -> None:
    assert run(parse(lines)).violation is None


@pytest.mark.parametrize("lines", [pytest.param(lines, id=title) for title, lines in schedules("mended").items()])
def test_a_mended_fault_stays_mended(lines: str) -> None:
    assert run(parse(lines)).violation is None
