"""Requests to the ZooKeeper bridge about notifications: ISR changes, failed log directories and config changes."""

from __future__ import annotations

from typing import NamedTuple

from messages.ask import Done
from messages.cluster import TopicPartition
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion


@message
class GetIsrChangeNotifications(BridgeQuestion["IsrChanges"]):
    """A request to read and watch /isr_change_notification/*; the reply is IsrChanges."""


@message
class IsrChanges(Message):
    """The reply to GetIsrChangeNotifications: the names of the notifications, and the partitions that they list."""

    names: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]


@message
class DeleteIsrChangeNotifications(BridgeQuestion[Done]):
    """The controller's request to delete these ISR change notifications; the reply is Done."""

    names: tuple[str, ...]
    epoch_zk_version: int


@message
class NotifyIsrChange(BridgeQuestion[Done]):
    """A broker's request to write an ISR change notification for the controller; the reply is Done.

    The controller then reads the states of these partitions.
    """

    partitions: tuple[TopicPartition, ...]


@message
class NotifyLogDirFailure(BridgeQuestion[Done]):
    """A broker's request to notify the controller of a failed log directory; the reply is Done."""

    broker_id: int


@message
class GetLogDirEvents(BridgeQuestion["LogDirEvents"]):
    """A request to read and watch /log_dir_event_notification/*; the reply is LogDirEvents."""


@message
class LogDirEvents(Message):
    """The reply to GetLogDirEvents: the names of the notifications, and the brokers that wrote them."""

    names: tuple[str, ...]
    broker_ids: tuple[int, ...]


@message
class DeleteLogDirEvents(BridgeQuestion[Done]):
    """The controller's request to delete these notifications of failed log directories; the reply is Done."""

    names: tuple[str, ...]
    epoch_zk_version: int


@message
class GetConfigChanges(BridgeQuestion["ConfigChanges"]):
    """A request to read the notifications in /config/changes after number `after`, and to watch /config/changes.

    The reply is ConfigChanges.
    """

    after: int


class ConfigChanged(NamedTuple):
    """A config change notification.

    The fields are the notification's number and the changed entity, such as "topics/t", "brokers/1" or
    "brokers/<default>".
    """

    number: int
    entity_path: str


@message
class ConfigChanges(Message):
    """The reply to GetConfigChanges: the notifications in order; an unreadable notification has an empty entity."""

    changes: tuple[ConfigChanged, ...]


@message
class DeleteConfigChanges(BridgeQuestion[Done]):
    """A broker's request to delete the expired config change notifications with these numbers; the reply is Done."""

    numbers: tuple[int, ...]
