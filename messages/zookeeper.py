"""What is asked of ZkBridgeActor, and its answers. The bridge alone knows paths, JSON and ZooKeeper's operations.

Every question is answered by `Answer(id, result)` where result is the type named in the question's docstring, or
`Failure` (messages.conversation). "Arms" means: the bridge sets the watch first, then reads, and from then on sends
the event named to the *sender of the question* once per change, re-arming by the same question; it re-arms by itself,
and sends the event as if it had fired, whenever the connection or the session may have lost watches.

`epoch_zk_version` is the version of /controller_epoch that fences a write: the bridge puts one check of it into every
transaction and answers Failure("ControllerMoved") if it fails. None: an unfenced write, as admin tools make them.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from messages.cluster import (
    Broker,
    ConfigEntry,
    LeaderIsrAndControllerEpoch,
    Leadership,
    PartitionAssignment,
    TopicPartition,
)
from messages.conversation import Done, Question
from messages.vocabulary import message

BRIDGE = "bridge"

# ---------------------------------------------------------------------------------------------------- sessions


@message
class EnsurePaths(Question[Done]):
    """Create Kafka's persistent parents where missing, with null data (controller.md 2.1). -> Done"""

    asks: ClassVar[str] = BRIDGE


@message
class GetClusterId(Question["ClusterId"]):
    """Read /cluster/id, or create it with `proposed` where it is missing. -> ClusterId"""

    asks: ClassVar[str] = BRIDGE
    proposed: str


@message
class ClusterId:
    """The cluster's id: 22 characters of url-safe base64."""

    id: str


@message
class RegisterBroker(Question["BrokerRegistered | RegistrationRefused"]):
    """Create ephemeral /brokers/ids/N (create + set in one transaction). -> BrokerRegistered | RegistrationRefused

    A node left by this process's own earlier session is deleted and made anew; another owner's refuses.
    """

    asks: ClassVar[str] = BRIDGE
    broker: Broker
    timestamp_ms: int
    ibp: str


@message
class BrokerRegistered:
    """The registration's czxid, which is the broker epoch."""

    epoch: int


@message
class RegistrationRefused:
    """Another live session owns /brokers/ids/N."""

    owner: int


@message
class RegisterNode(Question[Done]):
    """Create ephemeral /kafka-actors/nodes/N: where this node's metrics are served, which roles it has. -> Done

    Ours alone: Kafka's tools never look there. A node of the same id left by an earlier session is replaced.
    """

    asks: ClassVar[str] = BRIDGE
    node: NodeRegistration


@message
class NodeRegistration:
    """What `kafka-actors status` needs to find a node."""

    id: int
    roles: tuple[str, ...]
    metrics_host: str
    metrics_port: int
    pid: int


@message
class GetNodes(Question["Nodes"]):
    """Read /kafka-actors/nodes. -> Nodes"""

    asks: ClassVar[str] = BRIDGE


@message
class Nodes:
    """Our own nodes that are alive."""

    nodes: tuple[NodeRegistration, ...]


# ---------------------------------------------------------------------------------------------------- controller


@message
class GetController(Question["ControllerIs"]):
    """Read /controller; arms ControllerChange (created, data) and Reelect (deleted) if `watch`. -> ControllerIs"""

    asks: ClassVar[str] = BRIDGE
    watch: bool = True


@message
class ControllerIs:
    """Who is in /controller (-1: nobody), and the decimal in /controller_epoch (0 where absent)."""

    broker_id: int
    epoch: int


@message
class Elect(Question["Elected | NotElected"]):
    """The election transaction (controller.md 2.5). -> Elected | NotElected"""

    asks: ClassVar[str] = BRIDGE
    broker_id: int
    timestamp_ms: int


@message
class Elected:
    """We are controller: the new epoch, and the version of /controller_epoch that fences our writes."""

    epoch: int
    epoch_zk_version: int


@message
class NotElected:
    """Another node won; -1 where /controller is absent again (then its deletion fires Reelect)."""

    broker_id: int


