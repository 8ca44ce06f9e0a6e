"""ZooKeeper operations on notifications to the controller and to brokers (controller.md 2.2; broker.md 2.3).

An unreadable notification is logged, listed without its content, and deleted with the others. A child whose name does
not match a notification is ignored and kept. Other znodes that list partitions have the same data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from typing import Any

from messages import zookeeper
from messages.ask import BadZnode, Done
from messages.cluster import TopicPartition
from messages.flow.conversation import all_at_once, slices
from messages.store import CREATE_SEQUENTIAL, NO_NODE, OK, WriteOp
from messages.zookeeper.notifications import ConfigChanged
from zk_bridge import conversations, paths, znodes

logger = logging.getLogger(__name__)


def encode_partitions(partitions: tuple[TopicPartition, ...]) -> bytes:
    """Encode /isr_change_notification/isr_change_N or /admin/preferred_replica_election."""
    return znodes.encode(
        {"version": 1, "partitions": [{"topic": name, "partition": number} for name, number in partitions]}
    )


def decode_partitions(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """Return the partitions that the znode lists. Raises BadZnode."""
    return all_at_once(decoding_partitions(path, data))


def decoding_partitions(path: str, data: bytes | None) -> Generator[None, None, tuple[TopicPartition, ...]]:
    """Run `decode_partitions` in steps of SLICE partitions, because a znode may list ten thousand."""
    found: list[TopicPartition] = []
    try:
        for some in slices(znodes.member(znodes.parse(data), "partitions", list)):
            if found:
                yield
            for each in some:
                if type(each) is not dict:
                    raise znodes.InvalidValue(f"partitions holds {znodes.shortened_repr(each)}, expected objects")
                name = znodes.valid_text(znodes.member(each, "topic", str), "topic")
                found.append(TopicPartition(name, znodes.number_member(each, "partition", least=0)))
    except znodes.InvalidValue as torn:
        raise BadZnode(f"{path}: {torn}") from None
    return tuple(found)


def encode_log_dir_event(broker_id: int) -> bytes:
    """Encode /log_dir_event_notification/log_dir_event_N. Event 1 is the failure of a log directory."""
    return znodes.encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """Return the broker id in a notification. Raises BadZnode."""
    read: int = znodes.naming(path, data, lambda data: znodes.number_member(znodes.parse(data), "broker"))
    return read


def encode_config_change(entity_path: str) -> bytes:
    """Encode /config/changes/config_change_N, version 2. `entity_path` is, for example, "topics/T"."""
    return znodes.encode({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes | None) -> str:
    """Return a notification's entity path (version 2) or entity_type/entity_name (version 1). Raises BadZnode."""

    def read(data: bytes | None) -> str:
        members = znodes.parse(data)
        version = znodes.number_member(members, "version")
        if version == 1:
            return "/".join(
                znodes.valid_text(znodes.member(members, key, str), key) for key in ("entity_type", "entity_name")
            )
        if version != 2:
            raise znodes.InvalidValue(f"version {version} is not supported, only 1 and 2")
        return znodes.valid_text(znodes.member(members, "entity_path", str), "entity_path")

    entity: str = znodes.naming(path, data, read)
    return entity


def get_isr_change_notifications(question: zookeeper.GetIsrChangeNotifications) -> conversations.Conversation:
    """Return the partitions whose leaders changed their ISR."""
    names, found = yield from _notifications(paths.ISR_CHANGES, paths.ISR_CHANGE_PREFIX, decode_partitions)
    return zookeeper.IsrChanges(names, tuple(dict.fromkeys(partition for each in found for partition in each)))


def get_log_dir_events(question: zookeeper.GetLogDirEvents) -> conversations.Conversation:
    """Return the brokers with a failed log directory."""
    names, found = yield from _notifications(paths.LOG_DIR_EVENTS, paths.LOG_DIR_EVENT_PREFIX, decode_log_dir_event)
    return zookeeper.LogDirEvents(names, tuple(dict.fromkeys(found)))


def notify_log_dir_failure(question: zookeeper.NotifyLogDirFailure) -> conversations.Conversation:
    """Notify the controller of a failed log directory. A duplicate is harmless: the controller then checks twice."""
    event = WriteOp(CREATE_SEQUENTIAL, paths.LOG_DIR_EVENT_PREFIX, encode_log_dir_event(question.broker_id))
    return (yield from _notify(paths.LOG_DIR_EVENTS, event))


