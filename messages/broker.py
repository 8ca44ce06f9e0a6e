"""The messages between the actors of a broker: request handler, replica manager, partitions and metadata cache.

Partitions and the metadata cache reply to every request of the replica manager (`messages.ask`). Error codes are
Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple

from thespian.actors import ActorAddress

from messages import errors
from messages.apis.declaration import METADATA_CACHE
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState
from messages.apis.metadata import MetadataBroker
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.ask import Done, Question
from messages.cluster import Endpoint, TopicId, TopicPartition
from messages.network import Forwarded
from messages.node import NodeSettings
from messages.partition import LogSettings
from messages.parts import UpdateMetadataPart
from messages.vocabulary import AnyMessage, Message, maker, message
from messages.zookeeper.configs import TopicConfig


@message
class ForwardedPart(Message):
    """A part of a controller's large request, forwarded to the replica manager before the Forwarded message."""

    connection: int
    part: AnyMessage


# ---------------------------------------------------------------------------------------------------- internal topics


class LedPartition(NamedTuple):
    """A partition that this broker started to lead, with its leader epoch and its actor."""

    partition: TopicPartition
    leader_epoch: int
    actor: ActorAddress


@message
class InternalTopicLeadership(Message):
    """A notification from the replica manager to the two coordinators: which of their partitions this broker leads.

    The coordinators are those of groups and of transactions. `led` has the partitions that this broker leads from now
    on. `lost` has the partitions that this broker now follows, and those that were deleted or whose disk failed
    (broker.md 1.6). The message is sent before the response to the controller's request. A partition that keeps its
    leader and only gets a new leader epoch is not in the message.
    """

    led: tuple[LedPartition, ...]
    lost: tuple[TopicPartition, ...]


@message
class PartitionsDeleted(Message):
    """A notification from the replica manager to the group and transaction coordinators: these partitions were deleted.

    The offsets that groups committed for these partitions are obsolete (broker.md 3.9).
    """

    partitions: tuple[TopicPartition, ...]


# ---------------------------------------------------------------------------------------------------- missing topics


@message
class CreateMissingTopics(Message):
    """A request to AutoTopicCreationActor to create topics on their first use.

    `forwarded` is the Metadata request that named the topics, or None if no client waits. The reply is
    MissingTopicsCreated.
    """

    topics: tuple[str, ...]
    forwarded: Forwarded | None = None


class Creation(NamedTuple):
    """The result of an automatic topic creation: the error code for the Metadata response."""

    topic: str
    error_code: int


@message
class MissingTopicsCreated(Message):
    """The results of automatic topic creations.

    When the metadata cache receives this message, it completes the pending Metadata request.
    """

    forwarded: Forwarded
    topics: tuple[Creation, ...]


# ---------------------------------------------------------------------------------------------------- partitions


@message
class TopicsConfigured(Message):
    """A notification to the replica manager: the configs of these topics changed."""

    topics: tuple[TopicConfig, ...]


@message
class BrokerConfigured(Message):
    """A notification to the replica manager: the dynamic configs of this broker changed."""

    settings: NodeSettings


@message
class PartitionContext(Message):
    """The constant values for a new PartitionActor: its broker, its log settings and the addresses of other actors.

    `log_config` is the partition's log configuration. `manager` receives the partition's health flags, and `isr_keeper`
    receives its ISR changes. `verifier` verifies transactions; if it is None, batches are appended without
    verification.
    """

    broker_id: int
    settings: LogSettings
    log_config: tuple[int, ...]
    manager: ActorAddress
    isr_keeper: ActorAddress
    verifier: ActorAddress | None = None


class LogPlace(NamedTuple):
    """The directory of a partition's log, and whether the log must be created."""

    path: str
    missing: bool = False


log_place: Callable[[tuple[str, bool]], LogPlace] = partial(tuple.__new__, LogPlace)
"""Makes a LogPlace of (path, missing) in a third of the class's time."""


@message
class BecomeLeader(Question["RoleTaken"]):
    """A request to a partition's actor to become leader; the reply is RoleTaken.

    `log` is None if no log directory can take the partition (broker.md 9.1 row 20); the reply then has error 56. `host`
    is set only in the first request to an actor. `topic_id` is the topic's id, which the log keeps, or "".
    """

    state: LeaderAndIsrPartitionState
    log: LogPlace | None
    host: PartitionContext | None = None
    topic_id: str = ""


