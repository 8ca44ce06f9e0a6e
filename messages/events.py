"""The events of the controller, named as in Kafka (controller.md 1).

An event's class declares the watch that fires the event, whether that watch ends with the controller's term, and the
value of the gauge ControllerState while the event is handled. The bridge's watch table (`zk_bridge.watches`), the
watches of a term (`actors.core.controller.failover`) and the event names in traces are derived from these classes.
`actors.core.controller.events` maps each event to its handler.

Events of ZooKeeper watches contain the generation of their session.

Kafka: the `ControllerEvent`s of `ControllerEventManager`.
"""

from __future__ import annotations

import enum
from typing import ClassVar, NamedTuple

from messages.apis.leader_and_isr import LeaderAndIsrResponse
from messages.apis.stop_replica import StopReplicaResponse
from messages.apis.update_metadata import UpdateMetadataResponse
from messages.cluster import TopicPartition
from messages.store import CHILDREN_CHANGED, NODE_CHANGED, NODE_CREATED, NODE_DELETED
from messages.vocabulary import VOCABULARY, Message, message


class ControllerState(enum.IntEnum):
    """What the controller is doing now, numbered as in Kafka (controller.md 8)."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16

    @property
    def kafka_name(self) -> str:
        """Kafka's name of the state, such as ControllerChange."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def timer(self) -> str | None:
        """Kafka's name of the timer of this state; None for the two states without a timer (controller.md 8)."""
        if self in (ControllerState.IDLE, ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED):
            return None
        renamed = {
            ControllerState.BROKER_CHANGE: "LeaderElection",
            ControllerState.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignment",
        }
        return f"{renamed.get(self, self.kafka_name)}RateAndTimeMs"


class Watch(NamedTuple):
    """A ZooKeeper watch: the path of a znode, and the kinds of changes for which it fires.

    Each `*` in `path` is a key, such as a topic. The event's fields get the keys in order. Each key is converted to the
    annotated type of its field. `changes` are constants of `messages.store`. CHILDREN_CHANGED watches the znode's
    children, and cannot be combined with the other changes. If `of_term` is True, the watch begins and ends with a
    controller's term.
    """

    path: str
    changes: tuple[str, ...]
    of_term: bool = True


class Event(Message):
    """The base class of the controller's events."""

    __slots__ = ()

    state: ClassVar[ControllerState]
    watch: ClassVar[Watch | None] = None


class ResponseReceived(Event):
    """The base class of events that carry the response of a broker to a controller's request."""

    __slots__ = ()

    broker_id: int


@message
class Startup(Event):
    """Event: the controller starts, so it watches /controller and takes part in the election."""

    state = ControllerState.CONTROLLER_CHANGE


@message
class ControllerChange(Event):
    """Event: /controller was created, or its data changed."""

    state = ControllerState.CONTROLLER_CHANGE
    watch = Watch("/controller", (NODE_CREATED, NODE_CHANGED), of_term=False)
    generation: int = 0


@message
class Reelect(Event):
    """Event: /controller was deleted, or the broker has registered in a new ZooKeeper session."""

    state = ControllerState.CONTROLLER_CHANGE
    watch = Watch("/controller", (NODE_DELETED,), of_term=False)
    generation: int = 0


@message
class SessionExpired(Event):
    """Event (Kafka's Expire): a ZooKeeper session has expired; `generation` is the session's number.

    It is handled before all queued events.
    """

    state = ControllerState.CONTROLLER_CHANGE
    generation: int = 0


@message
class SessionEstablished(Message):
    """Event (Kafka's RegisterBrokerAndReelect): a new ZooKeeper session has begun; `generation` is its number.

    The node handles this event. The controller receives a Reelect when the broker is registered.
    """

    generation: int = 0


READ_STATE = "read the state"
"""`StateChangesRefused.what` of a state znode that the controller could not read."""


NOT_ELECTED = "Failed to elect leader"
"""The beginning of `Refusal.why` if no replica of the partition could be elected."""


class Refusal(NamedTuple):
    """A partition of which the controller could not change or read the state, and the reason."""

    partition: TopicPartition
    why: str


@message
class StateChangesRefused(Message):
    """A message of the controller to itself: what it could not do, and for which partitions.

    The message brings each refusal that the controller logs into the trace, also those that the log only counts.
    """

    what: str
    refusals: tuple[Refusal, ...]


@message
class BrokerChange(Event):
    """Event: the children of /brokers/ids changed."""

    state = ControllerState.BROKER_CHANGE
    watch = Watch("/brokers/ids", (CHILDREN_CHANGED,))
    generation: int = 0


@message
class BrokerModifications(Event):
    """Event: the data of /brokers/ids/N changed."""

    state = ControllerState.BROKER_CHANGE
    watch = Watch("/brokers/ids/*", (NODE_CHANGED,))
    broker_id: int
    generation: int = 0


@message
class TopicChange(Event):
    """Event: the children of /brokers/topics changed."""

    state = ControllerState.TOPIC_CHANGE
    watch = Watch("/brokers/topics", (CHILDREN_CHANGED,))
    generation: int = 0


@message
class PartitionModifications(Event):
    """Event: the data of /brokers/topics/T changed."""

    state = ControllerState.TOPIC_CHANGE
    watch = Watch("/brokers/topics/*", (NODE_CHANGED,))
    topic: str
    generation: int = 0


