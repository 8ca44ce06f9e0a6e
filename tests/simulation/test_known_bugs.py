"""Kafka's incidents on paper: with the old bug put in they go wrong as told, without it they do not."""

from __future__ import annotations

import pytest

from actors.simulation.run import run
from tests.simulation.known_bugs import INCIDENTS, Incident, scenario, seeds_until_met


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.name)
def test_an_incident_happens_with_its_bug_and_not_without(incident: Incident, monkeypatch: pytest.MonkeyPatch) -> None:
    without = run(scenario(incident))
    assert without.violation is None, without.violation
    incident.put(monkeypatch)
    broken = run(scenario(incident)).violation
    assert broken is not None and broken.invariant == incident.breaks, broken


@pytest.mark.parametrize("incident", [each for each in INCIDENTS if each.seeds <= 3], ids=lambda each: each.name)
def test_what_shows_soon_is_met_by_one_of_the_first_seeds(incident: Incident) -> None:
    """How many seeds it takes changes with whatever changes a run; `python -m tests.simulation.known_bugs` counts
    all."""
    assert seeds_until_met(incident, 20) is not None
