"""Topics are created, grown, removed and deleted (cases CI7, CI9, CH2, CH5, DT1, DT2, DS2)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.controller.states import PartitionState
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import EPOCH_DURING_DELETE, PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.errors import STALE_BROKER_EPOCH
from messages.store import CREATE, CREATE_SEQUENTIAL, DELETE, SET, WriteOp
from messages.zookeeper import DeleteTopics, SetAssignments, TopicAssignment
from tests.controller.world import World, good_answer
from zk_bridge import paths
from zk_bridge.notifications import encode_partitions
from zk_bridge.partition_states import encode_state


def grow(world: World, topic: str, *assignments: tuple[int, ...]) -> None:
    """Rewrite the topic's znode with these partitions."""
    partitions = tuple(PartitionAssignment(n, ReplicaAssignment(r)) for n, r in enumerate(assignments))
    world.admin.ask(SetAssignments((TopicAssignment(topic, partitions),), None))
    world.run()


def test_ci7_and_ci9_a_topic_is_created_and_grows(world: World) -> None:
    node = world.node(0)
    (first,) = world.topic("t", (0,))
    state = world.state(first)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.isr, state.controller_epoch, state.zk_version) == (0, 0, (0,), 1, 0)
    grow(world, "t", (0,), (0,))
    assert world.led(TopicPartition("t", 1)) == (0, 0, (0,))
    assert world.state(first) == state
    assert (node.gauge("globaltopiccount"), node.gauge("globalpartitioncount")) == (1, 2)


def test_ch2_requests_for_a_new_topic(world: World) -> None:
    node = world.node(1)
    for broker_id in (2, 8, 9):
        world.broker(broker_id)
    world.wire.clear()
    p0, p1, p2 = world.topic("t", (9, 1), (1, 9), (1, 2))
    roles, metadata = world.sent(9)
    assert isinstance(roles, LeaderAndIsrRequest) and isinstance(metadata, UpdateMetadataRequest)
    assert (roles.version, roles.controller_epoch, roles.broker_epoch) == (4, 1, node.context.brokers[9].epoch)
    state = roles.partition_states[0]
    assert (state.partition, state.leader, state.leader_epoch, state.isr) == (p0, 9, 0, (9, 1))
    assert (state.zk_version, state.replicas, state.is_new, state.controller_epoch) == (0, (9, 1), True, 1)
    assert [s.partition for s in roles.partition_states] == [p0, p1]
    assert {leader.broker_id for leader in roles.live_leaders} == {9, 1}
    assert [s.partition for s in metadata.partition_states] == [p0, p1, p2]
    assert world.sent(8, LeaderAndIsrRequest) == [] and len(world.sent(8, UpdateMetadataRequest)) == 1


def test_live_brokers_lead_a_topic(world: World) -> None:
    world.node(1)
    led, waiting = world.topic("t", (9, 1), (9,))
    assert world.led(led) == (1, 0, (1,))
    assert world.state(waiting) is None
    world.broker(9)
    assert world.led(waiting) == (9, 0, (9,))


def test_an_invalid_topic_znode_does_not_affect_other_topics(world: World) -> None:
    world.node(1)
    world.zk.write((WriteOp(CREATE, paths.topic("torn"), b"{not json"),), 0)
    world.run()
    (partition,) = world.topic("t", (1,))
    assert world.led(partition) == (1, 0, (1,))
    grow(world, "torn", (1,))
    assert world.led(TopicPartition("torn", 0)) == (1, 0, (1,))


def test_t12_a_topic_removed_by_hand_can_be_created_again_and_deleted(world: World) -> None:
    """Apache's controller keeps the old states: a topic that is created again gets no leader, and cannot be deleted."""
    world.node(1)
    world.broker(2)
    world.topic("cut", (1, 2), (2, 1))
    world.admin.ask(DeleteTopics(("cut",), 1))
    world.run()
    (partition,) = world.topic("cut", (2, 1))
    assert world.led(partition) == (2, 0, (2, 1))
    world.delete("cut")
    assert (world.topics(), world.deletions()) == ((), ())
    (partition,) = world.topic("cut", (1, 2))
    assert world.led(partition) == (1, 0, (1, 2))


def test_ch5_isr_changes_are_read_sent_and_removed(world: World) -> None:
    node = world.node(1)
    world.broker(2)
    hurt, _ = world.topic("t", (1, 2), (1, 2))
    state = world.state(hurt)
    assert state is not None
    shrunk = encode_state(type(state)(1, 0, (1,), 1, 0))
    world.wire.clear()
    world.zk.write((WriteOp(SET, paths.partition_state(hurt), shrunk),), 0)
    change = encode_partitions((hurt, TopicPartition("gone", 0)))
    world.zk.write((WriteOp(CREATE_SEQUENTIAL, paths.ISR_CHANGE_PREFIX, change),), 0)
    world.run()
    assert [to for to, _ in world.wire] == [1, 2]
    (metadata,) = world.sent(2, UpdateMetadataRequest)
    assert [(s.partition, s.isr, s.zk_version) for s in metadata.partition_states] == [(hurt, (1,), 1)]
    assert world.zk.children(paths.ISR_CHANGES).names == ()
    assert node.context.leadership[hurt].isr == (1,)


