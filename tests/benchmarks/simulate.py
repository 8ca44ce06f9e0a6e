"""Measure a simulation of fifty brokers with a thousand partitions, for ten thousand virtual seconds with faults.

An administrative action or a fault happens every 50, 100 or 200 seconds on average; the seed selects the interval.
After each thousand seconds, the faults end and the cluster must become idle in its expected state. All invariants are
checked, but actors do not validate their own state after each event (`validated`). If an invariant is violated, the run
prints the violation and exits with code 1.

With `--brokers N,...`, clusters of N brokers with 20 partitions for each broker are simulated for a thousand seconds
with the default settings, and the row is their CPU. There is no limit.

    python -m tests.benchmarks.simulate [--seed N] [--brokers 1,3,10,30,100]
"""

from __future__ import annotations

import argparse
import sys
import time

from actors.simulation.actions import FAULTS, invent
from actors.simulation.run import run
from tests.benchmarks.report import report

BROKERS, TOPICS, MOST_PARTITIONS = 50, 200, 19
"""Half of the topics exist at the beginning, with ten partitions on average."""

SECONDS, SHORT_SECONDS = 10_000.0, 1_000.0


def main() -> None:
    """Run the simulation, and print the row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--brokers", help="numbers of brokers")
    options = parser.parse_args()
    for brokers in map(int, options.brokers.split(",") if options.brokers else ()):
        cpu = measure(options.seed, brokers, SHORT_SECONDS, swarm=False)
        report("simulate", f"brokers_{brokers}", cpu, cpu, "itself", "s of CPU", less_is_better=True)
    if not options.brokers:
        cpu = measure(options.seed, BROKERS, SECONDS, swarm=True)
        report("simulate", "fifty_brokers_10000_s", cpu, 60.0, "limit", "s of CPU", less_is_better=True)


def measure(seed: int, brokers: int, seconds: float, swarm: bool) -> float:
    """Simulate a cluster, and return the CPU seconds. Exit if an invariant is violated."""
    topics, replicas = brokers * TOPICS // BROKERS, min(brokers, 3)
    settings = {"validated": False, "every": 100.0, "rests": 1000.0, "swarm": swarm}
    schedule = invent(seed, brokers, topics, MOST_PARTITIONS, replicas, seconds, FAULTS, **settings)  # type: ignore[arg-type]
    started = time.process_time()
    outcome = run(schedule)
    if outcome.violation is not None:
        sys.exit(f"seed {seed}: {outcome.violation}")
    return time.process_time() - started


if __name__ == "__main__":
    main()
