"""Every scenario on every kind of cluster, and in a simulation that loses the controller at many moments.

The kinds are: ours only, Apache's only, Apache's brokers under our controller, and ours under Apache's. `make soak`
runs these tests. With `--rewrite-scenarios`, Apache's cluster rewrites the expected results in the scenario files.
Review their diff, because all other kinds are compared with these results.
"""

from __future__ import annotations

import faulthandler
from pathlib import Path

import pytest

from tests.agreement.processes import KINDS, ClusterPool
from tests.agreement.scenario import INTERRUPTED, SCENARIOS, Disagreement, Play, Scenario, write
from tests.agreement.simulated import check_simulated

pytestmark = [pytest.mark.soak, pytest.mark.long]

MOMENTS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Times in seconds after each line of a scenario at which the controller is lost."""


@pytest.mark.parametrize("scenario", INTERRUPTED, ids=lambda each: each.name)
def test_the_next_controller_continues_after_every_loss(scenario: Scenario, tmp_path: Path) -> None:
    for moment in MOMENTS:
        check_simulated(scenario, tmp_path / f"{moment}", moment)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_does_what_apache_did(
    kind: str, tmp_path: Path, apache_jars: Path, pytestconfig: pytest.Config
) -> None:
    rewriting = pytestconfig.getoption("rewrite_scenarios")
    if rewriting and kind != "apache":
        pytest.skip("Apache alone writes the scenarios")
    faulthandler.cancel_dump_traceback_later()  # the limit for other tests does not apply; each wait has a deadline
    pool = ClusterPool(tmp_path, apache_jars)
    otherwise = []
    try:
        for scenario in SCENARIOS:
            try:
                with pool.on(kind, scenario.settings) as cluster:
                    play = Play(cluster, scenario)
                    if rewriting:
                        write(scenario, play.record())
                    else:
                        play.check()
            except Disagreement as found:
                otherwise.append(str(found))
    finally:
        pool.end()
    assert not otherwise, "\n\n".join(otherwise)
