"""The controller's events, named as Kafka names them (controller.md 1).

Those that come from ZooKeeper watches carry the generation of the session that saw them.
"""

from __future__ import annotations

from messages.cluster import TopicPartition
from messages.requests import (
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from messages.vocabulary import message


@message
class Startup:
    """The controller process starts: watch /controller and elect."""


@message
class ControllerChange:
    """/controller was created or its data changed."""

    generation: int = 0


@message
class Reelect:
    """/controller was deleted, or a new session began after the broker registered anew."""

    generation: int = 0


@message
class SessionExpired:
    """The ZooKeeper session `generation` is dead (Kafka's Expire). Preempts everything queued."""

    generation: int = 0


@message
class SessionEstablished:
    """A new ZooKeeper session `generation` began after an expiry (Kafka's RegisterBrokerAndReelect)."""

    generation: int = 0


@message
class BrokerChange:
    """The children of /brokers/ids changed."""

    generation: int = 0


@message
class BrokerModifications:
    """The data of /brokers/ids/N changed."""

    broker_id: int
    generation: int = 0


@message
class TopicChange:
    """The children of /brokers/topics changed."""

    generation: int = 0


@message
class PartitionModifications:
    """The data of /brokers/topics/T changed."""

    topic: str
    generation: int = 0


@message
class TopicDeletion:
    """The children of /admin/delete_topics changed."""

    generation: int = 0


@message
class IsrChangeNotification:
    """The children of /isr_change_notification changed."""

    generation: int = 0


@message
class LogDirEventNotification:
    """The children of /log_dir_event_notification changed."""

    generation: int = 0


@message
class LeaderAndIsrResponseReceived:
    """A broker answered LeaderAndIsr."""

    broker_id: int
    response: LeaderAndIsrResponse


@message
class UpdateMetadataResponseReceived:
    """A broker answered UpdateMetadata."""

    broker_id: int
    response: UpdateMetadataResponse


@message
class TopicDeletionStopReplicaResponseReceived:
    """A broker answered a StopReplica with delete=true for topics whose deletion has started.

    `error_code` is top level; `deleted` are the partitions that were asked to be deleted there.
    """

    broker_id: int
    error_code: int
    deleted: tuple[TopicPartition, ...]
    response: StopReplicaResponse


@message
class ControllerShutdown:
    """The node stops: resign and stop taking events."""
