"""Test whole nodes: three in one process with an in-memory ZooKeeper, on sockets and in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors.gateway.listener import ListenerGateway
from actors.gateway.memory_network import MemoryNetwork
from actors.gateway.network import NetworkGateway
from actors.node.assembly import Node
from actors.node.node import NodeActor
from actors.runtime import LoopScheduler, RealClock, VirtualScheduler
from actors.runtime.trace.replayer import replay_directory
from messages import errors
from messages.apis.metadata import MetadataRequest, MetadataResponse
from messages.cluster import Endpoint, PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.network import Received, Transmit
from messages.node import NodeFailed, NodeSettings, NodeStopped
from messages.vocabulary import AnyMessage, Message
from messages.zookeeper import CreateTopic, GetPartitionStates, GetTopicConfigs, TopicAssignment
from tests.cluster.processes import free_ports
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper

ASSIGNMENT = {0: (0, 1, 2), 1: (1, 2, 0), 2: (2, 0, 1)}
DEADLINE = 30.0


def settings(node_id: int, port: int, place: Path, **options: Any) -> NodeSettings:
    where = (Endpoint("PLAINTEXT", "127.0.0.1", port),)
    folder = place / f"node-{node_id}"
    options = {"trace_dir": f"{folder}/trace", "controlled_shutdown_retry_backoff_ms": 10, **options}
    return NodeSettings(node_id, where, where, (f"{folder}/data",), "memory", **options)


def controller(zookeeper: MemoryZooKeeper) -> int:
    data = zookeeper.read("/controller").data
    return -1 if data is None else int(json.loads(data)["brokerid"])


def create_topic(zookeeper: MemoryZooKeeper) -> None:
    """Create the topic t, as kafka-topics does."""
    partitions = tuple(PartitionAssignment(n, ReplicaAssignment(replicas)) for n, replicas in ASSIGNMENT.items())
    with Client(MemoryStore(zookeeper)) as admin:
        admin.ask(CreateTopic(TopicAssignment("t", partitions)))


def leaders(zookeeper: MemoryZooKeeper) -> dict[int, int]:
    """Return the leader of each partition of t from the state znodes."""
    with Client(MemoryStore(zookeeper)) as admin:
        states = admin.ask(GetPartitionStates(tuple(TopicPartition("t", n) for n in ASSIGNMENT))).states
    return {each.partition.partition: each.state.leader for each in states if each.state is not None}


def assert_each_replays(place: Path, nodes: int, killed: int = 0) -> None:
    """Assert that each node has its own trace that replays, and that only traces of killed nodes are incomplete."""
    runs = replay_directory(place, (NodeActor,)).runs
    assert sorted(run.node for run in runs) == list(range(nodes))
    for run in runs:
        assert run.ok, run.divergence or run.problem
        assert run.deliveries > 50
    assert sum(not run.complete for run in runs) == killed


# ---------------------------------------------------------------------------------------------------- on sockets


async def until(good: Callable[[], object]) -> None:
    """Run the event loop until `good()` is true."""
    async with asyncio.timeout(DEADLINE):
        while not good():
            await asyncio.sleep(0.001)


async def metadata(node: Node, port: int) -> MetadataResponse:
    """Send a Metadata request over a socket of the node, and return the response."""
    where = Endpoint("PLAINTEXT", "127.0.0.1", port)
    transmit = Transmit("client", where, 1, "client", MetadataRequest(8, None, False), DEADLINE)
    outcome = await node.base.request(node.network.address, transmit, DEADLINE)
    assert isinstance(outcome, Received), outcome
    response: MetadataResponse = outcome.response
    return response


def test_three_nodes_in_one_process_elect_a_controller_and_lead_a_topic(tmp_path: Path) -> None:
    async def life() -> None:
        loop = asyncio.get_running_loop()
        scheduler, ports = LoopScheduler(loop), free_ports(3)
        zookeeper = MemoryZooKeeper(scheduler.call_later)
        nodes = [
            Node(
                settings(id, port, tmp_path), MemoryStore(zookeeper), NetworkGateway, ListenerGateway, RealClock(),
                scheduler,
            )
            for id, port in enumerate(ports)
        ]  # fmt: skip
        for node in nodes:
            await node.start()
        await until(lambda: all(node.ready for node in nodes) and controller(zookeeper) >= 0)
        create_topic(zookeeper)
        await until(lambda: leaders(zookeeper) == {n: replicas[0] for n, replicas in ASSIGNMENT.items()})

        def reported(response: MetadataResponse) -> dict[int, tuple[int, tuple[int, ...]]]:
            return {p.partition: (p.leader, p.isr) for topic in response.topics for p in topic.partitions}

        expected = {n: (replicas[0], replicas) for n, replicas in ASSIGNMENT.items()}
        for node, port in zip(nodes, ports, strict=True):
            async with asyncio.timeout(DEADLINE):
                while reported(await metadata(node, port)) != expected:
                    await asyncio.sleep(0.001)
        for node in nodes:
            node.leave()
        await until(lambda: all(node.ended for node in nodes))
        for node in nodes:
            assert isinstance(node.ended, NodeStopped)
            await node.stop()
            assert node.base.failures == 0
        assert zookeeper.children("/brokers/ids").names == ()

    asyncio.run(life())
    assert_each_replays(tmp_path, 3)


# ----------------------------------------------------------------------------------------------- in virtual time


@attrs.define
class World:
    """Nodes on one virtual clock, with an in-memory ZooKeeper and network."""

    scheduler: VirtualScheduler
    zookeeper: MemoryZooKeeper
    network: MemoryNetwork
    nodes: list[Node]
    stores: list[MemoryStore]

    @classmethod
    def of(cls, place: Path, count: int = 3, written: Sequence[AnyMessage] = (), **options: Any) -> World:
        """Start nodes with these settings, after these requests to ZooKeeper."""
        scheduler = VirtualScheduler()
        zookeeper, network = MemoryZooKeeper(scheduler.call_later), MemoryNetwork(scheduler)
        with Client(MemoryStore(zookeeper)) as admin:
            for each in written:
                admin.ask(each)
        stores = [MemoryStore(zookeeper, 18.0) for _ in range(count)]
        nodes = [
            Node(
                settings(id, 9092 + id, place, **options), store, network.network, network.listener, scheduler.clock,
                scheduler,
            )
            for id, store in enumerate(stores)
        ]  # fmt: skip
        for node in nodes:
            scheduler.finish(node.start())
        return cls(scheduler, zookeeper, network, nodes, stores)

    def until(self, good: Callable[[], object], seconds: float = 60.0) -> float:
        """Let time pass until `good()` is true, and return the elapsed seconds."""
        before = self.scheduler.clock.now()
        self.scheduler.run_until(good, seconds)
        return self.scheduler.clock.now() - before

    def kill(self, node_id: int) -> None:
        """Simulate kill -9: the connections of peers are cut, and the session expires after its timeout."""
        node = self.nodes[node_id]
        self.scheduler.remove(node.base)
        self.stores[node_id].abandon()
        self.scheduler.finish(node.listener.stop())
        self.scheduler.finish(node.network.stop())
        node.recorder.flush()

    def stop(self, *survivors: int) -> None:
        for id in survivors:
            self.nodes[id].leave()
        self.until(lambda: all(self.nodes[id].ended for id in survivors))
        for id in survivors:
            self.scheduler.finish(self.nodes[id].stop())
            assert self.nodes[id].base.failures == 0


def test_a_killed_controller_is_replaced_when_its_session_expires(tmp_path: Path) -> None:
    world = World.of(tmp_path)
    world.until(lambda: all(node.ready for node in world.nodes) and controller(world.zookeeper) >= 0)
    create_topic(world.zookeeper)
    world.until(lambda: len(leaders(world.zookeeper)) == len(ASSIGNMENT))
    dead = controller(world.zookeeper)
    world.kill(dead)
    took = world.until(lambda: controller(world.zookeeper) not in (dead, -1))
    assert took == 18.0
    survivors = [id for id in range(3) if id != dead]
    world.until(lambda: set(leaders(world.zookeeper).values()) == set(survivors))
    world.stop(*survivors)
    assert_each_replays(tmp_path, 3, killed=1)


def test_a_taken_port_keeps_a_node_from_starting(tmp_path: Path) -> None:
    world = World.of(tmp_path, 1)
    second = Node(
        settings(7, 9092, tmp_path), MemoryStore(world.zookeeper), world.network.network, world.network.listener,
        world.scheduler.clock, world.scheduler,
    )  # fmt: skip
    with pytest.raises(OSError, match=r"PLAINTEXT://127\.0\.0\.1:9092"):
        world.scheduler.finish(second.start())
    world.scheduler.finish(second.stop())
    world.stop(0)


def test_a_zookeeper_that_is_down_fails_the_node(tmp_path: Path) -> None:
    scheduler = VirtualScheduler()
    zookeeper, network = MemoryZooKeeper(), MemoryNetwork(scheduler)
    zookeeper.up = False
    node = Node(
        settings(0, 9092, tmp_path),
        MemoryStore(zookeeper),
        network.network,
        network.listener,
        scheduler.clock,
        scheduler,
    )
    scheduler.finish(node.start())
    scheduler.run()
    assert isinstance(node.ended, NodeFailed)
    assert "cannot be reached" in node.ended.reason
    scheduler.finish(node.stop())


def test_a_store_that_cannot_go_on_fails_the_node(tmp_path: Path) -> None:
    """A node must not continue as a zombie controller: it ends with NodeFailed."""
    world = World.of(tmp_path, 1)
    world.until(lambda: world.nodes[0].ready)
    world.stores[0].fail("its thread has ended")
    world.scheduler.run()
    assert world.nodes[0].ended == NodeFailed("its thread has ended")
    world.scheduler.finish(world.nodes[0].stop())


# ------------------------------------------------------------------------------------------------ missing topics


def ask(world: World, node_id: int, request: Message) -> Any:
    """Send a request to node `node_id` over another node's network, and return the response."""
    client = world.nodes[(node_id + 1) % len(world.nodes)]
    where = Endpoint("PLAINTEXT", "127.0.0.1", 9092 + node_id)
    transmit = Transmit(f"client of {node_id}", where, 1, "client", request, DEADLINE)
    outcomes: list[Any] = []
    asker = client.base.external_endpoint("a client", lambda message, sender: outcomes.append(message))
    client.base.inject(client.network.address, transmit, asker)
    world.until(lambda: outcomes)
    assert isinstance(outcomes[0], Received), outcomes
    return outcomes[0].response


