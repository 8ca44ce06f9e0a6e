"""Messages inside a broker: request handler, replica manager, partitions and metadata cache.

The replica manager asks; partitions and cache always answer (`messages.conversation`). Error codes are Kafka's.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from thespian.actors import ActorAddress

from messages.cluster import Endpoint, TopicPartition
from messages.conversation import Done, Question
from messages.network import ClientRequest
from messages.node import NodeSettings
from messages.partition import LogSettings
from messages.parts import UpdateMetadataPart
from messages.requests import LeaderAndIsrPartitionState, MetadataBroker, UpdateMetadataRequest
from messages.vocabulary import Message, maker, message
from messages.zookeeper.configs import TopicConfig

METADATA_CACHE = "metadata_cache"


@message
class Forwarded:
    """A client's request, forwarded to its handler, which sends the ClientResponse to `client`."""

    client: ActorAddress
    request: ClientRequest


@message
class ForwardedPart:
    """A part that precedes a Forwarded request of the same connection (`messages.parts`)."""

    connection: int
    part: Message


# ---------------------------------------------------------------------------------------------------- internal topics


class LedPartition(NamedTuple):
    """A partition that this broker started to lead: its leader epoch and its actor."""

    partition: TopicPartition
    leader_epoch: int
    actor: ActorAddress


@message
class InternalTopicLeadership:
    """From the replica manager to the coordinator: the internal partitions that this broker began or ceased to lead.

    A partition is in `lost` if it is now followed or deleted, or if its disk failed (broker.md 1.6). The message is
    sent before the response to the controller's request. A new leader epoch of the same leader is not sent.
    """

    led: tuple[LedPartition, ...]
    lost: tuple[TopicPartition, ...]


@message
class PartitionsDeleted:
    """From the replica manager to the coordinator: these partitions of any topics were deleted from the cluster.

    Their committed offsets are obsolete (broker.md 3.9).
    """

    partitions: tuple[TopicPartition, ...]


# ---------------------------------------------------------------------------------------------------- missing topics


@message
class CreateMissingTopics:
    """To AutoTopicCreationActor: create topics on their first use. -> MissingTopicsCreated, if `forwarded`.

    `forwarded` is the Metadata request that named them; None if no client waits.
    """

    topics: tuple[str, ...]
    forwarded: Forwarded | None = None


class Creation(NamedTuple):
    """The result of a topic creation: the error code for Metadata, 5 if the topic exists now."""

    topic: str
    error_code: int


@message
class MissingTopicsCreated:
    """To the metadata cache: the results of topic creations, so that the pending request can be completed."""

    forwarded: Forwarded
    topics: tuple[Creation, ...]


# ---------------------------------------------------------------------------------------------------- partitions


@message
class TopicsConfigured:
    """To the replica manager: the changed configs of topics."""

    topics: tuple[TopicConfig, ...]


@message
class BrokerConfigured:
    """To the replica manager: the changed settings of this broker with its dynamic configs."""

    settings: NodeSettings


@message
class Host:
    """What a new PartitionActor needs besides its first request: its broker, log settings and two other actors.

    `log_config` is the configuration of its log. `manager` receives its health flags, and `isr_keeper` its ISR changes.
    """

    broker_id: int
    settings: LogSettings
    log_config: tuple[int, ...]
    manager: ActorAddress
    isr_keeper: ActorAddress


class LogPlace(NamedTuple):
    """The directory of a partition's log, and whether it must be created."""

    path: str
    missing: bool = False


@message
class BecomeLeader(Question["RoleTaken"]):
    """Become the leader of the partition, as the controller requests. -> RoleTaken

    `log` is None if no log directory may take the partition (broker.md 9.1 row 20): error 56. `host` comes with an
    actor's first request.
    """

    state: LeaderAndIsrPartitionState
    log: LogPlace | None
    host: Host | None = None


become_leader = maker(BecomeLeader)


@message
class BecomeFollower(Question["RoleTaken"]):
    """Follow the leader that the controller names. -> RoleTaken

    `leader_alive` False: the metadata cache does not know the leader as alive: only the log is made (broker.md 1.4).
    """

    state: LeaderAndIsrPartitionState
    log: LogPlace | None
    host: Host | None
    leader_alive: bool


