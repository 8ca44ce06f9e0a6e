"""Test ZkBridgeActor on a real server: no watch is lost after a cut link, an expired session or a server restart."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.runtime import LocalBase, RealClock, local_system
from messages import zookeeper
from messages.ask import Answer, Ask, Failure
from messages.cluster import PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.events import (
    BrokerChange,
    ControllerChange,
    PartitionModifications,
    Reelect,
    SessionEstablished,
    SessionExpired,
    TopicChange,
)
from messages.node import StartBridge
from messages.store import OK
from tests.zk_bridge.bridging import broker, led
from tests.zk_bridge.proxy import Proxy
from zk_bridge.client import Client, connect
from zk_bridge.core import ZkBridgeActor
from zk_bridge.embedded import EmbeddedZooKeeper
from zk_bridge.kazoo_store import KazooStore

pytestmark = pytest.mark.java
TIMEOUT = 30.0


class RealBridge:
    """A ZkBridgeActor on a LocalBase that a thread runs, connected to the server through a proxy."""

    def __init__(self, port: int, chroot: str, session_timeout: float = 10.0) -> None:
        self.link = Proxy(port)
        self.store = KazooStore(self.link.hosts + chroot, session_timeout, 10, create_chroot=True)
        self.base = LocalBase(clock=RealClock())
        self.system = local_system(self.base)
        self.mail: list[Any] = []
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self.me = self.base.external_endpoint("me", self._take)
        gateway = self.base.external_endpoint("store", lambda message, sender: self.store.submit(message))
        self.bridge = self.system.createActor(ZkBridgeActor)
        self.base.inject(self.bridge, StartBridge(gateway, self.me), self.me)
        self._driver = threading.Thread(target=self._drive)
        self._driver.start()
        self.store.start(lambda news: self.base.inject(self.bridge, news, gateway))

    def _drive(self) -> None:
        while not self._stopped.wait(0.002):
            self.base.run()

    def _take(self, message: Any, sender: Any) -> None:
        with self._changed:
            self.mail.append(message)
            self._changed.notify_all()

    def put(self, question: Any) -> int:
        """Send a question and return its id."""
        number = next(self._ids)
        self.base.inject(self.bridge, Ask(number, question), self.me)
        return number

    def result(self, number: int) -> Any:
        """Wait for the answer to a question, and return its result."""
        return self.until(
            lambda mail: next((m.result for m in mail if isinstance(m, Answer) and m.id == number), None), number
        )

    def ask(self, question: Any) -> Any:
        """Send a question and return its result."""
        return self.result(self.put(question))

    def heard(self, event: Any, times: int = 1) -> None:
        """Wait until an event has been received this number of times."""
        self.until(lambda mail: mail.count(event) >= times, event)

    def until(self, good: Callable[[list[Any]], Any], what: Any) -> Any:
        """Wait until `good(mail)` is true, and return its value."""
        deadline = time.monotonic() + TIMEOUT
        with self._changed:
            while not (found := good(self.mail)):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise AssertionError(f"never came: {what}; the last mail: {self.mail[-8:]}")
            return found

    def close(self) -> None:
        """Stop the store, the thread, the actor system and the proxy."""
        self.store.stop()
        self._stopped.set()
        self._driver.join()
        self.system.shutdown()
        self.link.close()


@pytest.fixture
def bridge(server: EmbeddedZooKeeper, chroot: str) -> Iterator[RealBridge]:
    bridge = RealBridge(server.port, chroot)
    bridge.ask(zookeeper.EnsurePaths())
    yield bridge
    bridge.close()


@pytest.fixture
def admin(server: EmbeddedZooKeeper, chroot: str, bridge: RealBridge) -> Iterator[Client]:
    with connect(server.connect_string + chroot) as admin:
        yield admin


def topic(name: str, partitions: int = 1) -> zookeeper.CreateTopic:
    """Return the question that creates a topic whose partitions have replica 1."""
    return zookeeper.CreateTopic(
        zookeeper.TopicAssignment(
            name, tuple(PartitionAssignment(n, ReplicaAssignment((1,))) for n in range(partitions))
        )
    )


def test_a_cut_link_loses_no_watch(bridge: RealBridge, admin: Client) -> None:
    admin.ask(topic("t"))
    bridge.ask(zookeeper.GetTopics())
    bridge.ask(zookeeper.GetAssignments(("t",)))
    bridge.ask(zookeeper.GetBrokers())
    bridge.ask(zookeeper.GetController())
    bridge.link.cut()
    admin.ask(topic("made-meanwhile"))
    admin.ask(zookeeper.SetAssignments((topic("t", 2).topic,), epoch_zk_version=None))
    admin.ask(zookeeper.RegisterBroker(broker(2), 0, "2.6"))
    asked_meanwhile = bridge.put(zookeeper.GetPartitionStates((TopicPartition("t", 0),)))
    bridge.link.heal()
    for event in (TopicChange(1), PartitionModifications("t", 1), BrokerChange(1), Reelect(1)):
        bridge.heard(event)
    assert bridge.result(asked_meanwhile).states[0].state is None
    assert bridge.ask(zookeeper.GetTopics()) == zookeeper.TopicNames(("made-meanwhile", "t"))
    admin.ask(topic("made-afterwards"))
    bridge.heard(TopicChange(1), times=2)
    bridge.ask(zookeeper.GetController())
    admin.ask(zookeeper.Elect(7, 0))
    bridge.heard(ControllerChange(1))
    assert SessionExpired(1) not in bridge.mail


def test_the_controllers_epoch_is_read_behind_a_transaction(bridge: RealBridge, admin: Client) -> None:
    admin.ask(zookeeper.Elect(7, 0))
    assert bridge.ask(zookeeper.GetControllerEpoch()) == zookeeper.ControllerEpochRead(1)


def test_writes_survive_a_flapping_link(bridge: RealBridge, admin: Client) -> None:
    """8 batches of 1,500 partitions are each written once, while the link is cut repeatedly."""
    fence = admin.ask(zookeeper.Elect(1, 0)).epoch_zk_version
    admin.ask(topic("t", 1500))
    partitions = [TopicPartition("t", n) for n in range(1500)]
    stop = threading.Event()

    def flap() -> None:
        while not stop.wait(0.03):
            bridge.link.cut()
            bridge.link.heal()
            stop.wait(0.15)

    flapping = threading.Thread(target=flap)
    flapping.start()
    try:
        created = bridge.ask(zookeeper.CreatePartitionStates(led(partitions, 1, 0), fence))
        assert {each.code for each in created.results} == {OK}
        for epoch in range(1, 8):
            result = bridge.ask(zookeeper.UpdatePartitionStates(led(partitions, 1, epoch, epoch - 1), fence))
            assert {(each.code, each.zk_version) for each in result.results} == {(OK, epoch)}
    finally:
        stop.set()
        flapping.join()
    states = admin.ask(zookeeper.GetPartitionStates(tuple(partitions))).states
    assert {(each.state.leader_epoch, each.state.zk_version) for each in states} == {(7, 7)}


def test_an_expired_session_is_followed_by_a_new_generation(
    server: EmbeddedZooKeeper, chroot: str, admin: Client
) -> None:
    bridge = RealBridge(server.port, chroot, session_timeout=1.0)
    try:
        first = bridge.ask(zookeeper.RegisterBroker(broker(1), 0, "2.6"))
        assert isinstance(first, zookeeper.BrokerRegistered)
        assert isinstance(bridge.ask(zookeeper.Elect(1, 0)), zookeeper.Elected)
        bridge.ask(zookeeper.GetTopics())
        admin.ask(zookeeper.GetBrokers())
        bridge.link.cut()
        lost = bridge.put(zookeeper.GetTopics())
        deadline = time.monotonic() + TIMEOUT
        while admin.ask(zookeeper.GetBrokers(watch=False)).brokers:
            assert time.monotonic() < deadline, "the session never expired"
        bridge.link.heal()
        assert bridge.result(lost) == Failure("SessionLost", bridge.result(lost).detail)
        bridge.heard(SessionEstablished(2))
        events = [each for each in bridge.mail if isinstance(each, SessionExpired | SessionEstablished)]
        assert events == [SessionEstablished(1), SessionExpired(1), SessionEstablished(2)]
        second = bridge.ask(zookeeper.RegisterBroker(broker(1), 0, "2.6"))
        assert second.epoch > first.epoch
        assert bridge.ask(zookeeper.Elect(1, 0)) == zookeeper.Elected(2, 2)
        bridge.ask(zookeeper.GetTopics())
        admin.ask(topic("new"))
        bridge.heard(TopicChange(2))
        assert TopicChange(1) not in bridge.mail
    finally:
        bridge.close()


def test_a_restarted_server_loses_no_watch(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "zk", tick_time_ms=1000) as server:
        bridge = RealBridge(server.port, "/kafka", session_timeout=20.0)
        try:
            bridge.ask(zookeeper.EnsurePaths())
            registered = bridge.ask(zookeeper.RegisterBroker(broker(1), 0, "2.6"))
            bridge.ask(zookeeper.GetTopics())
            server.kill()
            waiting = bridge.put(zookeeper.GetBrokers())
            server.start()
            with connect(f"{server.connect_string}/kafka") as admin:
                assert bridge.result(waiting).brokers[0].epoch == registered.epoch
                admin.ask(topic("new"))
                bridge.heard(TopicChange(1))
                assert bridge.ask(zookeeper.GetTopics()) == zookeeper.TopicNames(("new",))
                assert bridge.mail.count(TopicChange(1)) == 1, "nothing had changed while it was away"
            assert SessionExpired(1) not in bridge.mail
        finally:
            bridge.close()
