"""The driver's dict ZooKeeper answers each question like the bridge on an in-memory ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from messages import cluster, zookeeper
from messages.ask import AskFailed, Question
from messages.store import CREATE, WriteOp
from tests.core.controller.driver import Scene, leadership
from zk_bridge import paths
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper
from zk_bridge.reassignments import encode_reassignments

FIRST, SECOND, THIRD = (cluster.TopicPartition("t", number) for number in range(3))
MOVES = (zookeeper.RequestedReassignment(FIRST, (2, 3)), zookeeper.RequestedReassignment(SECOND, (3, 1)))
CONFIG = (cluster.ConfigEntry("unclean.leader.election.enable", "true"),)


def assignment(*replicas: int) -> zookeeper.TopicAssignment:
    """Return topic t, whose three partitions have these replicas."""
    return zookeeper.TopicAssignment(
        "t", tuple(cluster.PartitionAssignment(number, cluster.ReplicaAssignment(replicas)) for number in range(3))
    )


def written(
    partition: cluster.TopicPartition, state: cluster.LeaderIsrAndControllerEpoch
) -> tuple[cluster.Leadership, ...]:
    """Return the entries of a request that writes one state."""
    return (cluster.Leadership(partition, state),)


def questions(fence: int) -> list[Question[Any]]:
    """Return a controller's questions, in an order in which answers depend on earlier writes."""
    return [
        zookeeper.GetPartitionStates((FIRST, SECOND)),
        zookeeper.CreatePartitionStates(written(FIRST, leadership(1, 1, 2)) + written(SECOND, leadership(2, 2)), fence),
        zookeeper.CreatePartitionStates(written(FIRST, leadership(3, 3)) + written(THIRD, leadership(3, 3)), fence),
        zookeeper.GetPartitionStates((FIRST, SECOND, THIRD)),
        zookeeper.UpdatePartitionStates(written(FIRST, leadership(2, 2, epoch=1)), fence),
        zookeeper.UpdatePartitionStates(
            written(FIRST, leadership(1, 1, epoch=7)) + written(SECOND, leadership(3, 2, 3, epoch=1)), fence
        ),
        zookeeper.UpdatePartitionStates(written(cluster.TopicPartition("gone", 0), leadership(1, 1)), fence),
        zookeeper.GetPartitionStates((FIRST, SECOND, THIRD), watch=True),
        zookeeper.GetPreferredElections(),
        zookeeper.DeletePreferredElections(fence),
        zookeeper.GetPreferredElections(),
        zookeeper.GetReassignments(),
        zookeeper.RemoveReassignments(MOVES[:1], fence),
        zookeeper.GetReassignments(),
        zookeeper.RemoveReassignments(MOVES[1:], fence),
        zookeeper.GetReassignments(),
        zookeeper.GetTopicConfigs(("t", "gone")),
        zookeeper.GetBrokerConfigs(("1",)),
        zookeeper.SetAssignments((assignment(2, 3),), fence),
        zookeeper.StartWatching(("BrokerChange",)),
        zookeeper.StopWatching(("BrokerChange",)),
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
        client.ask(zookeeper.EnsurePaths())
        fence = client.ask(zookeeper.Elect(5, 0)).epoch_zk_version
        client.ask(zookeeper.CreateTopic(assignment(1, 2), (), fence))
        client.ask(zookeeper.SetTopicConfig("t", CONFIG))
        tree.write((WriteOp(CREATE, paths.REASSIGNMENTS, encode_reassignments(MOVES)),), 0)
        wanted = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":2}]}'
        tree.write((WriteOp(CREATE, paths.PREFERRED_ELECTION, wanted, 0),), 0)
        real = answers(client.ask, fence)

    scene = Scene()
    scene.configs["t"] = CONFIG
    scene.reassignments, scene.wanted = MOVES, (FIRST, THIRD)
    assert answers(scene.answer, fence) == real
    assert scene.topic_znodes == {"t": assignment(2, 3)}
