"""Under any faults, each acknowledged record exists once, in order, in the logs of all replicas.

`make soak` runs 20 rounds of faults with three nodes of ours, and 20 with two of ours and one of Apache's.
`make interop` runs three of the latter.
"""

from __future__ import annotations

import faulthandler
import random
from pathlib import Path

import pytest

from tests.cluster.processes import run_ours
from tests.soak.trio import Trio, inject_faults
from zk_bridge.embedded import EmbeddedZooKeeper

ROUNDS_IN_TEN_MINUTES = 20
FEWEST = 3


@pytest.mark.soak
@pytest.mark.parametrize(
    "apaches",
    [
        pytest.param((), id="ours", marks=pytest.mark.long),
        pytest.param((2,), id="mixed", marks=pytest.mark.apache),
    ],
)
def test_what_was_acknowledged_is_there_once_in_order_and_everywhere(
    apaches: tuple[int, ...], tmp_path: Path, request: pytest.FixtureRequest, pytestconfig: pytest.Config
) -> None:
    apache = {node: request.getfixturevalue("apache_jars") for node in apaches}
    seed, seconds = pytestconfig.getoption("soak_seed"), pytestconfig.getoption("soak_seconds")
    print(f"--soak-seed {seed}", flush=True)
    faulthandler.cancel_dump_traceback_later()  # the limit for other tests does not apply; each wait has a deadline
    rounds = max(FEWEST, round(ROUNDS_IN_TEN_MINUTES * min(1.0, seconds / 600)))
    with EmbeddedZooKeeper(tmp_path / "zookeeper", force_sync=False) as server:
        with Trio.loaded(tmp_path / "cluster", server.connect_string, apache, random.Random(seed)) as trio:
            inject_faults(trio, rounds)
            trio.check()
            for node, running in trio.nodes.items():
                assert node in apache or "Traceback" not in running.output
    if rounds == FEWEST:
        return  # test_soak replays a trace of similar length
    replayed = run_ours("replay", str(tmp_path / "cluster"))
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert ", 0 divergences" in replayed.stdout
