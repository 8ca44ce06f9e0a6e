"""Partitions' leadership: /brokers/topics/T/partitions/P/state."""

from __future__ import annotations

from typing import NamedTuple

from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, TopicPartition
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


@message
class GetPartitionStates(BridgeQuestion["PartitionStates"]):
    """Read .../partitions/P/state of each; arms PartitionReassignmentIsrChange if `watch`.

    -> PartitionStates, same order
    """

    partitions: tuple[TopicPartition, ...]
    watch: bool = False


class PartitionStateRead(NamedTuple):
    """One partition's state; None if absent (`error` "") or undecodable (`error` has the reason)."""

    partition: TopicPartition
    state: LeaderIsrAndControllerEpoch | None
    error: str = ""


@message
class PartitionStates:
    """The states in the order of the request."""

    states: tuple[PartitionStateRead, ...]


@message
class CreatePartitionStates(BridgeQuestion["WriteResults"]):
    """Create partitions/, partitions/P and state of each, fenced. -> WriteResults, same order

    Topics in `begun` have their partitions/ already, by what was asked before: a guess, which costs two more requests
    where it is wrong.
    """

    states: tuple[Leadership, ...]
    epoch_zk_version: int
    begun: tuple[str, ...] = ()


@message
class UpdatePartitionStates(BridgeQuestion["WriteResults"]):
    """Set state of each, conditional on the zk_version its state carries, fenced if a controller asks.

    -> WriteResults, same order.

    After a lost answer or a BadVersion the batch is re-read once: what already holds our data at version + 1 counts
    as OK, a different version as BAD_VERSION, the rest is sent again.
    """

    states: tuple[Leadership, ...]
    epoch_zk_version: int | None


class WriteResult(NamedTuple):
    """Outcome of one conditional write: a code of messages.store; with OK the znode's new version, else version -1."""

    partition: TopicPartition
    code: int
    zk_version: int


@message
class WriteResults:
    """Outcomes in the order of the entries."""

    results: tuple[WriteResult, ...]
