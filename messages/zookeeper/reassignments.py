"""Reassignment requests of admin tools: /admin/reassign_partitions."""

from __future__ import annotations

from typing import NamedTuple

from messages.cluster import TopicPartition
from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


class RequestedReassignment(NamedTuple):
    """A partition and its target replicas, preferred first."""

    partition: TopicPartition
    replicas: tuple[int, ...]


@message
class GetReassignments(BridgeQuestion["Reassignments"]):
    """Read /admin/reassign_partitions; arms ZkPartitionReassignment if `watch`. -> Reassignments"""

    watch: bool = True


@message
class Reassignments:
    """The requested reassignments, each partition once; none if the znode is unreadable. `there`: the znode exists."""

    there: bool
    requested: tuple[RequestedReassignment, ...] = ()


@message
class RequestReassignments(BridgeQuestion[Done | Reassignments]):
    """Admin: create /admin/reassign_partitions for the controller. -> Done, or Reassignments if it exists already"""

    requests: tuple[RequestedReassignment, ...]


@message
class ForgetReassignments(BridgeQuestion[Reassignments]):
    """Remove these from /admin/reassign_partitions, fenced, unless they now request other replicas.

    -> Reassignments, those that are left. The znode is deleted with the last.
    """

    requests: tuple[RequestedReassignment, ...]
    epoch_zk_version: int
