"""Test NodeActor in virtual time, with the in-memory ZooKeeper, a real log directory and a simulated network."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from thespian.actors import ActorAddress

from actors.node.adapters import ProcessAdapter, RandomAdapter, TimeAdapter
from actors.node.node import BROKER_STATE, NodeActor
from actors.runtime import Delivery, local_system
from actors.storage.disk import DiskAdapter
from actors.storage.log_manager import LogManager
from messages.apis.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from messages.apis.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.update_metadata import UpdateMetadataResponse
from messages.ask import Answer, Ask
from messages.cluster import ConfigEntry, Endpoint, TopicPartition
from messages.metrics import Gauges
from messages.network import Received, Transmit, TransmitFailed
from messages.node import NodeFailed, NodeReady, NodeSettings, NodeStopped, OpenStore, ServeClients, StartNode, StopNode
from messages.zookeeper import SetBrokerConfig
from tests.frozen_time import START, FrozenTime, frozen
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper

__all__ = ["frozen"]

WHERE = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
BACKOFF = 5.0
SESSION = 18.0


class Node:
    """A node, its ZooKeeper session, and the messages that it sent to external endpoints, in order."""

    def __init__(
        self,
        time: FrozenTime,
        log_dir: Path,
        zookeeper: MemoryZooKeeper,
        node_id: int = 0,
        where: Endpoint = WHERE,
        **options: Any,
    ) -> None:
        self.time = time
        self.errors: list[str] = []
        self.base = time.base(observer=self)
        self.base.ports |= {
            "disk": DiskAdapter(),
            "logs": LogManager(TimeAdapter().wall_ms),
            "time": TimeAdapter(),
            "random": RandomAdapter(),
            "process": ProcessAdapter("127.0.0.1", 1),
        }
        self.zookeeper = zookeeper
        self.store = MemoryStore(zookeeper)
        self.reported: list[Any] = []
        self.transmitted: list[Transmit] = []
        self.shutdown_answer: Any = ControlledShutdownResponse(0)
        self.outside: ActorAddress = self.base.external_endpoint(
            "process", lambda message, _: self.reported.append(message)
        )
        self.network = self.base.external_endpoint("network", self._transmit)
        gateway = self.base.external_endpoint("store", self._store)
        listener = self.base.external_endpoint("listener", lambda message, _: self.reported.append(message))
        self.states: list[float] = []
        """The published values of brokerstate."""
        metrics = self.base.external_endpoint("metrics", self._metered)
        settings = NodeSettings(node_id, (where,), (where,), (str(log_dir),), "memory", **options)
        self.address = local_system(self.base).createActor(NodeActor)
        start = StartNode(settings, gateway, self.network, listener, metrics, self.outside)
        self.base.inject(self.address, start, self.outside)

    def _metered(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, Gauges):
            self.states += [gauge.value for gauge in message.values if gauge.name == BROKER_STATE]

    def observe_delivery(self, delivery: Delivery) -> None:
        """Record a handler that failed. The base calls this method after each delivery."""
        if delivery.error not in (None, "dead letter"):
            self.errors.append(f"{delivery.receiver}: {type(delivery.message).__name__}: {delivery.error}")

    def _store(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, OpenStore):
            self.store.start(lambda news: self.base.inject(message.bridge, news, self.outside))
        else:
            self.store.submit(message)

    def _transmit(self, message: Any, sender: ActorAddress) -> None:
        """Answer like a broker or a controller. If the answer is None, report a broken connection instead."""
        transmit = message.question if isinstance(message, Ask) else message
        if not isinstance(transmit, Transmit):
            return
        self.transmitted.append(transmit)
        match transmit.request:
            case ControlledShutdownRequest():
                response = self.shutdown_answer
            case LeaderAndIsrRequest():
                response = LeaderAndIsrResponse(0)
            case _:
                response = UpdateMetadataResponse(0)
        outcome: Any = Received(transmit.channel, transmit.correlation_id, response)
        if response is None:
            outcome = TransmitFailed(transmit.channel, transmit.correlation_id, "reset")
        self.base.inject(sender, Answer(message.id, outcome) if isinstance(message, Ask) else outcome, self.network)

    def run(self, seconds: float = 0.0) -> list[Any]:
        """Let time pass, and return the messages that the node sent meanwhile."""
        before = len(self.reported)
        self.time.advance(seconds)
        self.base.run()
        return self.reported[before:]

    def stop(self) -> list[Any]:
        """Send StopNode without letting time pass, and return the messages that the node sent."""
        self.base.inject(self.address, StopNode(), self.outside)
        return self.run()

    @property
    def shutdowns_asked(self) -> int:
        """Return the number of controlled shutdown requests."""
        return sum(isinstance(transmit.request, ControlledShutdownRequest) for transmit in self.transmitted)


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper()


@pytest.fixture
def node(frozen: FrozenTime, tmp_path: Path, zookeeper: MemoryZooKeeper) -> Iterator[Node]:
    """Return a started node with both roles, and check that no handler failed."""
    started = Node(frozen, tmp_path / "data", zookeeper)
    started.run()
    yield started
    assert started.errors == []


def registration(zookeeper: MemoryZooKeeper) -> Any:
    """Return the registration of broker 0 as (data, znode)."""
    znode = zookeeper.read("/brokers/ids/0")
    return json.loads(znode.data) if znode.data else None, znode


def test_a_node_registers_before_it_serves(node: Node, zookeeper: MemoryZooKeeper) -> None:
    data, znode = registration(zookeeper)
    assert [type(message) for message in node.reported] == [ServeClients, NodeReady]
    ready = node.reported[1]
    assert ready.broker_epoch == znode.czxid
    assert len(ready.cluster_id) == 22
    assert (data["host"], data["port"], data["endpoints"]) == ("127.0.0.1", 9092, ["PLAINTEXT://127.0.0.1:9092"])
    assert znode.version == 1
    assert int(data["timestamp"]) == START.replace(tzinfo=UTC).timestamp() * 1000
    assert json.loads(zookeeper.read("/controller").data)["brokerid"] == 0


def test_a_node_publishes_its_state_by_kafkas_numbers(node: Node) -> None:
    node.stop()
    assert [state for state, _ in itertools.groupby(node.states)] == [1, 2, 3, 6, 7]


def test_a_controller_alone_registers_no_broker(frozen: FrozenTime, tmp_path: Path, zookeeper: MemoryZooKeeper) -> None:
    node = Node(frozen, tmp_path / "data", zookeeper, roles=("controller",))
    assert [type(message) for message in node.run()] == [ServeClients, NodeReady]
    assert node.reported[1].broker_epoch == -1
    assert registration(zookeeper)[0] is None
    assert zookeeper.read("/controller").data
    assert not (tmp_path / "data").exists()


def test_a_broker_alone_does_not_compete(frozen: FrozenTime, tmp_path: Path, zookeeper: MemoryZooKeeper) -> None:
    Node(frozen, tmp_path / "data", zookeeper, roles=("broker",)).run()
    assert registration(zookeeper)[0] is not None
    assert zookeeper.read("/controller").data is None


@pytest.mark.parametrize("name", ["INTERNAL", "PLAINTEXT"])
def test_a_broker_without_the_controllers_listener_logs_an_error(
    node: Node, frozen: FrozenTime, tmp_path: Path, zookeeper: MemoryZooKeeper, name: str, caplog: Any
) -> None:
    """Node 0 is the controller and uses listener PLAINTEXT. The warning is repeated after an expired session."""
    where = Endpoint(name, "127.0.0.1", 9093)
    other = Node(frozen, tmp_path / "other", zookeeper, 1, where, inter_broker_listener_name=name)
    words = "Controller 0 uses listener PLAINTEXT, but this broker advertises only INTERNAL"
    other.run()
    assert caplog.text.count(words) == (name == "INTERNAL")
    other.store.expire()
    other.run()
    assert caplog.text.count(words) == 2 * (name == "INTERNAL")
    assert other.errors == []


def test_an_id_that_another_session_holds_is_refused_by_name(
    node: Node, frozen: FrozenTime, tmp_path: Path, zookeeper: MemoryZooKeeper
) -> None:
    second = Node(frozen, tmp_path / "other", zookeeper)
    (failed,) = second.run()
    assert isinstance(failed, NodeFailed)
    assert "/brokers/ids/0 is owned by session" in failed.reason


def test_log_directories_of_another_broker_keep_a_node_from_starting(
    frozen: FrozenTime, tmp_path: Path, zookeeper: MemoryZooKeeper
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=0\nbroker.id=7\n")
    (failed,) = Node(frozen, tmp_path / "data", zookeeper).run()
    assert isinstance(failed, NodeFailed)
    assert "7" in failed.reason
    assert registration(zookeeper)[0] is None


def test_after_an_expired_session_it_registers_again_then_joins_the_election(
    node: Node, zookeeper: MemoryZooKeeper
) -> None:
    first = registration(zookeeper)[1].czxid
    epoch = int(zookeeper.read("/controller_epoch").data)
    node.store.expire()
    assert node.run() == []
    assert registration(zookeeper)[1].czxid > first
    assert json.loads(zookeeper.read("/controller").data)["brokerid"] == 0
    assert int(zookeeper.read("/controller_epoch").data) == epoch + 1


def advertise(node: Node, text: str | None) -> None:
    """Set advertised.listeners of broker 0, as kafka-configs does; None removes it."""
    said = () if text is None else (ConfigEntry("advertised.listeners", text),)
    with Client(MemoryStore(node.zookeeper)) as admin:
        admin.ask(SetBrokerConfig("0", said))
    node.run()


def test_advertised_listeners_can_change_while_the_broker_runs(
    node: Node, frozen: FrozenTime, tmp_path: Path, zookeeper: MemoryZooKeeper, caplog: Any
) -> None:
    """The registration is updated without a new broker epoch.

    Later sessions and restarted nodes also register the new listeners. An invalid value changes nothing.
    """

    def reported() -> Any:
        return registration(zookeeper)[0]["endpoints"]

    epoch = registration(zookeeper)[1].czxid
    advertise(node, "PLAINTEXT://elsewhere:1")
    assert reported() == ["PLAINTEXT://elsewhere:1"]
    advertise(node, "NONE_TEXT://elsewhere:2")
    assert reported() == ["PLAINTEXT://elsewhere:1"]
    assert "Ignoring advertised.listeners=NONE_TEXT://elsewhere:2: Error creating broker listeners" in caplog.text
    assert registration(zookeeper)[1].czxid == epoch and registration(zookeeper)[1].version == 2
    advertise(node, "PLAINTEXT://elsewhere:3")
    node.store.expire()
    node.run()
    assert reported() == ["PLAINTEXT://elsewhere:3"] and registration(zookeeper)[1].version == 1
    node.store.expire(reconnect=False)
    advertise(node, "PLAINTEXT://elsewhere:4")
    node.store.reconnect()
    node.run()
    assert reported() == ["PLAINTEXT://elsewhere:4"]
    node.stop()
    node.store.stop()
    second = Node(frozen, tmp_path / "second", zookeeper)
    second.run()
    assert reported() == ["PLAINTEXT://elsewhere:4"]
    advertise(second, None)
    assert reported() == ["PLAINTEXT://127.0.0.1:9092"]
    assert second.errors == []


def test_a_session_may_expire_at_any_moment_of_the_start(frozen: FrozenTime, tmp_path: Path) -> None:
    """The session expires after each single delivery: from its start to ten deliveries after NodeReady."""
    tried = beyond = 0
    for deliveries in itertools.count(1):
        zookeeper = MemoryZooKeeper()
        node = Node(frozen, tmp_path / str(deliveries), zookeeper)
        node.base.run(deliveries)
        beyond += NodeReady in map(type, node.reported)
        if node.store.session_id:
            tried += 1
            node.store.expire()
            node.run()
            assert [type(message) for message in node.reported] == [ServeClients, NodeReady], deliveries
            assert registration(zookeeper)[1].owner == node.store.session_id, deliveries
            assert json.loads(zookeeper.read("/controller").data)["brokerid"] == 0, deliveries
            assert zookeeper.read("/controller").owner == node.store.session_id, deliveries
            assert node.errors == [], deliveries
        if beyond == 10:
            break
    assert tried > 2 * beyond, "most of the moments are before the node is ready"


def test_a_stop_asks_the_controller_first(node: Node) -> None:
    assert node.stop() == [NodeStopped()]
    (request,) = (t.request for t in node.transmitted if isinstance(t.request, ControlledShutdownRequest))
    assert (request.version, request.broker_id, request.broker_epoch) == (3, 0, node.reported[1].broker_epoch)


@pytest.mark.parametrize(
    "answer",
    [None, ControlledShutdownResponse(11), ControlledShutdownResponse(0, (TopicPartition("t", 0),))],
    ids=["broken connection", "error", "partitions remain"],
)
def test_a_stop_is_tried_three_times_and_then_done(node: Node, answer: Any) -> None:
    node.shutdown_answer = answer
    assert node.stop() == []
    assert node.run(2 * BACKOFF - 0.1) == []
    assert node.shutdowns_asked == 2
    assert node.run(0.2) == [NodeStopped()]
    assert node.shutdowns_asked == 3


def test_a_stop_without_controlled_shutdown_is_done_at_once(
    frozen: FrozenTime, tmp_path: Path, zookeeper: MemoryZooKeeper
) -> None:
    node = Node(frozen, tmp_path / "data", zookeeper, controlled_shutdown_enable=False)
    node.run()
    assert node.stop() == [NodeStopped()]
    assert node.shutdowns_asked == 0


def test_a_stop_does_not_wait_for_ever_for_zookeeper(node: Node) -> None:
    node.store.disconnect()
    assert node.stop() == []
    assert node.run(SESSION - 0.1) == []
    assert node.run(0.2) == [NodeStopped()]


def test_a_stop_does_not_wait_for_a_start_that_waits_for_zookeeper(frozen: FrozenTime, tmp_path: Path) -> None:
    """The connection is cut after each single delivery until the node serves.

    A node that serves waits for at most a session timeout.
    """
    tried = 0
    for deliveries in itertools.count(1):
        node = Node(frozen, tmp_path / str(deliveries), MemoryZooKeeper())
        node.base.run(deliveries)
        if ServeClients in map(type, node.reported):
            break
        if node.store.session_id:
            tried += 1
            node.store.disconnect()
            node.run(60.0)
            serving = ServeClients in map(type, node.reported)
            assert NodeStopped() in node.stop() + (node.run(SESSION) if serving else []), deliveries
            assert node.errors == [], deliveries
    assert tried > 10


def test_a_stop_does_not_wait_for_a_new_registration_either(node: Node) -> None:
    node.store.expire(reconnect=False)
    node.store.reconnect()
    node.store.disconnect()
    assert node.run(60.0) == []
    assert node.stop() == []
    assert node.run(SESSION - 0.1) == []
    assert node.run(0.2) == [NodeStopped()]


def test_a_stop_goes_on_when_the_session_expires_meanwhile(node: Node) -> None:
    node.store.disconnect()
    assert node.stop() == []
    node.store.expire()
    assert NodeStopped() in node.run()
