"""Reassignment requests of admin tools: /admin/reassign_partitions."""

from __future__ import annotations

from typing import NamedTuple

from messages.cluster import TopicPartition
from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


class RequestedReassignment(NamedTuple):
    """A partition, and the replicas that it shall have, preferred first."""

    partition: TopicPartition
    replicas: tuple[int, ...]


@message
class GetReassignments(BridgeQuestion["Reassignments"]):
    """Read /admin/reassign_partitions; arms ZkPartitionReassignment if `watch`. -> Reassignments"""

    watch: bool = True


@message
class Reassignments:
    """What stands there, each partition once: nothing where it is torn. `there`: is the node there?"""

    there: bool
    requested: tuple[RequestedReassignment, ...] = ()


@message
class RequestReassignments(BridgeQuestion[Done | Reassignments]):
    """Admin: create /admin/reassign_partitions, which makes the controller look. -> Done, or what is asked already"""

    requests: tuple[RequestedReassignment, ...]


@message
class ForgetReassignments(BridgeQuestion[Reassignments]):
    """Take these out of /admin/reassign_partitions, fenced; those that ask for other replicas by now stay.

    -> Reassignments, what is left. The node goes with the last.
    """

    requests: tuple[RequestedReassignment, ...]
    epoch_zk_version: int
