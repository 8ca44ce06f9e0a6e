"""Compare producing and fetching with Apache Kafka 3.9.1 and librdkafka's mock broker.

Rule 1: the load generator is a C program on librdkafka (`load.c`), because a Python program cannot load a broker
        enough. It needs cc and librdkafka's headers. Two cases also measure the mock broker, the generator's maximum.
Rule 2: the peers are measured in turns, and a ratio is the median of the rounds' ratios. So other load on the machine
        affects all peers alike. Apache's brokers have the JVM options of Kafka's start scripts, and are warmed up.
Rule 3: our nodes write traces, which is their default.

Rule 4: `producers_N` and `clients_64` have N clients of librdkafka in one process. 64 producers and 64 consumers work
        at the same time, each on a partition; the figure is that of the consumers.

The figures of each round go to stderr. `--cases a,b` selects cases, `--rounds N` sets the number of rounds (5),
`--warm N` the records that warm Apache up (10 M).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.report import report
from tests.cluster.processes import ROOT, ApacheBroker, OurNode, Running, free_ports
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient, rotated
from zk_bridge.embedded import EmbeddedZooKeeper

APACHE_JVM = (
    *("java", "-Xmx1g", "-Xms1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""The JVM options of Kafka's start scripts."""

OURS, APACHE, MOCK = "ours", "Apache", "mock"


class Case(NamedTuple):
    """A load and its cluster.

    `size` is in bytes, `rate` in records per second (0: unlimited), and `settings` are the client's. `nodes` is also
    the replication factor. `mock` and `apache` are the minimum ratios to these peers; without `mock`, the mock broker
    is not measured.
    """

    records: int
    size: int
    acks: str = "1"
    rate: int = 0
    settings: tuple[str, ...] = ()
    nodes: int = 1
    partitions: int = 1
    mock: float | None = None
    apache: float = 0.0
    consumed: bool = False
    """Whether as many clients consume at the same time; the figure is then that of the consumers."""


SMALL, SINGLE = ("batch.size=16384",), ("batch.num.messages=1", "linger.ms=0")
AT_ONCE = ("linger.ms=0",)

PRODUCE: dict[str, Case] = {
    "acks1_1mb": Case(2_000_000, 100, mock=0.40, apache=1.0),
    "acks1_16kb": Case(1_000_000, 100, settings=SMALL, mock=0.35, apache=1.2),
    "acks1_single": Case(40_000, 100, settings=SINGLE, apache=1.5),
    "all_rf3_1mb": Case(1_000_000, 100, "all", nodes=3, apache=0.8),
    "all_rf3_16kb": Case(400_000, 100, "all", settings=SMALL, nodes=3, apache=1.0),
    "acks1_100": Case(600_000, 100, settings=("partitions=100",), partitions=100, apache=0.8),
    "acks1_1000": Case(600_000, 100, settings=("partitions=1000",), partitions=1_000, apache=0.8),
    "p99_acks1": Case(5_000, 100, rate=1_000, settings=AT_ONCE, apache=0.5),
    "p99_all_rf3": Case(5_000, 100, "all", 1_000, AT_ONCE, nodes=3, apache=0.5),
}
FULL = 150
"""Records of each batch of the cases with many clients, so that all numbers of clients send equally many requests."""
for clients in (1, 10, 100, 1_000):
    many = (f"batch.num.messages={FULL}", "linger.ms=2000", f"clients={clients}")
    PRODUCE[f"producers_{clients}"] = Case(1_050_000, 100, settings=many, apache=1.2)
SIXTY_FOUR = ("clients=64", "partitions=64")
PRODUCE["clients_64"] = Case(1_000_000, 100, settings=(*SIXTY_FOUR, *SMALL), partitions=64, apache=1.2, consumed=True)
FETCH: dict[str, Case] = {"fetch_100b": Case(2_000_000, 100, apache=0.8), "fetch_1kb": Case(400_000, 1000, apache=0.8)}
CASES = PRODUCE | FETCH


