"""CC1-CC7 of controller.md 9.4: assignments in the context, and how they change."""

from __future__ import annotations

import pytest

from actors.core.controller.context import assignment_during, target_replicas
from actors.core.controller.replica_state_machine import replicas_of
from actors.core.controller.states import PartitionState, ReplicaState
from actors.core.controller.validation import inconsistencies
from messages.cluster import ReplicaAssignment, TopicPartition
from tests.core.controller.driver import Scene

FULL = ReplicaAssignment


def test_cc1_an_assignment_reads_back_as_it_was_set() -> None:
    context = Scene().context
    for number, assignment in enumerate((FULL((4,)), FULL((3,), (1,), (2,)))):
        context.set_assignment(TopicPartition("t", number), assignment)
        assert context.assignment(TopicPartition("t", number)) == assignment


def test_cc2_and_cc3_what_is_unknown_has_no_replicas() -> None:
    scene = Scene()
    scene.assign("t", (1, 2))
    assert scene.context.assignment(TopicPartition("u", 0)) == FULL(())
    assert scene.context.assignment(TopicPartition("t", 1)) == FULL(())


def test_cc4_and_cc5_the_assignments_of_a_topic() -> None:
    scene = Scene()
    scene.assign("t", (1, 2), (2, 3))
    assert scene.context.topic_assignment("u").partitions == ()
    assert scene.context.topic_assignment("t").partitions == ((0, FULL((1, 2))), (1, FULL((2, 3))))


@pytest.mark.parametrize(
    ("assignment", "target"),
    [
        (FULL((1, 2, 3, 4, 5, 6), (2, 3, 4), (1, 5, 6)), (2, 3, 4)),
        (FULL((1, 2, 3, 4), (), (1, 4)), (2, 3)),
        (FULL((1, 2, 3, 4), (4,), (2,)), (1, 3, 4)),
        (FULL((1, 2, 3, 4)), (1, 2, 3, 4)),
    ],
)
def test_cc6_the_target_is_without_the_removed_replicas(assignment: ReplicaAssignment, target: tuple[int, ...]) -> None:
    assert target_replicas(assignment) == target


@pytest.mark.parametrize(
    ("replicas", "target", "expected"),
    [
        ((1, 2, 3, 4), (4, 2, 5, 3), FULL((4, 2, 5, 3, 1), (5,), (1,))),
        ((1, 2, 3), (4, 5, 6), FULL((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))),
        ((1, 2, 3), (3, 1, 2), FULL((3, 1, 2))),
    ],
)
def test_cc6_on_the_way_to_a_target(replicas: tuple[int, ...], target: tuple[int, ...], expected: FULL) -> None:
    assert assignment_during(FULL(replicas), target) == expected


def test_cc7_a_reassignment_reassigned_starts_from_the_origin() -> None:
    on_its_way = assignment_during(FULL((1, 2, 3)), (4, 5, 6))
    assert assignment_during(on_its_way, (7, 8, 9)) == FULL((7, 8, 9, 1, 2, 3), (7, 8, 9), (1, 2, 3))
    assert assignment_during(assignment_during(on_its_way, (7, 8, 9)), (1, 2, 3)) == FULL((1, 2, 3))


def test_a_changed_assignment_changes_the_index_by_broker() -> None:
    scene = Scene(1, 2, 3)
    (partition,) = scene.assign("t", (1, 2))
    scene.context.set_assignment(partition, FULL((2, 3)))
    assert scene.context.replicas_on([1, 2, 3]) == {2: [partition], 3: [partition]}
    assert inconsistencies(scene.context) == []


def test_a_broker_named_twice_has_one_replica() -> None:
    scene = Scene(1, 2)
    (partition,) = scene.assign("t", (1, 1, 2))
    assert scene.run(replicas_of(scene.context, [partition])) == {1: [partition], 2: [partition]}


def test_a_removed_topic_leaves_nothing_behind() -> None:
    scene = Scene(1, 2)
    (partition,) = scene.assign("t", (1, 2))
    scene.lead(partition, 1, 1, 2)
    scene.put(partition, PartitionState.OFFLINE)
    scene.put_replica(partition, 1, ReplicaState.ONLINE)
    scene.run(scene.context.remove_topics(["t"]))
    context = scene.context
    assert context.offline_count == 0
    assert not any((context.topics, context.assignments, context.leadership, context.partition_states))
    assert context.replica_state(1, partition) is ReplicaState.NON_EXISTENT
    assert inconsistencies(context) == []
