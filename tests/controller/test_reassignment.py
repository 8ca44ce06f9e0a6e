"""Reassignments by whole controllers, with failovers, lost brokers and deletions (cases CI11, RA2, RA5, ZK1)."""

from __future__ import annotations

from typing import Any

import pytest

from messages import errors
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from messages.apis.stop_replica import StopReplicaRequest
from messages.cluster import ReplicaAssignment, TopicPartition
from messages.network import ClientRequest, Forwarded
from messages.store import CREATE, DELETE, NO_NODE, WriteOp
from messages.zookeeper import GetAssignments, RequestedReassignment
from tests.controller.world import Node, World
from zk_bridge import paths
from zk_bridge.reassignments import encode_reassignments


def reassign(world: World, *entries: tuple[TopicPartition, tuple[int, ...]]) -> None:
    """Request other replicas, as admin tools do."""
    data = encode_reassignments(RequestedReassignment(*entry) for entry in entries)
    world.zk.write((WriteOp(CREATE, paths.REASSIGNMENTS, data),), 0)
    world.run()


def asked_for(world: World) -> bool:
    return world.zk.read(paths.REASSIGNMENTS).code != NO_NODE


def assigned(world: World, partition: TopicPartition) -> ReplicaAssignment:
    """Return the assignment in the topic's znode."""
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


def test_the_next_controller_continues(world: World) -> None:
    node = world.node(1)
    brokers(world, 8, 9)
    (partition,) = world.topic("t", (8,))
    reassign(world, (partition, (9,)))
    node.kill()
    world.write_isr(partition, 8, 9)  # while there is no controller
    world.node(2)
    assert world.led(partition)[::2] == (9, (9,)) and not asked_for(world)
    assert assigned(world, partition) == ReplicaAssignment((9,))


def test_a_reassignment_stored_only_in_the_topic_continues(world: World) -> None:
    """A reassignment that an API requested is also stored only in the topic's znode."""
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


def test_a_target_that_fails_during_the_reassignment_and_returns(world: World) -> None:
    world.node(1)
    brokers(world, 8, 9)
    (partition,) = world.topic("t", (8,))
    reassign(world, (partition, (9,)))
    world.lose(9)
    world.broker(9)
    world.write_isr(partition, 8, 9)
    assert world.led(partition)[::2] == (9, (9,)) and not asked_for(world)


def stops(world: World, broker_id: int) -> list[bool]:
    """Return, for each replica that the broker was ordered to stop, whether it was to be deleted."""
    return [s.delete_partition for r in world.sent(broker_id, StopReplicaRequest) for s in r.partition_states]


def test_t1_the_deletion_begins_at_once_and_ends_the_reassignment(world: World) -> None:
    """Kafka 3.9.1 does the same, but leaves the request in /admin/reassign_partitions."""
    world.node(1)
    brokers(world, 8, 9)
    partition, other = (*world.topic("t", (8,)), *world.topic("u", (8,)))
    reassign(world, (partition, (9,)), (other, (9,)))
    world.wire.clear()
    world.delete("t")
    assert world.topics() == ("u",) and world.deletions() == ()
    assert stops(world, 8) == stops(world, 9) == [False, True], "the replica that was being added is deleted too"
    assert asked_for(world) and assigned(world, other).adding == (9,), "the other reassignment goes on"
    world.write_isr(other, 8, 9)
    assert assigned(world, other) == ReplicaAssignment((9,)) and not asked_for(world)


def test_a_deletion_waits_for_nothing_but_a_target_that_is_away(world: World) -> None:
    """Each deletion waits for a dead broker's replica. Kafka 3.9.1 attempts an illegal transition of this replica."""
    node = world.node(1)
    world.broker(8)
    (partition,) = world.topic("t", (8,))
    reassign(world, (partition, (9,)))
    world.delete("t")
    assert stops(world, 8) == [False, True] and not asked_for(world)
    assert assigned(world, partition) == ReplicaAssignment((9, 8))
    assert world.topics() == ("t",) and node.gauge("topicsineligibletodeletecount") == 1
    assert node.gauge("replicasineligibletodeletecount") == 0, "it was tried again when the other was done"
    assert alter(world, node, partition, None) == errors.NO_REASSIGNMENT_IN_PROGRESS
    world.broker(9)
    assert world.topics() == () and world.deletions() == ()


