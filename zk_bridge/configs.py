"""ZooKeeper operations on config overrides, and their data (controller.md 2.2)."""

from __future__ import annotations

import logging

from messages import store, zookeeper
from messages.ask import BadZnode, Done
from messages.cluster import ConfigEntry
from messages.flow.conversation import Pause
from zk_bridge import paths, znodes
from zk_bridge.conversations import (
    Conversation,
    Starter,
    children_of,
    create_missing,
    data_of,
    transact,
)
from zk_bridge.notifications import encode_config_change

logger = logging.getLogger(__name__)


def encode_config(entries: tuple[ConfigEntry, ...]) -> bytes:
    """Encode /config/topics/T: the overrides, with values as text."""
    return znodes.encode({"version": 1, "config": dict(entries)})


def decode_config(path: str, data: bytes | None) -> tuple[ConfigEntry, ...]:
    """Return the overrides, sorted by name; empty if the data is null or has no "config" key.

    As in Kafka, the version is ignored.
    """

    def read(data: bytes | None) -> tuple[ConfigEntry, ...]:
        if not data:
            return ()
        config = znodes.member(znodes.parse(data), "config", dict, {})
        return tuple(
            ConfigEntry(znodes.valid_text(key, "a name"), znodes.valid_text(value, key))
            for key, value in sorted(config.items())
        )

    entries: tuple[ConfigEntry, ...] = znodes.naming(path, data, read)
    return entries


DECODED_AT_ONCE = 200
"""Number of configurations decoded between two pauses."""


def get_topic_configs(question: zookeeper.GetTopicConfigs) -> Conversation:
    """Return overrides of topics, in the order requested."""
    found = yield from _overrides(question.topics, tuple(map(paths.topic_config, question.topics)))
    return zookeeper.TopicConfigs(tuple(zookeeper.TopicConfig(*each) for each in found))


def get_broker_configs(question: zookeeper.GetBrokerConfigs) -> Conversation:
    """Return overrides of brokers, in the order requested."""
    found = yield from _overrides(question.brokers, tuple(map(paths.broker_config, question.brokers)))
    return zookeeper.BrokerConfigs(tuple(zookeeper.BrokerConfig(*each) for each in found))


def get_user_configs(question: zookeeper.GetUserConfigs) -> Conversation:
    """Return configs of users, in the order requested."""
    users = question.users
    if users is None:
        (found,) = yield from children_of((paths.USER_CONFIGS,))
        users = found or ()
    read = yield from _overrides(users, tuple(f"{paths.USER_CONFIGS}/{user}" for user in users))
    return zookeeper.UserConfigs(tuple(zookeeper.UserConfig(*each) for each in read))


def set_topic_config(question: zookeeper.SetTopicConfig) -> Conversation:
    """Write a topic's overrides."""
    return (yield from _write(paths.topic_config(question.topic), f"topics/{question.topic}", question.config))


def set_broker_config(question: zookeeper.SetBrokerConfig) -> Conversation:
    """Write a broker's overrides."""
    return (yield from _write(paths.broker_config(question.broker), f"brokers/{question.broker}", question.config))


def _overrides(names: tuple[str, ...], node_paths: tuple[str, ...]) -> Conversation:
    """Return (name, entries, readable) of each znode. An unreadable znode is logged and has no entries."""
    nodes = yield from data_of(node_paths)
    found: list[tuple[str, tuple[ConfigEntry, ...], bool]] = []
    for name, path, node in zip(names, node_paths, nodes, strict=True):
        if found and not len(found) % DECODED_AT_ONCE:
            yield Pause()
        try:
            found.append((name, decode_config(path, node.data), True))
        except BadZnode as error:
            logger.warning("Ignoring the unreadable config overrides of %s: %s", path.removeprefix("/config/"), error)
            found.append((name, (), False))
    return found


def _write(path: str, entity: str, entries: tuple[ConfigEntry, ...]) -> Conversation:
    """Write overrides, and a change notification for all brokers, in one transaction."""
    config = store.WriteOp(store.CREATE, path, encode_config(entries))
    notify = store.WriteOp(store.CREATE_SEQUENTIAL, paths.CONFIG_CHANGE_PREFIX, encode_config_change(entity))
    while True:
        (old,) = yield from data_of((path,))
        write_config = config if old.code == store.NO_NODE else config._replace(kind=store.SET)
        reply = yield from transact((write_config, notify), store.NODE_EXISTS, store.NO_NODE)
        if reply.code == store.OK:
            return Done()
        yield from create_missing((paths.CONFIG_CHANGES, *paths.ancestors(path)))


ANSWERS: dict[type, Starter] = {
    zookeeper.GetTopicConfigs: get_topic_configs,
    zookeeper.SetTopicConfig: set_topic_config,
    zookeeper.GetBrokerConfigs: get_broker_configs,
    zookeeper.GetUserConfigs: get_user_configs,
    zookeeper.SetBrokerConfig: set_broker_config,
}
