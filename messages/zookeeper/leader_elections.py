"""Requests to the ZooKeeper bridge about the znode /admin/preferred_replica_election; admin tools write it."""

from __future__ import annotations

from messages.ask import Done
from messages.cluster import TopicPartition
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion


@message
class GetPreferredElections(BridgeQuestion["PreferredElections"]):
    """A request to read and watch /admin/preferred_replica_election; the reply is PreferredElections."""


@message
class PreferredElections(Message):
    """The reply to GetPreferredElections: the znode's partitions in order; `requested` is True if the znode exists.

    Each partition occurs once; `partitions` is empty if the znode is unreadable.
    """

    requested: bool
    partitions: tuple[TopicPartition, ...] = ()


@message
class DeletePreferredElections(BridgeQuestion[Done]):
    """The controller's request to delete /admin/preferred_replica_election; the reply is Done.

    The deletion is fenced; an absent znode is no error.
    """

    epoch_zk_version: int
