"""Measure how long partitions have no live leader after the controller of a cluster of three nodes is killed.

The limit is the session timeout, one tick to which ZooKeeper rounds it up, and two seconds.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from pathlib import Path

from kazoo.client import KazooClient

from tests.benchmarks.report import report
from tests.cluster.processes import run_ours, start_up
from tests.waiting import until

SESSION_TIMEOUT, TICK, GRACE = 6.0, 0.5, 2.0
PARTITIONS = 30


def leaders(zk: KazooClient) -> list[int]:
    """Return the leader of each partition."""
    top = "/brokers/topics/t/partitions"
    return [json.loads(zk.get(f"{top}/{number}/state")[0])["leader"] for number in range(PARTITIONS)]


def measure(place: Path) -> float:
    """Return the seconds from `kill -9` of the controller until live nodes lead all partitions."""
    cluster, line = start_up(place / "cluster", place / "up.log", "--port", "0")
    zk = KazooClient(line["zookeeper"])
    try:
        zk.start(20)
        shape = ("--topic", "t", "--partitions", str(PARTITIONS), "--replication-factor", "3")
        made = run_ours("topics", "--zookeeper", line["zookeeper"], "--create", *shape)
        if made.returncode:
            raise RuntimeError(made.stderr)
        until(lambda: -1 not in leaders(zk), what="first leaders", ignore=(Exception,))
        dead = json.loads(zk.get("/controller")[0])["brokerid"]
        started = time.monotonic()
        os.kill(next(node["pid"] for node in line["brokers"] if node["id"] == dead), signal.SIGKILL)
        until(lambda: not {dead, -1} & set(leaders(zk)), what="new leaders", timeout=60)
        return time.monotonic() - started
    finally:
        zk.stop()
        zk.close()
        cluster.stop()


def main() -> None:
    """Measure once, and print the row."""
    with tempfile.TemporaryDirectory(prefix="kafka-actors-failover-") as place:
        taken = measure(Path(place))
    report("failover", "controller_killed", taken, SESSION_TIMEOUT + TICK + GRACE, "limit", "s", less_is_better=True)


if __name__ == "__main__":
    main()
