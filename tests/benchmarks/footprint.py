"""What three nodes take: to come up, to stay in memory after a load, and to do nothing; beside three Apache brokers.

Both kinds stand alone on the machine, one after the other, each on a ZooKeeper of its own that is up already. Ready is
who is registered. Memory is what is resident after a million records; idle is CPU with a thousand partitions of three
replicas each, whose followers poll.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.data_plane import APACHE, OURS, PRODUCE, Cluster, Load, apache_jars
from tests.benchmarks.report import report
from tests.waiting import until

NODES = 3
PARTITIONS = 1_000
IDLE_SECONDS = 20.0
MOST_IDLE = 0.01
"""Of a core, a node of ours."""


class Footprint(NamedTuple):
    """Seconds to be ready; MB of all nodes; CPU seconds a second of one node."""

    ready: float
    memory: float
    idle: float


def measure(kind: str, place: Path, jars: Path) -> Footprint:
    """Start, load, leave alone."""
    cluster = Cluster(kind, place, NODES, jars)
    try:
        load = Load(place)
        load.produce(cluster.bootstrap, cluster.topic(), PRODUCE["all_rf3_1mb"])
        memory = sum(_resident(node.process.pid) for node in cluster.nodes)
        cluster.topic(PARTITIONS)
        _pass(IDLE_SECONDS / 2)  # followers have begun, and what was written is behind them
        began, before = time.monotonic(), _cpu(cluster)
        _pass(IDLE_SECONDS)
        idle = (_cpu(cluster) - before) / (time.monotonic() - began) / NODES
        return Footprint(cluster.ready_after, memory / 1e6, idle)
    finally:
        cluster.stop()


def _pass(seconds: float) -> None:
    """Let time go by: what is measured is that nothing happens."""
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() >= end, what="time goes by", timeout=2 * seconds)


def _resident(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _cpu(cluster: Cluster) -> float:
    ticks = 0
    for node in cluster.nodes:
        fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure both once."""
    jars = apache_jars("footprint")
    if jars is None:
        return
    with tempfile.TemporaryDirectory(prefix="kafka-actors-footprint-") as place:
        ours, theirs = (measure(kind, Path(place, kind), jars) for kind in (OURS, APACHE))
    report("footprint", "ready", ours.ready, theirs.ready, APACHE, "s", less_is_better=True)
    report("footprint", "memory", ours.memory, theirs.memory, APACHE, "MB", less_is_better=True)
    report("footprint", "idle", ours.idle, theirs.idle, APACHE, "cores a node", less_is_better=True)
    report("footprint", "idle_bound", ours.idle, MOST_IDLE, "limit", "cores a node", less_is_better=True)


if __name__ == "__main__":
    main()
