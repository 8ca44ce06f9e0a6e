"""A cluster of one of our nodes and one of Apache's, both with their data below one folder."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path
from typing import Any

import attrs
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kazoo.exceptions import NoNodeError

from tests.cluster.processes import ApacheBroker, OurNode, Running, free_ports
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient

OURS, APACHE = 0, 1
QUICK = {"replica__lag__time__max__ms": 3000}


@attrs.define
class Mixed:
    """The nodes by kind, OURS or APACHE. With `same_directory` both are broker 0 and use one data directory in turn."""

    place: Path
    zookeeper: str
    jars: Path
    same_directory: bool = False
    nodes: dict[int, Running] = attrs.field(factory=dict)
    ports: list[int] = attrs.field(factory=lambda: free_ports(2))
    zk: Any = None
    settings: dict[str, Any] = attrs.field(factory=dict)
    """Settings of both nodes, in addition to QUICK."""

    def connect(self) -> None:
        """Connect to ZooKeeper."""
        self.zk = PatientZooKeeperClient(self.zookeeper)
        self.zk.start(20)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in (self.ports[:1] if self.same_directory else self.ports))

    def start(self, kind: int) -> None:
        """Wait until the broker id's earlier session has ended, start the node, and wait until it is registered."""
        broker_id = OURS if self.same_directory else kind
        path = f"/brokers/ids/{broker_id}"
        until(lambda: not self.zk.exists(path), what="its earlier life is over", timeout=30)
        folder, port = self.place / f"{kind}", self.ports[broker_id]
        settings: dict[str, Any] = {**QUICK, **self.settings}
        if self.same_directory:
            settings |= {"log__dirs": self.place / "data", "log__segment__bytes": 8000}
        if kind == OURS:
            self.nodes[kind] = OurNode(folder, broker_id, port, self.zookeeper, **settings)
        else:
            self.nodes[kind] = ApacheBroker(self.jars, folder, broker_id, port, self.zookeeper, **settings)
        until(lambda: self.zk.exists(path) and self.zk.exists("/controller"), what="registered", timeout=60)

    def kill(self, kind: int) -> None:
        """Kill a node, and end its session in ZooKeeper."""
        self.nodes[kind].kill()
        self.zk.end_session(OURS if self.same_directory else kind)

    def freeze(self, kind: int) -> None:
        """Suspend a node. Its session remains until ZooKeeper expires it."""
        self.nodes[kind].send(signal.SIGSTOP)

    def thaw(self, kind: int) -> None:
        """Resume a suspended node."""
        self.nodes[kind].send(signal.SIGCONT)

    def end(self) -> None:
        """Kill the nodes, and close the ZooKeeper client."""
        for node in self.nodes.values():
            node.kill()
        self.zk.stop()
        self.zk.close()

    # ------------------------------------------------------------------------------------------------ topics

    def create(self, topic: str, partitions: dict[str, list[int]], **config: str) -> None:
        """Create a topic by its znodes, as kafka-topics --zookeeper did, and wait until each partition has a state.

        `__` in a name of `config` represents a dot.
        """
        data = {"version": 2, "partitions": partitions, "adding_replicas": {}, "removing_replicas": {}}
        overrides = {name.replace("__", "."): value for name, value in config.items()}
        self.zk.create(f"/config/topics/{topic}", json.dumps({"version": 1, "config": overrides}).encode())
        self.zk.create(f"/brokers/topics/{topic}", json.dumps(data).encode())
        until(lambda: len(self.states(topic)), lambda seen: seen == len(partitions), "created", 30, (NoNodeError,))

    def states(self, topic: str) -> dict[str, dict[str, Any]]:
        """Return each partition's state in ZooKeeper."""
        path = f"/brokers/topics/{topic}/partitions"
        return {number: json.loads(self.zk.get(f"{path}/{number}/state")[0]) for number in self.zk.get_children(path)}

    def leaders(self, topic: str) -> dict[str, int]:
        """Return each partition's leader."""
        return {number: state["leader"] for number, state in self.states(topic).items()}

    def in_sync(self, topic: str, replicas: set[int]) -> bool:
        """Return whether every partition has a leader and exactly these replicas in its ISR."""
        return all(set(state["isr"]) == replicas and state["leader"] >= 0 for state in self.states(topic).values())

    def logs(self, topic: str, partition: str) -> set[str]:
        """Return the set of checksums of the partition's logs: one if the logs of all nodes are equal."""
        found = set()
        for kind in self.nodes:
            files = sorted((self.place / f"{kind}" / "data" / f"{topic}-{partition}").glob("*.log"))
            found.add(hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest())
        return found

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        """Return (log start offset, high watermark) as a consumer receives them, or (-1, -1) after an error."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "missing"})
        try:
            found: tuple[int, int] | None = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        except KafkaException:
            found = None
        finally:
            consumer.close()
        return found or (-1, -1)
