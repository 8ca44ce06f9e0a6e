"""Requests to the ZooKeeper bridge about configs: overrides of topics and brokers, and change notifications."""

from __future__ import annotations

from typing import NamedTuple

from messages.ask import Done
from messages.client_quotas import ClientQuota, QuotaEntity
from messages.cluster import ConfigEntry
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion

ALL_BROKERS = "<default>"
"""In place of a broker's id in /config/brokers and in notifications: the default for all brokers without an override.
"""


@message
class GetTopicConfigs(BridgeQuestion["TopicConfigs"]):
    """A request to read the config overrides of topics; the reply is TopicConfigs.

    A topic without a znode has no overrides.
    """

    topics: tuple[str, ...]


class TopicConfig(NamedTuple):
    """The config overrides of a topic; `readable` is False if the znode does not contain valid JSON."""

    topic: str
    entries: tuple[ConfigEntry, ...]
    readable: bool = True


@message
class TopicConfigs(Message):
    """The reply to GetTopicConfigs: the overrides of the topics, in the order of the request."""

    topics: tuple[TopicConfig, ...]


@message
class SetTopicConfig(BridgeQuestion[Done]):
    """A request of a command-line tool to write a topic's overrides and a change notification; the reply is Done."""

    topic: str
    config: tuple[ConfigEntry, ...]


@message
class GetBrokerConfigs(BridgeQuestion["BrokerConfigs"]):
    """A request to read the config overrides of brokers or of ALL_BROKERS; the reply is BrokerConfigs.

    A broker without a znode has no overrides.
    """

    brokers: tuple[str, ...]


class BrokerConfig(NamedTuple):
    """The config overrides of a broker; `readable` is False if the znode does not contain valid JSON."""

    broker: str
    entries: tuple[ConfigEntry, ...]
    readable: bool = True


@message
class BrokerConfigs(Message):
    """The reply to GetBrokerConfigs: the overrides of the brokers, in the order of the request."""

    brokers: tuple[BrokerConfig, ...]


@message
class GetUserConfigs(BridgeQuestion["UserConfigs"]):
    """A request to read the configs of users, or of all users if None; the reply is UserConfigs.

    A user without a znode has no configs. The names of users are sanitized, as in ZooKeeper.
    """

    users: tuple[str, ...] | None = None


class UserConfig(NamedTuple):
    """The configs of a user; `readable` is False if the znode does not contain valid JSON.

    The value of a SCRAM mechanism is a seal, because the actors do not get credentials.
    """

    user: str
    entries: tuple[ConfigEntry, ...]
    readable: bool = True


@message
class UserConfigs(Message):
    """The reply to GetUserConfigs: the configs of the users, in the order of the request."""

    users: tuple[UserConfig, ...]


@message
class SetBrokerConfig(BridgeQuestion[Done]):
    """A request of a command-line tool to write a broker's overrides and a change notification; the reply is Done."""

    broker: str
    config: tuple[ConfigEntry, ...]


@message
class GetClientQuotas(BridgeQuestion["ClientQuotaConfigs"]):
    """A request to read the client quotas of entities, or of all entities if None; the reply is ClientQuotaConfigs."""

    entities: tuple[QuotaEntity, ...] | None = None


@message
class ClientQuotaConfigs(Message):
    """The reply to GetClientQuotas. An entity without a znode has no quotas; other configs of users are left out."""

    quotas: tuple[ClientQuota, ...]


class QuotaSetting(NamedTuple):
    """A quota that is to be set; the value None removes it."""

    name: str
    value: str | None


@message
class SetClientQuotas(BridgeQuestion[Done]):
    """A request to set or remove quotas of an entity, and to write a change notification; the reply is Done."""

    entity: QuotaEntity
    changes: tuple[QuotaSetting, ...]