class Cluster:
    """Nodes of one kind with their own ZooKeeper. Each partition has a replica on every node.

    `settings` apply to all nodes; two underscores in a name represent a dot.
    """

    def __init__(
        self, kind: str, place: Path, nodes: int, jars: Path, settings: Mapping[str, object] | None = None
    ) -> None:
        place.mkdir(parents=True)
        self.nodes: list[Running] = []
        self._names = itertools.count()
        self._zookeeper = EmbeddedZooKeeper(place / "zookeeper")
        self._zookeeper.start()
        where = self._zookeeper.connect_string
        ports, began = free_ports(nodes), time.monotonic()
        for number, port in enumerate(ports):
            if kind == OURS:
                self.nodes.append(OurNode(place / str(number), number, port, where, **(settings or {})))
            else:
                threads = {"num__network__threads": 3, "num__io__threads": 8, **(settings or {})}
                folder = place / str(number)
                self.nodes.append(ApacheBroker(jars, folder, number, port, where, java=APACHE_JVM, **threads))
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        self._zk = PatientZooKeeperClient(where)
        self._zk.start(20)
        until(self._is_up, what=f"{nodes} nodes of {kind}", timeout=90, ignore=(Exception,))
        self.ready_after = time.monotonic() - began
        """Seconds from the first command until all brokers are registered and one is the controller."""

    def _is_up(self) -> bool:
        return len(self._zk.get_children("/brokers/ids")) == len(self.nodes) and self._zk.exists("/controller")

    def topic(self, partitions: int = 1) -> str:
        """Create a topic, wait until its last partition has all replicas in the ISR, and return its name."""
        name = f"t{next(self._names)}"
        replicas = range(len(self.nodes))
        self._zk.ensure_path("/config/topics")
        self._zk.create_topic(name, rotated(replicas, partitions))
        last = partitions - 1
        until(
            lambda: len(self._zk.state_of(name, last)["isr"]) == len(replicas),
            what=name,
            timeout=120,
            ignore=(Exception,),
        )
        return name

    def stop(self) -> None:
        """Kill the nodes, and stop ZooKeeper and its client."""
        for node in self.nodes:
            node.kill()
        self._zk.stop()
        self._zk.close()
        self._zookeeper.stop()


def compiled(place: Path) -> Path:
    """Compile the load program, and return its path.

    Raises:
        SystemExit: The compilation failed, for example because librdkafka-dev is not installed.
    """
    program = place / "load"
    source = Path(__file__).with_name("load.c")
    made = subprocess.run(
        ["cc", "-O2", source, "-o", program, "-lrdkafka"], check=False, capture_output=True, text=True
    )
    if made.returncode:
        raise SystemExit(f"load.c cannot be compiled; it needs cc and librdkafka-dev\n{made.stderr}")
    return program


