"""Measure the start of a test cluster with three brokers, and a hundred tests with one cluster each.

Our sources are compiled before, as pip does.
"""

from __future__ import annotations

import compileall
from pathlib import Path

from actors.public import KafkaCluster
from tests.benchmarks.report import report, seconds

HUNDRED = 100
ROOT = Path(__file__).resolve().parents[2]


def _once() -> None:
    with KafkaCluster() as cluster:
        cluster.create_topic("t", partitions=3)


def main() -> None:
    """Measure, and print the rows."""
    for folder in ("actors", "messages", "zk_bridge"):
        compileall.compile_dir(ROOT / folder, quiet=1)
    for case in ("ready_cold", "ready_warm"):
        cluster = KafkaCluster()
        report("fixture", case, seconds(cluster.start), 1.0, "limit", "s", less_is_better=True)
        cluster.stop()
    hundred = seconds(lambda: [_once() for _ in range(HUNDRED)])
    report("fixture", "hundred", hundred, 60.0, "limit", "s", less_is_better=True)


if __name__ == "__main__":
    main()
