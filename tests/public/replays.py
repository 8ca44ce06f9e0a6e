"""What clusters for tests record must replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.node.node import NodeActor
from actors.public import KafkaCluster
from actors.runtime.trace.replayer import replay_directory


def check_replay(trace_dir: Path) -> None:
    """Replay all runs; fail at a divergence or a damaged trace."""
    replayed = replay_directory(trace_dir, (NodeActor,))
    assert [run.divergence or run.problem for run in replayed.runs if not run.ok] == []


@contextmanager
def replayed(cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """Run the cluster, and replay what it has recorded."""
    cluster.start()
    cluster.keep = True
    yield cluster
    cluster.stop()
    check_replay(cluster.trace_dir)
