"""A running broker loses one of its log directories (broker.md 2.3): real processes on a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from kazoo.exceptions import NoNodeError

from tests.cluster.processes import OurNode, free_ports
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper

PARTITIONS = 4


@attrs.define
class Cluster:
    """Two nodes, each with the log directories a and b."""

    directory: Path
    zk: PatientZooKeeperClient

    def logs(self, node: int, name: str) -> set[str]:
        return {path.name for path in (self.directory / f"{node}" / name).iterdir() if path.is_dir()}

    def create(self, topic: str, replicas: list[int]) -> None:
        """Create a topic with these replicas for each partition, and wait for its leaders."""
        assignment = {str(number): replicas for number in range(PARTITIONS)}
        topic_data = {"version": 2, "partitions": assignment, "adding_replicas": {}, "removing_replicas": {}}
        self.zk.create(f"/config/topics/{topic}", b'{"version":1,"config":{}}')
        self.zk.create(f"/brokers/topics/{topic}", json.dumps(topic_data).encode())
        until(lambda: len(self.states(topic)) == PARTITIONS, what=f"{topic} has leaders", ignore=(NoNodeError,))

    def states(self, topic: str) -> dict[str, dict[str, Any]]:
        """Return the state of each partition."""
        path = f"/brokers/topics/{topic}/partitions"
        return {
            f"{topic}-{number}": json.loads(self.zk.get(f"{path}/{number}/state")[0])
            for number in self.zk.get_children(path)
        }


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[Cluster]:
    connect = f"127.0.0.1:{zookeeper.port}"
    nodes: list[OurNode] = []
    zk = PatientZooKeeperClient(connect)
    try:
        zk.start(20)
        for node, port in enumerate(free_ports(2)):
            place = tmp_path / f"{node}"
            where = {"log__dirs": f"{place}/a,{place}/b", "zookeeper__session__timeout__ms": 18000}
            nodes.append(OurNode(place, node, port, connect, controlled__shutdown__enable="false", **where))
            until(lambda node=node: zk.exists(f"/brokers/ids/{node}"), what=f"node {node} registered")
        yield Cluster(tmp_path, zk)
    finally:
        for running in reversed(nodes):
            running.stop()
        zk.stop()
        zk.close()


def test_a_directory_lost_while_running_moves_its_leaderships(cluster: Cluster) -> None:
    cluster.create("t", [1, 0])
    until(lambda: len(cluster.logs(1, "a") | cluster.logs(1, "b")) == PARTITIONS, what="node 1 has made its logs")
    lost, kept = cluster.logs(1, "a"), cluster.logs(1, "b")
    assert (len(lost), len(kept)) == (2, 2)
    broken = cluster.directory / "1" / "a"
    broken.rename(broken.with_name("a.away"))
    broken.touch()
    cluster.create("u", [1, 0])
    moved = until(
        lambda: {name for name, state in cluster.states("t").items() if state["leader"] == 0},
        lambda names: names == lost,
        what="what was in the lost directory is led by the other node",
    )
    for name, state in cluster.states("t").items():
        assert state["isr"] == ([0] if name in moved else [1, 0])
    assert all(state["leader"] == 1 for state in cluster.states("u").values()), "the new topic found another place"
    assert cluster.logs(1, "b") == kept | {f"u-{number}" for number in range(PARTITIONS)}
    until(lambda: not cluster.zk.get_children("/log_dir_event_notification"), what="the notification is dealt with")
