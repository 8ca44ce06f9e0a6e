"""Test the synchronous client: it returns answers and raises failures."""

from __future__ import annotations

import threading

import pytest

from messages import zookeeper
from messages.ask import BadZnode, ConnectionLoss, ControllerMoved, ZooKeeperRefused
from messages.store import CREATE, WriteOp
from zk_bridge.client import Client, ZooKeeperUnavailable, connect
from zk_bridge.embedded import EmbeddedZooKeeper
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper


@pytest.fixture
def server_in_memory() -> MemoryZooKeeper:
    return MemoryZooKeeper()


def test_the_client_returns_answers_and_raises_failures(server_in_memory: MemoryZooKeeper) -> None:
    with Client(MemoryStore(server_in_memory)) as zk:
        zk.ask(zookeeper.EnsurePaths())
        assert zk.ask(zookeeper.GetTopics(watch=False)) == zookeeper.TopicNames(())
        with pytest.raises(ZooKeeperRefused, match="ZooKeeper returned NO_NODE for /brokers/topics/none"):
            zk.ask(zookeeper.SetAssignments((zookeeper.TopicAssignment("none", ()),), None))
        server_in_memory.write((WriteOp(CREATE, "/controller", b"torn"), WriteOp(CREATE, "/controller_epoch", b"1")), 0)
        with pytest.raises(BadZnode, match="/controller: no valid JSON"):
            zk.ask(zookeeper.GetController())
        with pytest.raises(ControllerMoved):
            zk.ask(zookeeper.DeleteLogDirEvents(("log_dir_event_0",), 7))
        assert zk.ask(zookeeper.GetBrokers()) == zookeeper.Brokers(())


def test_a_question_gives_up_in_time_and_the_next_is_not_confused(server_in_memory: MemoryZooKeeper) -> None:
    store = MemoryStore(server_in_memory)
    with Client(store) as zk:
        zk.ask(zookeeper.EnsurePaths())
        store.disconnect()
        with pytest.raises(ConnectionLoss, match="GetTopics"):
            zk.ask(zookeeper.GetTopics(), timeout=0.05)
        threading.Timer(0.05, store.reconnect).start()
        assert zk.ask(zookeeper.GetBrokers()) == zookeeper.Brokers(())


@pytest.mark.java
def test_on_a_real_server(server: EmbeddedZooKeeper) -> None:
    with connect(server.connect_string) as zk:
        assert zk.ask(zookeeper.GetBrokers(watch=False)) == zookeeper.Brokers(())


def test_a_client_raises_for_a_closed_port() -> None:
    with pytest.raises(ZooKeeperUnavailable, match=r"ZooKeeper at 127\.0\.0\.1:1 cannot be reached"):
        connect("127.0.0.1:1", timeout=0.2)
