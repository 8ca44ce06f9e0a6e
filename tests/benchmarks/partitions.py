"""Make one broker the leader of 100,000 partitions by one LeaderAndIsr, and compare with the design's limits.

The time to open the logs (one directory per partition, on tmpfs) is a separate row. The garbage collector has a node's
thresholds.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import psutil

from actors.node import process
from actors.node.adapters import TimeAdapter
from actors.runtime import RealClock
from actors.storage.log_manager import LogManager
from messages.errors import NONE
from tests.benchmarks.report import report
from tests.broker.harness import Broker, order

PARTITIONS = 100_000
PER_TOPIC = 100
LIMIT_SECONDS = 10.0
LIMIT_MEGABYTES = 600.0
TMPFS = Path("/dev/shm")


class TimedLogs(LogManager):
    """A log manager that sums the seconds in which it opens logs."""

    seconds = 0.0

    def open(self, path: str, is_new: bool, config: tuple[int, ...]) -> tuple[int, int, int, int]:
        begun = time.perf_counter()
        try:
            return super().open(path, is_new, config)
        finally:
            self.seconds += time.perf_counter() - begun


def main() -> None:
    """Send a LeaderAndIsr that creates the partitions, then one with a new leader epoch, and print the rows."""
    here = Path(tempfile.mkdtemp(prefix="partitions-", dir=TMPFS if TMPFS.is_dir() else None))
    logs = TimedLogs(TimeAdapter().wall_ms)
    try:
        broker = Broker(here / "data", clock=RealClock(), validate_state=False)
        broker.base.ports["logs"] = logs
        broker.run()
        process.tame()
        made = lead_all(broker, epoch=0)
        announced = lead_all(broker, epoch=1)
        megabytes = psutil.Process().memory_info().rss / 1e6
        assert broker.gauges["leadercount"] == PARTITIONS
        against_limit("make_leaders_100k", made - logs.seconds, LIMIT_SECONDS, "s")
        against_limit("open_logs_100k", logs.seconds, LIMIT_SECONDS, "s")
        against_limit("announce_leaders_100k", announced, LIMIT_SECONDS, "s")
        against_limit("resident_100k", megabytes, LIMIT_MEGABYTES, "MB")
    finally:
        shutil.rmtree(here)


def against_limit(case: str, ours: float, limit: float, unit: str) -> None:
    """Print one row. The peer is the design's limit, because Apache has no actors for partitions."""
    report("partitions", case, ours, limit, "limit", unit, less_is_better=True)


def lead_all(broker: Broker, epoch: int) -> float:
    """Send a LeaderAndIsr for all partitions; return the seconds until its response."""
    orders = [
        order(
            f"t{number // PER_TOPIC}", number % PER_TOPIC, epoch=epoch, isr=(0, 1, 2), replicas=(0, 1, 2), is_new=True
        )
        for number in range(PARTITIONS)
    ]
    begun = time.perf_counter()
    answer = broker.lead(*orders)
    seconds = time.perf_counter() - begun
    assert {error.error_code for error in answer.partition_errors} == {NONE}
    return seconds


if __name__ == "__main__":
    main()
