"""Requests to the ZooKeeper bridge about /admin/reassign_partitions, which admin tools write."""

from __future__ import annotations

from typing import NamedTuple

from messages.cluster import TopicPartition
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion


class RequestedReassignment(NamedTuple):
    """A partition to be reassigned, and its target replicas, preferred replica first."""

    partition: TopicPartition
    replicas: tuple[int, ...]


@message
class GetReassignments(BridgeQuestion["Reassignments"]):
    """A request to read /admin/reassign_partitions, and to watch it if `watch` is set; the reply is Reassignments."""

    watch: bool = True


@message
class Reassignments(Message):
    """The reassignments in /admin/reassign_partitions; the field `there` is True if the znode exists.

    Each partition occurs once; `requested` is empty if the znode is unreadable.
    """

    there: bool
    requested: tuple[RequestedReassignment, ...] = ()


@message
class RemoveReassignments(BridgeQuestion[Reassignments]):
    """The controller's request to remove these partitions from /admin/reassign_partitions.

    The write is fenced. A partition is not removed if its target replicas in the znode now differ from those in the
    request. The reply is Reassignments with the remaining partitions. The znode is deleted with the last partition.
    """

    requests: tuple[RequestedReassignment, ...]
    epoch_zk_version: int
