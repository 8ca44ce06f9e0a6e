"""Read and write 20,000 partition states through the bridge, and compare with one request per znode.

    python -m tests.benchmarks.bridge [PARTITIONS]

Ours is the time from an Ask to ZkBridgeActor until its Answer, on a LocalBase with the kazoo store. The peer is kazoo's
asynchronous API with WINDOW requests in flight, as in Kafka. It sends one getData per state. A write is one transaction
with the epoch check and the setData. Both decode the states that they read, and return the versions. Server and session
timeout are the same. The two take turns, and the best of ROUNDS counts.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from actors.runtime import LocalBase, RealClock, local_system
from messages import zookeeper
from messages.ask import Ask, Failure
from messages.cluster import (
    LeaderIsrAndControllerEpoch,
    Leadership,
    PartitionAssignment,
    ReplicaAssignment,
    TopicPartition,
)
from messages.node import StartBridge
from messages.store import OK
from tests.benchmarks.report import report
from zk_bridge import paths
from zk_bridge.core import ZkBridgeActor
from zk_bridge.embedded import EmbeddedZooKeeper
from zk_bridge.kazoo_store import KazooStore
from zk_bridge.partition_states import decode_state, encode_state

PARTITIONS = 20_000
PER_TOPIC = 50
WINDOW = 1000
ROUNDS = 3
BROKERS = 5


class Bridge:
    """A ZkBridgeActor on its own base, and a client that sends requests to it."""

    def __init__(self, hosts: str) -> None:
        base = LocalBase(clock=RealClock())
        self.base = base
        self.system = local_system(base)
        self.loop = asyncio.new_event_loop()
        self.store = KazooStore(hosts, 10, 10)
        gateway = base.external_endpoint("store", lambda message, sender: self.store.submit(message))
        subscriber = base.external_endpoint("subscriber", lambda message, sender: None)
        self.bridge = self.system.createActor(ZkBridgeActor)
        base.inject(self.bridge, StartBridge(gateway, subscriber))
        base.attach(self.loop)
        self.store.start(lambda news: base.inject(self.bridge, news, gateway))

    def ask(self, question: Any) -> Any:
        """Send a request to the bridge, and return its result."""
        answer = self.loop.run_until_complete(self.base.request(self.bridge, Ask(1, question), 120))
        if isinstance(answer.result, Failure):
            raise RuntimeError(f"{type(question).__name__}: {answer}")
        return answer.result

    def close(self) -> None:
        """Close the session, and shut the actor system down."""
        self.store.stop()
        self.base.detach()
        self.system.shutdown()
        self.loop.close()


def pipelined(send: Callable[[int], Any], count: int) -> list[Any]:
    """Call `send(0)` to `send(count - 1)`, with at most WINDOW kazoo requests in flight; return their results."""
    results: list[Any] = [None] * count
    window = threading.Semaphore(WINDOW)

    def done(index: int, outcome: Any) -> None:
        results[index] = outcome.get_nowait()
        window.release()

    for index in range(count):
        window.acquire()
        send(index).rawlink(lambda outcome, index=index: done(index, outcome))
    for _ in range(WINDOW):
        window.acquire()
    return results


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that `call` takes, and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def decided(partitions: list[TopicPartition], epoch: int, versions: list[int]) -> tuple[Leadership, ...]:
    """Return new partition states with leader epoch `epoch`, whose leaders are spread over the brokers."""
    return tuple(
        Leadership(tp, LeaderIsrAndControllerEpoch(n % BROKERS, epoch, (n % BROKERS, (n + 1) % BROKERS), 1, version))
        for n, (tp, version) in enumerate(zip(partitions, versions, strict=True))
    )


def measure(hosts: str, count: int) -> None:
    """Create the topics, measure the bridge and kazoo, and print the rows."""
    ours, peer = Bridge(hosts), KazooClient(hosts, timeout=10)
    peer.start()
    try:
        partitions = [TopicPartition(f"topic-{n // PER_TOPIC:04d}", n % PER_TOPIC) for n in range(count)]
        state_paths = [paths.partition_state(tp) for tp in partitions]
        ours.ask(zookeeper.EnsurePaths())
        fence = ours.ask(zookeeper.Elect(1, 0)).epoch_zk_version
        assignment = tuple(PartitionAssignment(n, ReplicaAssignment((1, 2))) for n in range(PER_TOPIC))
        for topic in dict.fromkeys(tp.topic for tp in partitions):
            ours.ask(zookeeper.CreateTopic(zookeeper.TopicAssignment(topic, assignment)))
        ours.ask(zookeeper.CreatePartitionStates(decided(partitions, 0, [-1] * count), fence))

        def read() -> list[int]:
            states = ours.ask(zookeeper.GetPartitionStates(tuple(partitions))).states
            return [each.state.zk_version for each in states]

        def peer_read() -> list[int]:
            found = pipelined(lambda n: peer.get_async(state_paths[n]), count)
            states = [
                decode_state(path, data, stat.version) for path, (data, stat) in zip(state_paths, found, strict=True)
            ]
            return [state.zk_version for state in states]

        def write(epoch: int, versions: list[int]) -> Callable[[], Any]:
            decisions = decided(partitions, epoch, versions)
            return lambda: ours.ask(zookeeper.UpdatePartitionStates(decisions, fence)).results

        def peer_write(epoch: int, versions: list[int]) -> Callable[[], Any]:
            decisions = decided(partitions, epoch, versions)

            def send(n: int) -> Any:
                transaction = peer.transaction()
                transaction.check(paths.CONTROLLER_EPOCH, fence)
                state = decisions[n].state
                transaction.set_data(state_paths[n], encode_state(state), state.zk_version)
                return transaction.commit_async()

            return lambda: [stat.version for _, stat in pipelined(send, count)]

        best: dict[str, float] = {}

        def take(case: str, seconds: float) -> None:
            best[case] = min(best.get(case, seconds), seconds)

        for turn in range(ROUNDS):
            seconds, versions = timed(read)
            take("read", seconds)
            seconds, peer_versions = timed(peer_read)
            take("peer_read", seconds)
            assert versions == peer_versions
            seconds, results = timed(write(2 * turn + 1, versions))
            take("write", seconds)
            assert all(result.code == OK for result in results)
            seconds, written = timed(peer_write(2 * turn + 2, [result.zk_version for result in results]))
            take("peer_write", seconds)
            assert all(version == before + 2 for version, before in zip(written, versions, strict=True))
        for case in ("read", "write"):
            report("bridge", case, count / best[case], count / best["peer_" + case], "kazoo", "partitions/s")
    finally:
        peer.stop()
        peer.close()
        ours.close()


def main(arguments: list[str]) -> None:
    """Measure on an embedded ZooKeeper in a temporary directory."""
    count = int(arguments[0]) if arguments else PARTITIONS
    with tempfile.TemporaryDirectory(prefix="kafka-actors-bridge-") as directory:
        with EmbeddedZooKeeper(Path(directory)) as server:
            measure(server.connect_string, count)


if __name__ == "__main__":
    main(sys.argv[1:])