@message
class ResignController(Question[Done]):
    """Delete /controller, fenced. -> Done"""

    asks: ClassVar[str] = BRIDGE
    epoch_zk_version: int


@message
class StopWatching(Question[Done]):
    """Forget the asker's watches of the event named (its class): those of `keys` (as text), or all. -> Done"""

    asks: ClassVar[str] = BRIDGE
    event: str
    keys: tuple[str, ...] | None = None


# ---------------------------------------------------------------------------------------------------- brokers


@message
class GetBrokers(Question["Brokers"]):
    """Read all of /brokers/ids/*; arms BrokerChange if `watch`. -> Brokers. Children that name no id are ignored."""

    asks: ClassVar[str] = BRIDGE
    watch: bool = True


@message
class Brokers:
    """Live brokers by id, each with its epoch; `unreadable` are ids with a torn registration (logged by the bridge)."""

    brokers: tuple[Broker, ...]
    unreadable: tuple[int, ...] = ()


@message
class WatchBrokers(Question[Done]):
    """Arm BrokerModifications for each id (no read: the caller has just read them). -> Done"""

    asks: ClassVar[str] = BRIDGE
    broker_ids: tuple[int, ...]


@message
class GetBroker(Question["Brokers"]):
    """Read /brokers/ids/N; arms BrokerModifications(N). -> Brokers (empty where absent, unreadable where torn)"""

    asks: ClassVar[str] = BRIDGE
    broker_id: int


# ---------------------------------------------------------------------------------------------------- topics


@message
class GetTopics(Question["TopicNames"]):
    """Children of /brokers/topics; arms TopicChange if `watch`. -> TopicNames"""

    asks: ClassVar[str] = BRIDGE
    watch: bool = True


@message
class TopicNames:
    """Names of topics, sorted."""

    topics: tuple[str, ...]


@message
class GetAssignments(Question["Assignments"]):
    """Read /brokers/topics/T of each; arms PartitionModifications(T) if `watch`. -> Assignments"""

    asks: ClassVar[str] = BRIDGE
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
class SetAssignments(Question[Done]):
    """Rewrite /brokers/topics/T whole (version any). -> Done. NONODE fails as ZooKeeperRefused."""

    asks: ClassVar[str] = BRIDGE
    topics: tuple[TopicAssignment, ...]
    epoch_zk_version: int | None


@message
class CreateTopic(Question["Done | TopicExists"]):
    """Admin: /config/topics/T (created or replaced), then /brokers/topics/T. -> Done | TopicExists"""

    asks: ClassVar[str] = BRIDGE
    topic: TopicAssignment
    config: tuple[ConfigEntry, ...] = ()


@message
class TopicExists:
    """/brokers/topics/T is there already."""

    topic: str


@message
class GetTopicConfigs(Question["TopicConfigs"]):
    """Read /config/topics/T of each. -> TopicConfigs (a topic without node has no entries)"""

    asks: ClassVar[str] = BRIDGE
    topics: tuple[str, ...]


class TopicConfig(NamedTuple):
    """A topic's overrides; `readable` is False where the znode holds no valid JSON."""

    topic: str
    entries: tuple[ConfigEntry, ...]
    readable: bool = True


@message
class TopicConfigs:
    """Overrides of the topics asked for, in the order asked."""

    topics: tuple[TopicConfig, ...]


@message
class SetTopicConfig(Question[Done]):
    """Admin: write /config/topics/T and a /config/changes notification. -> Done"""

    asks: ClassVar[str] = BRIDGE
    topic: str
    config: tuple[ConfigEntry, ...]


# ---------------------------------------------------------------------------------------------------- partition states


@message
class GetPartitionStates(Question["PartitionStates"]):
    """Read .../partitions/P/state of each. -> PartitionStates, same order"""

    asks: ClassVar[str] = BRIDGE
    partitions: tuple[TopicPartition, ...]


class PartitionStateRead(NamedTuple):
    """One partition's state; None where absent (`error` "") or undecodable (`error` says why)."""

    partition: TopicPartition
    state: LeaderIsrAndControllerEpoch | None
    error: str = ""


