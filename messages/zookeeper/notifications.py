"""Notifications: of brokers to the controller, ISR changes and failed log directories; to brokers, changed configs."""

from __future__ import annotations

from typing import NamedTuple

from messages.cluster import TopicPartition
from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


@message
class GetIsrChangeNotifications(BridgeQuestion["IsrChanges"]):
    """Read /isr_change_notification/*; arms IsrChangeNotification. -> IsrChanges"""


@message
class IsrChanges:
    """Names of the notifications, and the partitions they name (each once, in order)."""

    names: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]


@message
class DeleteIsrChangeNotifications(BridgeQuestion[Done]):
    """Delete these notifications, fenced. -> Done"""

    names: tuple[str, ...]
    epoch_zk_version: int


@message
class NotifyIsrChange(BridgeQuestion[Done]):
    """Broker: create /isr_change_notification/isr_change_N, which makes the controller read these states. -> Done"""

    partitions: tuple[TopicPartition, ...]


@message
class NotifyLogDirFailure(BridgeQuestion[Done]):
    """Broker: create /log_dir_event_notification/log_dir_event_N, which makes the controller look. -> Done"""

    broker_id: int


@message
class GetLogDirEvents(BridgeQuestion["LogDirEvents"]):
    """Read /log_dir_event_notification/*; arms LogDirEventNotification. -> LogDirEvents"""


@message
class LogDirEvents:
    """Names of the notifications, and the brokers they name (each once, in order)."""

    names: tuple[str, ...]
    broker_ids: tuple[int, ...]


@message
class DeleteLogDirEvents(BridgeQuestion[Done]):
    """Delete these notifications, fenced. -> Done"""

    names: tuple[str, ...]
    epoch_zk_version: int


@message
class GetConfigChanges(BridgeQuestion["ConfigChanges"]):
    """Read /config/changes/* beyond number `after`; arms ConfigChangeNotification. -> ConfigChanges"""

    after: int


class ConfigChanged(NamedTuple):
    """One notification: its number, and whose configuration changed: "topics/t", "brokers/1", "brokers/<default>"."""

    number: int
    entity_path: str


@message
class ConfigChanges:
    """The notifications, in their order. A torn one has an empty entity path."""

    changes: tuple[ConfigChanged, ...]


@message
class DeleteConfigChanges(BridgeQuestion[Done]):
    """Broker: delete the notifications with these numbers, whose lifetime has ended. -> Done"""

    numbers: tuple[int, ...]
