"""Compare our controller with Apache Kafka 3.9.1's on a real ZooKeeper, with stub brokers.

Two Apache candidates (one is the active controller) control a cluster of stub brokers (`tests.cluster.stub_broker`) in
each scenario. Then two of our candidates control the same cluster. The measured time begins just before the write to
ZooKeeper, or the ControlledShutdown request, that starts the scenario. It ends when the last request has arrived at a
stub; for a deleted topic, when its znode is deleted. A figure is the median of all repetitions except the first, in
which a JVM is slow. A single repetition counts.

A scenario has ended only if requests of the newest controller epoch name all its partitions: those of a controller
that was deposed before it had read all states do not count.

The scenario `reassign` needs six stubs, so that all replicas can be new.

Each scenario has one row for its time and one for the requests that ZooKeeper received from the controllers. Other rows
are the larger peak memory of the two candidates, our longest turn (limit: 20 ms of CPU), and the 99th percentile of the
time in which our controller answers a probe while the scenarios run (limit: 50 ms). If there are several sizes, a row
compares the growth of the time with that of the cluster (limit: 1).

With `--sides ours`, only our controller is measured, and the peer of a row is the row itself.

    python -m tests.benchmarks.controller [--partitions 10000,100000] [--brokers 3] [--reps 3] [--only loss,return]

A million partitions (ZooKeeper and its log need 12 GB of memory, Apache's controller has a heap of 8 GB):

    python -m tests.benchmarks.controller --partitions 1000000 --per-topic 500 --brokers 10 --reps 1 --sides ours
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from tests.benchmarks.report import peak_megabytes, report
from tests.benchmarks.turns import PROBE_LIMIT_MS, TURN_LIMIT_MS, Probe, percentile_99, waited
from tests.cluster.processes import ROOT, ApacheBroker, OurNode, Running, free_ports
from tests.cluster.stub_broker import Arrival, StubBroker
from tests.waiting import until
from tests.zookeeper_client import topic_data
from zk_bridge.embedded import EmbeddedZooKeeper, four_letter

PER_TOPIC = 100
REPLICAS = 3
OPERATIONS = 500
CANDIDATES = (901, 902)
GOES = 2
"""Broker id of the stub that is lost, registers again, and requests a controlled shutdown."""
MANY = 10_000
"""Maximum number of partitions of the created topic, and of a preferred leader election."""
MOVED = 1_000
"""Number of partitions that are reassigned."""
QUIET_SECONDS = 1.5
"""Time without an arrival after which nothing more is expected, for each 100,000 partitions."""
TIMEOUT = 1800
"""Maximum duration of a scenario in seconds."""
LARGE = 200_000
"""Number of partitions from which on Apache's controller and ZooKeeper have larger heaps."""
JAVA = ("java", "-server", "-Xms512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
SETTINGS = {
    "zookeeper__session__timeout__ms": 60_000,
    "auto__leader__rebalance__enable": "false",
    "controlled__shutdown__enable": "false",
}
LIMITS = {"longest_turn_ms": TURN_LIMIT_MS, "probe_p99_ms": PROBE_LIMIT_MS}
PEER = "Apache Kafka 3.9.1"
TMPFS = Path("/dev/shm")

Figures = dict[str, list[float]]
"""Figures by case, one for each repetition."""


class Scene:
    """ZooKeeper, the stub brokers, and a cluster of `partitions` on them."""

    def __init__(
        self, place: Path, partitions: int, per_topic: int, brokers: int, zookeeper: EmbeddedZooKeeper
    ) -> None:
        self.place, self.partitions, self.brokers, self.zookeeper = place, partitions, brokers, zookeeper
        self.per_topic = per_topic
        self.java = (*JAVA, "-Xmx8g" if partitions > LARGE else "-Xmx4g")
        self.zk = KazooClient(zookeeper.connect_string, timeout=60)
        self.zk.start(60)
        self.epoch = 0
        self.moves = 0
        """Number of reassignments of the first topics."""
        self.spans: list[tuple[float, float]] = []
        """Begin and end of each scenario."""
        self.metrics_ports: list[int] = []
        """Metrics ports of our candidates."""
        self.turns: list[float] = []
        """CPU milliseconds of the longest turn in the last minute of each scenario, of each of our candidates."""
        ports = free_ports(brokers)
        self.stubs = [StubBroker(n + 1, port, zookeeper.connect_string) for n, port in enumerate(ports)]

    def close(self) -> None:
        """Stop the stubs and the ZooKeeper client."""
        for stub in self.stubs:
            stub.stop()
        self.zk.stop()
        self.zk.close()

    # ------------------------------------------------------------------------------------------------ znodes

    def assignment(self, count: int, shift: int = 0) -> dict[int, list[int]]:
        """Return the replicas of each partition. Leaders and replicas are spread evenly over the brokers."""
        return {n: [1 + (n + shift + r) % self.brokers for r in range(REPLICAS)] for n in range(count)}

    def topics(self) -> Iterator[tuple[str, dict[int, list[int]]]]:
        """Yield each topic with its replicas by partition, after the reassignments so far."""
        for number in range(-(-self.partitions // self.per_topic)):
            moves = self.moves if number < MOVED // self.per_topic else 0
            yield f"t{number:05d}", self.assignment(min(self.per_topic, self.partitions), number + moves * REPLICAS)

    def populate(self) -> None:
        """Create the znodes of the topics, as a controller would have created them."""
        for path in ("/config/topics", "/brokers/ids", "/brokers/topics", "/admin/delete_topics"):
            self.zk.ensure_path(path)
        self._write(self._znodes("create", ""))

    def reset(self, leads: int = 0) -> None:
        """Write partition states with all replicas in the ISR, which the next controller loads.

        Args:
            leads: Index of the leader in the list of replicas.
        """
        self.epoch += 1000
        self._write(self._znodes("set_data", "/state", leads))

    def _znodes(self, method: str, ending: str, leads: int = 0) -> Iterator[tuple[Any, ...]]:
        epoch = int(self.zk.get("/controller_epoch")[0]) if self.zk.exists("/controller_epoch") else 0
        for topic, replicas in self.topics():
            top = f"/brokers/topics/{topic}"
            made: list[tuple[str, bytes]] = [
                (f"/config/topics/{topic}", b'{"version":1,"config":{}}'),
                (top, topic_data(replicas)),
                (f"{top}/partitions", b""),
            ]
            for number, ids in replicas.items():
                state = {"controller_epoch": epoch, "leader": ids[leads], "version": 1, "leader_epoch": self.epoch}
                made.append((f"{top}/partitions/{number}", b""))
                made.append((f"{top}/partitions/{number}/state", json.dumps({**state, "isr": ids}).encode()))
            yield from ((method, path, data) for path, data in made if path.endswith(ending))

    def _write(self, operations: Iterator[tuple[Any, ...]]) -> None:
        while some := list(itertools.islice(operations, OPERATIONS)):
            transaction = self.zk.transaction()
            for method, *arguments in some:
                getattr(transaction, method)(*arguments)
            for result in transaction.commit():
                if isinstance(result, Exception):
                    raise result

    # ------------------------------------------------------------------------------------------------ measuring

    def arrivals(self) -> list[Arrival]:
        """Return the requests that have arrived at any stub since `forget`."""
        return [arrival for stub in self.stubs for arrival in stub.ask("arrivals")]  # type: ignore[attr-defined]

    def forget(self) -> None:
        """Clear the recorded arrivals of all stubs."""
        for stub in self.stubs:
            stub.ask("forget")

    def requests(self) -> int:
        """Return the number of requests that ZooKeeper has received from the controllers."""
        own = {f"0x{stub.ask('session'):x}" for stub in self.stubs} | {f"0x{self.zk.client_id[0]:x}"}
        reported = four_letter("127.0.0.1", self.zookeeper.port, "cons", 5.0)
        found = re.findall(r"recved=(\d+).*?sid=(0x[0-9a-f]+)", reported)
        return sum(int(count) for count, session in found if session not in own)

    def settle(self, done: Callable[[list[Arrival]], bool] = lambda arrivals: True) -> list[Arrival]:
        """Wait until `done` is true and nothing has arrived for some time (QUIET_SECONDS); return what has arrived."""
        quiet = QUIET_SECONDS * max(1.0, self.partitions / 100_000)
        deadline = time.monotonic() + TIMEOUT
        began = time.monotonic()
        while True:
            arrivals = self.arrivals()
            last = max((arrival.at for arrival in arrivals), default=began)
            if time.monotonic() - max(last, began) > quiet and done(arrivals):
                return arrivals
            if time.monotonic() > deadline:
                raise AssertionError(f"nothing more comes, but it is not done: {arrivals[-5:]}")
            time.sleep(0.1)

    def measure(
        self, figures: Figures, case: str, begin: Callable[[], float], done: Callable[[list[Arrival]], bool]
    ) -> None:
        """Start a scenario, and record its time and its requests to ZooKeeper.

        Args:
            begin: Start the scenario, and return the time of its start.
            done: Return whether the scenario's last request has arrived.
        """
        self.settle()
        self.forget()
        before = self.requests()
        began = begin()
        self.note(figures, case, began, max(arrival.at for arrival in self.settle(done)), before)

    def note(self, figures: Figures, case: str, began: float, ended: float, before: int) -> None:
        """Record a scenario's time, and its requests to ZooKeeper after the first `before`."""
        figures.setdefault(f"{case}_ms", []).append((ended - began) * 1000)
        figures.setdefault(f"{case}_zookeeper_requests", []).append(self.requests() - before)
        self.spans.append((began, ended))
        self.turns += [longest_turn(port) for port in self.metrics_ports]
        print(f"  {case}: {(ended - began) * 1000:.0f} ms", file=sys.stderr, flush=True)

    # ------------------------------------------------------------------------------------------------ scenarios

    @property
    def hosted(self) -> int:
        """Return the number of replicas on the stub GOES."""
        return sum(ids.count(GOES) for _, replicas in self.topics() for ids in replicas.values())

    @property
    def goes(self) -> StubBroker:
        """Return the stub GOES."""
        return self.stubs[GOES - 1]

    def failover(self, figures: Figures) -> None:
        """Delete /controller, so that a candidate is elected and loads the cluster."""

        def begin() -> float:
            began = time.monotonic()
            self.zk.delete("/controller")
            return began

        self.measure(figures, "failover", begin, at_least("LeaderAndIsrRequest", REPLICAS * self.partitions))

    def loss(self, figures: Figures) -> None:
        """Delete the registration of a broker."""
        reported = at_least("LeaderAndIsrRequest", self.hosted * (REPLICAS - 1))
        self.measure(figures, "loss", lambda: self.goes.ask("vanish"), reported)  # type: ignore[arg-type,return-value]

    def back(self, figures: Figures) -> None:
        """Register the lost broker again."""
        reported = at_least("LeaderAndIsrRequest", self.hosted)
        self.measure(figures, "return", lambda: self.goes.ask("register"), reported)  # type: ignore[arg-type,return-value]
        self.restore()

    def shutdown(self, figures: Figures) -> None:
        """Request a controlled shutdown, measure it, then delete the broker's registration and register it again."""
        controller = json.loads(self.zk.get("/controller")[0])["brokerid"]
        [endpoint] = json.loads(self.zk.get(f"/brokers/ids/{controller}")[0])["endpoints"]
        host, _, port = endpoint.rpartition("/")[2].partition(":")

        def begin() -> float:
            self.goes.begin("shut_down", host, int(port))
            return time.monotonic()

        self.settle()
        others = [stub for stub in self.stubs if stub is not self.goes]
        before = self.requests()
        self.forget()
        begin()
        began, answered, remaining = self.goes.end()  # type: ignore[misc]
        assert remaining == 0, f"it still leads {remaining} partitions"
        self.settle()
        last = max((a.at for stub in others for a in stub.ask("arrivals")), default=answered)  # type: ignore[attr-defined]
        self.note(figures, "shutdown", began, max(last, answered), before)
        self.goes.ask("vanish")
        self.settle()
        self.goes.ask("forget")
        self.goes.ask("register")
        reported = at_least("LeaderAndIsrRequest", self.hosted)
        self.settle(lambda _: reported(self.goes.ask("arrivals")))  # type: ignore[arg-type]
        self.restore()

    def topic(self, figures: Figures) -> None:
        """Create a topic, and delete it."""
        count = min(self.partitions, MANY)
        path = "/brokers/topics/made"
        self.zk.create("/config/topics/made", b'{"version":1,"config":{}}')

        def create() -> float:
            began = time.monotonic()
            self.zk.create(path, topic_data(self.assignment(count)))
            return began

        self.measure(figures, "create", create, at_least("LeaderAndIsrRequest", REPLICAS * count))
        self.settle()
        gone: list[float] = []
        self.zk.exists(path, lambda event: gone.append(time.monotonic()) if event.type == "DELETED" else None)
        before, began = self.requests(), time.monotonic()
        self.zk.create("/admin/delete_topics/made", b"")
        until(lambda: bool(gone), what="the topic's end", timeout=TIMEOUT)
        until(lambda: not self.zk.exists("/admin/delete_topics/made"), what="the request's end", timeout=60)
        self.note(figures, "delete", began, gone[0], before)

    def preferred(self, figures: Figures) -> None:
        """Elect the preferred leaders of partitions that are led by their second replicas."""
        count = min(self.partitions, MANY)
        self.restore(leads=1)
        wanted = [{"topic": t, "partition": n} for t, replicas in self.topics() for n in replicas][:count]

        begin = self.writing("/admin/preferred_replica_election", {"version": 1, "partitions": wanted})
        self.measure(figures, "preferred", begin, at_least("LeaderAndIsrRequest", REPLICAS * count))
        until(lambda: not self.zk.exists("/admin/preferred_replica_election"), what="the request's end", timeout=60)
        self.restore()

    def reassign(self, figures: Figures) -> None:
        """Reassign the first topics to brokers without their replicas. Leaders expand the ISR at once."""
        if self.brokers < 2 * REPLICAS:
            return
        before = dict(self.topics())
        self.moves += 1
        moved = {topic: replicas for topic, replicas in self.topics() if replicas != before[topic]}
        wanted = [{"topic": t, "partition": n, "replicas": r} for t, ids in moved.items() for n, r in ids.items()]

        begin = self.writing("/admin/reassign_partitions", {"version": 1, "partitions": wanted})
        self.measure(figures, "reassign", begin, lambda arrivals: not self.zk.exists("/admin/reassign_partitions"))
        for topic, replicas in moved.items():
            now = json.loads(self.zk.get(f"/brokers/topics/{topic}")[0])["partitions"]
            assert now == {str(n): ids for n, ids in replicas.items()}, f"{topic} has not been moved: {now}"
        self.restore()

    def writing(self, path: str, what: dict[str, Any]) -> Callable[[], float]:
        """Return a function that creates this znode and returns the time when it began."""
        data = json.dumps(what).encode()

        def begin() -> float:
            began = time.monotonic()
            self.zk.create(path, data)
            return began

        return begin

    def restore(self, leads: int = 0) -> None:
        """Reset the partition states, and delete /controller so that a new controller loads them.

        This first waits until the controller is idle. An Apache controller that is deposed during an event does not
        control the cluster again (trap T4).

        Args:
            leads: Index of the leader in the list of replicas.
        """
        self.settle()
        self.reset(leads)
        self.forget()
        self.zk.delete("/controller")
        self.settle(at_least("LeaderAndIsrRequest", REPLICAS * self.partitions))


SCENARIOS: dict[str, Callable[[Scene, Figures], None]] = {
    "failover": Scene.failover,
    "loss": Scene.loss,
    "return": Scene.back,
    "shutdown": Scene.shutdown,
    "topic": Scene.topic,
    "preferred": Scene.preferred,
    "reassign": Scene.reassign,
}
"""Scenarios in the order of execution: "return" needs the loss before it."""


def at_least(kind: str, partitions: int) -> Callable[[list[Arrival]], bool]:
    """Return a condition: requests of this kind and the newest epoch have named that number of partitions."""

    def is_done(arrivals: list[Arrival]) -> bool:
        newest = max((each.epoch for each in arrivals), default=0)
        return sum(each.partitions for each in arrivals if (each.kind, each.epoch) == (kind, newest)) >= partitions

    return is_done


@contextmanager
def candidates(scene: Scene, place: Path, start: Callable[..., Running]) -> Iterator[dict[int, tuple[Running, int]]]:
    """Start two candidates; yield each process with its port, by broker id. One is the controller."""
    with ExitStack() as stack:
        nodes: dict[int, tuple[Running, int]] = {}
        ports = free_ports(2 * len(CANDIDATES))
        scene.forget()
        for node, port, metrics_port in zip(CANDIDATES, ports[::2], ports[1::2], strict=True):
            running = start(place / str(node), node, port, scene.zookeeper.connect_string, metrics_port, scene.java)
            stack.callback(running.kill)
            nodes[node] = running, port
            if start is ours:
                scene.metrics_ports.append(metrics_port)
                stack.callback(scene.metrics_ports.clear)
            until(lambda node=node: scene.zk.exists(f"/brokers/ids/{node}"), what="a start", timeout=120)  # type: ignore[misc]
            until(lambda: scene.zk.exists("/controller"), what="an election", timeout=60)
            scene.settle(at_least("LeaderAndIsrRequest", REPLICAS * scene.partitions))
        yield nodes


def ours(place: Path, node: int, port: int, zookeeper: str, metrics_port: int, java: tuple[str, ...]) -> Running:
    """Start one of our nodes. It needs no Java."""
    return OurNode(place, node, port, zookeeper, **SETTINGS, metrics__port=metrics_port)


def apache(place: Path, node: int, port: int, zookeeper: str, metrics_port: int, java: tuple[str, ...]) -> Running:
    """Start an Apache broker. It has no metrics port."""
    place.mkdir(parents=True)
    jars = apache_jars()
    assert jars is not None
    return ApacheBroker(jars, place, node, port, zookeeper, java=java, **SETTINGS)


def apache_jars() -> Path | None:
    """Return the folder of Apache's jars; None if it does not exist."""
    place = Path(os.environ.get("KAFKA_LIBS") or ROOT / ".cache" / "kafka-3.9.1")
    return place if place.is_dir() else None


def run(scene: Scene, name: str, start: Callable[..., Running], reps: int, only: set[str], probed: bool) -> Figures:
    """Run the scenarios in `only` with candidates of one kind, and return the figures."""
    figures: Figures = {}
    place = scene.place / f"{name}-{scene.partitions}"
    with candidates(scene, place, start) as nodes, ExitStack() as stack:
        probes = [stack.enter_context(Probe(port)) for _, port in nodes.values() if probed]
        for rep in range(reps):
            print(f"{name}, {scene.partitions} partitions, repetition {rep + 1}", file=sys.stderr, flush=True)
            for scenario, play in SCENARIOS.items():
                if scenario in only or (scenario == "loss" and "return" in only):
                    play(scene, figures)
        peaks = [peak_megabytes(running.process.pid) for running, _ in nodes.values()]
        figures["peak_memory_mb"] = [max(peaks)]
        if start is ours:
            figures["longest_turn_ms"] = [max(scene.turns)]
        if probed:
            waits = [waited(probe.answered, *span) for span in scene.spans for probe in probes]
            figures["probe_p99_ms"] = [1000 * percentile_99([end - begin for wait in waits for begin, end in wait])]
    for node in CANDIDATES:
        until(lambda node=node: not scene.zk.exists(f"/brokers/ids/{node}"), what="an end", timeout=120)  # type: ignore[misc]
    return figures


def longest_turn(port: int) -> float:
    """Return the CPU milliseconds of the node's longest turn in the last minute."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        found = re.search(r"^kafka_actors_turn_seconds_max (\S+)", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return float(found[1]) * 1000


def median(figures: list[float]) -> float:
    """Return the median of all figures except the first, or the only figure."""
    return statistics.median(figures[1:] or figures)


def tell(size: int, mine: Figures, theirs: Figures) -> None:
    """Print the rows of one size."""
    for case, figures in mine.items():
        name = f"{case.rpartition('_')[0]}_{size}"
        unit = case.rpartition("_")[2]
        if case in LIMITS:
            report("controller", name, median(figures), LIMITS[case], "limit", unit, less_is_better=True)
        else:
            peer, value = (PEER, median(theirs[case])) if theirs else ("itself", median(figures))
            report("controller", name, median(figures), value, peer, unit, less_is_better=True)


def main() -> int:
    """Measure each size, and the growth of the time from the smallest to the largest size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", default="2000", help="sizes of the cluster, e.g. 1000,10000,100000")
    parser.add_argument("--brokers", type=int, default=3, help="stub brokers, at least 3")
    parser.add_argument("--reps", type=int, default=2)
    parser.add_argument("--per-topic", type=int, default=PER_TOPIC, help="partitions of a topic")
    parser.add_argument("--sides", choices=("both", "ours"), default="both")
    parser.add_argument("--only", default=",".join(SCENARIOS), help="some of " + ",".join(SCENARIOS))
    options = parser.parse_args()
    sizes, only = sorted(int(size) for size in options.partitions.split(",")), set(options.only.split(","))
    if not only <= SCENARIOS.keys() or options.brokers < REPLICAS or sizes[0] < options.per_topic:
        parser.error(f"scenarios are {','.join(SCENARIOS)}; 3 brokers, a topic of partitions at least")
    alone = options.sides == "ours"
    if not alone and apache_jars() is None:
        print("controller: nothing to be beside: set KAFKA_LIBS, or run `make apache`", file=sys.stderr)
        return 0
    grown: dict[str, list[float]] = {}
    for size in sizes:
        place = Path(tempfile.mkdtemp(prefix="controller-", dir=TMPFS if TMPFS.is_dir() else None))
        try:
            heap = "6g" if size > LARGE else "2g"
            with EmbeddedZooKeeper(place / "zookeeper", force_sync=False, heap=heap) as zookeeper:
                scene = Scene(place, size, options.per_topic, options.brokers, zookeeper)
                try:
                    scene.populate()
                    for stub in scene.stubs:
                        stub.ask("register")
                    theirs = {} if alone else run(scene, "apache", apache, options.reps, only, probed=False)
                    scene.reset()
                    mine = run(scene, "ours", ours, options.reps, only, probed=alone)
                finally:
                    scene.close()
        finally:
            shutil.rmtree(place)
        tell(size, mine, theirs)
        for case, figures in mine.items():
            if case.endswith("_ms"):
                grown.setdefault(case, []).append(median(figures))
    for case, times in grown.items():
        if len(times) > 1 and case not in LIMITS:
            growth = times[-1] / times[0] * sizes[0] / sizes[-1]
            name = f"{case.removesuffix('_ms')}_growth_{sizes[0]}_to_{sizes[-1]}"
            report("controller", name, growth, 1.0, "limit", "times the partitions'", less_is_better=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
