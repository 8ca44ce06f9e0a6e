"""The broker settings that can change while the broker runs, and Kafka's errors for all others (DynamicBrokerConfig).

Rule 1: Broker settings that are defaults of topic configs are dynamic if this node implements them. The broker's own
        override takes precedence over the cluster-wide override, which takes precedence over server.properties.
Rule 2: advertised.listeners is accepted for a single broker only. That broker checks the value, because the check
        depends on the broker's settings.
Rule 3: The key stores and trust stores of a listener are read anew when one of their settings is altered, even to the
        value that it has. The broker checks them (`StoresAdapter`).
Rule 4: Thread counts and settings of Kerberos have no effect here. Thread counts are accepted, because Kafka's brokers
        in the same cluster may use the cluster-wide default; those of Kerberos, because clients' test suites set them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from actors.core.config.advertised_listeners import ADVERTISED_LISTENERS, advertised_listeners
from actors.core.refusal import Refused
from messages.cluster import ConfigEntry
from messages.node_settings import SETTINGS, TEXT, NodeSettings, SettingType, field_of, integer, long, number
from messages.sensitive_configs import is_secret
from messages.vocabulary import evolve

RETENTION = "log.retention.ms"

TOPIC_DEFAULTS: dict[str, SettingType] = {each.name: each.type for each in SETTINGS if each.dynamic}
"""Topic default that this node implements -> type of its value. Any negative retention is unlimited."""

THREADS = (
    *("background.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir"),
    "num.replica.fetchers",
)
"""Thread counts, which are fixed here (rule 4)."""

KERBEROS: dict[str, SettingType] = {
    "sasl.kerberos.kinit.cmd": TEXT,
    "sasl.kerberos.min.time.before.relogin": long(),
    "sasl.kerberos.service.name": TEXT,
    "sasl.kerberos.ticket.renew.jitter": number("DOUBLE"),
    "sasl.kerberos.ticket.renew.window.factor": number("DOUBLE"),
}
"""Settings of Kerberos, which is not served here: accepted for a single broker, without effect (rule 4)."""

WITHOUT_EFFECT = (*THREADS, *KERBEROS)

STORES = (
    *("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key"),
    *("ssl.keystore.certificate.chain", "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password"),
    "ssl.truststore.certificates",
)
"""The settings of stores, which change with the prefix of a listener only (rule 3)."""
_STORE = re.compile(rf"listener\.name\.([a-z0-9_-]+)\.(?:{'|'.join(map(re.escape, STORES))})")

DYNAMIC: dict[str, SettingType] = {
    ADVERTISED_LISTENERS: TEXT,
    "follower.replication.throttled.rate": long(0),
    "leader.replication.throttled.rate": long(0),
    **TOPIC_DEFAULTS,
    **dict.fromkeys(THREADS, integer(1)),
    **KERBEROS,
}
"""Dynamic setting -> type of its value. `type_of` also knows the settings of stores."""

CLEANERS, DEDUPE_BUFFER = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
LEAST_DEDUPE_BUFFER = 1 << 20
"""Bytes of the offset map of each cleaner, which Kafka demands to be exceeded."""

REQUIREMENTS = {
    RETENTION: "unlimited (-1) or, greater than or equal to 1",
    "log.roll.ms": "greater than or equal to 1",
}
"""Kafka's error text for a number that is out of range."""


def is_of_store(name: str) -> bool:
    """Return whether a setting is one of STORES with the prefix of a listener."""
    return _STORE.fullmatch(name) is not None


def of_stores(entries: Iterable[ConfigEntry]) -> tuple[ConfigEntry, ...]:
    """Return the overrides that name stores of listeners."""
    return tuple([entry for entry in entries if is_of_store(entry.name)])


def type_of(name: str) -> SettingType | None:
    """Return the type of a dynamic setting; None if it is not dynamic."""
    return TEXT if is_of_store(name) else DYNAMIC.get(name)


def apply_overrides(node: NodeSettings, own: Mapping[str, str], of_all: Mapping[str, str]) -> NodeSettings:
    """Return the settings of a broker with the overrides applied (rule 1). Invalid overrides are ignored.

    Args:
        own: The broker's own overrides.
        of_all: The overrides of all brokers.
    """
    fields = {}
    for name, kind in TOPIC_DEFAULTS.items():
        texts = [each[name].strip() for each in (own, of_all) if name in each and _is_valid(kind, each[name])]
        if texts:
            fields[field_of(name)] = kind.parse(texts[0])
    return evolve(node, **fields) if fields else node


def invalid(entries: Mapping[str, str]) -> list[str]:
    """Return the invalid overrides as "name=value", for the log. Any client can write them to a znode."""
    return [
        f"{name}={value}" for name, value in entries.items() if name in DYNAMIC and not _is_valid(DYNAMIC[name], value)
    ]


def _is_valid(kind: SettingType, text: str) -> bool:
    return kind.problem(text.strip()) is None


def check_broker_config(entry: ConfigEntry, of_all: bool, node: NodeSettings) -> None:
    """Check that a running broker accepts this override.

    Args:
        of_all: Whether the override is for all brokers.
        node: Settings of the broker that checks the override.

    Raises:
        Refused: The override is invalid or not dynamic.
    """
    name, value = entry.name, entry.value.strip()
    kind = type_of(name)
    if name in STORES:
        prefix = "only per-listener using the listener prefix"
        raise Refused(f"These security configs can be dynamically updated {prefix}: Set({name})")
    if kind is None:
        raise Refused(f"Cannot update these configs dynamically: Set({name})")
    if is_secret(name) and value and not node.password_encoder_secret:
        raise Refused("Password encoder secret not configured")
    if (store := _STORE.fullmatch(name)) and store[1] not in listeners_with_tls(node):
        raise Refused(f"Cannot update {name}: there is no listener {store[1].upper()} with TLS")
    if of_all and (name == ADVERTISED_LISTENERS or name in KERBEROS or is_of_store(name)):
        where = "at default cluster level, broker id must be specified"
        raise Refused(f"Cannot update these configs {where}: Set({name})")
    if name == ADVERTISED_LISTENERS:
        advertised_listeners(node, value)
    required = REQUIREMENTS.get(name)
    if required is not None and long().problem(value) is None and (int(value) == 0 or kind.problem(value)):
        raise Refused(f"requirement failed: {name} must be {required}")
    problem = kind.problem(value)
    if problem is not None:
        raise Refused(f"Invalid value {value} for configuration {name}: {problem}")
    if name in (CLEANERS, DEDUPE_BUFFER):
        check_cleaners(apply_overrides(node, {name: value}, {}), node.log_cleaner_threads)


def listeners_with_tls(node: NodeSettings) -> list[str]:
    """Return the names of the listeners that have stores, in lower case."""
    return [each.listener.lower() for each in node.listeners if each.security_protocol.endswith("SSL")]


def check_cleaners(node: NodeSettings, current: int) -> None:
    """Check the number of cleaners against the `current` number, and the size of their offset maps.

    Raises:
        Refused: Kafka refuses them.
    """
    threads = node.log_cleaner_threads
    if threads < 1:
        raise Refused("Log cleaner threads should be at least 1")
    if threads < current // 2:
        raise Refused(f"Log cleaner threads cannot be reduced to less than half the current value {current}")
    if threads > current * 2:
        raise Refused(f"Log cleaner threads cannot be increased to more than double the current value {current}")
    if node.log_cleaner_dedupe_buffer_size // threads <= LEAST_DEDUPE_BUFFER:
        raise Refused(f"requirement failed: {DEDUPE_BUFFER} must be at least 1MB per cleaner thread.")
