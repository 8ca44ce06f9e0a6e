"""ZooKeeper operations on config overrides, and their data (controller.md 2.2)."""

from __future__ import annotations

import logging
from typing import Any

from messages import store, zookeeper
from messages.ask import BadZnode, Done, UnknownTopic
from messages.client_quotas import QUOTAS, ClientQuota, QuotaEntity
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
    """Write a topic's overrides if the topic exists. Raises UnknownTopic."""
    topic = question.topic
    return (yield from _write(paths.topic_config(topic), f"topics/{topic}", question.config, paths.topic(topic)))


def set_broker_config(question: zookeeper.SetBrokerConfig) -> Conversation:
    """Write a broker's overrides."""
    return (yield from _write(paths.broker_config(question.broker), f"brokers/{question.broker}", question.config))


def _overrides(names: tuple[Any, ...], node_paths: tuple[str, ...]) -> Conversation:
    """Return (name, entries, readable) of each znode. An unreadable znode is logged and has no entries."""
    nodes = yield from data_of(node_paths)
    found: list[tuple[Any, tuple[ConfigEntry, ...], bool]] = []
    for name, path, node in zip(names, node_paths, nodes, strict=True):
        if found and not len(found) % DECODED_AT_ONCE:
            yield Pause()
        try:
            found.append((name, decode_config(path, node.data), True))
        except BadZnode as error:
            logger.warning("Ignoring the unreadable config overrides of %s: %s", path.removeprefix("/config/"), error)
            found.append((name, (), False))
    return found


def _write(path: str, entity: str, entries: tuple[ConfigEntry, ...], owner: str = "") -> Conversation:
    """Write overrides, and a change notification for all brokers, in one transaction.

    Args:
        owner: The znode of the topic, without which nothing is written. Kafka reads it before the write.
    """
    config = store.WriteOp(store.CREATE, path, encode_config(entries))
    notify = store.WriteOp(store.CREATE_SEQUENTIAL, paths.CONFIG_CHANGE_PREFIX, encode_config_change(entity))
    while True:
        old, *owners = yield from data_of((path, owner) if owner else (path,))
        if any(each.code == store.NO_NODE for each in owners):
            raise UnknownTopic(f"{owner} does not exist")
        write_config = config if old.code == store.NO_NODE else config._replace(kind=store.SET)
        checks = (store.WriteOp(store.CHECK, owner, None),) if owner else ()
        reply = yield from transact((*checks, write_config, notify), store.NODE_EXISTS, store.NO_NODE)
        if reply.code == store.OK:
            return Done()
        yield from create_missing((paths.CONFIG_CHANGES, *paths.ancestors(path)))


def get_client_quotas(question: zookeeper.GetClientQuotas) -> Conversation:
    """Return the client quotas of entities, or of all entities."""
    entities = question.entities
    if entities is None:
        entities = yield from _quota_entities()
    found = yield from _overrides(entities, tuple(map(paths.client_quotas, entities)))
    return zookeeper.ClientQuotaConfigs(
        tuple(
            ClientQuota(entity, tuple(each for each in entries if each.name in QUOTAS)) for entity, entries, _ in found
        )
    )


def _quota_entities() -> Conversation:
    """Return the entities that have znodes."""
    users, clients = yield from children_of((paths.USER_CONFIGS, paths.CLIENT_CONFIGS))
    of_users = yield from children_of(tuple(f"{paths.USER_CONFIGS}/{user}/clients" for user in users or ()))
    return (
        *(QuotaEntity(user) for user in users or ()),
        *(QuotaEntity(user, each) for user, names in zip(users or (), of_users, strict=True) for each in names or ()),
        *(QuotaEntity(None, client_id) for client_id in clients or ()),
    )


def set_client_quotas(question: zookeeper.SetClientQuotas) -> Conversation:
    """Change quotas of an entity, keep its other configs, and delete znodes that become empty (KAFKA-14285)."""
    entity, path = question.entity, paths.client_quotas(question.entity)
    notify = store.WriteOp(store.CREATE_SEQUENTIAL, paths.CONFIG_CHANGE_PREFIX, encode_config_change(str(entity)))
    while True:
        (old,) = yield from data_of((path,))
        config = {} if old.code == store.NO_NODE else dict(decode_config(path, old.data))
        for name, value in question.changes:
            config.pop(name, None)
            if value is not None:
                config[name] = value
        data = encode_config(tuple(ConfigEntry(*each) for each in config.items()))
        write = store.WriteOp(store.SET, path, data, old.version)
        if old.code == store.NO_NODE:
            write = store.WriteOp(store.CREATE, path, data)
        elif not config and not any((yield from children_of((path,)))):
            write = store.WriteOp(store.DELETE, path, None, old.version)
        ops = (notify,) if old.code == store.NO_NODE and not config else (write, notify)
        tried = (store.NODE_EXISTS, store.NO_NODE, store.BAD_VERSION, store.NOT_EMPTY)
        reply = yield from transact(ops, *tried)
        if reply.code == store.OK:
            break
        if reply.code == store.NO_NODE:
            yield from create_missing((paths.CONFIG_CHANGES, *paths.ancestors(path)))
    if not config and entity.user is not None and entity.client_id is not None:
        yield from _delete_empty(f"{paths.USER_CONFIGS}/{entity.user}")
    return Done()


def _delete_empty(user: str) -> Conversation:
    """Delete the parents of a removed pair of user and client id that hold nothing any more."""
    for path in (f"{user}/clients", user):
        (node,) = yield from data_of((path,))
        if node.code == store.NO_NODE or any((yield from children_of((path,)))) or decode_config(path, node.data):
            return
        delete = store.WriteOp(store.DELETE, path, None, node.version)
        yield from transact((delete,), store.NO_NODE, store.BAD_VERSION, store.NOT_EMPTY)


ANSWERS: dict[type, Starter] = {
    zookeeper.GetTopicConfigs: get_topic_configs,
    zookeeper.SetTopicConfig: set_topic_config,
    zookeeper.GetBrokerConfigs: get_broker_configs,
    zookeeper.GetUserConfigs: get_user_configs,
    zookeeper.SetBrokerConfig: set_broker_config,
    zookeeper.GetClientQuotas: get_client_quotas,
    zookeeper.SetClientQuotas: set_client_quotas,
}
