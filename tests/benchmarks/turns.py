"""Measure a node's longest turn, and the latency of clients while 100,000 partitions change at once.

A node on a real ZooKeeper is the controller and the only broker of 100,000 partitions with one replica each. The first
phase is its start, in which it creates the directories. The second phase begins when /controller is deleted: the
controller loads the cluster again. In both phases it sends a LeaderAndIsr for all partitions to the broker.

With `--apart`, another node is the controller. It sends a LeaderAndIsr for all partitions to the node, which is then
stopped with SIGTERM and started again on the same directories. The rows `start`, `restart` and `stop` are seconds until
it leads all partitions, leads them again, and has ended the second time. They contain the time in which the controller,
which has no other broker of the partitions, writes all states. `memory` is the larger peak of the node's two processes.

A probe sends an ApiVersions request every 5 ms. The probe cannot send while it waits for a response. The requests that
it would have sent in that time count with the remaining time until the response. Other processes may use the machine.
So times are CPU times of the loop's thread, between a request and its response or in one turn of the loop. The elapsed
time until the response has a separate row with the same limit.

    python -m tests.benchmarks.turns [--partitions N] [--apart]
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import contextlib
import json
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from kazoo.client import KazooClient

from actors.node.process import run_node
from actors.node.settings import load_settings
from messages.apis.api_versions import ApiVersionsRequest
from messages.wire import encode_request
from tests.benchmarks.report import peak_megabytes, report
from tests.cluster.processes import OurNode, Running, free_ports, properties
from tests.waiting import until
from zk_bridge.embedded import EmbeddedZooKeeper

PARTITIONS = 100_000
PER_TOPIC = 100
PROBE_SECONDS = 0.005
TURN_LIMIT_MS = 20.0
PROBE_LIMIT_MS = 50.0
MEMORY_LIMIT_MB = 3_000.0
"""The limit with a million partitions. Smaller sizes have no other."""
NODE_ID, APART_ID = 1, 2
REQUEST_TIMEOUT_MS = 600_000
"""A million partitions need more than the 30 s after which a controller sends a request again."""
OPERATIONS = 500
"""Number of znodes that one transaction creates."""
TMPFS = Path("/dev/shm")
PREFIX = "kafka_controller_kafkacontroller_"


class MeteredLoop(asyncio.SelectorEventLoop):
    """An event loop that writes a line for each turn: its end, and the thread's CPU seconds until then.

    Turns of at most 0.2 ms of CPU have no line. Their CPU time is added to that of the next line.
    """

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log.open("w", encoding="ascii", buffering=1 << 16)
        self._spent = time.thread_time()

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        spent = time.thread_time()
        if spent - self._spent > 0.0002:
            self._log.write(f"{time.monotonic():.6f} {spent:.6f}\n")
            self._spent = spent

    def close(self) -> None:
        self._log.close()
        super().close()


def run_metered(properties: str, log: str) -> int:
    """Run a node as `kafka-actors broker` does, but on a metered loop; return its exit code."""

    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            return MeteredLoop(Path(log))

    asyncio.set_event_loop_policy(Policy())
    return run_node(load_settings(properties, {}))


class Turns:
    """The turns of the node's loop: the end of each, and the CPU seconds until then."""

    def __init__(self, log: Path) -> None:
        rows = [line.split() for line in log.read_text(encoding="ascii").splitlines()]
        self._ends = [float(end) for end, _ in rows]
        self._spent = [float(spent) for _, spent in rows]

    def longest(self, begun: float, ended: float) -> float:
        """Return the CPU seconds of the longest turn that ended between these times."""
        first, last = bisect.bisect(self._ends, begun), bisect.bisect(self._ends, ended)
        steps = zip(self._spent[max(first - 1, 0) :], self._spent[max(first, 1) : last], strict=False)
        return max((after - before for before, after in steps), default=0.0)

    def spent(self, begun: float, ended: float) -> float:
        """Return the CPU seconds of the turns that ended between a request and its response."""
        first, last = bisect.bisect(self._ends, begun), bisect.bisect(self._ends, ended)
        at = [0.0, *self._spent]
        return at[last] - at[first]


