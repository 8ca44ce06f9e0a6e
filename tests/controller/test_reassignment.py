"""Reassignments by whole controllers: through failovers, losses and deletions (cases CI11, RA2, RA5, ZK1)."""

from __future__ import annotations

from messages.cluster import ReplicaAssignment, TopicPartition
from messages.requests import LeaderAndIsrRequest, StopReplicaRequest
from messages.store import CREATE, DELETE, NO_NODE, WriteOp
from messages.zookeeper import GetAssignments, RequestedReassignment
from tests.controller.world import World
from zk_bridge import paths, znodes


def reassign(world: World, *entries: tuple[TopicPartition, tuple[int, ...]]) -> None:
    """Ask for other replicas, as admin tools do."""
    data = znodes.encode_reassignments(RequestedReassignment(*entry) for entry in entries)
    world.zk.write((WriteOp(CREATE, paths.REASSIGNMENTS, data),), 0)
    world.run()


def asked_for(world: World) -> bool:
    return world.zk.read(paths.REASSIGNMENTS).code != NO_NODE


def assigned(world: World, partition: TopicPartition) -> ReplicaAssignment:
    """What the topic's znode says."""
    (topic,) = world.admin.ask(GetAssignments((partition.topic,), watch=False)).topics
    return dict(topic.partitions)[partition.partition]


def brokers(world: World, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        world.broker(broker_id)


def test_ci11_there_and_back(world: World) -> None:
    node = world.node(1)
    brokers(world, 8, 9)
    (partition,) = world.topic("t", (8,))
    for old, new, epoch in ((8, 9, 3), (9, 8, 6)):
        reassign(world, (partition, (new,)))
        assert assigned(world, partition) == ReplicaAssignment((new, old), (new,), (old,))
        assert world.led(partition) == (old, epoch - 2, (old,)) and asked_for(world)
        world.wire.clear()
        world.write_isr(partition, old, new)
        assert world.led(partition) == (new, epoch, (new,)) and not asked_for(world)
        assert assigned(world, partition) == ReplicaAssignment((new,))
        stopped = [s.delete_partition for r in world.sent(old, StopReplicaRequest) for s in r.partition_states]
        assert stopped == [False, True] and world.sent(new, StopReplicaRequest) == []
    assert not node.context.reassigning


def test_the_next_controller_goes_on(world: World) -> None:
    node = world.node(1)
    brokers(world, 8, 9)
    (partition,) = world.topic("t", (8,))
    reassign(world, (partition, (9,)))
    node.kill()
    world.write_isr(partition, 8, 9)  # nobody is there to see it
    world.node(2)
    assert world.led(partition)[::2] == (9, (9,)) and not asked_for(world)
    assert assigned(world, partition) == ReplicaAssignment((9,))


def test_what_no_request_names_any_more_goes_on_as_well(world: World) -> None:
    """As reassignments that were asked for by an API: the topic's znode alone says so."""
    node = world.node(1)
    brokers(world, 8, 9)
    (partition,) = world.topic("t", (8,))
    reassign(world, (partition, (9,)))
    world.zk.write((WriteOp(DELETE, paths.REASSIGNMENTS),), 0)
    node.kill()
    world.node(2)
    assert assigned(world, partition) == ReplicaAssignment((9, 8), (9,), (8,))
    world.write_isr(partition, 8, 9)
    assert assigned(world, partition) == ReplicaAssignment((9,))


def test_a_target_that_is_not_there_is_waited_for(world: World) -> None:
    world.node(1)
    world.broker(8)
    (partition,) = world.topic("t", (8,))
    reassign(world, (partition, (9,)))
    assert asked_for(world)
    world.broker(9)
    orders = [s for r in world.sent(9, LeaderAndIsrRequest) for s in r.partition_states]
    assert [(s.is_new, s.adding_replicas, s.removing_replicas) for s in orders] == [(True, (9,), (8,))]
    world.write_isr(partition, 8, 9)
    assert world.led(partition)[::2] == (9, (9,)) and not asked_for(world)


def test_a_target_that_dies_on_the_way_and_comes_back(world: World) -> None:
    world.node(1)
    brokers(world, 8, 9)
    (partition,) = world.topic("t", (8,))
    reassign(world, (partition, (9,)))
    world.lose(9)
    world.broker(9)
    world.write_isr(partition, 8, 9)
    assert world.led(partition)[::2] == (9, (9,)) and not asked_for(world)


def test_t1_the_deletion_waits(world: World) -> None:
    """Kafka deletes at once (trap T1)."""
    node = world.node(1)
    brokers(world, 8, 9)
    (partition,) = world.topic("t", (8,))
    reassign(world, (partition, (9,)))
    world.delete("t")
    assert world.topics() == ("t",) and node.gauge("topicsineligibletodeletecount") == 1
    world.bounce(8)
    assert world.topics() == ("t",)
    node.kill()
    world.node(2)
    assert world.topics() == ("t",)
    world.write_isr(partition, 8, 9)
    world.run()
    assert world.topics() == () and world.deletions() == () and not asked_for(world)


def test_ra5_what_cannot_be_is_dropped_and_the_rest_is_done(world: World) -> None:
    world.node(1)
    brokers(world, 8, 9)
    partition, same = world.topic("t", (8,), (9,))
    unknown = [(TopicPartition("t", 9), (9,)), (TopicPartition("none", 0), (9,))]
    reassign(world, (partition, (9,)), (same, (9,)), *unknown)
    assert asked_for(world)
    world.write_isr(partition, 8, 9)
    assert not asked_for(world) and world.topics() == ("t",)
    world.zk.write((WriteOp(CREATE, paths.REASSIGNMENTS, b"{not json"),), 0)
    world.run()
    assert asked_for(world)  # as in Kafka 2.6
    (other,) = world.topic("u", (8,))
    assert world.led(other) == (8, 0, (8,))
