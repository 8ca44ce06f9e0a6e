"""Notification znodes: ISR changes and failed log directories for the controller, config changes for brokers."""

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
    """The names of all ISR change notifications, and the partitions in them (each once, in order)."""

    names: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]


@message
class DeleteIsrChangeNotifications(BridgeQuestion[Done]):
    """Delete these notifications, fenced. -> Done"""

    names: tuple[str, ...]
    epoch_zk_version: int


@message
class NotifyIsrChange(BridgeQuestion[Done]):
    """Broker: create /isr_change_notification/isr_change_N, after which the controller reads these states. -> Done"""

    partitions: tuple[TopicPartition, ...]


@message
class NotifyLogDirFailure(BridgeQuestion[Done]):
    """Broker: create /log_dir_event_notification/log_dir_event_N for the controller. -> Done"""

    broker_id: int


@message
class GetLogDirEvents(BridgeQuestion["LogDirEvents"]):
    """Read /log_dir_event_notification/*; arms LogDirEventNotification. -> LogDirEvents"""


@message
class LogDirEvents:
    """The names of all log directory notifications, and the brokers in them (each once, in order)."""

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
    """A config change: its number, and the entity: "topics/t", "brokers/1" or "brokers/<default>"."""

    number: int
    entity_path: str


@message
class ConfigChanges:
    """The config changes in order. The entity path of an unreadable notification is empty."""

    changes: tuple[ConfigChanged, ...]


@message
class DeleteConfigChanges(BridgeQuestion[Done]):
    """Broker: delete the expired notifications with these numbers. -> Done"""

    numbers: tuple[int, ...]