@message
class RoleTaken:
    """The result of BecomeLeader or BecomeFollower.

    `changed`: the role is news, as Kafka's makeLeader and makeFollower return it. `leads`, `troubles` (names of
    `actors.core.broker.partition`) and `has_log` tell how the partition stands now, whatever the code. `storage_error`:
    the disk's own words, with code 56.
    Where its log ends, its high watermark and the newest leader epoch in it are for the fetcher of a follower.
    `leader_epoch` is the one that is known now. `look_at`: when a new leader wants to be reminded of those who are
    behind.
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


@message
class PartitionHealth:
    """To the replica manager: changed health flags of a led partition."""

    partition: TopicPartition
    health_flags: tuple[str, ...]


@message
class StopPartition(Question["PartitionStopped"]):
    """Stop the replica, and delete its log if requested; `leader_epoch` decides whether to obey. -> PartitionStopped"""

    leader_epoch: int
    delete: bool


@message
class PartitionStopped:
    """The result of StopPartition.

    `deleted` is the directory that will be removed, "" if there is none. `leader_epoch` is the replica's leader epoch
    if the stop was refused because its own epoch is old. `writes_isr` is true if the result of an ISR write is unknown.
    """

    error_code: int
    deleted: str = ""
    storage_error: str = ""
    leader_epoch: int = -1
    writes_isr: bool = False


@message
class LogFailed:
    """To the replica manager: this partition's log has a disk error; `storage_error` is its message."""

    partition: TopicPartition
    storage_error: str


@message
class LogFileFailed:
    """From the listener to the replica manager: a disk error while a log file was sent."""

    path: str
    storage_error: str


@message
class RemoveDeletedLogs:
    """Timer payload: remove the deleted logs whose deletion delay has passed."""


# ---------------------------------------------------------------------------------------------------- metadata cache


@message
class StageMetadata(Question[Done]):
    """Store a part of an accepted UpdateMetadata until MergeMetadata. -> Done

    `begins`: it is the request's first; what was kept before is forgotten.
    """

    asks: ClassVar[str] = METADATA_CACHE
    part: UpdateMetadataPart
    begins: bool


@message
class MergeMetadata(Question["MetadataMerged"]):
    """Apply an accepted UpdateMetadata with its stored parts to the cache. -> MetadataMerged

    `begins`: no part went ahead.
    """

    asks: ClassVar[str] = METADATA_CACHE
    request: UpdateMetadataRequest
    begins: bool


@message
class MetadataMerged:
    """The snapshot includes the update; `deleted` are the partitions that it removed.

    `old` is the number of topics of the former view that are still to be freed (DropOldTopics).
    """

    deleted: tuple[TopicPartition, ...] = ()
    old: int = 0


@message
class DropOldTopics(Question["OldTopics"]):
    """Free some topics of the snapshot that MergeMetadata replaced. -> OldTopics"""

    asks: ClassVar[str] = METADATA_CACHE


@message
class OldTopics:
    """The number of topics in the former metadata snapshot whose memory is not yet freed."""

    left: int


class Expected(NamedTuple):
    """The expected state of a topic: its partitions led by `leader` (None: any broker), or deleted if empty."""

    topic: str
    partitions: tuple[int, ...] = ()
    leader: int | None = None


@message
class AwaitTopics:
    """Send this response to the client when the topics are as expected, or with REQUEST_TIMED_OUT after the timeout
    (Kafka's purgatory)."""

    forwarded: Forwarded
    response: Message
    expected: tuple[Expected, ...]
    timeout_ms: int


@message
class WaitedLongEnough:
    """Timer payload: the timeout of the AwaitTopics with this number."""

    number: int


@message
class FindLeader(Question["LeaderFound"]):
    """Find the leader of a partition and its endpoint on a listener. -> LeaderFound"""

    asks: ClassVar[str] = METADATA_CACHE
    partition: TopicPartition
    listener: str


@message
class LeaderFound:
    """The leader of the partition, if it is alive and has that listener."""

    broker: MetadataBroker | None


@message
class GetAliveBrokers(Question["AliveBrokers"]):
    """List the live brokers. -> AliveBrokers"""

    asks: ClassVar[str] = METADATA_CACHE


@message
class GetKnownTopics(Question["KnownTopics"]):
    """Check which of these topics exist. -> KnownTopics"""

    asks: ClassVar[str] = METADATA_CACHE
    topics: tuple[str, ...]


@message
class KnownTopics:
    """The topics that exist in the metadata cache, in the order of the question."""

    topics: tuple[str, ...]


@message
class AliveBrokers:
    """Ids of the brokers that the last UpdateMetadata named, ascending; where each is reached by brokers, if it is; and
    in which rack it stands, if it says so."""

    ids: tuple[int, ...]
    endpoints: tuple[Endpoint | None, ...] = ()
    racks: tuple[str | None, ...] = ()