class Load:
    """The load program. Its methods return the JSON that it prints."""

    def __init__(self, place: Path) -> None:
        self._program = compiled(place)

    def produce(self, bootstrap: str, topic: str, case: Case) -> dict[str, float]:
        """Produce the records of a case."""
        numbers = (case.records, case.size, case.acks, case.rate)
        return self._run("produce", bootstrap, topic, *map(str, numbers), *case.settings)

    def consume(self, bootstrap: str, topic: str, case: Case, *settings: str) -> dict[str, float]:
        """Consume the records of a case."""
        return self._run("consume", bootstrap, topic, str(case.records), *settings)

    def transact(self, bootstrap: str, topic: str, transactions: int, records: int, size: int = 100) -> float:
        """Commit transactions of `records` records each. Returns transactions per second."""
        numbers = map(str, (transactions, size, records))
        settings = f"transactional.id={topic}", "linger.ms=0"
        return self._run("transact", bootstrap, topic, *numbers, *settings)["per_second"]

    def _run(self, *words: str) -> dict[str, float]:
        said = subprocess.run([self._program, *words], check=False, capture_output=True, text=True, timeout=200)
        if said.returncode:
            raise RuntimeError(f"load {' '.join(words)}: {said.stdout}{said.stderr}")
        found: dict[str, float] = json.loads(said.stdout)
        return found

    @contextlib.contextmanager
    def mock(self) -> Iterator[str]:
        """Run a mock broker with a topic t, and yield its address."""
        with subprocess.Popen([self._program, "mock", "t"], stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield process.stdout.readline().strip()
            finally:
                process.kill()


def at_once(load: Load, cluster: Cluster, case: Case) -> float:
    """Produce and consume the records of a case at the same time, and return the consumers' records per second."""
    topic = cluster.topic(case.partitions)
    with ThreadPoolExecutor(1) as other:
        consumed = other.submit(load.consume, cluster.bootstrap, topic, case, *SIXTY_FOUR)
        load.produce(cluster.bootstrap, topic, case)
        return consumed.result()["per_second"]


def measure(load: Load, name: str, clusters: dict[str, Cluster], read: dict[str, str]) -> dict[str, float]:
    """Measure one round of a case with each peer, including our nodes.

    Args:
        read: The topic that each peer's consumer reads, for fetch cases.

    Returns:
        Records per second by peer; for cases with a rate, the 99th percentile of latency in ms.
    """
    case, found = CASES[name], {}
    for peer, cluster in clusters.items():
        if name in FETCH:
            found[peer] = load.consume(cluster.bootstrap, read[peer], case)["per_second"]
        elif case.consumed:
            found[peer] = at_once(load, cluster, case)
        else:
            said = load.produce(cluster.bootstrap, cluster.topic(case.partitions), case)
            found[peer] = said["p99_ms" if case.rate else "per_second"]
    if case.mock is not None:
        with load.mock() as bootstrap:
            found[MOCK] = load.produce(bootstrap, "t", case)["per_second"]
    return found


def run(place: Path, jars: Path, names: list[str], rounds: int, warm: int) -> None:
    """Run the named cases, first on one node and then on three nodes."""
    load = Load(place)
    for nodes in (1, 3):
        cases = [name for name in names if CASES[name].nodes == nodes]
        clusters: dict[str, Cluster] = {}
        try:
            for peer in (OURS, APACHE) if cases else ():
                clusters[peer] = Cluster(peer, place / f"{peer}{nodes}", nodes, jars)
            if warm and cases:
                load.produce(clusters[APACHE].bootstrap, clusters[APACHE].topic(), Case(warm, 100))
            for name in cases:
                read = {}
                if name in FETCH:
                    for peer, cluster in clusters.items():
                        read[peer] = cluster.topic()
                        load.produce(cluster.bootstrap, read[peer], CASES[name])
                seen = [measure(load, name, clusters, read) for _ in range(rounds)]
                print(name, json.dumps(seen), file=sys.stderr, flush=True)
                tell(name, seen)
        finally:
            for cluster in clusters.values():
                cluster.stop()


def tell(name: str, rounds: list[dict[str, float]]) -> None:
    """Print a row for each peer: the medians, and the median of the rounds' ratios."""
    less = bool(CASES[name].rate)
    for peer in rounds[0]:
        if peer != OURS:
            ours, theirs = (statistics.median(each[side] for each in rounds) for side in (OURS, peer))
            ratios = [each[peer] / each[OURS] if less else each[OURS] / each[peer] for each in rounds]
            unit = "ms, p99" if less else "records/s"
            ratio, bound = statistics.median(ratios), CASES[name].apache if peer == APACHE else CASES[name].mock
            report("data_plane", name, ours, theirs, peer, unit, less_is_better=less, ratio=ratio, bound=bound)


def apache_jars(bench: str) -> Path | None:
    """Return the folder of Apache's jars. If it or cc is missing, print what is needed, and return None."""
    jars = Path(os.environ.get("KAFKA_LIBS", ROOT / ".cache" / "kafka-3.9.1"))
    if jars.is_dir() and shutil.which("cc"):
        return jars
    print(f"{bench} needs Apache Kafka's jars ({jars}, `make apache`), cc and librdkafka-dev", file=sys.stderr)
    return None


def main() -> None:
    """Measure the cases of the command line."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks.data_plane")
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=10_000_000)
    arguments = parser.parse_args()
    jars = apache_jars("data_plane")
    if jars is None:
        return
    with tempfile.TemporaryDirectory(prefix="kafka-actors-data-plane-") as place:
        run(Path(place), jars, arguments.cases.split(","), arguments.rounds, arguments.warm)


if __name__ == "__main__":
    main()
