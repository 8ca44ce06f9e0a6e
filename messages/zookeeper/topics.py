"""Requests to the ZooKeeper bridge about topics and their assignments (/brokers/topics/T)."""

from __future__ import annotations

from typing import NamedTuple

from messages.ask import Done
from messages.cluster import ConfigEntry, PartitionAssignment
from messages.store import ANY_VERSION
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion


@message
class GetTopics(BridgeQuestion["TopicNames"]):
    """A request to list /brokers/topics, and to watch it if `watch` is set; the reply is TopicNames."""

    watch: bool = True


@message
class TopicNames(Message):
    """A reply with the names of topics, sorted."""

    topics: tuple[str, ...]


@message
class GetAssignments(BridgeQuestion["Assignments"]):
    """A request to read the assignments of topics, and to watch them if `watch` is set; the reply is Assignments.

    When the data of /brokers/topics/T changes, the watch sends PartitionModifications for the topic T.
    """

    topics: tuple[str, ...]
    watch: bool = True


class TopicAssignment(NamedTuple):
    """The assignment of a topic: its partitions with their replicas, by partition number.

    `topic_id` is the id that a controller of Kafka 2.8 or later gave the topic, as the znode contains it.
    `zk_version` is the version of the znode that was read. A write with a version expects it.
    """

    topic: str
    partitions: tuple[PartitionAssignment, ...]
    topic_id: str | None = None
    zk_version: int = ANY_VERSION


@message
class Assignments(Message):
    """The reply to GetAssignments: the assignments of the topics that exist.

    `unreadable` has the names of topics with invalid data, which the bridge logs.
    """

    topics: tuple[TopicAssignment, ...]
    unreadable: tuple[str, ...] = ()


@message
class SetAssignments(BridgeQuestion[Done]):
    """A request to overwrite /brokers/topics/T; the reply is Done.

    If a znode is absent or has another version than expected, the reply is Failure("ZooKeeperRefused").
    """

    topics: tuple[TopicAssignment, ...]
    epoch_zk_version: int | None


@message
class CreateTopic(BridgeQuestion["Done | TopicExists"]):
    """A request to create the znodes of a topic with its config and its assignment; the reply is Done or TopicExists.

    /config/topics/T is created or replaced, then /brokers/topics/T is created. If the controller sends the request, the
    write is fenced by the controller epoch.
    """

    topic: TopicAssignment
    config: tuple[ConfigEntry, ...] = ()
    epoch_zk_version: int | None = None


@message
class TopicExists(Message):
    """The reply to CreateTopic if /brokers/topics/T exists already."""

    topic: str
