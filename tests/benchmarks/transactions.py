"""Compare transactions with Apache Kafka 3.9.1: commits per second, and the cost of read_committed.

Rule 1: as in `data_plane`, the load generator is `load.c` on librdkafka. The peers are measured in turns, and a ratio
        is the median of the rounds' ratios.
Rule 2: in `commit_100`, one producer commits transactions of 100 records each; the peer is Apache. `read_committed`
        reads a log of committed transactions; the peer is the same log on the same broker, read with read_uncommitted.

Options: `--rounds N` (5), `--transactions N` per round (200), `--records N` in the log for `read_committed` (1 M).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from tests.benchmarks.data_plane import APACHE, OURS, Case, Cluster, Load, apache_jars
from tests.benchmarks.report import report

LARGE = 1000
"""Number of records in each transaction of the log for `read_committed`."""
LEVELS = ("read_committed", "read_uncommitted")
COMMIT_BOUND, READ_BOUND = 1.0, 0.97


def run(place: Path, jars: Path, rounds: int, transactions: int, records: int) -> None:
    """Run both cases on one node of each kind."""
    load = Load(place)
    clusters: dict[str, Cluster] = {}
    settings = {"transaction__state__log__replication__factor": 1, "transaction__state__log__min__isr": 1}
    try:
        for peer in (OURS, APACHE):
            clusters[peer] = Cluster(peer, place / peer, 1, jars, settings)
        logs = {peer: cluster.topic() for peer, cluster in clusters.items()}
        for peer, cluster in clusters.items():  # also warms Apache's JVM
            load.transact(cluster.bootstrap, logs[peer], records // LARGE - 1, LARGE)
        commits = [
            {
                peer: load.transact(cluster.bootstrap, cluster.topic(), transactions, 100)
                for peer, cluster in clusters.items()
            }
            for _ in range(rounds)
        ]
        tell("commit_100", commits, OURS, APACHE, "transactions/s", COMMIT_BOUND)
        for peer, cluster in clusters.items():
            case = Case(records, 100)
            reads = [
                {
                    level: load.consume(cluster.bootstrap, logs[peer], case, f"isolation.level={level}")["per_second"]
                    for level in LEVELS
                }
                for _ in range(rounds)
            ]
            tell(f"read_committed, {peer}", reads, *LEVELS, "records/s", READ_BOUND if peer == OURS else None)
    finally:
        for cluster in clusters.values():
            cluster.stop()


def tell(case: str, rounds: list[dict[str, float]], one: str, other: str, unit: str, bound: float | None) -> None:
    """Print a row with the medians, and the median of the rounds' ratios."""
    medians = [statistics.median(each[name] for each in rounds) for name in (one, other)]
    ratio = statistics.median(each[one] / each[other] for each in rounds)
    report("transactions", case, medians[0], medians[1], other, unit, ratio=ratio, bound=bound)


def main() -> None:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks.transactions")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transactions", type=int, default=200)
    parser.add_argument("--records", type=int, default=1_000_000)
    arguments = parser.parse_args()
    jars = apache_jars("transactions")
    if jars is None:
        return
    with tempfile.TemporaryDirectory(prefix="kafka-actors-transactions-") as place:
        run(Path(place), jars, arguments.rounds, arguments.transactions, arguments.records)


if __name__ == "__main__":
    main()
