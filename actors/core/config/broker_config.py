"""The broker settings that can change while the broker runs, and Kafka's errors for all others (DynamicBrokerConfig).

Rule 1: Broker settings that are defaults of topic configs are dynamic if this node implements them. The broker's own
        override takes precedence over the cluster-wide override, which takes precedence over server.properties.
Rule 2: advertised.listeners is accepted for a single broker only. That broker checks the value, because the check
        depends on the broker's settings.
Rule 3: Thread counts have no effect here. They are accepted, because Kafka's brokers in the same cluster may use the
        cluster-wide default.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.core.config import topic_config
from actors.core.config.advertised_listeners import ADVERTISED_LISTENERS, advertised_listeners
from actors.core.config.server_defaults import FIELDS, field_of
from actors.core.refusal import Refused
from messages.cluster import ConfigEntry
from messages.node import NodeSettings
from messages.vocabulary import changed

RETENTION = "log.retention.ms"

TOPIC_DEFAULTS: dict[str, topic_config.ConfigType] = {
    server: topic_config.CONFIGS[topic]
    for topic, (server, _) in topic_config.FROM_SERVER.items()
    if field_of(server) in FIELDS
} | {RETENTION: topic_config.number("LONG", None)}
"""Topic default that this node implements -> type of its value. Any negative retention is unlimited."""

THREADS = (
    *("background.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir"),
    "num.replica.fetchers",
)
"""Thread counts, which are fixed here (rule 3)."""

DYNAMIC: dict[str, topic_config.ConfigType] = {
    ADVERTISED_LISTENERS: topic_config.TEXT,
    "follower.replication.throttled.rate": topic_config.number("LONG", 0),
    "leader.replication.throttled.rate": topic_config.number("LONG", 0),
    "unclean.leader.election.enable": topic_config.BOOLEAN,
    **TOPIC_DEFAULTS,
    **dict.fromkeys(THREADS, topic_config.number("INT", 1)),
}
"""Dynamic setting -> type of its value."""


REQUIREMENTS = {
    RETENTION: "unlimited (-1) or, greater than or equal to 1",
    "log.roll.ms": "greater than or equal to 1",
}
"""Kafka's error text for a number that is out of range."""


def configured(node: NodeSettings, own: Mapping[str, str], of_all: Mapping[str, str]) -> NodeSettings:
    """Return the settings of a broker with the overrides applied (rule 1). Invalid overrides are ignored.

    Args:
        own: The broker's own overrides.
        of_all: The overrides of all brokers.
    """
    fields = {}
    for name, kind in TOPIC_DEFAULTS.items():
        configured = next(
            (each[name].strip() for each in (own, of_all) if name in each and _is_valid(kind, each[name])), None
        )
        if configured is not None:
            fields[field_of(name)] = _value(kind, configured)
    return changed(node, **fields) if fields else node


def invalid(entries: Mapping[str, str]) -> list[str]:
    """Return the invalid overrides as "name=value", for the log. Any client can write them to a znode."""
    return [
        f"{name}={value}" for name, value in entries.items() if name in DYNAMIC and not _is_valid(DYNAMIC[name], value)
    ]


def _is_valid(kind: topic_config.ConfigType, text: str) -> bool:
    return kind.problem(text.strip()) is None


def _is_number(text: str) -> bool:
    return topic_config.number("LONG", None).problem(text) is None


def _value(kind: topic_config.ConfigType, text: str) -> object:
    if kind.type in ("INT", "LONG"):
        return int(text)
    return text.lower() == "true" if kind.type == "BOOLEAN" else text


def check_broker_config(entry: ConfigEntry, of_all: bool, node: NodeSettings | None) -> None:
    """Check that a running broker accepts this override.

    Args:
        of_all: Whether the override is for all brokers.
        node: Settings of the broker that checks its own override; None for any other caller.

    Raises:
        Refused: The override is invalid or not dynamic.
    """
    name, value = entry
    kind = DYNAMIC.get(name)
    if kind is None:
        raise Refused(f"Cannot update these configs dynamically: Set({name})")
    if name == ADVERTISED_LISTENERS:
        if of_all:
            where = "at default cluster level, broker id must be specified"
            raise Refused(f"Cannot update these configs {where}: Set({name})")
        if node is None:
            raise Refused(
                f"{name} can only be altered through a broker, not in ZooKeeper."
                " Use Kafka's kafka-configs with --bootstrap-server."
            )
        advertised_listeners(node, value)
    required = REQUIREMENTS.get(name)
    if required is not None and _is_number(value) and (int(value) == 0 or kind.problem(value)):
        raise Refused(f"requirement failed: {name} must be {required}")
    problem = kind.problem(value)
    if problem is not None:
        raise Refused(f"Invalid value {value} for configuration {name}: {problem}")