class Probe:
    """A client that sends a request every 5 ms, and records the times of the request and its response."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._ask, name="probe", daemon=True)
        self._over = threading.Event()
        self.answered: list[tuple[float, float]] = []

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _ask(self) -> None:
        request = encode_request(ApiVersionsRequest(0), 1, "probe")
        answers = self._socket.makefile("rb")
        while not self._over.wait(PROBE_SECONDS):
            asked = time.monotonic()
            self._socket.sendall(request)
            answers.read(struct.unpack(">i", answers.read(4))[0])
            self.answered.append((asked, time.monotonic()))


def prepare(zk: KazooClient, partitions: int) -> None:
    """Create the znodes of topics and partition states, as `kafka-topics --create` and a controller do.

    Each partition has one replica, and the node leads it.
    """
    made: list[tuple[str, bytes]] = []
    for topic in (f"t{number}" for number in range(-(-partitions // PER_TOPIC))):
        replicas = {str(number): [NODE_ID] for number in range(PER_TOPIC)}
        made.append((f"/config/topics/{topic}", b'{"version":1,"config":{}}'))
        made.append((f"/brokers/topics/{topic}", json.dumps({"version": 1, "partitions": replicas}).encode()))
        made.append((f"/brokers/topics/{topic}/partitions", b""))
        for number in range(PER_TOPIC):
            state = {"controller_epoch": 0, "leader": NODE_ID, "version": 1, "leader_epoch": 0, "isr": [NODE_ID]}
            made.append((f"/brokers/topics/{topic}/partitions/{number}", b""))
            made.append((f"/brokers/topics/{topic}/partitions/{number}/state", json.dumps(state).encode()))
    zk.ensure_path("/config/topics")
    zk.ensure_path("/brokers/topics")
    for first in range(0, len(made), OPERATIONS):
        transaction = zk.transaction()
        for path, data in made[first : first + OPERATIONS]:
            transaction.create(path, data)
        for result in transaction.commit():
            if isinstance(result, Exception):
                raise result


def gauges(port: int) -> dict[str, float]:
    """Return the values of the node's metrics by name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = (line.rpartition(" ") for line in answer.read().decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}


def is_settled(port: int, partitions: int, apart: int | None = None) -> bool:
    """Return whether the node leads all partitions, and the controller is idle and has no queued requests to brokers.

    Args:
        apart: Metrics port of the controller; None if it is the node itself.
    """
    own = gauges(port)
    seen = own if apart is None else gauges(apart)
    return (
        seen.get(f"{PREFIX}activecontrollercount") == 1.0
        and seen.get(f"{PREFIX}controllerstate") == 0.0
        and seen.get("kafka_controller_controllerchannelmanager_totalqueuesize") == 0.0
        and own.get("kafka_server_replicamanager_leadercount") == partitions
    )


class Cluster:
    """A real ZooKeeper with the partitions' znodes, and the settings of the node that leads them."""

    def __init__(self, place: Path, partitions: int, zookeeper: EmbeddedZooKeeper) -> None:
        self.place, self.partitions = place, partitions
        self.port, self.metrics_port = free_ports(2)
        self.zk = KazooClient(zookeeper.connect_string, timeout=60)
        self.zk.start(60)
        prepare(self.zk, partitions)
        self.settings: dict[str, object] = {
            "zookeeper__connect": zookeeper.connect_string,
            "zookeeper__session__timeout__ms": 60_000,
            "request__timeout__ms": REQUEST_TIMEOUT_MS,
            "controlled__shutdown__enable": "false",
        }

    def start(self, log: str) -> Running:
        """Start the node, and wait until it listens. Its turns are written to the file `log`."""
        own = {
            "broker__id": NODE_ID,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "metrics__port": self.metrics_port,
            "log__dirs": self.place / "data",
        }
        file = properties(self.place / "server.properties", **own, **self.settings)
        command = [sys.executable, "-m", "tests.benchmarks.turns", "--node", str(file), str(self.place / log)]
        node = Running(command, self.place / "node.log")
        until(lambda: socket.create_connection(("127.0.0.1", self.port)).close() is None, timeout=60, ignore=(OSError,))
        return node

    def settle(self, what: str, apart: int | None = None) -> float:
        """Wait until the node leads all partitions; return the time."""
        until(lambda: is_settled(self.metrics_port, self.partitions, apart), timeout=900, ignore=(OSError,), what=what)
        return time.monotonic()


