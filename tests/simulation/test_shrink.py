"""Seeds find a broken election rule, and the shrinker reduces the schedule to a few actions."""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.controller import elections
from actors.simulation.actions import invent
from actors.simulation.run import RunOutcome, run
from actors.simulation.schedule import Schedule
from actors.simulation.shrink import Shrinker


@pytest.mark.soak
@pytest.mark.long
def test_a_broken_election_rule_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The patched offline election takes any online replica, whether it is in the ISR or not."""

    def wrong(c: Any) -> Any:
        online = tuple(replica for replica in c.replicas if replica in c.online)
        return Choice(online[0], (online[0],), online) if online else None  # type: ignore[name-defined]  # noqa: F821

    monkeypatch.setattr(elections.offline, "__code__", wrong.__code__)
    outcomes = (run(invent(seed, duration=60.0, faults=("kill",), swarm=False)) for seed in range(20))
    broken = next(outcome for outcome in outcomes if outcome.violation is not None)
    assert broken.violation is not None and broken.violation.invariant == "no unclean election unless enabled"
    smallest = Shrinker(broken, run).shrink()
    assert smallest.violation is not None and smallest.violation.invariant == "no unclean election unless enabled"
    assert len(smallest.schedule.actions) <= 10, smallest.schedule.text()
    again = run(smallest.schedule)
    assert again.violation == smallest.violation


def test_a_run_without_a_violation_cannot_be_shrunk() -> None:
    with pytest.raises(ValueError, match="The run violates no invariant"):
        Shrinker(RunOutcome(Schedule(), None, 0.0, 0, 0), run)