@message
class PartitionStates:
    """States in the order asked."""

    states: tuple[PartitionStateRead, ...]


@message
class CreatePartitionStates(Question["WriteResults"]):
    """Create partitions/, partitions/P and state of each, fenced. -> WriteResults, same order"""

    asks: ClassVar[str] = BRIDGE
    states: tuple[Leadership, ...]
    epoch_zk_version: int


@message
class UpdatePartitionStates(Question["WriteResults"]):
    """Set state of each, conditional on the zk_version its state carries, fenced. -> WriteResults, same order

    After a lost answer or a BadVersion the batch is re-read once: what already holds our data at version + 1 counts
    as OK, a different version as BAD_VERSION, the rest is sent again.
    """

    asks: ClassVar[str] = BRIDGE
    states: tuple[Leadership, ...]
    epoch_zk_version: int


OK = "OK"
NODE_EXISTS = "NODE_EXISTS"
NO_NODE = "NO_NODE"
BAD_VERSION = "BAD_VERSION"


class WriteResult(NamedTuple):
    """Outcome of one conditional write: OK with the znode's new version, or another code (version -1)."""

    partition: TopicPartition
    code: str
    zk_version: int


@message
class WriteResults:
    """Outcomes in the order of the entries."""

    results: tuple[WriteResult, ...]


# ---------------------------------------------------------------------------------------------------- admin znodes


@message
class GetTopicDeletions(Question["TopicNames"]):
    """Children of /admin/delete_topics; arms TopicDeletion if `watch`. -> TopicNames"""

    asks: ClassVar[str] = BRIDGE
    watch: bool = True


@message
class RequestTopicDeletion(Question["Done | TopicAlreadyMarkedForDeletion"]):
    """Admin: create /admin/delete_topics/T. -> Done | TopicAlreadyMarkedForDeletion"""

    asks: ClassVar[str] = BRIDGE
    topic: str


@message
class TopicAlreadyMarkedForDeletion:
    """/admin/delete_topics/T is there already."""

    topic: str


@message
class ForgetTopicDeletions(Question[Done]):
    """Delete /admin/delete_topics/T of each, fenced; absent ones are no error. -> Done"""

    asks: ClassVar[str] = BRIDGE
    topics: tuple[str, ...]
    epoch_zk_version: int


@message
class DeleteTopics(Question[Done]):
    """Delete, fenced, /brokers/topics/T recursively, then /config/topics/T, then /admin/delete_topics/T. -> Done"""

    asks: ClassVar[str] = BRIDGE
    topics: tuple[str, ...]
    epoch_zk_version: int


@message
class GetIsrChangeNotifications(Question["IsrChanges"]):
    """Read /isr_change_notification/*; arms IsrChangeNotification. -> IsrChanges"""

    asks: ClassVar[str] = BRIDGE


@message
class IsrChanges:
    """Names of the notifications, and the partitions they name (each once, in order)."""

    names: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]


@message
class DeleteIsrChangeNotifications(Question[Done]):
    """Delete these notifications, fenced. -> Done"""

    asks: ClassVar[str] = BRIDGE
    names: tuple[str, ...]
    epoch_zk_version: int


@message
class NotifyLogDirFailure(Question[Done]):
    """Broker: create /log_dir_event_notification/log_dir_event_N, which makes the controller look. -> Done"""

    asks: ClassVar[str] = BRIDGE
    broker_id: int


@message
class GetLogDirEvents(Question["LogDirEvents"]):
    """Read /log_dir_event_notification/*; arms LogDirEventNotification. -> LogDirEvents"""

    asks: ClassVar[str] = BRIDGE


@message
class LogDirEvents:
    """Names of the notifications, and the brokers they name (each once, in order)."""

    names: tuple[str, ...]
    broker_ids: tuple[int, ...]


@message
class DeleteLogDirEvents(Question[Done]):
    """Delete these notifications, fenced. -> Done"""

    asks: ClassVar[str] = BRIDGE
    names: tuple[str, ...]
    epoch_zk_version: int