become_leader = maker(BecomeLeader)


@message
class BecomeFollower(Question["RoleTaken"]):
    """A request to a partition's actor to follow the leader that the controller names; the reply is RoleTaken.

    `leader_alive` is False if the leader is not among the metadata cache's live brokers; then only the log is created
    (broker.md 1.4).
    """

    state: LeaderAndIsrPartitionState
    log: LogPlace | None
    host: PartitionContext | None
    leader_alive: bool
    topic_id: str = ""


@message
class RoleTaken(Message):
    """The reply to BecomeLeader or BecomeFollower.

    `leads`, `health_flags` and `has_log` are correct also if there is an error.

    Attributes:
        error_code: The error code for the partition.
        changed: Whether the role is new (the result of Kafka's makeLeader and makeFollower).
        leads: Whether this broker leads the partition now.
        health_flags: The current health flags (names of `actors.core.broker.partition`).
        has_log: Whether the partition has a log now.
        storage_error: The disk's error message if `error_code` is 56.
        log_end_offset: The log end offset, for the fetcher of a follower.
        high_watermark: The high watermark, for the fetcher of a follower.
        latest_epoch: The newest leader epoch in the log, for the fetcher of a follower.
        leader_epoch: The current leader epoch.
        look_at: The time when a new leader must receive a CheckFollowers message, to check for lagging followers.
        replicas: The new number of replicas of a led partition, 0 of a followed one; None if it has not changed.
    """

    error_code: int
    changed: bool
    leads: bool
    health_flags: tuple[str, ...]
    has_log: bool
    storage_error: str = ""
    log_end_offset: int = 0
    high_watermark: int = 0
    latest_epoch: int = -1
    leader_epoch: int = -1
    look_at: float | None = None
    replicas: int | None = None


@message
class PartitionHealth(Message):
    """A notification to the replica manager: the health flags have changed for a partition that this broker leads.

    For example, the partition is now under-replicated.
    """

    partition: TopicPartition
    health_flags: tuple[str, ...]


@message
class StopPartition(Question["PartitionStopped"]):
    """A request to a partition's actor to stop its replica, and to delete its log if requested.

    The reply is PartitionStopped. The request is refused if `leader_epoch` is outdated.
    """

    leader_epoch: int
    delete: bool


@message
class PartitionStopped(Message):
    """The reply to StopPartition.

    `deleted` is the new path of the deleted log, whose directory was renamed and is removed later; "" if there is none.
    `leader_epoch` is the replica's leader epoch if the stop was refused because the request's leader epoch is old.
    `writes_isr` is true if the replica was deleted while one of its ISR writes was in flight.
    """

    error_code: int
    deleted: str = ""
    storage_error: str = ""
    leader_epoch: int = -1
    writes_isr: bool = False


@message
class MoveReplica(Question["ReplicaMoves"]):
    """A request to a partition's actor to copy its log to the folder `future`, which then replaces the log.

    If `future` is "", the move in progress ends. The reply is ReplicaMoves.
    """

    future: str


@message
class ReplicaMoves(Message):
    """The reply to MoveReplica: whether the log is being copied now, or the disk's error.

    `has_log` is false if the replica has no open log, so that nothing is copied.
    """

    has_log: bool
    storage_error: str = ""


@message
class ReplicaMoved(Message):
    """A notification to the replica manager: this partition's log is now at `path`.

    `deleted` is the new path of the log's old directory, which is removed later.
    """

    partition: TopicPartition
    path: str
    deleted: str


@message
class LogFailed(Message):
    """A notification to the replica manager: a disk error occurred in this partition's log.

    `storage_error` describes the error.
    """

    partition: TopicPartition
    storage_error: str


@message
class LogFileFailed(Message):
    """A notification from the listener to the replica manager: a disk error occurred while a log file was sent."""

    path: str
    storage_error: str


@message
class RemoveDeletedLogs(Message):
    """A timer message: remove the deleted logs for which `file.delete.delay.ms` has passed."""


# ---------------------------------------------------------------------------------------------------- metadata cache


