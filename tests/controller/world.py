"""A small cluster for whole controllers: real actors and bridges, in-memory ZooKeeper, virtual time, fake brokers.

Each node has its own ZooKeeper session, bridge and controller; brokers respond as configured. At the end of each test
`close` checks that no handler failed, and that controller and topic deletion agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thespian.actors import ActorAddress, ActorExitRequest

from actors.core.controller.context import ControllerContext
from actors.core.controller.validation import disagreements, inconsistencies
from actors.node.node import NodeActor
from actors.runtime import Delivery, LocalBase, VirtualClock, local_system
from messages import cluster, network, zookeeper
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.stop_replica import StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from messages.events import ControllerShutdown
from messages.metrics import DropMetric, Gauges, Sample, Samples
from messages.network import Forwarded
from messages.node import NodeReady, NodeSettings, OpenStore, StartNode
from messages.parts import cut, join_parts
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper

FIRST_PORT = 9000

Wire = tuple[int, Any]
"""(broker, request) as sent over the network."""


def endpoint(broker_id: int) -> cluster.Endpoint:
    """Return the endpoint of a fake broker."""
    return cluster.Endpoint("PLAINTEXT", "127.0.0.1", FIRST_PORT + broker_id)


def settings(node_id: int, **options: Any) -> NodeSettings:
    """Return a node's settings."""
    where = (endpoint(node_id),)
    said = {"listeners": where, "advertised_listeners": where, "validate_state": True, **options}
    return NodeSettings(node_id, log_dirs=("/nowhere",), zookeeper_connect="memory", **said)


def good_answer(request: Any) -> Any:
    """Return the response of a broker that executes the request without errors."""
    match request:
        case LeaderAndIsrRequest():
            return LeaderAndIsrResponse(0, tuple(PartitionError(s.partition, 0) for s in request.partition_states))
        case StopReplicaRequest():
            return StopReplicaResponse(0, tuple(PartitionError(s.partition, 0) for s in request.partition_states))
        case UpdateMetadataRequest():
            return UpdateMetadataResponse(0)
    raise AssertionError(f"no broker answers {request}")


class Machine:
    """The I/O adapters "time", "random" and "process" with constant results."""

    def wall_ms(self) -> int:
        """Return a constant time."""
        return 1_700_000_000_000

    def cluster_id(self) -> str:
        """Return a constant id."""
        return "AAAAAAAAAAAAAAAAAAAAAA"

    def identity(self) -> tuple[str, int, int]:
        """Return a constant metrics host, metrics port and process id."""
        return "127.0.0.1", 0, 1


class EmptyDisk:
    """The I/O adapter "disk" of nodes whose logs are not tested; it is empty and stores nothing."""

    def make_directory(self, path: str, parents: bool = False) -> bool:
        """Return True, as for a new directory."""
        return True

    def list_directories(self, path: str) -> tuple[str, ...]:
        """Return no directories."""
        return ()

    def read_text(self, path: str) -> str | None:
        """Return None, as for a missing file."""
        return None

    def write_text(self, path: str, text: str) -> None:
        """Discard the text."""

    def lock(self, path: str) -> bool:
        """Return True, because no other process has the lock."""
        return True

    def unlock(self, path: str) -> None:
        """Do nothing."""


class NoLogs:
    """The I/O adapter "logs" of nodes whose logs are not tested."""

    def close_all(self) -> None:
        """Do nothing, because no log is open."""

    def dirt(self, position: int, count: int) -> tuple[int, tuple[()]]:
        """Return that no log has anything to clean."""
        return -1, ()

    def limit_copies(self, rate: int, at_once: int) -> None:
        """Do nothing, because no log is copied to another directory."""


PORTS = {"disk": EmptyDisk(), "logs": NoLogs(), **dict.fromkeys(("time", "random", "process"), Machine())}


