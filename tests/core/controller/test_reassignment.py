"""Reassignment by `.send()`: its steps, its refusals, and restarting it after any step (controller.md 7.7)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.controller import deletion_steps, partition_state_machine, reassignment, replica_state_machine
from actors.core.controller.context import ControllerContext
from actors.core.controller.instructions import Enqueue
from actors.core.controller.states import PartitionState, ReplicaState
from messages import zookeeper
from messages.apis.stop_replica import StopReplicaRequest
from messages.ask import ConnectionLoss, ZooKeeperRefused
from messages.cluster import PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.events import PartitionReassignmentIsrChange, ZkPartitionReassignment
from tests.core.controller.driver import Scene, leadership

FULL = ReplicaAssignment
T0 = TopicPartition("t", 0)
REQUESTED = ZkPartitionReassignment()
CAUGHT_UP = PartitionReassignmentIsrChange("t", 0)


def scene_of(*replicas: int, brokers: tuple[int, ...] = (1, 2, 3)) -> Scene:
    """Return a partition on these replicas, led by the first, with all of them in the ISR."""
    scene = Scene(*brokers)
    scene.assign("t", replicas)
    scene.lead(T0, replicas[0], *replicas)
    scene.put(T0, PartitionState.ONLINE)
    for broker_id in replicas:
        scene.put_replica(T0, broker_id, ReplicaState.ONLINE)
    scene.topic_znodes["t"] = scene.context.topic_assignment("t")
    return scene


def request(scene: Scene, *entries: tuple[TopicPartition, tuple[int, ...]]) -> None:
    """Request a reassignment as a client, and handle the event."""
    scene.reassignments = tuple(zookeeper.RequestedReassignment(*entry) for entry in entries)
    scene.run(reassignment.handle_zk_reassignment(scene.context, REQUESTED))


def catch_up(scene: Scene, *isr: int) -> None:
    """Write this ISR as the leader, and handle the event."""
    state = scene.znodes[T0]
    scene.znodes[T0] = leadership(state.leader, *isr, epoch=state.leader_epoch, version=state.zk_version + 1)
    scene.run(reassignment.isr_changed(scene.context, CAUGHT_UP))


def test_those_that_have_caught_up_as_well_are_finished_together() -> None:
    """Two of three partitions have caught up when the event of the first arrives: this event finishes both."""
    scene = Scene(1, 2)
    partitions = scene.assign("t", (1,), (1,), (1,))
    for partition in partitions:
        scene.lead(partition, 1, 1)
        scene.put(partition, PartitionState.ONLINE)
        scene.put_replica(partition, 1, ReplicaState.ONLINE)
    scene.topic_znodes["t"] = scene.context.topic_assignment("t")
    request(scene, *((partition, (2,)) for partition in partitions))
    for partition in partitions[:2]:
        state = scene.znodes[partition]
        scene.znodes[partition] = leadership(1, 1, 2, epoch=state.leader_epoch, version=state.zk_version + 1)
    scene.steps.clear()
    scene.run(reassignment.isr_changed(scene.context, CAUGHT_UP))
    assert list(scene.context.reassigning) == partitions[2:]
    assert [scene.context.leadership[tp].leader for tp in partitions] == [2, 2, 1]
    assert sum(isinstance(step, zookeeper.RemoveReassignments) for step in scene.steps) == 1
    scene.steps.clear()
    scene.run(reassignment.isr_changed(scene.context, PartitionReassignmentIsrChange("t", 1)))
    assert not scene.steps


def test_a_leader_that_stays_is_not_replaced() -> None:
    scene = scene_of(1, 2)
    request(scene, (T0, (3, 1)))
    catch_up(scene, 1, 2, 3)
    state = scene.znodes[T0]
    assert (state.leader, state.leader_epoch, state.isr) == (1, 3, (1, 3))
    assert scene.context.assignment(T0) == FULL((3, 1))


def test_another_order_is_done_at_once() -> None:
    scene = scene_of(1, 2)
    request(scene, (T0, (2, 1)))
    assert scene.context.assignment(T0) == FULL((2, 1)) and scene.reassignments is None
    assert (scene.znodes[T0].leader, scene.znodes[T0].leader_epoch) == (1, 1)
    assert scene.topic_znodes["t"].partitions == (PartitionAssignment(0, FULL((2, 1))),)


def test_a_replica_dropped_during_the_reassignment_is_deleted() -> None:
    scene = scene_of(1)
    request(scene, (T0, (2,)))
    scene.forget()
    request(scene, (T0, (3,)))
    assert scene.context.assignment(T0) == FULL((3, 1), (3,), (1,))
    assert [state.delete_partition for r in scene.requests(StopReplicaRequest, 2) for state in r.partition_states] == [
        False,
        True,
    ]
    assert scene.context.replica_state(2, T0) is ReplicaState.NON_EXISTENT
    catch_up(scene, 1, 3)
    assert scene.context.assignment(T0) == FULL((3,)) and scene.reassignments is None


def test_a_leader_dropped_during_the_reassignment_is_replaced_first() -> None:
    """An added replica in the ISR may become leader during a reassignment, and the next reassignment may remove it.

    Kafka removes it from the ISR while it leads, and leaves the partition without a leader (KAFKA-14808).
    """
    scene = scene_of(1, 2)
    request(scene, (T0, (3, 4)))
    catch_up(scene, 1, 2, 3)
    scene.lead(T0, 3, 1, 2, 3, epoch=2, version=scene.znodes[T0].zk_version)
    request(scene, (T0, (1, 4)))
    assert scene.context.assignment(T0) == FULL((1, 4, 2), (4,), (2,))
    state = scene.znodes[T0]
    assert (state.leader, state.isr) == (1, (1, 2))


def test_what_is_behind_waits() -> None:
    scene = scene_of(1)
    request(scene, (T0, (2, 3)))
    scene.forget()
    catch_up(scene, 1, 2)
    assert scene.done == scene.sent == [] and scene.reassignments is not None
    catch_up(scene, 1, 2, 3)
    assert scene.reassignments is None


@pytest.mark.parametrize(
    ("partition", "replicas"),
    [(T0, ()), (T0, (2, 2)), (T0, (-1,)), (TopicPartition("t", 9), (2,)), (TopicPartition("unknown", 0), (2,))],
)
def test_ra5_what_cannot_be_is_dropped(partition: TopicPartition, replicas: tuple[int, ...]) -> None:
    scene = scene_of(1)
    request(scene, (partition, replicas))
    assert scene.reassignments is None and scene.context.assignment(T0) == FULL((1,))
    assert scene.sent == [] and scene.done == [Enqueue(REQUESTED)]


def test_one_topic_that_cannot_be_written_costs_the_others_nothing() -> None:
    scene = scene_of(1)
    gone = scene.assign("gone", (1,))[0]
    scene.lead(gone, 1, 1)
    scene.put(gone, PartitionState.ONLINE)
    scene.refused_topics.add("gone")
    request(scene, (gone, (2,)), (T0, (2,)))
    assert scene.reassignments == (zookeeper.RequestedReassignment(T0, (2,)),)
    assert list(scene.context.reassigning) == [T0]


def test_what_is_asked_of_a_topic_being_deleted_is_refused() -> None:
    scene = scene_of(1)
    scene.run(deletion_steps.queue(scene.context, ["t"]))
    request(scene, (T0, (2,)))
    assert scene.reassignments is None and scene.context.assignment(T0) == FULL((1,))


def moved(scene: Scene) -> list[Any]:
    """Reassign 1 -> 2, let 2 catch up, and return the questions to ZooKeeper."""
    request(scene, (T0, (2,)))
    catch_up(scene, 1, 2)
    return scene.asked


ASKED = len(moved(scene_of(1)))


@pytest.mark.parametrize("number", range(ASKED))
def test_the_next_controller_goes_on_wherever_it_broke_off(number: int) -> None:
    """The answer to each question in turn is lost: in one run before it is carried out, in another after it."""
    for carried_out in (False, True):
        scene = scene_of(1)
        scene.breaks_at = number, carried_out
        with pytest.raises(ConnectionLoss):
            moved(scene)
        scene = succeeded(scene)
        scene.run(reassignment.begin(scene.context))
        if scene.context.reassigning:
            catch_up(scene, 1, 2)
        state = scene.znodes[T0]
        assert (state.leader, state.isr) == (2, (2,))
        assert scene.topic_znodes["t"].partitions == (PartitionAssignment(0, FULL((2,))),)
        assert scene.reassignments is None
        assert scene.context.replica_state(1, T0) is ReplicaState.NON_EXISTENT


def succeeded(old: Scene) -> Scene:
    """Return the scene of the next controller: the same ZooKeeper and an empty context that is loaded from it."""
    scene = Scene(1, 2, 3)
    scene.znodes, scene.topic_znodes, scene.reassignments = old.znodes, old.topic_znodes, old.reassignments
    load(scene.context, scene.topic_znodes["t"])
    scene.context.learn_leaderships(scene.znodes.items())
    scene.run(replica_state_machine.start(scene.context))
    scene.run(partition_state_machine.start(scene.context))
    return scene


def load(context: ControllerContext, topic: zookeeper.TopicAssignment) -> None:
    context.learn(topic.topic, topic.partitions)


def test_a_failed_write_of_another_kind_drops_no_reassignment() -> None:
    scene = scene_of(1)
    scene.raising[zookeeper.UpdatePartitionStates] = ZooKeeperRefused("no")
    request(scene, (T0, (2,)))
    assert list(scene.context.reassigning) == [T0] and scene.reassignments is not None
