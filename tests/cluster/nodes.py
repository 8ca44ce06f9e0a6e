"""Nodes as real processes on an embedded ZooKeeper, ours or Apache's, with access to their znodes and their logs."""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from kazoo.exceptions import NoNodeError

from tests.cluster.processes import ApacheBroker, OurNode, Running, free_ports
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient, rotated
from zk_bridge.embedded import EmbeddedZooKeeper

NODES = (0, 1, 2)


@attrs.define
class Nodes:
    """Nodes with the same `settings` (`__` represents a dot). `apache` maps each Apache node to its jars."""

    place: Path
    connect: str
    ports: list[int]
    zk: PatientZooKeeperClient
    apache: Mapping[int, Path]
    settings: dict[str, object]
    nodes: dict[int, Running] = attrs.field(factory=dict)

    @classmethod
    @contextlib.contextmanager
    def running(
        cls, place: Path, apache: Mapping[int, Path] | None = None, ids: Sequence[int] = NODES, **settings: object
    ) -> Iterator[Nodes]:
        """Run nodes and their ZooKeeper while the context is open. The first of `ids` becomes the controller."""
        with (
            EmbeddedZooKeeper(place / "zookeeper", force_sync=False) as server,
            PatientZooKeeperClient.opened(server.connect_string) as zk,
        ):
            made = cls(place, server.connect_string, free_ports(len(ids)), zk, apache or {}, settings)
            try:
                for node in ids:
                    made.start(node)
                yield made
            finally:
                for running in made.nodes.values():
                    running.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self, node: int) -> None:
        """Start a node after its earlier session has ended, and wait until it listens and there is a controller."""
        registration = f"/brokers/ids/{node}"
        until(lambda: not self.zk.exists(registration), what="its earlier session is over", timeout=30)
        place = (self.place / f"{node}", node, self.ports[node], self.connect)
        if node in self.apache:
            self.nodes[node] = ApacheBroker(self.apache[node], *place, **self.settings)
        else:
            self.nodes[node] = OurNode(*place, **self.settings)
        until(lambda: self.zk.exists(registration) and self.zk.exists("/controller"), what=f"node {node}", timeout=120)
        # Apache's broker registers before it listens
        address = "127.0.0.1", self.ports[node]
        until(lambda: socket.create_connection(address, 5), what=f"node {node} listens", ignore=(OSError,)).close()

    def kill(self, node: int) -> None:
        """Kill a node, and end its session in ZooKeeper."""
        self.nodes[node].kill()
        self.zk.end_session(node)

    def create(self, topic: str, partitions: int | Mapping[int, Sequence[int]], **config: str) -> None:
        """Create a topic by its znodes, and wait until each partition has a leader and all its replicas are in sync.

        A number of partitions gets replicas on all nodes, with each node first in turn.
        """
        if isinstance(partitions, int):
            partitions = rotated(sorted(self.nodes), partitions)
        self.zk.create_topic(topic, partitions, **config)

        def is_replicated() -> bool:
            states = self.zk.states(topic)
            return all(set(states[n]["isr"]) == {*ids} and states[n]["leader"] >= 0 for n, ids in partitions.items())

        until(is_replicated, what=f"{topic} is in sync", timeout=90, ignore=(NoNodeError,))

    def in_sync(self, topic: str, replicas: Collection[int] = ()) -> bool:
        """Return whether every partition has a leader, and these replicas, or else all nodes, in its ISR."""
        wanted = {*replicas} or {*self.nodes}
        return all(set(each["isr"]) == wanted and each["leader"] >= 0 for each in self.zk.states(topic).values())

    def logs(self, topic: str, partition: int) -> set[str]:
        """Return the set of checksums of the partition's logs: one if the logs of all nodes are equal."""
        found = set()
        for node in self.nodes:
            files = sorted((self.place / f"{node}" / "data" / f"{topic}-{partition}").glob("*.log"))
            found.add(hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest())
        return found
