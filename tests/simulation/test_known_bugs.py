"""Each known bug's schedule violates the named invariant with the bug patched in, and no invariant without it."""

from __future__ import annotations

import pytest

from actors.simulation.run import run
from tests.simulation.known_bugs import KNOWN_BUGS, KnownBug, scenario, seeds_until_met


@pytest.mark.parametrize("bug", KNOWN_BUGS, ids=lambda bug: bug.name)
def test_the_schedule_violates_the_invariant_with_the_bug_only(bug: KnownBug, monkeypatch: pytest.MonkeyPatch) -> None:
    without = run(scenario(bug))
    assert without.violation is None, without.violation
    bug.put(monkeypatch)
    broken = run(scenario(bug)).violation
    assert broken is not None and broken.invariant == bug.breaks, broken


@pytest.mark.soak
@pytest.mark.long
@pytest.mark.parametrize("bug", [each for each in KNOWN_BUGS if each.seeds <= 3], ids=lambda each: each.name)
def test_random_schedules_find_the_frequent_bugs(bug: KnownBug) -> None:
    """The number of seeds changes with the code, so the limit of 20 leaves a margin.

    `python -m tests.simulation.known_bugs` counts the seeds for all bugs.
    """
    assert seeds_until_met(bug, 20) is not None
