"""The first reads of a term are divided so that they do not block the node."""

from __future__ import annotations

import itertools
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.core.controller import notifications, topic_changes
from messages.cluster import PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.flow.conversation import Flow, Pause, Worked, grow_tables
from messages.zookeeper import (
    Assignments,
    GetAssignments,
    TopicAssignment,
)
from tests.core.controller.driver import Scene


def drive(flow: Flow[Any], sizes: dict[str, int]) -> tuple[list[Any], Any]:
    """Drive a flow on topics of these sizes; what it asked, and its result."""
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
    """The topics of each question; all must have been learnt."""
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


def test_tables_of_all_partitions_grow_one_at_a_time() -> None:
    """Each in a turn of its own, and never while entries come, which would make all of them grow."""
    tables: tuple[dict[Any, Any], ...] = ({}, {})
    sizes: list[list[int]] = []
    for start in range(0, 100_000, 500):
        for step in grow_tables(500, *tables):
            assert isinstance(step, Pause)
            sizes.append([sys.getsizeof(table) for table in tables])
        before = [sys.getsizeof(table) for table in tables]
        for table in tables:
            table.update(dict.fromkeys(range(start, start + 500)))
        if start > 10_000:
            assert before == [sys.getsizeof(table) for table in tables]
    assert list(map(len, tables)) == [100_000, 100_000]
    grown = [sum(old != new for old, new in zip(*pair, strict=True)) for pair in itertools.pairwise(sizes)]
    assert max(grown) == 1
    assert sum(grown) >= 6


def test_small_tables_grow_as_they_like() -> None:
    assert not list(grow_tables(500, {}, dict.fromkeys(range(5_461))))


def test_leaderships_are_read_some_thousand_at_a_time() -> None:
    most = notifications.STATES_READ
    partitions = tuple(TopicPartition("t", number) for number in range(2 * most + 1))
    scene = Scene(1)
    scene.run(notifications.refresh(scene.context, partitions))
    assert [len(question.partitions) for question in scene.asked] == [most, most, 1]
    assert tuple(tp for question in scene.asked for tp in question.partitions) == partitions