@message
class TopicDeletion(Event):
    """Event: the children of /admin/delete_topics changed."""

    state = ControllerState.TOPIC_DELETION
    watch = Watch("/admin/delete_topics", (CHILDREN_CHANGED,))
    generation: int = 0


@message
class ZkPartitionReassignment(Event):
    """Event: /admin/reassign_partitions was created, or may have been created since it was last read."""

    state = ControllerState.ALTER_PARTITION_REASSIGNMENT
    watch = Watch("/admin/reassign_partitions", (NODE_CREATED,))
    generation: int = 0


@message
class PartitionReassignmentIsrChange(Event):
    """Event: a change in the state of a partition during its reassignment; the new replicas may now be in the ISR."""

    state = ControllerState.ALTER_PARTITION_REASSIGNMENT
    watch = Watch("/brokers/topics/*/partitions/*/state", (NODE_CHANGED,))
    topic: str
    partition: int
    generation: int = 0


@message
class PreferredReplicaLeaderElection(Event):
    """Event: /admin/preferred_replica_election was created, or may have been created since it was last read."""

    state = ControllerState.MANUAL_LEADER_BALANCE
    watch = Watch("/admin/preferred_replica_election", (NODE_CREATED,))
    generation: int = 0


@message
class AutoPreferredReplicaLeaderElection(Event):
    """Event: a timer is due, so the controller checks for leader imbalance."""

    state = ControllerState.AUTO_LEADER_BALANCE


@message
class ConfigChangeNotification(Event):
    """Event: the children of /config/changes changed, so a topic may now permit unclean leader elections.

    In Kafka the broker reads the notification and sends TopicUncleanLeaderElectionEnable to its controller; here the
    controller receives this event. The DynamicConfigActor of each broker also receives it, and reads the change.
    """

    state = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
    watch = Watch("/config/changes", (CHILDREN_CHANGED,))
    generation: int = 0


@message
class UncleanLeaderElectionEnable(Event):
    """Event: the brokers' default for unclean.leader.election.enable became true."""

    state = ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE


@message
class IsrChangeNotification(Event):
    """Event: the children of /isr_change_notification changed."""

    state = ControllerState.ISR_CHANGE
    watch = Watch("/isr_change_notification", (CHILDREN_CHANGED,))
    generation: int = 0


@message
class LogDirEventNotification(Event):
    """Event: the children of /log_dir_event_notification changed."""

    state = ControllerState.LOG_DIR_CHANGE
    watch = Watch("/log_dir_event_notification", (CHILDREN_CHANGED,))
    generation: int = 0


@message
class LeaderAndIsrResponseReceived(ResponseReceived):
    """Event: a broker responded to LeaderAndIsr."""

    state = ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED
    broker_id: int
    response: LeaderAndIsrResponse


@message
class UpdateMetadataResponseReceived(ResponseReceived):
    """Event: a broker responded to UpdateMetadata."""

    state = ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED
    broker_id: int
    response: UpdateMetadataResponse


@message
class TopicDeletionStopReplicaResponseReceived(ResponseReceived):
    """Event: a broker responded to a StopReplica request that deletes replicas of topics being deleted.

    `broker_epoch` is the broker epoch in the request; `error_code` is the top-level error; `deleted` are the partitions
    that the request deletes.
    """

    state = ControllerState.TOPIC_DELETION
    broker_id: int
    broker_epoch: int
    error_code: int
    deleted: tuple[TopicPartition, ...]
    response: StopReplicaResponse


@message
class ControllerShutdown(Event):
    """Event: the node stops, so the controller resigns and accepts no more events."""

    state = ControllerState.CONTROLLER_SHUTDOWN


EVENTS: tuple[type[Event], ...] = tuple(cls for cls in VOCABULARY.values() if issubclass(cls, Event))
"""Every event of the controller, in order of definition."""

CONTROLLER_EVENTS: tuple[tuple[str, str], ...] = tuple((cls.__name__, cls.state.kafka_name) for cls in EVENTS)
"""Pairs (message type, ControllerState's name) of all events, which the header of a trace contains."""

EVENT_WORDS = {
    "Startup": "the start of its controller",
    "ControllerChange": "a change of /controller",
    "Reelect": "the election of a new controller",
    "SessionExpired": "the end of its ZooKeeper session",
    "BrokerChange": "a change of the live brokers",
    "BrokerModifications": "changed addresses of a broker",
    "TopicChange": "a change of the topics",
    "PartitionModifications": "changed replicas of a topic",
    "TopicDeletion": "a topic deletion",
    "ZkPartitionReassignment": "a reassignment in ZooKeeper",
    "PartitionReassignmentIsrChange": "an ISR change of a partition that is reassigned",
    "PreferredReplicaLeaderElection": "a preferred leader election in ZooKeeper",
    "AutoPreferredReplicaLeaderElection": "the periodic check for leader imbalance",
    "ConfigChangeNotification": "a changed config",
    "UncleanLeaderElectionEnable": "the permission of unclean leader elections",
    "IsrChangeNotification": "a leader's change of an ISR",
    "LogDirEventNotification": "a broker's failed log directory",
    "LeaderAndIsrResponseReceived": "a broker's response to LeaderAndIsr",
    "UpdateMetadataResponseReceived": "a broker's response to UpdateMetadata",
    "TopicDeletionStopReplicaResponseReceived": "a broker's response to StopReplica",
    "ControllerShutdown": "the stop of its node",
    "ControlledShutdownRequest": "the controlled shutdown of a broker",
}
"""Event, by its class -> what it is, for readers of an explanation; requests of clients are named by their API."""
