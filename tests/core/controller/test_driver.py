"""The driver's dict ZooKeeper answers each question like the bridge on an in-memory ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from messages.ask import AskFailed, Question
from messages.cluster import (
    ConfigEntry,
    LeaderIsrAndControllerEpoch,
    Leadership,
    PartitionAssignment,
    ReplicaAssignment,
    TopicPartition,
)
from messages.store import CREATE, WriteOp
from messages.zookeeper import (
    CreatePartitionStates,
    CreateTopic,
    DeletePreferredElections,
    Elect,
    EnsurePaths,
    GetBrokerConfigs,
    GetPartitionStates,
    GetPreferredElections,
    GetReassignments,
    GetTopicConfigs,
    RemoveReassignments,
    RequestedReassignment,
    SetAssignments,
    SetTopicConfig,
    StartWatching,
    StopWatching,
    TopicAssignment,
    UpdatePartitionStates,
)
from tests.core.controller.driver import Scene, leadership
from zk_bridge import paths
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper
from zk_bridge.reassignments import encode_reassignments

FIRST, SECOND, THIRD = (TopicPartition("t", number) for number in range(3))
MOVES = (RequestedReassignment(FIRST, (2, 3)), RequestedReassignment(SECOND, (3, 1)))
CONFIG = (ConfigEntry("unclean.leader.election.enable", "true"),)


def assignment(*replicas: int) -> TopicAssignment:
    """Return topic t, whose three partitions have these replicas."""
    return TopicAssignment("t", tuple(PartitionAssignment(number, ReplicaAssignment(replicas)) for number in range(3)))


def written(partition: TopicPartition, state: LeaderIsrAndControllerEpoch) -> tuple[Leadership, ...]:
    """Return the entries of a request that writes one state."""
    return (Leadership(partition, state),)


def questions(fence: int) -> list[Question[Any]]:
    """Return a controller's questions, in an order in which answers depend on earlier writes."""
    return [
        GetPartitionStates((FIRST, SECOND)),
        CreatePartitionStates(written(FIRST, leadership(1, 1, 2)) + written(SECOND, leadership(2, 2)), fence),
        CreatePartitionStates(written(FIRST, leadership(3, 3)) + written(THIRD, leadership(3, 3)), fence),
        GetPartitionStates((FIRST, SECOND, THIRD)),
        UpdatePartitionStates(written(FIRST, leadership(2, 2, epoch=1)), fence),
        UpdatePartitionStates(
            written(FIRST, leadership(1, 1, epoch=7)) + written(SECOND, leadership(3, 2, 3, epoch=1)), fence
        ),
        UpdatePartitionStates(written(TopicPartition("gone", 0), leadership(1, 1)), fence),
        GetPartitionStates((FIRST, SECOND, THIRD), watch=True),
        GetPreferredElections(),
        DeletePreferredElections(fence),
        GetPreferredElections(),
        GetReassignments(),
        RemoveReassignments(MOVES[:1], fence),
        GetReassignments(),
        RemoveReassignments(MOVES[1:], fence),
        GetReassignments(),
        GetTopicConfigs(("t", "gone")),
        GetBrokerConfigs(("1",)),
        SetAssignments((assignment(2, 3),), fence),
        StartWatching(("BrokerChange",)),
        StopWatching(("BrokerChange",)),
    ]


def answers(ask: Callable[[Question[Any]], Any], fence: int) -> list[Any]:
    """Return the answer to each question, or the class of its failure."""
    found: list[Any] = []
    for question in questions(fence):
        try:
            found.append(ask(question))
        except AskFailed as failure:
            found.append(type(failure))
    return found


def test_the_zookeeper_of_values_answers_like_the_bridge() -> None:
    tree = MemoryZooKeeper()
    with Client(MemoryStore(tree)) as client:
        client.ask(EnsurePaths())
        fence = client.ask(Elect(5, 0)).epoch_zk_version
        client.ask(CreateTopic(assignment(1, 2), (), fence))
        client.ask(SetTopicConfig("t", CONFIG))
        tree.write((WriteOp(CREATE, paths.REASSIGNMENTS, encode_reassignments(MOVES)),), 0)
        wanted = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":2}]}'
        tree.write((WriteOp(CREATE, paths.PREFERRED_ELECTION, wanted, 0),), 0)
        real = answers(client.ask, fence)

    scene = Scene()
    scene.configs["t"] = CONFIG
    scene.reassignments, scene.wanted = MOVES, (FIRST, THIRD)
    assert answers(scene.answer, fence) == real
    assert scene.topic_znodes == {"t": assignment(2, 3)}
