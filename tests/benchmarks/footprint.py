"""Compare start time, memory and idle CPU of three nodes with those of three Apache brokers.

One kind runs after the other, each with its own ZooKeeper, which is started before. A cluster is ready when all brokers
are registered and one is the controller; our sources are compiled before, as pip does. `memory` is the resident memory
after a million records. `idle` is the CPU of a node with N partitions of three replicas each, whose followers fetch.

`--partitions N` sets the number of partitions (1,000); `--alone` measures only our nodes. `--ready N` measures only N
starts, in turns with Apache, and prints the medians. `--connections N` measures the memory of one of our nodes that has
answered a request of each of N clients, which are then idle. A limit of 20,000 open files permits 9,900 (`ulimit -n`).
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import os
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from actors.node.process import raise_limit
from messages.apis.api_versions import ApiVersionsRequest
from messages.wire import encode_request
from tests.benchmarks.data_plane import APACHE, OURS, PRODUCE, Cluster, Load, apache_jars
from tests.benchmarks.report import report
from tests.cluster.processes import ROOT
from tests.waiting import until

SOURCES = ("actors", "messages", "zk_bridge")
NODES = 3
IDLE_SECONDS = 20.0
MOST_IDLE = {1_000: 0.01, 10_000: 0.02}
"""Maximum idle CPU of one of our nodes in cores, by number of partitions."""


MOST_READY_SECONDS = 0.6
MOST_CONNECTED_MB = 300.0


class Footprint(NamedTuple):
    """Seconds until the cluster is ready, MB of all nodes, and CPU seconds per second of one node."""

    ready: float
    memory: float
    idle: float


def measure(kind: str, place: Path, jars: Path, partitions: int) -> Footprint:
    """Start a cluster, load it, leave it idle, and return its footprint."""
    _compile_sources()
    cluster = Cluster(kind, place, NODES, jars)
    try:
        load = Load(place)
        load.produce(cluster.bootstrap, cluster.topic(), PRODUCE["all_rf3_1mb"])
        memory = sum(_resident(node.process.pid) for node in cluster.nodes)
        cluster.topic(partitions)
        _pass(IDLE_SECONDS / 2)  # followers fetch, and the load before has no more effect
        began, before = time.monotonic(), _cpu(cluster)
        _pass(IDLE_SECONDS)
        idle = (_cpu(cluster) - before) / (time.monotonic() - began) / NODES
        return Footprint(cluster.ready_after, memory / 1e6, idle)
    finally:
        cluster.stop()


def measure_ready(place: Path, jars: Path, kinds: tuple[str, ...], rounds: int) -> None:
    """Start and stop clusters in turns, and print the medians of the times until they are ready."""
    _compile_sources()
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind, times in found.items():
            cluster = Cluster(kind, place / f"{kind}{number}", NODES, jars)
            cluster.stop()
            times.append(cluster.ready_after)
    ours, *others = map(statistics.median, found.values())
    report("footprint", "ready", ours, MOST_READY_SECONDS, "limit", "s", less_is_better=True)
    for theirs in others:
        report("footprint", "ready", ours, theirs, APACHE, "s", less_is_better=True)


def measure_connections(place: Path, jars: Path, count: int) -> None:
    """Connect idle clients to one of our nodes, and print its resident memory."""
    raise_limit()
    request = encode_request(ApiVersionsRequest(0), 1, "idle")
    cluster = Cluster(OURS, place, 1, jars)
    try:
        host, _, port = cluster.bootstrap.partition(":")
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                client = stack.enter_context(socket.create_connection((host, int(port)), 10))
                client.sendall(request)
                assert client.recv(1), "the node has closed a connection"
            memory = _resident(cluster.nodes[0].process.pid) / 1e6
        report("footprint", f"connections_{count}", memory, MOST_CONNECTED_MB, "limit", "MB", less_is_better=True)
    finally:
        cluster.stop()


def _compile_sources() -> None:
    for folder in SOURCES:
        compileall.compile_dir(ROOT / folder, quiet=1)


def _pass(seconds: float) -> None:
    """Wait for this number of seconds. There is no condition to wait for: the cluster is idle."""
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() >= end, what="time goes by", timeout=2 * seconds)


def _resident(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _cpu(cluster: Cluster) -> float:
    ticks = 0
    for node in cluster.nodes:
        fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure once with the options of the command line."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks.footprint")
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--ready", type=int, metavar="ROUNDS")
    parser.add_argument("--connections", type=int)
    arguments = parser.parse_args()
    jars = apache_jars("footprint")
    if jars is None:
        return
    kinds = (OURS,) if arguments.alone else (OURS, APACHE)
    with tempfile.TemporaryDirectory(prefix="kafka-actors-footprint-") as place:
        if arguments.connections:
            measure_connections(Path(place, OURS), jars, arguments.connections)
        if arguments.ready:
            measure_ready(Path(place), jars, kinds, arguments.ready)
        if arguments.connections or arguments.ready:
            return
        ours, *others = (measure(kind, Path(place, kind), jars, arguments.partitions) for kind in kinds)
    for theirs in others:
        report("footprint", "ready", ours.ready, theirs.ready, APACHE, "s", less_is_better=True)
        report("footprint", "memory", ours.memory, theirs.memory, APACHE, "MB", less_is_better=True)
        report("footprint", "idle", ours.idle, theirs.idle, APACHE, "cores a node", less_is_better=True)
    for most in (bound for partitions, bound in MOST_IDLE.items() if partitions == arguments.partitions):
        case = f"idle_{arguments.partitions}"
        report("footprint", case, ours.idle, most, "limit", "cores a node", less_is_better=True)


if __name__ == "__main__":
    main()
