"""Requests to the ZooKeeper bridge about the states of partitions (/brokers/topics/T/partitions/P/state)."""

from __future__ import annotations

from typing import NamedTuple

from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, TopicPartition
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion


@message
class GetPartitionStates(BridgeQuestion["PartitionStates"]):
    """A request to read the states of partitions, and to watch them if `watch` is set; the reply is PartitionStates.

    The watch sends PartitionReassignmentIsrChange. The states are in the order of the request.
    """

    partitions: tuple[TopicPartition, ...]
    watch: bool = False


class PartitionStateRead(NamedTuple):
    """The state of one partition; `state` is None if its znode is absent or invalid (`error` is the reason)."""

    partition: TopicPartition
    state: LeaderIsrAndControllerEpoch | None
    error: str = ""


@message
class PartitionStates(Message):
    """The reply to GetPartitionStates: the states in the order of the request."""

    states: tuple[PartitionStateRead, ...]


@message
class CreatePartitionStates(BridgeQuestion["WriteResults"]):
    """The controller's request to create the state znodes of new partitions; the reply is WriteResults.

    Topics in `begun` should already have a partitions/ znode, created by an earlier request. If this znode is missing
    for one of the topics, the bridge needs two more requests to ZooKeeper.
    """

    states: tuple[Leadership, ...]
    epoch_zk_version: int
    begun: tuple[str, ...] = ()


@message
class UpdatePartitionStates(BridgeQuestion["WriteResults"]):
    """A request to write each partition state whose znode still has the given version; the reply is WriteResults.

    Each transaction checks that /controller_epoch still has version `epoch_zk_version`; in the request of a broker,
    this is None, and nothing is checked. The results are in the order of the request. After a lost reply or a
    BadVersion, the bridge reads the states of the batch once more. A znode with the requested state at version + 1
    counts as OK. Any other new version counts as BAD_VERSION. States whose version is unchanged are written again.
    """

    states: tuple[Leadership, ...]
    epoch_zk_version: int | None


class WriteResult(NamedTuple):
    """The result of one conditional write: an error code, and the znode's new version (-1 unless the code is OK)."""

    partition: TopicPartition
    code: int
    zk_version: int


@message
class WriteResults(Message):
    """The results of conditional writes, in the order of the request."""

    results: tuple[WriteResult, ...]
