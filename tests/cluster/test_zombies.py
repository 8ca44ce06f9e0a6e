"""Zombies on a real ZooKeeper: a paused controller, its late requests, and a second process with a broker's id.

(controller.md 7.1-7.3, 2.5; test_zookeeper_faults tests a frozen controller that returns as a broker.)
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from kazoo.exceptions import NoNodeError

from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import TopicPartition
from messages.errors import NONE, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH
from tests.cluster.processes import OurNode, free_ports
from tests.waiting import until
from tests.wire_client import WireClient
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper


@attrs.define
class Pair:
    """Two nodes, each of which is a broker and can be the controller."""

    place: Path
    connect: str
    zk: PatientZooKeeperClient
    ports: list[int]
    nodes: list[OurNode]

    @property
    def controller(self) -> int:
        return int(json.loads(self.zk.get("/controller")[0])["brokerid"])

    @property
    def epoch(self) -> int:
        return int(self.zk.get("/controller_epoch")[0])

    def broker_epoch(self, node: int) -> int:
        return int(self.zk.exists(f"/brokers/ids/{node}").czxid)

    def state(self, topic: str) -> tuple[dict[str, Any], int]:
        """Return the state of partition 0 and the version of its znode."""
        data, stat = self.zk.get(f"/brokers/topics/{topic}/partitions/0/state")
        return json.loads(data), stat.version

    def create(self, topic: str, *replicas: int) -> dict[str, Any]:
        assignment = {"version": 2, "partitions": {"0": replicas}, "adding_replicas": {}, "removing_replicas": {}}
        self.zk.create(f"/brokers/topics/{topic}", json.dumps(assignment).encode())
        return until(lambda: self.state(topic)[0], what=f"{topic} is led", ignore=(NoNodeError,), timeout=30)

    def ask(self, node: int, request: Any) -> Any:
        with WireClient("127.0.0.1", self.ports[node]) as client:
            return client.call(request)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    tmp_path = tmp_path_factory.mktemp("pair")
    server = EmbeddedZooKeeper(tmp_path / "zookeeper", force_sync=False)
    server.start()
    connect = f"127.0.0.1:{server.port}"
    zk = PatientZooKeeperClient(connect)
    zk.start(20)
    made = Pair(tmp_path, connect, zk, free_ports(3), [])
    try:
        for node in (0, 1):
            made.nodes.append(OurNode(tmp_path / f"{node}", node, made.ports[node], connect))
            until(lambda node=node: zk.exists(f"/brokers/ids/{node}"), what=f"{node} registered", timeout=30)
        until(lambda: zk.exists("/controller"), what="a controller", timeout=20)
        yield made
    finally:
        for running in made.nodes:
            running.kill()
        zk.stop()
        zk.close()
        server.stop()


def test_a_paused_controller_wakes_inactive_and_its_late_requests_are_refused(pair: Pair) -> None:
    paused, other = pair.controller, 1 - pair.controller
    old_epoch, old_registration = pair.epoch, pair.broker_epoch(paused)
    pair.create("old", other, paused)
    pair.nodes[paused].send(signal.SIGSTOP)
    until(lambda: pair.controller == other, what="the other is elected", timeout=30, ignore=(NoNodeError,))
    assert pair.create("meanwhile", other)["controller_epoch"] == old_epoch + 1
    before = {topic: pair.state(topic) for topic in ("old", "meanwhile")}
    pair.nodes[paused].send(signal.SIGCONT)
    until(
        lambda: pair.broker_epoch(paused) > old_registration,
        what="it registers anew",
        timeout=30,
        ignore=(AttributeError,),
    )
    in_sync = lambda: set(pair.state("old")[0]["isr"]) == {0, 1}  # noqa: E731
    until(in_sync, what="it follows again", timeout=30)
    assert (pair.controller, pair.epoch) == (other, old_epoch + 1)
    assert pair.state("meanwhile") == before["meanwhile"], "it wrote nothing of what it had not seen"
    assert pair.state("old")[0]["leader"] == other
    led = pair.create("afterwards", paused, other)
    assert (led["leader"], led["controller_epoch"], set(led["isr"])) == (paused, old_epoch + 1, {0, 1})

    # Late requests: with the old controller epoch, and with the broker epoch before a new registration.
    there = TopicPartition("old", 0)
    lead = LeaderAndIsrPartitionState(there, old_epoch, paused, 90, (paused,), 90, (paused, other))
    stop = StopReplicaPartitionState(there, 90, True)
    for node, epoch, registration, code in (
        (other, old_epoch, pair.broker_epoch(other), STALE_CONTROLLER_EPOCH),
        (paused, old_epoch + 1, old_registration, STALE_BROKER_EPOCH),
    ):
        for request in (
            LeaderAndIsrRequest(4, paused, epoch, registration, (lead,), ()),
            StopReplicaRequest(3, paused, epoch, registration, (stop,)),
            UpdateMetadataRequest(6, paused, epoch, registration, (), ()),
        ):
            assert pair.ask(node, request).error_code == code, request
    good = UpdateMetadataRequest(6, other, old_epoch + 1, pair.broker_epoch(paused), (), ())
    assert pair.ask(paused, attrs.evolve(good)).error_code == NONE  # type: ignore[misc]
    assert pair.state("old")[0]["leader"] == other


def test_a_brokers_double_is_turned_away_and_a_bounced_one_is_another(pair: Pair) -> None:
    double = OurNode(pair.place / "double", 0, pair.ports[2], pair.connect)
    registration = pair.broker_epoch(0)
    assert double.process.wait(60) != 0
    assert "another broker with this id runs" in double.output
    assert pair.broker_epoch(0) == registration and pair.create("t", 0, 1)["leader"] == 0

    pair.nodes[0].kill()
    until(lambda: not pair.zk.exists("/brokers/ids/0"), what="its session is over", timeout=30)
    pair.nodes[0] = OurNode(pair.place / "0", 0, pair.ports[0], pair.connect)
    until(lambda: pair.broker_epoch(0) > registration, what="back", timeout=60, ignore=(AttributeError,))
    led = lambda: pair.state("t")[0]["leader"] in (0, 1) and set(pair.state("t")[0]["isr"]) == {0, 1}  # noqa: E731
    until(led, what="t is whole again", timeout=60)
