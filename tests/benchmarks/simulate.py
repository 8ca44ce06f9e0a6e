"""Measure a simulation of fifty brokers with a thousand partitions, for ten thousand virtual seconds with faults.

An administrative action or a fault happens every 50, 100 or 200 seconds on average; the seed selects the interval.
After each thousand seconds, the faults end and the cluster must become idle in its expected state. All invariants are
checked, but actors do not validate their own state after each event (`validated`). If an invariant is violated, the run
prints the violation and exits with code 1.

    python -m tests.benchmarks.simulate [--seed N]
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

SECONDS = 10_000.0


def main() -> None:
    """Run the simulation, and print the row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=7)
    seed = parser.parse_args().seed
    schedule = invent(
        seed, BROKERS, TOPICS, MOST_PARTITIONS, 3, SECONDS, FAULTS, validated=False, every=100.0, rests=1000.0
    )
    started = time.process_time()
    outcome = run(schedule)
    cpu = time.process_time() - started
    if outcome.violation is not None:
        sys.exit(f"seed {seed}: {outcome.violation}")
    report("simulate", "fifty_brokers_10000_s", cpu, 60.0, "limit", "s of CPU", less_is_better=True)


if __name__ == "__main__":
    main()
