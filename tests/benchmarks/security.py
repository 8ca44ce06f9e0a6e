"""Compare a secured node with Apache Kafka 3.9.1: memory of silent connections, handshakes, and data over TLS.

Rule 1: both brokers run at the same time and are measured in turns. Rates are per second of the broker's CPU, so that
        other load on the machine counts less; records are also compared by time.
Rule 2: memory is in KB per silent connection: the growth of our process and, for Apache, of the JVM's heap after a
        collection. All connections stay open until the end, because a process keeps what they have freed.
Rule 3: data travels by SASL_SSL as a super user. Apache is warmed up.

`--rounds N` sets the number of rounds (3), `--parts a,b` selects of memory, handshakes, data.
"""

from __future__ import annotations

import argparse
import contextlib
import ssl
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from actors.node.process import raise_limit
from messages.apis.sasl_handshake import SaslHandshakeRequest
from tests.benchmarks.data_plane import APACHE, APACHE_JVM, OURS, Case, Load, apache_jars
from tests.benchmarks.report import report
from tests.cluster.attacker import Broker, Certificate, Client, play, scram
from tests.cluster.processes import ApacheBroker, OurNode
from zk_bridge.embedded import EmbeddedZooKeeper

CLIENTS, WARM = 900, 50
HALF = 100
SASL = b"sasl"
"""In place of the bytes of a SASL handshake."""
HANDSHAKES, TURNS = 100, 4
"""Handshakes with a broker in its turn, and turns of a round."""
WARM_HANDSHAKES = 4000
Brokers = dict[str, Broker]
DATA = {"1mb": Case(1_000_000, 100), "16kb": Case(500_000, 100, settings=("batch.size=16384",))}


def brokers(place: Path, jars: Path, zookeeper: str) -> Brokers:
    """Start both brokers."""
    starts: dict[str, Callable[..., Any]] = {
        OURS: OurNode,
        APACHE: partial(ApacheBroker, jars, java=APACHE_JVM),
    }
    made = {}
    for kind, start in starts.items():

        def patient(*where: Any, _start: Any = start, **settings: object) -> Any:
            return _start(*where, **{**settings, "connections__max__idle__ms": 600_000})

        made[kind] = Broker(kind, place / kind, f"{zookeeper}/{kind}", patient)
        made[kind].create_topics(*(f"{name}{number}" for name in DATA for number in range(10)))
    return made


def tls_hello() -> bytes:
    """Return a ClientHello."""
    there = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), there, server_hostname="localhost").do_handshake()
    return there.read()


def used(broker: Broker) -> float:
    """Return the KB that a broker uses."""
    process = broker.running.process.pid
    if broker.kind == OURS:
        return psutil.Process(process).memory_info().rss / 1024
    said = subprocess.run(["jcmd", str(process), "GC.class_histogram"], check=True, capture_output=True, text=True)
    return int(said.stdout.split()[-1]) / 1024


def connected(broker: Broker, listener: str, sent: bytes, count: int) -> list[Client]:
    """Return connections that have sent this, and on which TLS has begun to answer."""
    clients = []
    for _ in range(count):
        clients.append(Client(broker, listener))
        if sent == SASL:
            clients[-1].call(SaslHandshakeRequest(1, "SCRAM-SHA-256"))
        else:
            clients[-1].socket.sendall(sent)
            if len(sent) > HALF:
                clients[-1].socket.recv(5)
    return clients


def measure_memory(both: Brokers) -> None:
    """Measure the memory of silent connections."""
    hello = tls_hello()
    states = {
        "tcp": ("PLAINTEXT", b""),
        "sasl_tcp": ("SASL", b""),
        "sasl_begun": ("SASL", SASL),
        "tls_tcp": ("SSL", b""),
        "tls_half_hello": ("SSL", hello[:HALF]),
        "tls_hello": ("SSL", hello),
    }
    with contextlib.ExitStack() as clients:
        for name, (listener, sent) in states.items():
            found = {}
            for kind, broker in both.items():
                for each in connected(broker, listener, sent, WARM):
                    clients.callback(each.close)
                before = used(broker)
                for each in connected(broker, listener, sent, CLIENTS):
                    clients.callback(each.close)
                found[kind] = (used(broker) - before) / CLIENTS
            report(
                "security", f"memory_{name}", found[OURS], found[APACHE], APACHE, "KB", less_is_better=True, bound=1.0
            )


