"""Run BridgeCore on the in-memory ZooKeeper, and record all messages that it sends."""

from __future__ import annotations

import itertools
from typing import Any

from messages import cluster
from messages.ask import Answer
from messages.store import StoreFailed, StoreRead, StoreWrite
from messages.zookeeper import CreatePartitionStates, CreateTopic, Elect, EnsurePaths, TopicAssignment
from zk_bridge.core import BridgeCore
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper
from zk_bridge.store import StoreNews

ME = "me"
SUBSCRIBER = "subscriber"
_BRIDGE = "bridge"
_STORE = "store"


class Bridged:
    """A BridgeCore with its own session on `server`."""

    def __init__(self, server: MemoryZooKeeper, start: bool = True) -> None:
        self.server = server
        self.store = MemoryStore(server)
        self.core = BridgeCore(_BRIDGE, _STORE, SUBSCRIBER, self._send, lambda event_id: None)
        self.requests: list[StoreRead | StoreWrite] = []
        self.answers: dict[int, Answer] = {}
        self.mail: list[tuple[str, Any]] = []
        self.pauses = 0
        self.pausing: list[Any] | None = None
        """List that holds back the bridge's Continue messages; None delivers them at once."""
        self._ids = itertools.count(1)
        if start:
            self.store.start(self._news)

    def start(self) -> None:
        """Connect to the server, if the constructor did not."""
        self.store.start(self._news)

    def ask(self, question: Any, asker: str = ME) -> Any:
        """Send a question and return its result; the result must be available at once."""
        return self.answers[self.put(question, asker)].result

    def put(self, question: Any, asker: str = ME) -> int:
        """Send a question without waiting for its answer, and return its id."""
        number = next(self._ids)
        self.core.start(asker, number, question)
        return number

    def events(self, receiver: str = ME) -> list[Any]:
        """Return and remove the messages that were sent to `receiver`, without answers."""
        heard = [message for to, message in self.mail if to == receiver]
        self.mail = [each for each in self.mail if each[0] != receiver]
        return heard

    def counted(self, question: Any) -> tuple[Any, int, int]:
        """Return the result of a question, and the number of reads and of writes that it took."""
        before = len(self.requests)
        result = self.ask(question)
        new = self.requests[before:]
        return result, sum(isinstance(r, StoreRead) for r in new), sum(isinstance(r, StoreWrite) for r in new)

    def _send(self, receiver: Any, message: Any) -> None:
        if receiver == _STORE:
            self.requests.append(message)
            self.store.submit(message)
        elif receiver == _BRIDGE:
            self.pauses += 1
            if self.pausing is None:
                self.core.take(message)
            else:
                self.pausing.append(message)
        elif isinstance(message, Answer):
            assert message.id not in self.answers, "a question is answered once"
            self.answers[message.id] = message
            self.mail.append(("answers", message))
        else:
            self.mail.append((receiver, message))

    def _news(self, news: StoreNews) -> None:
        assert not isinstance(news, StoreFailed)
        self.core.take(news)


def controlled(bridged: Bridged) -> int:
    """Create the parent znodes, elect broker 1, and return the version of the controller epoch's znode."""
    bridged.ask(EnsurePaths())
    fence: int = bridged.ask(Elect(1, 0)).epoch_zk_version
    return fence


def with_topic(bridged: Bridged, name: str, partitions: int) -> list[cluster.TopicPartition]:
    """Create a topic whose partitions have the replicas 1 and 2, and return its partitions."""
    assignment = tuple(cluster.PartitionAssignment(n, cluster.ReplicaAssignment((1, 2))) for n in range(partitions))
    bridged.ask(CreateTopic(TopicAssignment(name, assignment)))
    return [cluster.TopicPartition(name, n) for n in range(partitions)]


def led(
    partitions: list[cluster.TopicPartition], leader: int, epoch: int, version: int = -1
) -> tuple[cluster.Leadership, ...]:
    """Return a Leadership for each partition."""
    return tuple(
        cluster.Leadership(tp, cluster.LeaderIsrAndControllerEpoch(leader, epoch, (leader,), 1, version))
        for tp in partitions
    )


def with_led_topic(bridged: Bridged, name: str, partitions: int, fence: int) -> list[cluster.TopicPartition]:
    """Create a topic whose partitions have leader 1 and leader epoch 0, and return its partitions."""
    made = with_topic(bridged, name, partitions)
    bridged.ask(CreatePartitionStates(led(made, 1, 0), fence))
    return made


def broker(number: int, port: int = 9092) -> cluster.Broker:
    """Return a broker with one listener."""
    return cluster.Broker(number, (cluster.Endpoint("PLAINTEXT", "h", port),))
