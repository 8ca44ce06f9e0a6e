"""Which flow handles which event of the active controller, as data (controller.md 1.4).

Events that concern the term itself - start, election, expiry - are not here: they are handled whether or not we are
the controller (`failover`); those below are ignored by a controller that is not active.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.core.controller import brokers, notifications, topics
from actors.core.controller.context import ControllerContext
from messages.broker import Forwarded
from messages.conversation import Flow
from messages.events import (
    BrokerChange,
    BrokerModifications,
    ControllerChange,
    ControllerShutdown,
    IsrChangeNotification,
    LeaderAndIsrResponseReceived,
    LogDirEventNotification,
    PartitionModifications,
    Reelect,
    SessionExpired,
    Startup,
    TopicChange,
    TopicDeletion,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from messages.vocabulary import Message

CONTROLLER_STATES: dict[type, int] = {
    Startup: 1,
    ControllerChange: 1,
    Reelect: 1,
    SessionExpired: 1,
    BrokerChange: 2,
    BrokerModifications: 2,
    TopicChange: 3,
    PartitionModifications: 3,
    TopicDeletion: 4,
    TopicDeletionStopReplicaResponseReceived: 4,
    Forwarded: 8,
    IsrChangeNotification: 9,
    LeaderAndIsrResponseReceived: 10,
    LogDirEventNotification: 11,
    ControllerShutdown: 12,
    UpdateMetadataResponseReceived: 16,
}
"""Event -> the value of the gauge ControllerState while it is handled (controller.md 8).

Forwarded is a client's request: of those the controller answers ControlledShutdown alone.
"""

HANDLERS: dict[type, Callable[[ControllerContext, Message], Flow[None] | None]] = {
    BrokerChange: brokers.changed,
    BrokerModifications: brokers.modified,
    TopicChange: topics.changed,
    PartitionModifications: topics.modified,
    TopicDeletion: topics.deletion_requested,
    TopicDeletionStopReplicaResponseReceived: notifications.replicas_deleted,
    LeaderAndIsrResponseReceived: notifications.leader_and_isr_answered,
    UpdateMetadataResponseReceived: notifications.update_metadata_answered,
    IsrChangeNotification: notifications.isr_changed,
    LogDirEventNotification: notifications.log_dirs_failed,
}
