"""Kafka's exactly-once programs on three nodes, with many kills (`tests/cluster/exactly_once.py`)."""

from __future__ import annotations

import faulthandler
from pathlib import Path

import pytest

from tests.cluster.exactly_once import SETTINGS, copy_under_kills, count_under_kills
from tests.cluster.nodes import Nodes

pytestmark = [pytest.mark.soak, pytest.mark.long]
KILLS = 10
KINDS = {"ours": (), "ours and one of Apache's": (2,), "one of ours": (0, 1)}
"""Description of the three nodes -> ids of those that are Apache's."""


@pytest.mark.parametrize("apaches", KINDS.values(), ids=KINDS)
def test_a_copier_copies_exactly_once_under_many_kills(
    apaches: tuple[int, ...], tmp_path: Path, apache_jars: Path
) -> None:
    faulthandler.cancel_dump_traceback_later()
    with Nodes.running(tmp_path, dict.fromkeys(apaches, apache_jars), **SETTINGS) as cluster:
        print(dict(copy_under_kills(cluster, apache_jars, KILLS, records=2400)))


@pytest.mark.parametrize("apaches", KINDS.values(), ids=KINDS)
def test_streams_counts_words_exactly_once_under_many_kills(
    apaches: tuple[int, ...], tmp_path: Path, apache_jars: Path, streams_jars: Path, pytestconfig: pytest.Config
) -> None:
    faulthandler.cancel_dump_traceback_later()
    with Nodes.running(tmp_path, dict.fromkeys(apaches, apache_jars), **SETTINGS) as cluster:
        seed = pytestconfig.getoption("soak_seed")
        print(count_under_kills(cluster, apache_jars, streams_jars, KILLS, lines=300, seed=seed), "counts")
