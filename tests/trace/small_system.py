"""A small actor system with all parts of a node: external endpoints, timers, adapters, flows, errors, threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from actors.runtime import Dispatcher, FlowActor, LocalBase, VirtualClock, local_system
from actors.runtime.trace.recorder import Recorder
from actors.runtime.trace.replay_report import Divergence, RunReplay
from actors.runtime.trace.replayer import replay_directory
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.ask import Answer, Ask, Failure
from messages.cluster import Broker, TopicPartition
from messages.events import BrokerChange, BrokerModifications, TopicChange
from messages.flow.conversation import for_each
from messages.metrics import Gauge, Gauges
from messages.node import NodeReady, StartBridge, StopNode
from messages.zookeeper import Brokers, GetBrokers, GetTopics, TopicNames


class Worker(Dispatcher):
    """Stops replicas on the disk, one directory each."""

    def receiveMsg_StopReplicaRequest(self, message: StopReplicaRequest, sender: ActorAddress) -> None:
        for state in message.partition_states:
            if state.delete_partition:
                try:
                    self.port("disk").remove(f"/data/{state.partition}")
                except OSError as error:
                    self.send(sender, Failure("AskFailed", f"{error.errno} {error.strerror}"))
        self.send(sender, BrokerModifications(self.port("time").wall_ms() % 7))


class Boss(FlowActor):
    """Asks the store, creates workers, counts, sets timers, and fails on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: list[ActorAddress] = []
        self.rounds = 0
        self.out: ActorAddress | None = None

    def receiveMsg_StartBridge(self, message: Any, sender: ActorAddress) -> None:
        self.peers = {"bridge": message.store}
        self.out = message.subscriber
        for _ in range(3):
            self.workers.append(self.createActor(Worker))
        self.wakeupAfter(timedelta(seconds=1), "tick")

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        self.rounds += 1
        self.send(self.out, Gauges((Gauge("rounds", float(self.rounds)), Gauge("now", self.now))))
        if self.rounds < 4:
            self.wakeupAfter(timedelta(seconds=self.rounds), "tick")

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        self.workers.remove(message.childAddress)

    def receiveMsg_Failure(self, message: Failure, sender: ActorAddress) -> None:
        self.send(self.out, message)

    def receiveMsg_BrokerModifications(self, message: BrokerModifications, sender: ActorAddress) -> None:
        self.send(self.out, message)

    def receiveMsg_StopNode(self, message: StopNode, sender: ActorAddress) -> None:
        self.send(self.workers[-1], ActorExitRequest())

    def receiveMsg_NodeReady(self, message: NodeReady, sender: ActorAddress) -> None:
        raise ValueError(f"cannot be ready with epoch {message.broker_epoch}")

    def flow(self, message: Any) -> Any:
        match message:
            case BrokerChange():
                return self.brokers()
            case TopicChange():
                return self.topics()
        return None

    def brokers(self) -> Any:
        brokers: Brokers = yield GetBrokers()
        states = tuple(
            StopReplicaPartitionState(TopicPartition("t", broker.id), 1, broker.id % 2 == 0)
            for broker in brokers.brokers
        )

        def stop(workers: Sequence[ActorAddress]) -> None:
            for worker in workers:
                self.send(worker, StopReplicaRequest(3, 1, 1, 1, states))

        yield from for_each(self.workers, stop, 2)

    def topics(self) -> Any:
        names: TopicNames = yield GetTopics()
        if not names.topics:
            raise RuntimeError("no topics")
        self.send(self.out, names)


ACTORS = (Boss, Worker)
"""The classes of which a top-level actor may be."""


def replay_only(folder: Path, begin: int | None = None) -> RunReplay:
    """Replay the only run below the folder."""
    [run] = replay_directory(folder, ACTORS, begin=begin).runs
    return run


def divergence_with(
    patch: pytest.MonkeyPatch, handler: str, changed: Callable[..., Any], folder: Path, actor: Any = Boss
) -> Divergence:
    """Replay the only run below the folder with another handler of an actor, and return the first difference."""
    with patch.context() as patched:
        patched.setattr(actor, handler, changed)
        actor._handlers.clear()
        divergence = replay_only(folder).divergence
    actor._handlers.clear()
    assert divergence is not None
    return divergence


class Disk:
    """A disk on which each third removal fails."""

    def __init__(self) -> None:
        self.removals = 0

    def remove(self, path: str) -> int:
        """Count the calls and return their number."""
        self.removals += 1
        if self.removals % 3 == 0:
            raise OSError(13, "Permission denied")
        return self.removals


class Clock:
    """A wall clock whose time is different at each call."""

    def __init__(self) -> None:
        self.calls = 0

    def wall_ms(self) -> int:
        """Return the time in milliseconds, 17 more than at the previous call."""
        self.calls += 1
        return 1_700_000_000_000 + self.calls * 17


class Store:
    """An external endpoint that answers questions."""

    def __init__(self, base: LocalBase) -> None:
        self.base = base
        self.address = base.external_endpoint("store", self.received)
        self.brokers = tuple(Broker(number, ()) for number in range(4))
        self.topics: tuple[str, ...] = ("a", "b")

    def received(self, message: Any, sender: ActorAddress) -> None:
        """Inject the answer; like ZooKeeper's, it is delivered later."""
        assert isinstance(message, Ask)
        result = Brokers(self.brokers) if isinstance(message.question, GetBrokers) else TopicNames(self.topics)
        self.base.inject(sender, Answer(message.id, result), self.address)


class Small:
    """The system on virtual time, recorded in `folder` by a recorder of the class `by`."""

    def __init__(self, folder: Path, node: int = 0, by: type[Any] = Recorder, **options: Any) -> None:
        clock = VirtualClock(1000.0)
        self.recorder = by(folder, node=node, now=clock.now, **options)
        self.base = LocalBase(clock=clock, observer=self.recorder, ports={"disk": Disk(), "time": Clock()})
        self.system = local_system(self.base)
        self.store = Store(self.base)
        self.heard: list[Any] = []
        self.out = self.base.external_endpoint("process", lambda message, sender: self.heard.append(message))
        self.boss = self.system.createActor(Boss)
        self.base.inject(self.boss, StartBridge(self.store.address, self.out), self.out)
        self.base.run()

    def inject(self, message: Any) -> None:
        """Inject a message from outside to the boss, and deliver all messages that are due."""
        self.base.inject(self.boss, message, self.out)
        self.base.run()

    def live(self) -> None:
        """Run ten seconds of virtual time that have every kind of delivery and error."""
        self.inject(BrokerChange())
        self.inject(TopicChange())
        self.base.simulate(1002.5)
        self.store.topics = ()
        self.inject(TopicChange())
        self.inject(NodeReady(-1, "c"))
        self.base.inject(self.boss, BrokerChange(), self.out)
        self.base.inject(self.boss, BrokerChange(), self.out)
        self.base.run()
        self.inject(StopNode())
        self.inject(BrokerChange())
        self.base.simulate(1010.0)