def notify_isr_change(question: zookeeper.NotifyIsrChange) -> conversations.Conversation:
    """Notify the controller of ISR changes. A duplicate is harmless: the controller then checks twice."""
    change = WriteOp(CREATE_SEQUENTIAL, paths.ISR_CHANGE_PREFIX, encode_partitions(question.partitions))
    return (yield from _notify(paths.ISR_CHANGES, change))


def _notify(parent: str, note: WriteOp) -> conversations.Conversation:
    while True:
        reply = yield from conversations.transact((note,), NO_NODE)
        if reply.code == OK:
            return Done()
        yield from conversations.create_missing((parent,))


def delete_isr_change_notifications(question: zookeeper.DeleteIsrChangeNotifications) -> conversations.Conversation:
    """Delete handled notifications."""
    yield from conversations.delete_present(
        [paths.isr_change(name) for name in question.names], question.epoch_zk_version
    )
    return Done()


def delete_log_dir_events(question: zookeeper.DeleteLogDirEvents) -> conversations.Conversation:
    """Delete handled notifications."""
    yield from conversations.delete_present(
        [paths.log_dir_event(name) for name in question.names], question.epoch_zk_version
    )
    return Done()


def get_config_changes(question: zookeeper.GetConfigChanges) -> conversations.Conversation:
    """Return the entities that are named by change notifications with numbers above `after`."""
    (listed,) = yield from conversations.children_of((paths.CONFIG_CHANGES,), watch=True)
    prefix = paths.CONFIG_CHANGE_PREFIX.removeprefix(f"{paths.CONFIG_CHANGES}/")
    numbers = numbers_after(listed or (), prefix, question.after)
    node_paths = tuple(map(paths.config_change, numbers))
    read = yield from read_notifications(node_paths, decode_config_change, "of a config change")
    changed = (
        ConfigChanged(number, read[path] or "")
        for number, path in zip(numbers, node_paths, strict=True)
        if path in read
    )
    return zookeeper.ConfigChanges(tuple(changed))


def delete_config_changes(question: zookeeper.DeleteConfigChanges) -> conversations.Conversation:
    """Delete old notifications. Another broker may have deleted them already."""
    yield from conversations.delete_present([paths.config_change(number) for number in question.numbers], None)
    return Done()


def _notifications(parent: str, prefix: str, decode: Callable[[str, bytes | None], Any]) -> conversations.Conversation:
    (listed,) = yield from conversations.children_of((parent,), watch=True)
    names = tuple(name for name in listed or () if f"{parent}/{name}".startswith(prefix))
    node_paths = tuple(f"{parent}/{name}" for name in names)
    read = yield from read_notifications(node_paths, decode, f"under {parent}")
    return names, [value for value in read.values() if value is not None]


def numbers_after(names: Iterable[str], prefix: str, after: int) -> list[int]:
    """Return the numbers above `after` of the notifications with this prefix, ascending."""
    marked = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return sorted(number for each in marked if each.isdecimal() and (number := int(each)) > after)


def read_notifications(
    node_paths: tuple[str, ...], decode: Callable[[str, bytes | None], Any], where: str
) -> conversations.Conversation:
    """Return the values of the notifications that exist, by path; None, with a warning, if one is unreadable."""
    nodes = yield from conversations.data_of(node_paths)
    found: dict[str, Any] = {}
    for path, node in zip(node_paths, nodes, strict=True):
        if node.code == OK:
            try:
                found[path] = decode(path, node.data)
            except BadZnode as error:
                logger.warning("Ignoring an unreadable notification %s: %s", where, error)
                found[path] = None
    return found


ANSWERS: dict[type, conversations.Starter] = {
    zookeeper.GetIsrChangeNotifications: get_isr_change_notifications,
    zookeeper.DeleteIsrChangeNotifications: delete_isr_change_notifications,
    zookeeper.NotifyIsrChange: notify_isr_change,
    zookeeper.NotifyLogDirFailure: notify_log_dir_failure,
    zookeeper.GetLogDirEvents: get_log_dir_events,
    zookeeper.DeleteLogDirEvents: delete_log_dir_events,
    zookeeper.GetConfigChanges: get_config_changes,
    zookeeper.DeleteConfigChanges: delete_config_changes,
}
