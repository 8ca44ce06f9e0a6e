"""Topics: their assignments in /brokers/topics/T."""

from __future__ import annotations

from typing import NamedTuple

from messages.cluster import ConfigEntry, PartitionAssignment
from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


@message
class GetTopics(BridgeQuestion["TopicNames"]):
    """Children of /brokers/topics; arms TopicChange if `watch`. -> TopicNames"""

    watch: bool = True


@message
class TopicNames:
    """Names of topics, sorted."""

    topics: tuple[str, ...]


@message
class GetAssignments(BridgeQuestion["Assignments"]):
    """Read /brokers/topics/T of each; arms PartitionModifications(T) if `watch`. -> Assignments"""

    topics: tuple[str, ...]
    watch: bool = True


class TopicAssignment(NamedTuple):
    """A topic's partitions with their replicas, by partition number."""

    topic: str
    partitions: tuple[PartitionAssignment, ...]


@message
class Assignments:
    """Assignments of the topics that exist and can be read; `unreadable` names the torn ones (logged by the bridge)."""

    topics: tuple[TopicAssignment, ...]
    unreadable: tuple[str, ...] = ()


@message
class SetAssignments(BridgeQuestion[Done]):
    """Rewrite /brokers/topics/T whole (version any). -> Done. NONODE fails as ZooKeeperRefused."""

    topics: tuple[TopicAssignment, ...]
    epoch_zk_version: int | None


@message
class CreateTopic(BridgeQuestion["Done | TopicExists"]):
    """/config/topics/T (created or replaced), then /brokers/topics/T; fenced if the controller asks. -> Done |
    TopicExists"""

    topic: TopicAssignment
    config: tuple[ConfigEntry, ...] = ()
    epoch_zk_version: int | None = None


@message
class TopicExists:
    """/brokers/topics/T already exists."""

    topic: str
