"""A command on a cluster of three registered brokers with an in-memory ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from actors.cli import broker_answers
from messages.cluster import Broker, Endpoint, LeaderIsrAndControllerEpoch, Leadership, TopicPartition
from messages.zookeeper import CreatePartitionStates, Elect, EnsurePaths, RegisterBroker
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper


class Shell:
    """Runs the command of `module` on the in-memory ZooKeeper."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
        self.module = module
        self.tree = MemoryZooKeeper()
        self.client = Client(MemoryStore(self.tree))
        self.client.ask(EnsurePaths())
        for number in range(3):
            broker = Broker(number, (Endpoint("PLAINTEXT", "127.0.0.1", 9092 + number),))
            self.client.ask(RegisterBroker(broker, timestamp_ms=0, ibp="2.6"))

        @contextmanager
        def zookeeper(address: str) -> Iterator[Any]:
            yield self.client.ask

        monkeypatch.setattr(broker_answers, "zookeeper", zookeeper)
        if hasattr(module, "zookeeper"):
            monkeypatch.setattr(module, "zookeeper", zookeeper)

    def run(self, line: str) -> tuple[int, str]:
        """Return the command's exit code and standard output."""
        arguments = ["--zookeeper", "memory", *line.split()]
        result = CliRunner().invoke(self.module.command, arguments, standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        return result.return_value, result.stdout

    def lead(self, topic: str, partition: int, leader: int, isr: tuple[int, ...]) -> None:
        """Create the state of one partition in ZooKeeper, as the controller does."""
        state = LeaderIsrAndControllerEpoch(leader, 0, isr, 1)
        version = self.client.ask(Elect(0, 0)).epoch_zk_version if not hasattr(self, "version") else self.version
        self.version = version
        self.client.ask(CreatePartitionStates((Leadership(TopicPartition(topic, partition), state),), version))

    def data(self, path: str) -> bytes | None:
        """Return the data of a znode; None if it does not exist."""
        return dict(self.tree.walk()).get(path)
