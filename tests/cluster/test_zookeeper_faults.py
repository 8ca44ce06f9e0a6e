"""Faults of a real ZooKeeper: a restart, and an invalid response."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from kazoo.exceptions import NoNodeError

from tests.cluster.processes import Running, free_ports, properties, run_ours, start_up
from tests.waiting import until
from tests.zk_bridge.proxy import Proxy
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper


@attrs.define
class Cluster:
    """Two nodes on a ZooKeeper server that the test can stop."""

    directory: Path
    server: EmbeddedZooKeeper
    zk: PatientZooKeeperClient
    nodes: dict[int, int]
    """Node id -> process id."""

    def create(self, topic: str, replicas: list[int]) -> dict[str, Any]:
        """Create a topic of one partition by its znodes, and return its first state."""
        assignment = {"version": 2, "partitions": {"0": replicas}, "adding_replicas": {}, "removing_replicas": {}}
        self.zk.create(f"/config/topics/{topic}", b'{"version":1,"config":{}}')
        self.zk.create(f"/brokers/topics/{topic}", json.dumps(assignment).encode())
        return until(lambda: self.state(topic), what=f"{topic} has a leader", ignore=(NoNodeError,))

    def state(self, topic: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.zk.get(f"/brokers/topics/{topic}/partitions/0/state")[0])
        return found

    def epochs(self) -> dict[int, int]:
        """Return the broker epochs: the czxid of each registration."""
        return {id: self.zk.exists(f"/brokers/ids/{id}").czxid for id in self.nodes}


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[Cluster]:
    connect = f"127.0.0.1:{zookeeper.port}"
    up, line = start_up(
        tmp_path / "cluster", tmp_path / "up.log", "--brokers", "2", "--port", "0", "--zookeeper", connect
    )
    zk = PatientZooKeeperClient(connect)
    try:
        zk.start(20)
        yield Cluster(tmp_path / "cluster", zookeeper, zk, {node["id"]: node["pid"] for node in line["brokers"]})
    finally:
        zk.stop()
        zk.close()
        up.stop()
    replayed = run_ours("replay", str(tmp_path / "cluster"))
    assert replayed.returncode == 0, replayed.stdout
    assert "2 runs" in replayed.stdout


def test_a_restart_of_zookeeper_loses_no_session_and_no_watch(cluster: Cluster) -> None:
    cluster.create("before", [0, 1])
    epochs, controller_epoch = cluster.epochs(), cluster.zk.get("/controller_epoch")[0]
    cluster.server.stop()
    cluster.server.start()
    until(lambda: cluster.zk.connected, what="reconnected")
    assert cluster.create("after", [1, 0])["leader"] == 1
    assert cluster.epochs() == epochs
    assert cluster.zk.get("/controller_epoch")[0] == controller_epoch
    cluster.zk.create("/admin/delete_topics/before")
    until(lambda: not cluster.zk.exists("/admin/delete_topics/before"), what="the deletion watch is armed")
    assert not cluster.zk.exists("/brokers/topics/before")


UNGUARDED = """
import contextlib
from actors.cli import main
from zk_bridge import kazoo_client
kazoo_client._sense_expected = contextlib.nullcontext
main()
"""
"""A node without the guard for invalid responses, which then end kazoo's thread, as any unexpected error does."""


def test_a_node_ends_when_its_zookeeper_thread_fails(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    link = Proxy(zookeeper.port)
    [port] = free_ports(1)
    file = properties(
        tmp_path / "server.properties",
        broker__id=0,
        listeners=f"PLAINTEXT://127.0.0.1:{port}",
        log__dirs=tmp_path / "data",
        zookeeper__connect=link.hosts,
        zookeeper__session__timeout__ms=3000,
    )
    node = Running([sys.executable, "-c", UNGUARDED, "broker", str(file)], tmp_path / "out.log")
    try:
        until(lambda: "] started (" in node.output, what="the node serves", timeout=30)
        link.alter_next(lambda frame: bytes(4), lambda xid: True)  # a frame without content
        assert node.process.wait(10) == 1
        assert "the ZooKeeper client thread has ended: " in node.output.splitlines()[-1]
    finally:
        node.kill()
        link.close()
