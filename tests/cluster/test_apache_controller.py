"""Apache's controller (3.9.1 at inter.broker.protocol.version 2.6) controls our brokers: processes, real ZooKeeper."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from kazoo.exceptions import NoNodeError

from tests.cluster.processes import ApacheBroker, OurNode, free_ports, run_ours
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper

APACHE = 100
OURS = (0, 1, 2)
ASSIGNMENT = {"0": [0, 1, 2], "1": [1, 2, 0], "2": [2, 0, 1], "3": [0]}


@attrs.define
class Cluster:
    """Apache's controller and three of our brokers."""

    directory: Path
    connect: str
    zk: PatientZooKeeperClient
    ports: dict[int, int]
    nodes: dict[int, OurNode] = attrs.field(factory=dict)

    def start(self, node: int) -> None:
        """Start one of our brokers, and wait until it is registered in ZooKeeper."""
        place = self.directory / f"ours-{node}"
        self.nodes[node] = OurNode(place, node, self.ports[node], self.connect, process__roles="broker")
        until(lambda: self.zk.exists(f"/brokers/ids/{node}"), what=f"node {node} registered")

    def states(self, topic: str) -> dict[str, dict[str, Any]]:
        """Return each partition's state in ZooKeeper."""
        path = f"/brokers/topics/{topic}/partitions"
        return {
            number: json.loads(self.zk.get(f"{path}/{number}/state")[0])
            for number in sorted(self.zk.get_children(path), key=int)
        }

    def leaders(self, topic: str) -> dict[str, int]:
        """Return each partition's leader in ZooKeeper."""
        return {number: state["leader"] for number, state in self.states(topic).items()}

    def in_sync(self, topic: str) -> dict[str, list[int]]:
        """Return each partition's ISR in ZooKeeper, in the order of the assignment."""
        return {
            number: [replica for replica in ASSIGNMENT[number] if replica in state["isr"]]
            for number, state in self.states(topic).items()
        }

    def leaders_sent_by(self, node: int, topic: str) -> dict[str, int]:
        """Return each partition's leader in the metadata that one of our brokers sends to clients."""
        listing = ["kcat", "-L", "-J", "-b", f"127.0.0.1:{self.ports[node]}"]
        said = json.loads(subprocess.run(listing, capture_output=True, text=True, timeout=20, check=True).stdout)
        assert said["controllerid"] == APACHE
        (partitions,) = (each["partitions"] for each in said["topics"] if each["topic"] == topic)
        return {str(each["partition"]): each["leader"] for each in partitions}

    def directories(self, node: int) -> set[str]:
        """Return the names of the partition directories of one of our brokers."""
        return {path.name for path in (self.directory / f"ours-{node}" / "data").iterdir() if path.is_dir()}


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: EmbeddedZooKeeper, apache_jars: Path, kcat: str) -> Iterator[Cluster]:
    connect = f"127.0.0.1:{zookeeper.port}"
    *ours, apache_port = free_ports(len(OURS) + 1)
    zk = PatientZooKeeperClient(connect)
    seen = Cluster(tmp_path, connect, zk, dict(zip(OURS, ours, strict=True)))
    place = tmp_path / "apache"
    place.mkdir()
    apache = ApacheBroker(apache_jars, place, APACHE, apache_port, connect)
    try:
        zk.start(20)
        until(lambda: zk.exists("/controller"), what="Apache's controller is elected", timeout=60)
        for node in OURS:
            seen.start(node)
        yield seen
    finally:
        zk.stop()
        zk.close()
        for node in seen.nodes.values():
            node.kill()
        apache.kill()


@pytest.mark.soak
@pytest.mark.long
def test_our_brokers_obey_apaches_controller(cluster: Cluster) -> None:
    """Our brokers follow Apache's controller through creation, a kill, a controlled shutdown and deletion."""
    data = {"version": 2, "partitions": ASSIGNMENT, "adding_replicas": {}, "removing_replicas": {}}
    cluster.zk.create("/config/topics/led", b'{"version":1,"config":{}}')
    cluster.zk.create("/brokers/topics/led", json.dumps(data).encode())
    preferred = {number: replicas[0] for number, replicas in ASSIGNMENT.items()}
    until(lambda: cluster.leaders("led"), lambda seen: seen == preferred, "led as assigned", ignore=(NoNodeError,))
    for node in OURS:
        held = {f"led-{number}" for number, replicas in ASSIGNMENT.items() if node in replicas}
        until(lambda node=node: cluster.directories(node), lambda seen, held=held: seen == held, f"the logs of {node}")
        until(
            lambda node=node: cluster.leaders_sent_by(node, "led"),
            lambda seen: seen == preferred,
            f"node {node} returns to its clients what Apache's controller sent",
            ignore=(ValueError,),
        )

    cluster.nodes[0].send(signal.SIGKILL)
    moved = {"0": 1, "1": 1, "2": 2, "3": -1}
    until(lambda: cluster.leaders("led"), lambda seen: seen == moved, "led by the brokers that are left")
    until(lambda: cluster.leaders_sent_by(1, "led"), lambda seen: seen == moved, "the others receive it")
    assert [state["leader_epoch"] for state in cluster.states("led").values()] == [1, 1, 1, 1]
    cluster.start(0)
    until(lambda: cluster.leaders("led")["3"], lambda leader: leader == 0, "who came back leads what only it holds")
    until(lambda: cluster.in_sync("led"), lambda seen: seen == ASSIGNMENT, "who came back caught up with its leaders")

    assert cluster.nodes[1].stop() == 0
    assert cluster.leaders("led") == {"0": 0, "1": 2, "2": 2, "3": 0}, "handed over before it went"
    cluster.start(1)

    cluster.zk.create("/admin/delete_topics/led")
    until(lambda: not cluster.zk.exists("/brokers/topics/led"), what="deleted")
    for node in OURS:
        names = cluster.directories(node)
        assert names and all(name.endswith("-delete") for name in names), names
    assert json.loads(cluster.zk.get("/controller")[0])["brokerid"] == APACHE
    assert cluster.zk.get("/controller_epoch")[0] == b"1"

    for node in OURS:
        cluster.nodes[node].kill()
    replayed = run_ours("replay", str(cluster.directory))
    assert replayed.returncode == 0, replayed.stdout
    assert ", 0 divergences" in replayed.stdout
