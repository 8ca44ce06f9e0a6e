"""Functions for commands: read and write the config overrides of topics and brokers in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.cli.app import CommandFailed
from actors.core.admin.config_admin import BROKERS, TOPICS
from messages.cluster import ConfigEntry
from messages.zookeeper import GetBrokerConfigs, GetTopicConfigs, SetBrokerConfig, SetTopicConfig

Overrides = tuple[ConfigEntry, ...]


def read(ask: Callable[[Any], Any], kind: str, name: str) -> Overrides:
    """Return the overrides of a topic or broker (kind TOPICS or BROKERS).

    Raises:
        CommandFailed: The overrides are unreadable.
    """
    if kind == TOPICS:
        (config,) = ask(GetTopicConfigs((name,))).topics
    else:
        (config,) = ask(GetBrokerConfigs((name,))).brokers
    if not config.readable:
        raise CommandFailed(f"the overrides of {kind[:-1]} {name} cannot be read: the znode is not JSON")
    entries: Overrides = config.entries
    return entries


def write(ask: Callable[[Any], Any], kind: str, name: str, overrides: Overrides) -> None:
    """Replace the overrides of a topic or broker; every node is notified."""
    ask({TOPICS: SetTopicConfig, BROKERS: SetBrokerConfig}[kind](name, overrides))
