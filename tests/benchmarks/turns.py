"""Measure a node's longest turn, and the latency of clients while 100,000 partitions change at once.

A node on a real ZooKeeper is the controller and the only broker of 100,000 partitions with one replica each. The first
phase is its start, in which it creates the directories. The second phase begins when /controller is deleted: the
controller loads the cluster again. In both phases it sends a LeaderAndIsr for all partitions to the broker. Then the
node is stopped with SIGTERM and started again on the same directories. The rows `stop` and `restart` are seconds until
it has ended and leads all partitions again, `memory` is the larger peak of both processes: broker and controller.

A probe sends an ApiVersions request every 5 ms. The probe cannot send while it waits for a response. The requests that
it would have sent in that time count with the remaining time until the response. Other processes may use the machine.
So times are CPU times of the loop's thread, between a request and its response or in one turn of the loop. The elapsed
time until the response has a separate row with the same limit.

    python -m tests.benchmarks.turns [--partitions N]
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import json
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from kazoo.client import KazooClient

from actors.node.process import run_node
from actors.node.settings import load_settings
from messages.apis.api_versions import ApiVersionsRequest
from messages.wire import encode_request
from tests.benchmarks.report import peak_megabytes, report
from tests.cluster.processes import Running, free_ports
from tests.waiting import until
from zk_bridge.embedded import EmbeddedZooKeeper

PARTITIONS = 100_000
PER_TOPIC = 100
PROBE_SECONDS = 0.005
TURN_LIMIT_MS = 20.0
PROBE_LIMIT_MS = 50.0
MEMORY_LIMIT_MB = 3_000.0
RESTART_LIMIT_SECONDS = 120.0
"""Limits with a million partitions. Smaller sizes have no others."""
NODE_ID = 1
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


def is_settled(port: int, partitions: int) -> bool:
    """Return whether the node is the idle controller, leads all partitions, and has no queued requests to brokers."""
    seen = gauges(port)
    return (
        seen.get(f"{PREFIX}activecontrollercount") == 1.0
        and seen.get(f"{PREFIX}controllerstate") == 0.0
        and seen.get("kafka_server_replicamanager_leadercount") == partitions
        and seen.get("kafka_controller_controllerchannelmanager_totalqueuesize") == 0.0
    )


def measure(place: Path, partitions: int) -> None:
    """Start ZooKeeper and the node, measure both phases, and print the rows."""
    port, metrics_port = free_ports(2)
    properties, log = place / "server.properties", place / "turns.log"
    heap = "6g" if partitions > PARTITIONS else "1g"
    with EmbeddedZooKeeper(place / "zookeeper", force_sync=False, heap=heap) as zookeeper:
        zk = KazooClient(zookeeper.connect_string, timeout=60)
        zk.start(60)
        prepare(zk, partitions)
        properties.write_text(
            f"broker.id={NODE_ID}\nlisteners=PLAINTEXT://127.0.0.1:{port}\nmetrics.port={metrics_port}\n"
            f"zookeeper.connect={zookeeper.connect_string}\nzookeeper.session.timeout.ms=60000\n"
            f"log.dirs={place / 'data'}\ncontrolled.shutdown.enable=false\n"
        )
        command = [sys.executable, "-m", "tests.benchmarks.turns", "--node", str(properties)]
        node = Running([*command, str(log)], place / "node.log")
        try:
            until(lambda: socket.create_connection(("127.0.0.1", port)).close() is None, timeout=60, ignore=(OSError,))
            begun = time.monotonic()
            with Probe(port) as probe:
                until(lambda: is_settled(metrics_port, partitions), timeout=900, ignore=(OSError,), what="a start")
                taken_over = time.monotonic()
                epoch = zk.get("/controller_epoch")[0]
                zk.delete("/controller")
                until(lambda: zk.get("/controller_epoch")[0] != epoch, timeout=60, what="an election")
                until(lambda: is_settled(metrics_port, partitions), timeout=900, ignore=(OSError,), what="a failover")
                failed_over = time.monotonic()
            memory = peak_megabytes(node.process.pid)
            assert node.stop(timeout=900) == 0, "the node did not stop cleanly"
            stopped = time.monotonic()
            node = Running([*command, str(place / "restart.log")], place / "node.log")
            until(lambda: is_settled(metrics_port, partitions), timeout=900, ignore=(OSError,), what="a restart")
            restarted = time.monotonic()
            memory = max(memory, peak_megabytes(node.process.pid))
        except AssertionError:
            print(node.output[-4000:], file=sys.stderr)
            raise
        finally:
            node.stop()
            zk.stop()
            zk.close()
    turns, size = Turns(log), f"{partitions // 1000}k"
    tell(f"take_over_{size}", turns, probe.answered, begun, taken_over)
    tell(f"failover_{size}", turns, probe.answered, taken_over, failed_over)
    for what, figure, limit, unit in (
        ("stop", stopped - failed_over, RESTART_LIMIT_SECONDS, "s"),
        ("restart", restarted - stopped, RESTART_LIMIT_SECONDS, "s"),
        ("memory", memory, MEMORY_LIMIT_MB, "MB"),
    ):
        report("turns", f"{what}_{size}", figure, limit, "limit", unit, less_is_better=True)


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
    parser.add_argument("--node", nargs=2, metavar=("PROPERTIES", "LOG"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.node is not None:
        return run_metered(*options.node)
    place = Path(tempfile.mkdtemp(prefix="turns-", dir=TMPFS if TMPFS.is_dir() else None))
    try:
        measure(place, options.partitions)
    finally:
        shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
