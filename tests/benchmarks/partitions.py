"""Make one broker the leader of 100,000 partitions by one LeaderAndIsr, and compare with the design's limits.

The time to open the logs (one directory per partition, on tmpfs) is a separate row. The garbage collector has a node's
thresholds. No follower fetches, so the time after which the ISR shrinks is longer than the measurement.

`--partitions N` sets the number of partitions (100,000); the limits grow with it.
"""

from __future__ import annotations

import argparse
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
HOUR_MS = 3_600_000
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
    parser = argparse.ArgumentParser(prog="tests.benchmarks.partitions")
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    count = parser.parse_args().partitions
    here = Path(tempfile.mkdtemp(prefix="partitions-", dir=TMPFS if TMPFS.is_dir() else None))
    logs = TimedLogs(TimeAdapter().wall_ms)
    try:
        broker = Broker(here / "data", clock=RealClock(), validate_state=False, replica_lag_time_max_ms=HOUR_MS)
        broker.base.ports["logs"] = logs
        broker.run()
        process.tame()
        made = lead_all(broker, count, epoch=0)
        announced = lead_all(broker, count, epoch=1)
        megabytes = psutil.Process().memory_info().rss / 1e6
        assert broker.gauges["leadercount"] == count
        size, seconds, most = f"{count // 1000}k", *(x * count / PARTITIONS for x in (LIMIT_SECONDS, LIMIT_MEGABYTES))
        against_limit(f"make_leaders_{size}", made - logs.seconds, seconds, "s")
        against_limit(f"open_logs_{size}", logs.seconds, seconds, "s")
        against_limit(f"announce_leaders_{size}", announced, seconds, "s")
        against_limit(f"resident_{size}", megabytes, most, "MB")
    finally:
        shutil.rmtree(here)


def against_limit(case: str, ours: float, limit: float, unit: str) -> None:
    """Print one row. The peer is the design's limit, because Apache has no actors for partitions."""
    report("partitions", case, ours, limit, "limit", unit, less_is_better=True)


def lead_all(broker: Broker, count: int, epoch: int) -> float:
    """Send a LeaderAndIsr for all partitions; return the seconds until its response."""
    orders = [
        order(
            f"t{number // PER_TOPIC}", number % PER_TOPIC, epoch=epoch, isr=(0, 1, 2), replicas=(0, 1, 2), is_new=True
        )
        for number in range(count)
    ]
    begun = time.perf_counter()
    answer = broker.lead(*orders)
    seconds = time.perf_counter() - begun
    assert {error.error_code for error in answer.partition_errors} == {NONE}
    return seconds


if __name__ == "__main__":
    main()
