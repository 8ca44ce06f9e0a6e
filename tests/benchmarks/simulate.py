"""A simulation: fifty brokers with a thousand partitions, ten thousand virtual seconds with faults, on one core.

Every hundred seconds, on the average, operators do something or something goes wrong, and every thousand seconds the
cluster is left alone until it is as it should be. All invariants are looked at; that every actor looks at its own state
after each event as well (`validated`) is left to small clusters. A run that breaks an invariant measures nothing: it
ends with its violation, and exit code 1.

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
"""At the beginning there are half of the topics, of ten partitions each on the average."""

SECONDS = 10_000.0


def main() -> None:
    """Print the row."""
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
