"""A cluster with the methods of `KafkaCluster`, run by `up`, other commands and signals on a real ZooKeeper."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kazoo.exceptions import NoNodeError

from tests.cluster.processes import run_ours, start_up
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient

T = TypeVar("T")


class ProcessCluster:
    """Three nodes below `directory`, which run until the `with` block ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "cluster"
        options = ("--port", "0", "--override", "zookeeper.session.timeout.ms=2000")
        self._up, line = start_up(self._directory, directory / "up.log", *options)
        self._zookeeper: str = line["zookeeper"]
        self.bootstrap_servers = ",".join(f"{broker['host']}:{broker['port']}" for broker in line["brokers"])
        self._zk = PatientZooKeeperClient(self._zookeeper)
        self._zk.start(20)

    def __enter__(self) -> ProcessCluster:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._zk.stop()
        self._zk.close()
        self._up.stop()

    def create_topic(self, topic: str, partitions: int = 1, replication_factor: int | None = None) -> None:
        sizes = ("--partitions", str(partitions), "--replication-factor", str(replication_factor or 3))
        done = run_ours("topics", "--zookeeper", self._zookeeper, "--create", "--topic", topic, *sizes)
        assert done.returncode == 0, done.stderr
        until(lambda: self._zk.states(topic), ignore=(NoNodeError,))

    def stop_broker(self, broker_id: int) -> None:
        self._signal(broker_id, signal.SIGTERM)
        self.wait_for(lambda: self._process(broker_id) is None)

    def kill(self, broker_id: int) -> None:
        self._signal(broker_id, signal.SIGKILL)
        self.wait_for(lambda: self._process(broker_id) is None)

    def start_broker(self, broker_id: int) -> None:
        done = run_ours("start", str(broker_id), "--dir", str(self._directory))
        assert done.returncode == 0, done.stderr
        self.wait_for(lambda: self._registered(broker_id))

    def move_controller(self) -> int:
        old = self.controller_id
        while self.controller_id == old:
            self._zk.delete("/controller")
            self.wait_for(lambda: self.controller_id is not None)
        new = self.controller_id
        assert new is not None
        return new

    def expire_session(self, broker_id: int) -> None:
        """Suspend a broker until its session has expired, then resume it and wait until it is registered."""
        self._signal(broker_id, signal.SIGSTOP)
        self.wait_for(lambda: not self._registered(broker_id))
        self._signal(broker_id, signal.SIGCONT)
        self.wait_for(lambda: self._registered(broker_id))

    @property
    def controller_id(self) -> int | None:
        try:
            return self._zk.controller
        except NoNodeError:
            return None

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        leader = int(self._zk.state_of(topic, partition)["leader"])
        return None if leader < 0 else leader

    def isr_of(self, topic: str, partition: int = 0) -> list[int]:
        return [int(id) for id in self._zk.state_of(topic, partition)["isr"]]

    def wait_for(self, condition: Callable[[], T], timeout: float = 30.0) -> T:
        return until(condition, timeout=timeout)

    def _registered(self, broker_id: int) -> bool:
        return self._zk.exists(f"/brokers/ids/{broker_id}") is not None

    def _process(self, broker_id: int) -> int | None:
        brokers = json.loads((self._directory / "cluster.json").read_text())["brokers"]
        found: int | None = brokers[broker_id]["pid"]
        return found

    def _signal(self, broker_id: int, number: signal.Signals) -> None:
        process = self._process(broker_id)
        assert process is not None
        os.kill(process, number)
