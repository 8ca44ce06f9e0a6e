"""A ZooKeeper client for tests that inspect a cluster from outside, possibly on a busy machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient

PATIENCE_SECONDS = 60.0


def rotated(ids: Sequence[int], partitions: int) -> dict[int, list[int]]:
    """Return replicas of this number of partitions on all these brokers, with each broker first in turn."""
    starts = (number % len(ids) for number in range(partitions))
    return {number: [*ids[start:], *ids[:start]] for number, start in enumerate(starts)}


def topic_data(replicas: Mapping[int, Sequence[int]]) -> bytes:
    """Return the data of a topic's znode with these replicas of each partition."""
    data = {"version": 2, "partitions": replicas, "adding_replicas": {}, "removing_replicas": {}}
    return json.dumps(data).encode()


class PatientZooKeeperClient(KazooClient):
    """A client that repeats reads after a timeout or an expired session, because the tests do not test ZooKeeper.

    Writes are not repeated: the caller decides about retries.
    """

    def __init__(self, hosts: str) -> None:
        patience = {"max_tries": -1, "max_delay": 1.0, "deadline": PATIENCE_SECONDS}
        super().__init__(hosts, timeout=30, command_retry=patience)

    @classmethod
    @contextlib.contextmanager
    def opened(cls, hosts: str) -> Iterator[PatientZooKeeperClient]:
        """Yield a client that is connected while the context is open."""
        client = cls(hosts)
        client.start(20)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def end_session(self, broker_id: int) -> None:
        """Delete the znodes of a killed broker's session now; ZooKeeper would wait for its timeout."""
        registration = f"/brokers/ids/{broker_id}"
        if registered := self.exists(registration):
            ending = self.transaction()
            for path in ("/controller", f"/kafka-actors/nodes/{broker_id}", registration):
                if (held := self.exists(path)) and held.ephemeralOwner == registered.ephemeralOwner:
                    ending.delete(path)
            ending.commit()

    @property
    def controller(self) -> int:
        """The id of the controller. Raises NoNodeError if there is none."""
        return int(self.value("/controller")["brokerid"])

    def value(self, path: str) -> Any:
        """Return the JSON value of a znode."""
        return json.loads(self.get(path)[0])

    def state_of(self, topic: str, partition: int = 0) -> dict[str, Any]:
        """Return the state of a partition. Raises NoNodeError if it has none yet."""
        found: dict[str, Any] = self.value(f"/brokers/topics/{topic}/partitions/{partition}/state")
        return found

    def states(self, topic: str) -> dict[int, dict[str, Any]]:
        """Return the state of each partition of a topic. Raises NoNodeError if one has none yet."""
        numbers = sorted(map(int, self.value(f"/brokers/topics/{topic}")["partitions"]))
        return {number: self.state_of(topic, number) for number in numbers}

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition of a topic. Raises NoNodeError if one has no state yet."""
        return {number: state["leader"] for number, state in self.states(topic).items()}

    def create_topic(self, topic: str, replicas: Mapping[int, Sequence[int]], **config: str) -> None:
        """Create a topic by its znodes, as Kafka's admin tools do. `__` in a name of `config` represents a dot."""
        overrides = {name.replace("__", "."): value for name, value in config.items()}
        write = self.transaction()
        write.create(f"/config/topics/{topic}", json.dumps({"version": 1, "config": overrides}).encode())
        write.create(f"/brokers/topics/{topic}", topic_data(replicas))
        write.commit()

    def exists(self, *arguments: Any, **named: Any) -> Any:
        return self.retry(super().exists, *arguments, **named)

    def get(self, *arguments: Any, **named: Any) -> Any:
        return self.retry(super().get, *arguments, **named)

    def get_children(self, *arguments: Any, **named: Any) -> Any:
        return self.retry(super().get_children, *arguments, **named)
