"""The traces of a failover with three nodes: 37 deliveries, written by hand, so that a reader can count them.

Node 0 is the controller with epoch 1. Node 2 fails, node 0 is killed, and node 1 is elected with epoch 2. Partition t-0
moves from broker 2 to 1. Partition t-1 stays with broker 0 until that is killed, and moves to broker 1. Partition u-0
has no leader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thespian.actors import ActorAddress

from actors.runtime.kernel.delivery import AdapterCall, Delivery
from actors.runtime.trace.recorder import Recorder
from messages import events
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest, UpdateMetadataResponse
from messages.ask import Answer
from messages.channel import StartChannel
from messages.cluster import Broker, Endpoint, TopicPartition
from messages.metrics import Samples
from messages.network import ClientRequest, Forwarded, Received, Transmit, TransmitFailed
from messages.trace.codec import encode
from messages.zookeeper import Brokers, Elected, NotElected
from tests.trace.altering import kill

CONTROLLER, BRIDGE, NETWORK = (
    ActorAddress("ControllerActor.2"),
    ActorAddress("ZkBridgeActor.3"),
    ActorAddress("outside:network"),
)
STORE = ActorAddress("outside:store")


def leader(topic: str, partition: int, leader: int, epoch: int, controller: int) -> LeaderAndIsrPartitionState:
    """Return one partition state of a LeaderAndIsr request."""
    return LeaderAndIsrPartitionState(
        TopicPartition(topic, partition), controller, leader, epoch, (leader,), 0, (0, 1, 2)
    )


def known(topic: str, partition: int, leader: int, epoch: int, controller: int) -> UpdateMetadataPartitionState:
    """Return one partition state of an UpdateMetadata request."""
    return UpdateMetadataPartitionState(
        TopicPartition(topic, partition), controller, leader, epoch, (leader,), 0, (0, 1, 2)
    )


class Node:
    """Writes one node's trace; deliveries belong to the last event of the controller that has not ended.

    A delivery comes a second after the one before, waits 0.5 s, and is handled in 0.25 s.
    """

    def __init__(self, folder: Path, node: int) -> None:
        self.seconds = 1000.0 * node
        self.node = node
        self.recorder = Recorder(folder, node=node, now=lambda: self.seconds + 0.25, events=events.CONTROLLER_EVENTS)
        self.seconds += 100.0 * node  # node 1 starts long after node 0
        self.n = self.event = 0
        self.channels: set[int] = set()

    def deliver(
        self, receiver: ActorAddress, message: Any, sender: ActorAddress = BRIDGE, error: str | None = None
    ) -> None:
        """Record one delivery."""
        self.n += 1
        self.seconds += 1
        if isinstance(message, events.Event) or not self.event:
            self.event = self.n
        text = str(receiver.addressDetails)
        actor = "" if text.startswith("outside:") else text.rpartition(".")[0]
        effects = (AdapterCall("time", "wall_ms", (), 5, ""),) if actor else ()
        times = (self.seconds - 0.5, self.seconds, self.seconds + 0.25)
        self.recorder.observe_delivery(
            Delivery(self.n, "sent", self.n - 1, self.event, sender, receiver, actor, message, *times, effects, error)
        )
        if isinstance(message, Samples):
            self.event = 0  # it ended

    def transmit(self, broker: int, request: Any, outcomes: str = "+") -> None:
        """Record a request of the channel to a broker.

        A "-" is a failure, after which it is sent again; "+" is the response.
        """
        channel = ActorAddress(f"BrokerChannelActor.{10 + broker}")
        name = f"controller-{self.node}-broker-{broker}-1"
        endpoint = Endpoint("PLAINTEXT", "localhost", 9092 + broker)
        if broker not in self.channels:
            self.channels.add(broker)
            self.deliver(
                channel, StartChannel(broker, self.node, endpoint, name, 30.0, 30.0, NETWORK, NETWORK), CONTROLLER
            )
        for place, outcome in enumerate(outcomes):
            correlation = self.n
            self.deliver(NETWORK, Transmit(name, endpoint, correlation, "c", request, 30.0), channel)
            if outcome == "+":
                self.deliver(channel, Received(name, correlation, UpdateMetadataResponse(0)), NETWORK)
            else:
                self.deliver(channel, TransmitFailed(name, place, "refused"), NETWORK)


def first(folder: Path) -> Node:
    """Record node 0: it is elected, sends t-0 and t-1, detects that broker 2 is gone, and is still running."""
    node = Node(folder, 0)
    node.deliver(CONTROLLER, events.Startup())
    node.deliver(CONTROLLER, Answer(1, Elected(1, 0)))
    node.deliver(CONTROLLER, Answer(3, Brokers((Broker(0, ()), Broker(1, ()), Broker(2, ())))))
    both = (leader("t", 0, 2, 0, 1), leader("t", 1, 0, 0, 1))
    for broker in (0, 1, 2):
        node.transmit(broker, LeaderAndIsrRequest(4, 0, 1, 5, both, ()))
    node.transmit(1, UpdateMetadataRequest(6, 0, 1, 5, (known("t", 0, 2, 0, 1), known("t", 1, 0, 0, 1)), ()), "--+")
    node.deliver(
        CONTROLLER,
        events.UpdateMetadataResponseReceived(1, UpdateMetadataResponse(0)),
        ActorAddress("BrokerChannelActor.11"),
    )
    node.deliver(CONTROLLER, events.BrokerChange())
    node.deliver(CONTROLLER, Answer(2, Brokers((Broker(0, ()), Broker(1, ())))))
    node.transmit(1, LeaderAndIsrRequest(4, 0, 1, 5, (leader("t", 0, 1, 1, 1),), ()))
    node.transmit(1, StopReplicaRequest(3, 0, 1, 5, (StopReplicaPartitionState(TopicPartition("u", 0)),)))
    node.deliver(CONTROLLER, events.TopicChange(), error="ValueError: torn")
    return node


def second(folder: Path) -> Node:
    """Record node 1: it loses the first election, wins the second, and receives a ControlledShutdownRequest."""
    node = Node(folder, 1)
    node.deliver(CONTROLLER, events.Startup())
    node.deliver(CONTROLLER, Answer(1, NotElected(0)))
    node.deliver(CONTROLLER, events.Reelect())
    node.deliver(CONTROLLER, Answer(2, Elected(2, 1)))
    node.deliver(CONTROLLER, Answer(3, Brokers((Broker(1, ()),))))
    node.transmit(1, LeaderAndIsrRequest(4, 1, 2, 6, (leader("t", 1, 1, 1, 2), leader("t", 0, 1, 1, 1)), ()))
    node.transmit(1, UpdateMetadataRequest(6, 1, 2, 6, (known("u", 0, -1, 4, 2),), ()))
    asked = ClientRequest(7, 1, "2", "PLAINTEXT", ControlledShutdownRequest(3, 2, 5))
    node.deliver(CONTROLLER, Forwarded(ActorAddress("outside:listener"), asked))
    return node


def record(folder: Path) -> tuple[int, int]:
    """Write both traces below `folder`, the first of a killed node, and return the number of deliveries in each."""
    killed, ended = first(folder / "a" / "kafka.trace"), second(folder / "b")
    killed.recorder.flush()
    kill(killed.recorder)
    ended.recorder.close()
    assert encode(LeaderAndIsrResponse(0))  # the vocabulary includes the response
    return killed.n, ended.n
