"""Configurations: overrides in /config/topics/T and /config/brokers/B, notifications in /config/changes."""

from __future__ import annotations

from typing import NamedTuple

from messages.cluster import ConfigEntry
from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion

ALL_BROKERS = "<default>"
"""Where a broker's id stands, in /config/brokers and in notifications: what counts for all that say nothing else."""


@message
class GetTopicConfigs(BridgeQuestion["TopicConfigs"]):
    """Read /config/topics/T of each. -> TopicConfigs (a topic without node has no entries)"""

    topics: tuple[str, ...]


class TopicConfig(NamedTuple):
    """A topic's overrides; `readable` is False if the znode has no valid JSON."""

    topic: str
    entries: tuple[ConfigEntry, ...]
    readable: bool = True


@message
class TopicConfigs:
    """The overrides of the requested topics, in the order of the request."""

    topics: tuple[TopicConfig, ...]


@message
class SetTopicConfig(BridgeQuestion[Done]):
    """Admin: write /config/topics/T and a /config/changes notification. -> Done"""

    topic: str
    config: tuple[ConfigEntry, ...]


@message
class GetBrokerConfigs(BridgeQuestion["BrokerConfigs"]):
    """Read /config/brokers/B of each; B is an id or ALL_BROKERS. -> BrokerConfigs (where no node is, no entries)"""

    brokers: tuple[str, ...]


class BrokerConfig(NamedTuple):
    """A broker's overrides; `readable` is False if the znode has no valid JSON."""

    broker: str
    entries: tuple[ConfigEntry, ...]
    readable: bool = True


@message
class BrokerConfigs:
    """The overrides of the requested brokers, in the order of the request."""

    brokers: tuple[BrokerConfig, ...]


@message
class SetBrokerConfig(BridgeQuestion[Done]):
    """Admin: write /config/brokers/B and a /config/changes notification. -> Done"""

    broker: str
    config: tuple[ConfigEntry, ...]
