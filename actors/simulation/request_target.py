"""The node that receives a request of a simulated client, and the partition and group that the request concerns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation.simulated_cluster import Cluster
from messages.cluster import UNKNOWN_BROKER_EPOCH, TopicPartition
from messages.vocabulary import AnyMessage
from zk_bridge import paths
from zk_bridge.znodes.controller import decode_controller
from zk_bridge.znodes.partition_states import decode_state
from zk_bridge.znodes.topics import decode_topic

ABSENT_TOPIC = "absent"
BAD_NAME = "bad/name"
OWN_GROUP = "own"
"""A group without members: a consumer that assigns its partitions itself commits under its name."""
UNKNOWN_ID = "unknown-id"
"""A transactional id without a producer."""
TIMEOUT_MS = 3000


class RequestTarget(NamedTuple):
    """The node that receives a client request, and the partition and consumer group that the request is about."""

    cluster: Cluster
    node: int
    topic: str
    number: int
    group: str

    @property
    def partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.number)

    @property
    def leader_epoch(self) -> int:
        """The partition's leader epoch in ZooKeeper; 0 without a state."""
        path = paths.partition_state(self.partition)
        node = self.cluster.zookeeper.nodes.get(path)
        return 0 if node is None else decode_state(path, node.data, 0).leader_epoch

    @property
    def partitions(self) -> int:
        """The number of the topic's partitions in ZooKeeper."""
        data = self.cluster.zookeeper.read(paths.topic(self.topic)).data
        return 0 if data is None else len(decode_topic("", data).partitions)

    @property
    def replicas(self) -> tuple[int, ...]:
        """The partition's replicas in ZooKeeper."""
        data = self.cluster.zookeeper.read(paths.topic(self.topic)).data
        found = () if data is None else decode_topic("", data).partitions
        return next((each.assignment.replicas for each in found if each.partition == self.number), ())

    @property
    def controller(self) -> tuple[int, int]:
        """The id of the controller and its epoch; -1 and 0 without a controller.

        /controller_epoch may be higher: the action `fence` raises it.
        """
        data = self.cluster.zookeeper.read(paths.CONTROLLER).data
        id = -1 if data is None else decode_controller(paths.CONTROLLER, data)
        context = self.cluster.controllers().get(id)
        return (-1, 0) if context is None else (id, context.epoch)

    @property
    def broker_epoch(self) -> int:
        """The epoch of the node's registration; -1 without a registration."""
        node = self.cluster.zookeeper.nodes.get(f"/brokers/ids/{self.node}")
        return UNKNOWN_BROKER_EPOCH if node is None else node.czxid


Make = Callable[[RequestTarget], AnyMessage | None]
Step = AnyMessage | tuple[AnyMessage, ...]
Wanted = Callable[[RequestTarget], Step | list[Step] | None]


def absent(about: RequestTarget) -> TopicPartition:
    """Return a partition that does not exist."""
    return TopicPartition(ABSENT_TOPIC, 0)


def internal(about: RequestTarget) -> TopicPartition:
    """Return partition 0 of __consumer_offsets, an internal topic."""
    return TopicPartition(GROUP_METADATA, 0)
