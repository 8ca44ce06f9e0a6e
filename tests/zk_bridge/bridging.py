"""The bridge's core on the in-memory ZooKeeper, with everything that it says to anybody."""

from __future__ import annotations

import itertools
from typing import Any

from messages.ask import Answer
from messages.cluster import (
    Broker,
    Endpoint,
    LeaderIsrAndControllerEpoch,
    Leadership,
    PartitionAssignment,
    ReplicaAssignment,
    TopicPartition,
)
from messages.store import StoreArm, StoreFailed, StoreRead, StoreWrite
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
        self.requests: list[StoreRead | StoreWrite | StoreArm] = []
        self.answers: dict[int, Answer] = {}
        self.mail: list[tuple[str, Any]] = []
        self.pauses = 0
        self.pausing: list[Any] | None = None
        """List that holds back the bridge's Continue messages; None delivers them at once."""
        self._ids = itertools.count(1)
        if start:
            self.store.start(self._news)

    def start(self) -> None:
        """Connect, where that was not done at once."""
        self.store.start(self._news)

    def ask(self, question: Any, asker: str = ME) -> Any:
        """The result, which must have come at once."""
        return self.answers[self.put(question, asker)].result

    def put(self, question: Any, asker: str = ME) -> int:
        """Ask without expecting an answer yet; the question's id."""
        number = next(self._ids)
        self.core.asked(asker, number, question)
        return number

    def events(self, receiver: str = ME) -> list[Any]:
        """What `receiver` was sent besides answers, and forget it."""
        heard = [message for to, message in self.mail if to == receiver]
        self.mail = [each for each in self.mail if each[0] != receiver]
        return heard

    def counted(self, question: Any) -> tuple[Any, int, int]:
        """The result, and how many reads and writes it took."""
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
    """Make the parents, elect broker 1; the fence's version."""
    bridged.ask(EnsurePaths())
    fence: int = bridged.ask(Elect(1, 0)).epoch_zk_version
    return fence


def with_topic(bridged: Bridged, name: str, partitions: int) -> list[TopicPartition]:
    """Create a topic of replicas 1, 2; its partitions."""
    assignment = tuple(PartitionAssignment(n, ReplicaAssignment((1, 2))) for n in range(partitions))
    bridged.ask(CreateTopic(TopicAssignment(name, assignment)))
    return [TopicPartition(name, n) for n in range(partitions)]


def led(partitions: list[TopicPartition], leader: int, epoch: int, version: int = -1) -> tuple[Leadership, ...]:
    """A decision for each partition."""
    return tuple(Leadership(tp, LeaderIsrAndControllerEpoch(leader, epoch, (leader,), 1, version)) for tp in partitions)


def with_led_topic(bridged: Bridged, name: str, partitions: int, fence: int) -> list[TopicPartition]:
    """Create a topic whose partitions are led by 1, in epoch 0; its partitions."""
    made = with_topic(bridged, name, partitions)
    bridged.ask(CreatePartitionStates(led(made, 1, 0), fence))
    return made


def broker(number: int, port: int = 9092) -> Broker:
    """A broker of one listener."""
    return Broker(number, (Endpoint("PLAINTEXT", "h", port),))