def topics_of(response: MetadataResponse) -> dict[str, tuple[int, int]]:
    """Return (error code, number of partitions) of each topic."""
    return {topic.name: (topic.error_code, len(topic.partitions)) for topic in response.topics}


def test_topics_are_made_by_their_first_use_on_any_broker(tmp_path: Path) -> None:
    world = World.of(tmp_path, num_partitions=2, offsets_topic_num_partitions=3)
    world.until(lambda: all(node.ready for node in world.nodes) and controller(world.zookeeper) >= 0)
    world.scheduler.run(5.0)
    other = next(node for node in range(3) if node != controller(world.zookeeper))
    names = ("new", "__consumer_offsets", "no name")
    reported = topics_of(ask(world, other, MetadataRequest(8, names, allow_auto_topic_creation=True)))
    assert reported == {
        "new": (errors.LEADER_NOT_AVAILABLE, 0),
        "__consumer_offsets": (errors.LEADER_NOT_AVAILABLE, 0),
        "no name": (errors.INVALID_TOPIC, 0),
    }
    world.scheduler.run(5.0)
    reported = topics_of(ask(world, other, MetadataRequest(8, (*names, "never"), allow_auto_topic_creation=False)))
    assert reported == {
        "new": (errors.NONE, 2),
        "__consumer_offsets": (errors.NONE, 3),
        "no name": (errors.INVALID_TOPIC, 0),
        "never": (errors.UNKNOWN_TOPIC_OR_PARTITION, 0),
    }
    with Client(MemoryStore(world.zookeeper)) as admin:
        (config,) = admin.ask(GetTopicConfigs(("__consumer_offsets",))).topics
    assert ("cleanup.policy", "compact") in config.entries
    world.stop(0, 1, 2)
    assert_each_replays(tmp_path, 3)


def test_no_topic_is_made_where_the_settings_forbid_it_or_brokers_are_too_few(tmp_path: Path) -> None:
    world = World.of(tmp_path, 1, offsets_topic_num_partitions=3, auto_create_topics_enable=False)
    world.until(lambda: world.nodes[0].ready and controller(world.zookeeper) >= 0)
    world.scheduler.run(5.0)
    assert topics_of(ask(world, 0, MetadataRequest(8, ("new",)))) == {"new": (errors.UNKNOWN_TOPIC_OR_PARTITION, 0)}
    world.stop(0)
    world = World.of(tmp_path / "two", 1)
    world.until(lambda: world.nodes[0].ready and controller(world.zookeeper) >= 0)
    world.scheduler.run(5.0)
    reported = topics_of(ask(world, 0, MetadataRequest(8, ("__consumer_offsets",))))
    assert reported == {"__consumer_offsets": (errors.INVALID_REPLICATION_FACTOR, 0)}
    world.stop(0)
