"""The first reads of a controller's term are divided so that they do not block the node."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.core.controller import notifications, topic_changes
from messages.cluster import PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.flow.conversation import Flow, Worked
from messages.zookeeper import Assignments, GetAssignments, TopicAssignment
from tests.core.controller.driver import Scene


def drive(flow: Flow[Any], sizes: dict[str, int]) -> tuple[list[Any], Any]:
    """Drive a flow on topics of these sizes, and return its questions and its result."""
    asked: list[Any] = []
    answer: Any = None
    while True:
        try:
            question = flow.send(answer)
        except StopIteration as end:
            return asked, end.value
        if isinstance(question, Worked):
            continue
        asked.append(question)
        match question:
            case GetAssignments(names):
                answer = Assignments(tuple(assignment(name, sizes[name]) for name in names), ())


def assignment(topic: str, size: int) -> TopicAssignment:
    return TopicAssignment(topic, tuple(PartitionAssignment(n, ReplicaAssignment((1,))) for n in range(size)))


def asked_for(sizes: list[int]) -> list[tuple[str, ...]]:
    """Load topics of these sizes and return the topics of each question.

    Fail unless each topic is read once and all partitions are stored in the context.
    """
    context = Scene(1).context
    by_name = {f"t{number}": size for number, size in enumerate(sizes)}
    asked, learnt = drive(topic_changes.learn_assignments(context, tuple(by_name)), by_name)
    assert [name for question in asked for name in question.topics] == list(by_name)
    assert len(learnt) == len(context.assignments) == sum(sizes)
    return [question.topics for question in asked]


def test_topics_of_one_size_are_read_some_thousand_partitions_at_a_time() -> None:
    read = [100 * len(names) for names in asked_for([100] * 400)]
    assert max(read) <= topic_changes.PARTITIONS_READ
    assert len(read) <= 40_000 // topic_changes.PARTITIONS_READ + 4


def test_large_topics_are_read_one_by_one() -> None:
    sizes = [topic_changes.PARTITIONS_READ] * 15
    assert [len(names) for names in asked_for(sizes)] == [topic_changes.TOPICS_AT_FIRST, 1, 1, 1, 1, 1]


@given(st.lists(st.sampled_from([0, 1, 7, 300]), max_size=60))
def test_each_topic_is_read_once_whatever_the_sizes(sizes: list[int]) -> None:
    asked_for(sizes)


def test_leaderships_are_read_some_thousand_at_a_time() -> None:
    most = notifications.STATES_READ
    partitions = tuple(TopicPartition("t", number) for number in range(2 * most + 1))
    scene = Scene(1)
    scene.run(notifications.refresh(scene.context, partitions))
    assert [len(question.partitions) for question in scene.asked] == [most, most, 1]
    assert tuple(tp for question in scene.asked for tp in question.partitions) == partitions
