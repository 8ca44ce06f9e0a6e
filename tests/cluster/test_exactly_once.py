"""Kafka's exactly-once programs on three nodes, with a few kills; `make soak` runs more, on nodes of other kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.exactly_once import SETTINGS, copy_under_kills, count_under_kills
from tests.cluster.nodes import Nodes


@pytest.mark.soak
@pytest.mark.long
def test_a_copier_copies_exactly_once_under_kills(tmp_path: Path, apache_jars: Path) -> None:
    with Nodes.running(tmp_path, {2: apache_jars}, **SETTINGS) as cluster:
        killed = copy_under_kills(cluster, apache_jars, kills=3, records=600)
    assert killed == {"coordinator": 1, "leader": 1, "copier": 1}


def test_streams_counts_words_exactly_once_under_kills(tmp_path: Path, apache_jars: Path, streams_jars: Path) -> None:
    with Nodes.running(tmp_path, **SETTINGS) as cluster:
        count_under_kills(cluster, apache_jars, streams_jars, kills=2, lines=100, seed=7)