class Node:
    """A whole node, controller and broker.

    The fake network receives the requests that the node's controller sends to its own broker.
    """

    def __init__(self, world: World, node_id: int, **options: Any) -> None:
        self.world, self.id = world, node_id
        self.store = MemoryStore(world.zk)
        base = world.base
        self.settings = settings(node_id, **options)
        self.samples: list[Sample] = []
        self.gauges: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.process = base.external_endpoint(f"process-{node_id}", self._node_received)
        store = base.external_endpoint(f"store-{node_id}", self._stored)
        listener = base.external_endpoint(f"listener-{node_id}", lambda message, sender: None)
        metrics = base.external_endpoint(f"metrics-{node_id}", self._published)
        self.node = world.system.createActor(NodeActor)
        base.inject(self.node, StartNode(self.settings, store, world.network, listener, metrics, self.process))

    def _stored(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, OpenStore):
            self.store.start(lambda news: self.world.base.inject(message.bridge, news))
        else:
            self.store.submit(message)

    def _node_received(self, message: Any, sender: ActorAddress) -> None:
        if not isinstance(message, NodeReady):
            self.world.errors.append(f"node {self.id}: {message}")

    @property
    def controller(self) -> ActorAddress:
        """Return the address of the ControllerActor."""
        return self.world.base.instance_of(self.node)._actors["controller"]

    @property
    def actor(self) -> Any:
        """Return the ControllerActor."""
        return self.world.base.instance_of(self.controller)

    @property
    def context(self) -> ControllerContext:
        """Return the controller's context."""
        return self.actor.context

    def send(self, message: Any, sender: ActorAddress | None = None) -> None:
        """Send a message to the controller, and run the world."""
        self.world.base.inject(self.controller, message, sender)
        self.world.run()

    def gauge(self, name: str) -> float:
        """Return the last published value of a gauge of this controller."""
        return self.gauges[f"kafka_controller_kafkacontroller_{name}", ()]

    def kill(self) -> None:
        """Stop the node's actors and end its session, as if its process was killed."""
        self.world.base.inject(self.node, ActorExitRequest())
        self.world.run()
        self.store.stop()
        self.world.nodes.pop(self.id)
        self.world.run()

    def _published(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case DropMetric(name, labels):
                self.gauges.pop((name, labels), None)
            case Gauges(values):
                for gauge in values:
                    assert self.gauges.get((gauge.name, gauge.labels)) != gauge.value, f"{gauge} is no news"
                    self.gauges[gauge.name, gauge.labels] = gauge.value
            case Samples(values):
                assert all(sample.value >= 0 for sample in values)
                self.samples += values
            case _:
                raise AssertionError(f"metrics know no {message}")


class World:
    """ZooKeeper, the network, and all nodes and brokers."""

    def __init__(self) -> None:
        self.zk = MemoryZooKeeper()
        self.admin = Client(MemoryStore(self.zk))
        self.errors: list[str] = []
        self.base = LocalBase(VirtualClock(), observer=self, ports=PORTS)
        self.system = local_system(self.base)
        self.network = self.base.external_endpoint("network", self._transmitted)
        self.client = self.base.external_endpoint("client", lambda message, sender: self.responses.append(message))
        self.nodes: dict[int, Node] = {}
        self.brokers: dict[int, Client] = {}
        self.wire: list[Wire] = []
        self.transmits: list[network.Transmit] = []
        self.closed: list[str] = []
        self.responses: list[Any] = []
        self.answers: dict[int, Callable[[Any], Any]] = {}
        self.unanswered: dict[int, tuple[ActorAddress, network.Transmit, Any]] = {}
        """The last unanswered request of each broker, and the channel that waits for the response."""
        self.expected_failures = 0
        self._parts: dict[str, list[Any]] = {}
        """Earlier parts of each channel's request."""

    def observe_delivery(self, delivery: Delivery) -> None:
        """Record the error of a delivery. A dead letter, such as a message to a channel that has ended, is no error."""
        if delivery.error not in (None, "dead letter"):
            self.errors.append(delivery.error)

    # ------------------------------------------------------------------------------------------- nodes and brokers

    def node(self, node_id: int, **options: Any) -> Node:
        """Start a candidate for the controller, which is also a broker."""
        self.nodes[node_id] = node = Node(self, node_id, **options)
        self.run()
        return node

    def broker(self, broker_id: int, rack: str | None = None) -> None:
        """Register a fake broker."""
        client = self.brokers[broker_id] = Client(MemoryStore(self.zk))
        client.ask(zookeeper.RegisterBroker(cluster.Broker(broker_id, (endpoint(broker_id),), rack=rack), 0, "2.6"))
        self.run()

    def lose(self, broker_id: int) -> None:
        """End the fake broker's session."""
        self.brokers.pop(broker_id).close()
        self.run()

    def bounce(self, broker_id: int) -> None:
        """End the broker's session, and register it again before any actor reacts."""
        self.brokers.pop(broker_id).close()
        self.broker(broker_id)

    def release(self, broker_id: int) -> None:
        """Send the response that the broker has held back; from now on it responds as usual."""
        del self.answers[broker_id]
        channel, asked, request = self.unanswered.pop(broker_id)
        self.base.inject(
            channel, network.Received(asked.channel, asked.correlation_id, good_answer(request)), self.network
        )
        self.run()

    def run(self, seconds: float = 1.0) -> None:
        """Deliver all messages that are due within `seconds` of virtual time."""
        self.base.simulate(self.base.clock.now() + seconds)

    # ---------------------------------------------------------------------------------------- actions and queries

    def topic(
        self, name: str, *assignments: tuple[int, ...], config: tuple[tuple[str, str], ...] = (), run: bool = True
    ) -> list[cluster.TopicPartition]:
        """Create a topic with these replicas per partition; return its partitions."""
        partitions = tuple(
            cluster.PartitionAssignment(n, cluster.ReplicaAssignment(r)) for n, r in enumerate(assignments)
        )
        entries = tuple(cluster.ConfigEntry(*entry) for entry in config)
        self.admin.ask(zookeeper.CreateTopic(zookeeper.TopicAssignment(name, partitions), entries))
        if run:
            self.run()
        return [cluster.TopicPartition(name, n) for n in range(len(assignments))]

    def delete(self, name: str) -> None:
        """Request the deletion of a topic."""
        self.admin.ask(zookeeper.RequestTopicDeletion(name))
        self.run()

    def state(self, partition: cluster.TopicPartition) -> cluster.LeaderIsrAndControllerEpoch | None:
        """Return the state in the partition's znode; None without a znode."""
        return self.admin.ask(zookeeper.GetPartitionStates((partition,))).states[0].state

    def led(self, partition: cluster.TopicPartition) -> tuple[int, int, tuple[int, ...]]:
        """Return (leader, leader epoch, ISR) from the partition's znode."""
        state = self.state(partition)
        assert state is not None
        return state.leader, state.leader_epoch, state.isr

    def write_isr(self, partition: cluster.TopicPartition, *isr: int) -> None:
        """Write a new ISR and notify the controller, as the partition's leader does."""
        state = self.state(partition)
        assert state is not None
        new = cluster.LeaderIsrAndControllerEpoch(
            state.leader, state.leader_epoch, isr, state.controller_epoch, state.zk_version
        )
        self.admin.ask(zookeeper.UpdatePartitionStates((cluster.Leadership(partition, new),), None))
        self.admin.ask(zookeeper.NotifyIsrChange((partition,)))
        self.run()

    def topics(self) -> tuple[str, ...]:
        """Return the children of /brokers/topics."""
        return self.admin.ask(zookeeper.GetTopics(watch=False)).topics

    def replicas(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Return the replicas of each partition of the topic from ZooKeeper."""
        answer = self.admin.ask(zookeeper.GetAssignments((topic,), watch=False))
        return {n: assignment.replicas for t in answer.topics for n, assignment in t.partitions}

    def deletions(self) -> tuple[str, ...]:
        """Return the children of /admin/delete_topics."""
        return self.admin.ask(zookeeper.GetTopicDeletions(watch=False)).topics

    def controller(self) -> tuple[int, int]:
        """Return (id, epoch) of the controller from ZooKeeper."""
        found = self.admin.ask(zookeeper.GetController(watch=False))
        return found.broker_id, found.epoch

    def shut_down(self, node: Node, broker_id: int, epoch: int = -1) -> Any:
        """Request the controlled shutdown of a broker from the node; return the response."""
        request = ControlledShutdownRequest(3, broker_id, epoch)
        mail = network.ClientRequest(7, len(self.responses), "test", "PLAINTEXT", request)
        node.send(Forwarded(self.client, mail), self.client)
        response = self.responses[-1]
        assert isinstance(response, network.ClientResponse) and response.connection == 7
        return response.response

    def shut_down_somewhere(self, broker_id: int) -> None:
        """Send a request for the controlled shutdown of a broker to each node, without waiting for responses."""
        mail = network.ClientRequest(7, 0, "test", "PLAINTEXT", ControlledShutdownRequest(3, broker_id))
        for node in self.nodes.values():
            self.base.inject(node.controller, Forwarded(self.client, mail), self.client)

    # ----------------------------------------------------------------------------------------------- sent requests

    def sent(self, broker_id: int | None = None, kind: type | None = None) -> list[Any]:
        """Return the requests that were sent over the network, optionally only those to this broker or of this kind."""
        return [
            request
            for to, request in self.wire
            if broker_id in (None, to) and (kind is None or isinstance(request, kind))
        ]

    def _transmitted(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, network.CloseConnection):
            self.closed.append(message.channel)
            return
        if isinstance(message, network.ChannelPart):
            self._parts.setdefault(message.channel, []).append(message.part)
            return
        assert isinstance(message, network.Transmit)
        broker_id = message.endpoint.port - FIRST_PORT
        request = join_parts(self._parts.pop(message.channel, []), message.request)
        self.transmits.append(message)
        self.wire.append((broker_id, request))
        answer = self.answers.get(broker_id, good_answer)(request)
        if answer is None:
            self.unanswered[broker_id] = sender, message, request
        if isinstance(answer, Exception):
            outcome = network.TransmitFailed(message.channel, message.correlation_id, str(answer))
            self.base.inject(sender, outcome, self.network)
        elif answer is not None:
            parts, rest = cut(answer)
            for part in parts:
                self.base.inject(sender, network.ChannelPart(message.channel, part), self.network)
            self.base.inject(sender, network.Received(message.channel, message.correlation_id, rest), self.network)

    def stop(self, node: Node) -> None:
        """Stop a node's controller cleanly."""
        node.send(ControllerShutdown())

    def close(self) -> None:
        """Run until the world is idle, check the state of all nodes, and shut down."""
        self.run(5.0)
        assert len(self.errors) == self.expected_failures, self.errors
        for node in self.nodes.values():
            assert not node.actor.busy and not node.actor.stashed
            deletion = self.base.instance_of(node.actor.peers["deletion"])
            assert disagreements(node.context, deletion.record.report()) == []
            assert inconsistencies(node.context) == []
        self.system.shutdown()
