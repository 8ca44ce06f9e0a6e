"""Three nodes as real processes on an embedded ZooKeeper, with access to their ZooKeeper state and their logs.

A test chooses which nodes are Apache's; the others are ours.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tests.cluster.processes import ApacheBroker, OurNode, Running, create_topic, free_ports
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper

NODES = (0, 1, 2)


@attrs.define
class Three:
    """Three nodes with the same `settings` (`__` represents a dot). `apache` maps each Apache node to its jars."""

    place: Path
    connect: str
    ports: list[int]
    zk: PatientZooKeeperClient
    apache: Mapping[int, Path]
    settings: dict[str, object]
    nodes: dict[int, Running] = attrs.field(factory=dict)

    @classmethod
    @contextlib.contextmanager
    def running(cls, place: Path, apache: Mapping[int, Path] | None = None, **settings: object) -> Iterator[Three]:
        """Run three nodes and their ZooKeeper while the context is open."""
        server = EmbeddedZooKeeper(place / "zookeeper", force_sync=False)
        server.start()
        connect = f"127.0.0.1:{server.port}"
        zk = PatientZooKeeperClient(connect)
        zk.start(20)
        made = cls(place, connect, free_ports(3), zk, apache or {}, settings)
        try:
            for node in NODES:
                made.start(node)
            yield made
        finally:
            for running in made.nodes.values():
                running.kill()
            zk.stop()
            zk.close()
            server.stop()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self, node: int) -> None:
        """Start a node, and wait until it is registered in ZooKeeper."""
        place = (self.place / f"{node}", node, self.ports[node], self.connect)
        if node in self.apache:
            self.nodes[node] = ApacheBroker(self.apache[node], *place, **self.settings)
        else:
            self.nodes[node] = OurNode(*place, **self.settings)
        until(lambda: self.zk.exists(f"/brokers/ids/{node}"), what=f"node {node} registered", timeout=120)

    def kill(self, node: int) -> None:
        """Kill a node, and end its session in ZooKeeper."""
        self.nodes[node].kill()
        self.zk.end_session(node)

    def create(self, topic: str, partitions: int) -> None:
        create_topic(self.connect, topic, "--partitions", str(partitions), "--replication-factor", "3")
        until(lambda: self.in_sync(topic, partitions), what=f"{topic} is in sync", ignore=(Exception,))

    def state(self, topic: str, partition: int) -> dict[str, Any]:
        return json.loads(self.zk.get(f"/brokers/topics/{topic}/partitions/{partition}/state")[0])  # type: ignore[no-any-return]

    def in_sync(self, topic: str, partitions: int) -> bool:
        states = [self.state(topic, partition) for partition in range(partitions)]
        return all(len(state["isr"]) == 3 and state["leader"] >= 0 for state in states)

    def logs(self, topic: str, partition: int) -> set[str]:
        """Return the set of checksums of the partition's logs: one if the logs of all nodes are equal."""
        found = set()
        for node in NODES:
            files = sorted((self.place / f"{node}" / "data" / f"{topic}-{partition}").glob("*.log"))
            found.add(hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest())
        return found