@message
class StageMetadata(Question[Done]):
    """A request to the metadata cache to store a part of an UpdateMetadata request until MergeMetadata arrives.

    The reply is Done. `begins` is True for the first part of a request; parts that are still stored from an earlier
    request are then discarded.
    """

    asks: ClassVar[str] = METADATA_CACHE
    part: UpdateMetadataPart
    begins: bool


@message
class MergeMetadata(Question["MetadataMerged"]):
    """A request to the metadata cache to apply an UpdateMetadata request; the reply is MetadataMerged.

    StageMetadata sends the earlier parts of a large request; `begins` is True if there were none.
    """

    asks: ClassVar[str] = METADATA_CACHE
    request: UpdateMetadataRequest
    begins: bool


@message
class TopicIds(Message):
    """The ids of all topics that have one, which the metadata cache sends when they change."""

    topics: tuple[TopicId, ...]


@message
class AddLeaders(Message):
    """A request to the metadata cache to add leaders to a response to Produce or Fetch, and to send it to the client.

    The leaders are those of partitions with a code in LEADER_CODES.
    """

    forwarded: Forwarded
    response: AnyMessage


LEADER_CODES = (errors.NOT_LEADER_OR_FOLLOWER, errors.FENCED_LEADER_EPOCH)


@message
class AliveBrokers(Message):
    """The ids of the live brokers.

    It also has their inter-broker endpoints and racks, if known.
    """

    ids: tuple[int, ...]
    endpoints: tuple[Endpoint | None, ...] = ()
    racks: tuple[str | None, ...] = ()


@message
class MetadataMerged(Message):
    """The reply to MergeMetadata: the update is applied; `deleted` are the partitions that it removed from the cache.

    `old` is the number of topics of the previous snapshot that are still in memory; DropOldTopics frees them. `alive`
    is None if the live brokers are the same as before.
    """

    deleted: tuple[TopicPartition, ...] = ()
    old: int = 0
    alive: AliveBrokers | None = None


@message
class DropOldTopics(Question["OldTopics"]):
    """A request to the metadata cache to free the memory of a few topics of its previous snapshot.

    The reply is OldTopics. The sender repeats the request until no topic is left.
    """

    asks: ClassVar[str] = METADATA_CACHE


@message
class OldTopics(Message):
    """The reply to DropOldTopics: how many topics of the previous metadata snapshot are still in memory."""

    left: int


class ExpectedTopicState(NamedTuple):
    """The expected state of a topic: all partitions are led by `leader` (None: any broker), or the topic is deleted."""

    topic: str
    partitions: tuple[int, ...] = ()
    leader: int | None = None


@message
class AwaitTopics(Message):
    """A request to delay the response to a client until topics have the expected state (as Kafka's purgatory does).

    After a timeout the response is sent with an error for the topics that do not have the expected state yet.
    """

    forwarded: Forwarded
    response: AnyMessage
    expected: tuple[ExpectedTopicState, ...]
    timeout_ms: int


@message
class AwaitTopicsTimeout(Message):
    """A timer message: the AwaitTopics request with this number has timed out."""

    number: int


@message
class AwaitMetadata(Message):
    """A request to the metadata cache, before its first UpdateMetadata; the reply is MetadataReceived."""


@message
class MetadataReceived(Message):
    """The reply to AwaitMetadata: the first UpdateMetadata after the broker's start has been applied."""


@message
class FindLeader(Question["LeaderFound"]):
    """A request for a partition's leader and its endpoint on a listener; the reply is LeaderFound."""

    asks: ClassVar[str] = METADATA_CACHE
    partition: TopicPartition
    listener: str


@message
class LeaderFound(Message):
    """The reply to FindLeader: the leader, if it is alive and has the listener."""

    broker: MetadataBroker | None


@message
class GetAliveBrokers(Question["AliveBrokers"]):
    """A request for the live brokers; the reply is AliveBrokers."""

    asks: ClassVar[str] = METADATA_CACHE


@message
class GetKnownTopics(Question["KnownTopics"]):
    """A request to check which of these topics exist; the reply is KnownTopics."""

    asks: ClassVar[str] = METADATA_CACHE
    topics: tuple[str, ...]


@message
class KnownTopics(Message):
    """The reply to GetKnownTopics: the topics that exist, in the order of the request."""

    topics: tuple[str, ...]
