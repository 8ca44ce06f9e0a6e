"""Kafka's exactly-once programs on three nodes, with a few kills; `make soak` runs more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.exactly_once import SETTINGS, copy_under_kills, count_under_kills
from tests.cluster.three import Three

KINDS = {"ours": (), "ours and one of Apache's": (2,), "one of ours": (0, 1)}
"""Description of the three nodes -> ids of those that are Apache's."""


@pytest.mark.parametrize("apaches", KINDS.values(), ids=KINDS)
def test_a_copier_copies_exactly_once_under_kills(apaches: tuple[int, ...], tmp_path: Path, apache_jars: Path) -> None:
    with Three.running(tmp_path, dict.fromkeys(apaches, apache_jars), **SETTINGS) as cluster:
        killed = copy_under_kills(cluster, apache_jars, kills=3, records=600)
    assert killed == {"coordinator": 1, "leader": 1, "copier": 1}


def test_streams_counts_words_exactly_once_under_kills(tmp_path: Path, apache_jars: Path, streams_jars: Path) -> None:
    with Three.running(tmp_path, **SETTINGS) as cluster:
        count_under_kills(cluster, apache_jars, streams_jars, kills=2, lines=100, seed=7)
