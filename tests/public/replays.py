"""Replay the traces of clusters for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.node.node import NodeActor
from actors.public import KafkaCluster
from actors.runtime.trace.replayer import replay_directory


def check_replay(trace_dir: Path) -> None:
    """Replay all runs, and fail if one diverges or its trace is damaged."""
    replayed = replay_directory(trace_dir, (NodeActor,))
    assert [run.divergence or run.problem for run in replayed.runs if not run.ok] == []


@contextmanager
def replayed(cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """Run the cluster while the context is open, then stop it and replay its traces."""
    cluster.start()
    cluster.keep = True
    yield cluster
    cluster.stop()
    check_replay(cluster.trace_dir)
