"""Run the store contract with the in-memory ZooKeeper."""

from __future__ import annotations

import pytest

from actors.runtime import VirtualScheduler
from messages.store import CONNECTED, CREATE_EPHEMERAL, EXPIRED, NO_NODE, OK, SUSPENDED, WriteOp
from tests.zk_bridge.contract import StoreContract, World
from tests.zk_bridge.listener import Listener
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper
from zk_bridge.store import ZooKeeperUnavailable


class MemoryWorld(World):
    """An in-memory ZooKeeper in virtual time."""

    def __init__(self) -> None:
        self.time = VirtualScheduler()
        self.server = MemoryZooKeeper(self.time.call_later)

    def store(self, session_timeout: float = 5.0) -> MemoryStore:
        return MemoryStore(self.server, session_timeout)

    def let_pass(self, seconds: float) -> None:
        self.time.run(seconds)

    def cut(self, store: MemoryStore) -> None:  # type: ignore[override]
        store.disconnect()

    def heal(self, store: MemoryStore) -> None:  # type: ignore[override]
        store.reconnect()

    def expire(self, store: MemoryStore) -> None:  # type: ignore[override]
        store.expire()

    def lose_answer(self, listener: Listener, *ops: WriteOp) -> int:
        assert isinstance(listener.store, MemoryStore)
        listener.store.lose_next_answer()
        return listener.submit_write(*ops)

    def close(self) -> None:
        """Do nothing: no thread runs."""


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def world(self) -> MemoryWorld:
        return MemoryWorld()


def test_a_server_that_is_down_cannot_be_reached() -> None:
    server = MemoryZooKeeper()
    server.up = False
    with pytest.raises(ZooKeeperUnavailable, match="down"):
        MemoryStore(server).start(print)


def test_a_session_expires_at_its_timeout_and_not_before() -> None:
    world = MemoryWorld()
    listener = Listener(world.store(session_timeout=6.0))
    listener.write(WriteOp(CREATE_EPHEMERAL, "/e", b""))
    world.cut(listener.store)
    world.let_pass(5.9)
    world.heal(listener.store)
    world.let_pass(60.0)
    assert listener.read("/e").nodes[0].code == OK, "who is connected does not expire"
    world.cut(listener.store)
    world.let_pass(5.9)
    assert world.server.read("/e").code == OK
    world.let_pass(0.1)
    assert world.server.read("/e").code == NO_NODE
    assert listener.states() == [CONNECTED, SUSPENDED, CONNECTED, SUSPENDED]
    world.heal(listener.store)
    assert listener.states()[4:] == [EXPIRED, CONNECTED]


def test_ephemerals_of_a_killed_process_are_removed_with_its_session() -> None:
    world = MemoryWorld()
    store = world.store(session_timeout=6.0)
    listener = Listener(store)
    listener.write(WriteOp(CREATE_EPHEMERAL, "/e", b""))
    store.abandon()
    assert world.server.read("/e").code == OK
    world.let_pass(6.0)
    assert world.server.read("/e").code == NO_NODE
    assert listener.states() == [CONNECTED]
