"""The in-memory ZooKeeper keeps the contract."""

from __future__ import annotations

import pytest

from messages.store import WriteOp
from tests.zk_bridge.contract import StoreContract, World
from tests.zk_bridge.listener import Listener
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper
from zk_bridge.store import ZooKeeperUnavailable


class MemoryWorld(World):
    """All on command."""

    def __init__(self) -> None:
        self.server = MemoryZooKeeper()

    def store(self) -> MemoryStore:
        return MemoryStore(self.server)

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
        """Nothing runs."""


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def world(self) -> MemoryWorld:
        return MemoryWorld()


def test_a_server_that_is_down_cannot_be_reached() -> None:
    server = MemoryZooKeeper()
    server.up = False
    with pytest.raises(ZooKeeperUnavailable, match="down"):
        MemoryStore(server).start(print)