def test_the_next_controller_continues_a_deletion(world: World) -> None:
    """Kafka 3.9.1 halts the deletion there until the reassignment ends, which cannot be cancelled any more."""
    node = world.node(1)
    world.broker(8)
    (partition,) = world.topic("t", (8,))
    reassign(world, (partition, (9,)))
    node.kill()
    world.delete("t")  # while there is no controller
    world.wire.clear()
    world.node(2)
    assert stops(world, 8)[-1] is True and not asked_for(world)
    assert assigned(world, partition) == ReplicaAssignment((9, 8))
    world.broker(9)
    assert world.topics() == () and world.deletions() == ()


def test_ra5_invalid_entries_are_dropped_and_the_others_run(world: World) -> None:
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


# ------------------------------------------------------------------------------------------------ reassignments by API


def ask(world: World, node: Node, request: Any) -> Any:
    """Send a client's request to the node's controller; return the response."""
    node.send(Forwarded(world.client, ClientRequest(7, 1, "client", "PLAINTEXT", request)), world.client)
    return world.responses.pop().response


def alter(world: World, node: Node, partition: TopicPartition, replicas: tuple[int, ...] | None) -> int:
    """Request other replicas; return the error code."""
    topic = ReassignableTopic(partition.topic, (ReassignablePartition(partition.partition, replicas),))
    response = ask(world, node, AlterPartitionReassignmentsRequest(0, 1000, (topic,)))
    assert response.error_code == errors.NONE
    ((result,),) = (each.partitions for each in response.responses)
    assert (result.error_message is None) == (result.error_code == errors.NONE)
    return result.error_code


def listed(world: World, node: Node, *asked: ListPartitionReassignmentsTopics) -> list[tuple[Any, ...]]:
    response = ask(world, node, ListPartitionReassignmentsRequest(0, 1000, asked or None))
    return [
        (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    ]


def test_ra2_a_reassignment_is_started_listed_and_cancelled(world: World) -> None:
    node = world.node(1)
    brokers(world, 8, 9)
    (partition,) = world.topic("t", (8,))
    assert alter(world, node, partition, (9,)) == errors.NONE
    assert assigned(world, partition) == ReplicaAssignment((9, 8), (9,), (8,))
    assert listed(world, node) == [("t", 0, (9, 8), (9,), (8,))]
    assert listed(world, node, ListPartitionReassignmentsTopics("t", (0, 1))) == listed(world, node)
    assert listed(world, node, ListPartitionReassignmentsTopics("u", (0,))) == []
    assert alter(world, node, partition, None) == errors.NONE
    assert assigned(world, partition) == ReplicaAssignment((8,)) and listed(world, node) == []
    stopped = [s.delete_partition for r in world.sent(9, StopReplicaRequest) for s in r.partition_states]
    assert stopped == [False, True]
    assert alter(world, node, partition, None) == errors.NO_REASSIGNMENT_IN_PROGRESS


def test_the_latest_request_counts_from_zookeeper_or_the_api(world: World) -> None:
    node = world.node(1)
    brokers(world, 8, 9)
    partition, other = world.topic("t", (8,), (8,))
    reassign(world, (partition, (9,)), (other, (9,)))
    assert alter(world, node, partition, (1,)) == errors.NONE
    assert assigned(world, partition) == ReplicaAssignment((1, 8), (1,), (8,))
    data = world.zk.read(paths.REASSIGNMENTS).data
    assert data == encode_reassignments((RequestedReassignment(other, (9,)),))
    world.write_isr(partition, 8, 1)
    assert assigned(world, partition) == ReplicaAssignment((1,)) and asked_for(world)
    world.write_isr(other, 8, 9)
    assert not asked_for(world)


@pytest.mark.parametrize("replicas", [(), (9, 9), (-1,), (77,)])
def test_an_assignment_to_dead_brokers_is_refused(world: World, replicas: tuple[int, ...]) -> None:
    node = world.node(1)
    (partition,) = world.topic("t", (1,))
    assert alter(world, node, partition, replicas) == errors.INVALID_REPLICA_ASSIGNMENT
    assert assigned(world, partition) == ReplicaAssignment((1,))


def test_what_is_unknown_is_refused_by_name_and_all_of_it_elsewhere(world: World) -> None:
    node, other = world.node(1), world.node(2)
    assert alter(world, node, TopicPartition("none", 0), (1,)) == errors.UNKNOWN_TOPIC_OR_PARTITION
    request = AlterPartitionReassignmentsRequest(0, 1000, ())
    assert ask(world, other, request) == AlterPartitionReassignmentsResponse(errors.NOT_CONTROLLER)