@contextlib.contextmanager
def cluster(partitions: int) -> Iterator[Cluster]:
    """Start ZooKeeper, create the znodes, and yield a Cluster in a folder of its own. End all of its processes."""
    place = Path(tempfile.mkdtemp(prefix="turns-", dir=TMPFS if TMPFS.is_dir() else None))
    heap = "6g" if partitions > PARTITIONS else "1g"
    try:
        with EmbeddedZooKeeper(place / "zookeeper", force_sync=False, heap=heap) as zookeeper:
            made = Cluster(place, partitions, zookeeper)
            try:
                yield made
            except AssertionError:
                print((place / "node.log").read_text()[-4000:], file=sys.stderr)
                raise
            finally:
                made.zk.stop()
                made.zk.close()
    finally:
        shutil.rmtree(place)


def measure(partitions: int) -> None:
    """Measure both phases of a node that is also the controller, and print the rows."""
    with cluster(partitions) as scene, contextlib.ExitStack() as stack:
        node = scene.start("turns.log")
        stack.callback(node.stop)
        begun = time.monotonic()
        with Probe(scene.port) as probe:
            taken_over = scene.settle("a start")
            epoch = scene.zk.get("/controller_epoch")[0]
            scene.zk.delete("/controller")
            until(lambda: scene.zk.get("/controller_epoch")[0] != epoch, timeout=60, what="an election")
            failed_over = scene.settle("a failover")
        assert node.stop(timeout=900) == 0, "the node did not stop cleanly"
        turns, size = Turns(scene.place / "turns.log"), f"{partitions // 1000}k"
    tell(f"take_over_{size}", turns, probe.answered, begun, taken_over)
    tell(f"failover_{size}", turns, probe.answered, taken_over, failed_over)


def measure_apart(partitions: int) -> None:
    """Measure the start, the stop and the restart of a node whose controller is another node, and print the rows."""
    with cluster(partitions) as scene, contextlib.ExitStack() as stack:
        port, apart = free_ports(2)
        where = str(scene.settings["zookeeper__connect"])
        controller = OurNode(scene.place / "apart", APART_ID, port, where, **scene.settings, metrics__port=apart)
        stack.callback(controller.stop)
        until(lambda: scene.zk.exists("/controller"), timeout=60, what="an election")
        begun, memory = time.monotonic(), 0.0
        times: dict[str, float] = {}
        for run in ("start", "restart"):
            node = scene.start(f"{run}.log")
            stack.callback(node.stop)
            settled = scene.settle(f"a {run}", apart)
            memory = max(memory, peak_megabytes(node.process.pid))
            assert node.stop(timeout=900) == 0, "the node did not stop cleanly"
            stopped = time.monotonic()
            times |= {run: settled - begun, "stop": stopped - settled}
            begun = stopped
    size = f"{partitions // 1000}k"
    for what, seconds in times.items():
        report("turns", f"{what}_{size}", seconds, seconds, "itself", "s", less_is_better=True)
    report("turns", f"memory_{size}", memory, MEMORY_LIMIT_MB, "limit", "MB", less_is_better=True)


def tell(case: str, turns: Turns, probes: Sequence[tuple[float, float]], begun: float, ended: float) -> None:
    """Print the rows of one phase."""
    inside = waited(probes, begun, ended)
    by_clock = percentile_99([answered - asked for asked, answered in inside])
    by_cpu = percentile_99([turns.spent(asked, answered) for asked, answered in inside])
    print(f"{case}: {ended - begun:.1f} s, {len(inside)} probes", file=sys.stderr)
    for what, seconds, limit in (
        ("longest_turn", turns.longest(begun, ended), TURN_LIMIT_MS),
        ("probe_p99", by_cpu, PROBE_LIMIT_MS),
        ("probe_p99_by_clock", by_clock, PROBE_LIMIT_MS),
    ):
        report("turns", f"{case}_{what}", seconds * 1000, limit, "limit", "ms", less_is_better=True)


def waited(probes: Sequence[tuple[float, float]], begun: float, ended: float) -> list[tuple[float, float]]:
    """Return when each request between these times was sent, or would have been sent, and when it was answered."""
    return [
        (asked + late * PROBE_SECONDS, answered)
        for asked, answered in probes
        if begun <= asked < ended
        for late in range(int((answered - asked) / PROBE_SECONDS) + 1)
    ]


def percentile_99(values: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return sorted(values)[min(len(values) - 1, len(values) * 99 // 100)]


def main() -> int:
    """Measure; with `--node`, run the measured node instead."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--apart", action="store_true", help="another node is the controller")
    parser.add_argument("--node", nargs=2, metavar=("PROPERTIES", "LOG"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.node is not None:
        return run_metered(*options.node)
    (measure_apart if options.apart else measure)(options.partitions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
