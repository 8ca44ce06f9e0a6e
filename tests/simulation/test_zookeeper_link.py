"""The ZooKeeper session of a simulated node keeps the contract of all stores, over simulated connections."""

from __future__ import annotations

import itertools
import random

import pytest

from actors.runtime import VirtualScheduler
from actors.simulation.wire import Wires
from actors.simulation.zookeeper_link import ZOOKEEPER, ZooKeeperLink
from messages.store import WriteOp
from tests.zk_bridge.contract import StoreContract, World
from tests.zk_bridge.listener import Listener
from zk_bridge.memory_store import MemoryZooKeeper
from zk_bridge.store import Sink, StoreRequest

A_MOMENT = 0.2
"""Seconds in which a request arrives, its response returns, and a lost connection is established again."""


class Timed(ZooKeeperLink):
    """A link that lets A_MOMENT pass after each operation."""

    def __init__(self, world: LinkWorld, session_timeout: float) -> None:
        super().__init__(f"host-{next(world.hosts)}", world.server, world.wires, world.time, session_timeout)
        self.let_pass = world.let_pass

    def start(self, sink: Sink) -> None:
        super().start(sink)
        self.let_pass(A_MOMENT)

    def submit(self, request: StoreRequest) -> None:
        super().submit(request)
        self.let_pass(A_MOMENT)

    def stop(self) -> None:
        super().stop()
        self.let_pass(A_MOMENT)


class LinkWorld(World):
    """A simulated server, and connections to it."""

    def __init__(self) -> None:
        self.time = VirtualScheduler()
        self.server = MemoryZooKeeper(self.time.call_later)
        self.wires = Wires(self.time, random.Random(1))
        self.hosts = itertools.count(1)

    def store(self, session_timeout: float = 5.0) -> Timed:
        return Timed(self, session_timeout)

    def let_pass(self, seconds: float) -> None:
        self.time.run(seconds)

    def cut(self, store: Timed) -> None:  # type: ignore[override]
        for direction in ((store.host, ZOOKEEPER), (ZOOKEEPER, store.host)):
            self.wires.cut(*direction)
        store.reset()

    def heal(self, store: Timed) -> None:  # type: ignore[override]
        for direction in ((store.host, ZOOKEEPER), (ZOOKEEPER, store.host)):
            self.wires.mend(*direction)
        store.wire_changed()
        self.let_pass(A_MOMENT)

    def expire(self, store: Timed) -> None:  # type: ignore[override]
        store.expire()
        if self.wires.is_cut(store.host, ZOOKEEPER):
            self.heal(store)
        self.let_pass(A_MOMENT)

    def lose_answer(self, listener: Listener, *ops: WriteOp) -> int:
        link = listener.store
        assert isinstance(link, Timed)
        self.wires.cut(ZOOKEEPER, link.host)
        request = listener.submit_write(*ops)
        self.wires.cut(link.host, ZOOKEEPER)
        link.reset()
        return request

    def close(self) -> None:
        """Do nothing: the simulated server has no process or thread to stop."""


class TestZooKeeperLink(StoreContract):
    @pytest.fixture
    def world(self) -> LinkWorld:
        return LinkWorld()