def test_isr_changes_of_unknown_partitions_send_nothing(world: World) -> None:
    """As in Kafka, brokers receive an UpdateMetadata request without partitions, which is harmless."""
    node = world.node(1)
    world.wire.clear()
    change = encode_partitions((TopicPartition("gone", 0),))
    world.zk.write((WriteOp(CREATE_SEQUENTIAL, paths.ISR_CHANGE_PREFIX, change),), 0)
    world.run()
    assert [request.partition_states for request in world.sent(1, UpdateMetadataRequest)] == [()]
    assert world.zk.children(paths.ISR_CHANGES).names == () and not node.context.leadership


# ------------------------------------------------------------------------------------------------------- deletion


def stops(world: World, broker_id: int) -> list[tuple[bool, int]]:
    """Return (delete, leader epoch) of each partition in the StopReplica requests to a broker."""
    return [
        (s.delete_partition, s.leader_epoch)
        for request in world.sent(broker_id, StopReplicaRequest)
        for s in request.partition_states
    ]


def test_dt1_and_ds2_a_deletion(world: World) -> None:
    node = world.node(1)
    world.broker(9)
    world.topic("t", (1, 9))
    world.wire.clear()
    world.delete("t")
    metadata = world.sent(9, UpdateMetadataRequest)[0]
    assert [(s.leader, s.isr) for s in metadata.partition_states] == [(-2, (1, 9))]
    assert isinstance(world.sent(9)[0], UpdateMetadataRequest)
    assert stops(world, 9) == [(False, EPOCH_DURING_DELETE), (True, EPOCH_DURING_DELETE)]
    assert world.topics() == world.deletions() == ()
    assert "/config/topics/t" not in world.zk.nodes
    assert node.gauge("topicstodeletecount") == node.gauge("replicastodeletecount") == 0
    (partition,) = world.topic("t", (9, 1))
    assert world.led(partition) == (9, 0, (9, 1))


def test_a_replica_that_dies_before_its_deletion_began_is_left_as_it_is(world: World) -> None:
    """The deletion cannot begin because broker 1 is shutting down; the loss of broker 1 then changes no state."""
    node = world.node(0)
    for broker_id in (1, 2):
        world.broker(broker_id)
    (partition,) = world.topic("t", (1, 2))
    world.lose(2)
    world.shut_down(node, 1)
    world.delete("t")
    world.wire.clear()
    world.lose(1)
    assert world.led(partition) == (1, 1, (1,)) and world.sent(kind=StopReplicaRequest) == []
    for broker_id in (1, 2):
        world.broker(broker_id)
    assert world.topics() == () and world.deletions() == ()


def test_t6_an_error_of_the_whole_request_fails_its_replicas(world: World) -> None:
    node = world.node(1)
    world.broker(2)

    def stale(request: Any) -> Any:
        if isinstance(request, StopReplicaRequest):
            return StopReplicaResponse(STALE_BROKER_EPOCH)
        return good_answer(request)

    world.answers[2] = stale
    world.topic("t", (1, 2))
    world.delete("t")
    assert world.topics() == ("t",)
    assert node.gauge("topicsineligibletodeletecount") == 1


def test_a_new_controller_deletes_what_is_queued(world: World) -> None:
    first = world.node(0)
    world.broker(9)
    world.topic("t", (9,))
    first.kill()
    world.delete("t")
    assert world.topics() == ("t",)
    world.node(1)
    assert world.topics() == world.deletions() == ()


def test_a_partition_without_replicas_is_new_when_it_gets_some(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """controller.md 1.4.10: a partition is new if its cached replica list is empty, also if the controller knows it."""
    node = world.node(1)
    world.broker(2)
    (empty,) = world.topic("t", ())
    assert world.state(empty) is None and node.context.partition_state(empty) is PartitionState.NEW
    caplog.clear()
    grow(world, "t", (2, 1))
    assert world.led(empty) == (2, 0, (2, 1))
    assert not [record for record in caplog.records if "Invalid state change" in record.getMessage()]
    grow(world, "t", (1, 2))
    assert world.led(empty) == (2, 0, (2, 1)), "other replicas are a reassignment's"


def test_a_deletion_completes_when_the_znode_is_removed(world: World) -> None:
    world.node(1)
    world.broker(2)
    world.topic("t", (1, 2))
    world.lose(2)
    world.delete("t")
    prefix = paths.topic("t")
    below = sorted((path for path, _ in world.zk.walk(prefix)), key=len, reverse=True)
    world.zk.write(tuple(WriteOp(DELETE, path) for path in below), 0)
    world.run()
    assert world.deletions() == ()


def test_many_topics_are_deleted_together(world: World) -> None:
    node = world.node(1)
    names = [f"t{n}" for n in range(20)]
    for name in names:
        world.topic(name, (1,), run=False)
    world.run()
    world.zk.write(tuple(WriteOp(CREATE, paths.delete_topic(name)) for name in names), 0)
    world.run()
    assert world.topics() == world.deletions() == ()
    assert node.gauge("globalpartitioncount") == 0
