"""Requests to the ZooKeeper bridge about the states of partitions (/brokers/topics/T/partitions/P/state)."""

from __future__ import annotations

from typing import NamedTuple

from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, TopicPartition
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


@message
class GetPartitionStates(BridgeQuestion["PartitionStates"]):
    """A request to read the states of partitions, and to watch them if `watch` is set; the reply is PartitionStates.

    The watch sends PartitionReassignmentIsrChange.

    -> PartitionStates, same order
    """

    partitions: tuple[TopicPartition, ...]
    watch: bool = False


class PartitionStateRead(NamedTuple):
    """The state of one partition; None if its znode is absent (`error` is "") or invalid (`error` is the reason)."""

    partition: TopicPartition
    state: LeaderIsrAndControllerEpoch | None
    error: str = ""


@message
class PartitionStates:
    """The reply to GetPartitionStates: the states in the order of the request."""

    states: tuple[PartitionStateRead, ...]


@message
class CreatePartitionStates(BridgeQuestion["WriteResults"]):
    """The controller's request to create the state znodes of new partitions; the reply is WriteResults.

    Topics in `begun` have their partitions/ already, by what was asked before: a guess, which costs two more requests
    where it is wrong.
    """

    states: tuple[Leadership, ...]
    epoch_zk_version: int
    begun: tuple[str, ...] = ()


@message
class UpdatePartitionStates(BridgeQuestion["WriteResults"]):
    """A request to write partition states if each znode still has the given version; the reply is WriteResults.

    It is fenced if a controller asks.

    -> WriteResults, same order.

    After a lost answer or a BadVersion the batch is re-read once: what already holds our data at version + 1 counts
    as OK, a different version as BAD_VERSION, the rest is sent again.
    """

    states: tuple[Leadership, ...]
    epoch_zk_version: int | None


class WriteResult(NamedTuple):
    """The result of one conditional write: an error code, and the znode's new version if it is OK, otherwise -1."""

    partition: TopicPartition
    code: int
    zk_version: int


@message
class WriteResults:
    """The results of conditional writes, in the order of the request."""

    results: tuple[WriteResult, ...]