def cpu(broker: Broker) -> float:
    """Return the seconds of CPU that a broker has taken, exactly (man 3 clock_getcpuclockid)."""
    return time.clock_gettime(~broker.running.process.pid << 3 | 2)


def per_cpu_second(broker: Broker, count: int, work: Callable[[], object]) -> float:
    """Return how much of something a broker does in a second of its CPU."""
    before = cpu(broker)
    work()
    return count / (cpu(broker) - before)


def measure_handshakes(both: Brokers, rounds: int) -> None:
    """Measure SCRAM over plain TCP, and TLS."""
    kinds: dict[str, Callable[[Broker], Any]] = {
        "scram_256": lambda broker: play(broker, "SASL", [scram("alice")]),
        "scram_512": lambda broker: play(broker, "SASL", [scram("alice", mechanism="SCRAM-SHA-512")]),
        "tls": lambda broker: play(broker, "SSL", [], Certificate(by=None)),
    }
    for name, shake in kinds.items():

        def repeat(broker: Broker, count: int, shake: Callable[[Broker], Any] = shake) -> None:
            for _ in range(count):
                shake(broker)

        repeat(both[APACHE], WARM_HANDSHAKES)
        found: dict[str, list[float]] = {OURS: [], APACHE: []}
        for _ in range(rounds * TURNS):
            for kind, broker in both.items():
                found[kind].append(per_cpu_second(broker, HANDSHAKES, partial(repeat, broker, HANDSHAKES)))
        tell(name, found, "handshakes/CPU s")


def measure_data(both: Brokers, place: Path, rounds: int) -> None:
    """Measure produce and fetch over TLS."""
    load = Load(place)
    for name, case in DATA.items():
        produced: dict[str, list[float]] = {OURS: [], APACHE: []}
        fetched: dict[str, list[float]] = {OURS: [], APACHE: []}
        timed: dict[str, list[float]] = {OURS: [], APACHE: []}
        for number in range(rounds + 1):
            for kind, broker in both.items():
                settings = ("security.protocol=sasl_ssl", "sasl.mechanism=PLAIN", "sasl.username=admin")
                settings += ("sasl.password=admin-pw", f"ssl.ca.location={broker.folder / 'trusted.pem'}")
                where, topic = f"localhost:{broker.ports['SASLS']}", f"{name}{number}"
                whole = case._replace(settings=case.settings + settings)
                began = time.monotonic()
                produce = per_cpu_second(broker, case.records, partial(load.produce, where, topic, whole))
                seconds = time.monotonic() - began
                fetch = per_cpu_second(broker, case.records, partial(load.consume, where, topic, whole, *settings))
                if number:  # the first round warms up
                    produced[kind].append(produce)
                    fetched[kind].append(fetch)
                    timed[kind].append(case.records / seconds)
        tell(f"produce_{name}", produced, "records/CPU s")
        tell(f"produce_{name}_timed", timed, "records/s")
        tell(f"fetch_{name}", fetched, "records/CPU s")


def tell(name: str, found: dict[str, list[float]], unit: str) -> None:
    """Print the medians, and the median of the rounds' ratios."""
    ratio = statistics.median(ours / theirs for ours, theirs in zip(found[OURS], found[APACHE], strict=True))
    ours, theirs = (statistics.median(found[kind]) for kind in (OURS, APACHE))
    report("security", name, ours, theirs, APACHE, unit, ratio=ratio, bound=1.0)


def main() -> None:
    """Measure the parts of the command line."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks.security")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", default="memory,handshakes,data")
    arguments = parser.parse_args()
    jars = apache_jars("security")
    if jars is None:
        return
    raise_limit()
    parts = arguments.parts.split(",")
    with tempfile.TemporaryDirectory(prefix="kafka-actors-security-") as name:
        place = Path(name)
        with EmbeddedZooKeeper(place / "zookeeper", force_sync=False) as zookeeper:
            both = brokers(place, jars, f"127.0.0.1:{zookeeper.port}")
            try:
                if "memory" in parts:
                    measure_memory(both)
                if "handshakes" in parts:
                    measure_handshakes(both, arguments.rounds)
                if "data" in parts:
                    measure_data(both, place, arguments.rounds)
            finally:
                for broker in both.values():
                    broker.stop()


if __name__ == "__main__":
    main()
