"""Describe the configs of topics and brokers, and check changes of their overrides (ZkAdminManager).

Rule 1: A topic's setting is its override, else this node's setting, else Kafka's default. `CONFIGS` has the node's
        setting. A node does not store which settings server.properties contained, so a value that differs from Kafka's
        default is reported as set in server.properties.
Rule 2: A refused change raises Refused with Kafka's message and error code.
Rule 3: The described broker settings are those that this node implements. Settings with a `broker_config.type_of` can
        change while the broker runs, for one broker or for all. Other dynamic settings of Kafka are refused, because
        they would have no effect. The error names the setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from actors.core.config.broker_config import check_broker_config, type_of
from actors.core.config.log_settings import log_settings
from actors.core.config.topic_config import CONFIGS, UNSAID, InvalidConfig, check_config, check_lags
from actors.core.refusal import Refused
from messages.apis import alter_configs, describe_configs
from messages.cluster import ConfigEntry
from messages.node_settings import FIELDS, NodeSettings, field_of, text_of
from messages.sensitive_configs import is_secret
from messages.zookeeper import ALL_BROKERS

INSTEAD = {"log.retention.ms": "log.retention.hours", "log.roll.ms": "log.roll.hours"}
"""Broker setting without a default -> the setting that applies instead."""

TYPES = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8, "PASSWORD": 9}
"""Type of a value -> Kafka's number for it."""

UNKNOWN_TO_KAFKA = ("super.users", "allow.everyone.if.no.acl.found")
"""Settings of the authorizer, which Kafka describes as secrets, because `KafkaConfig` has no type for them."""

SECRETS = (
    *("ssl.keystore.password", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.certificate.chain"),
    *("ssl.truststore.password", "ssl.truststore.certificates", "sasl.jaas.config"),
    *("zookeeper.ssl.keystore.password", "zookeeper.ssl.truststore.password"),
)
"""Secrets of server.properties that no field has. They are described, without their values."""

NOT_KAFKAS = ("node_id", "roles", "validate_state", "metrics_host", "metrics_port")
"""Fields of a node's settings that are not Kafka broker settings, in addition to those with the prefix trace_."""


def describe_topic(
    node: NodeSettings,
    overrides: Iterable[ConfigEntry],
    synonyms: bool = False,
    of_broker: Iterable[ConfigEntry] = (),
    of_all: Iterable[ConfigEntry] = (),
) -> tuple[describe_configs.DescribedConfig, ...]:
    """Return all settings of a topic, sorted by name (rule 1).

    Args:
        overrides: The topic's overrides.
        synonyms: Include every source of a setting.
        of_broker: The overrides of this broker.
        of_all: The overrides of all brokers.
    """
    own = {entry.name: entry.value for entry in overrides}
    dynamic = _of_broker(of_broker, of_all)
    described = []
    for name, config in CONFIGS.items():
        server, default, places = config.name, config.default, []
        if name in own:
            places.append(describe_configs.ConfigSynonym(name, own[name], describe_configs.DYNAMIC_TOPIC_CONFIG))
        dynamic_values = dynamic.get(server, [])
        places += dynamic_values
        configured = _node_value(node, name, server)
        if configured is not None and configured != default:
            places.append(describe_configs.ConfigSynonym(server, configured, describe_configs.STATIC_BROKER_CONFIG))
        if dynamic_values and server in INSTEAD:
            places += broker_default(INSTEAD[server])
        if server and name not in UNSAID:
            places.append(describe_configs.ConfigSynonym(server, default, describe_configs.DEFAULT_CONFIG))
        first = places[0] if places else describe_configs.ConfigSynonym(name, default, describe_configs.DEFAULT_CONFIG)
        kind = TYPES[config.type.name]
        described.append(
            describe_configs.DescribedConfig(
                name, first.value, False, first.source, False, tuple(places) if synonyms else (), kind
            )
        )
    return tuple(described)


def _node_value(node: NodeSettings, name: str, server: str) -> str | None:
    """Return a node's value for a topic's setting; None if the node has no such setting."""
    if name in ("retention.ms", "segment.ms"):
        default = log_settings(node, "", ())
        return str(default.retention_ms if name == "retention.ms" else default.segment_ms)
    return text_of(getattr(node, field_of(server), None))


def describe_broker(
    node: NodeSettings, own: Iterable[ConfigEntry], of_all: Iterable[ConfigEntry], synonyms: bool = False
) -> tuple[describe_configs.DescribedConfig, ...]:
    """Return this node's settings, with its own overrides and the cluster-wide overrides (rule 3)."""
    places = _of_broker(own, of_all)
    for name in places.keys() & INSTEAD.keys():
        places[name] += broker_default(INSTEAD[name])
    places["broker.id"] = [
        describe_configs.ConfigSynonym("broker.id", str(node.node_id), describe_configs.STATIC_BROKER_CONFIG)
    ]
    for field in attrs.fields(NodeSettings):
        if field.name not in NOT_KAFKAS and not field.name.startswith("trace_"):
            name, value = field.name.replace("_", "."), _value_of(node, field.name)
            source = (
                describe_configs.DEFAULT_CONFIG
                if value in (field.default, None)
                else describe_configs.STATIC_BROKER_CONFIG
            )
            configured = [describe_configs.ConfigSynonym(name, text_of(value), source)]
            if source == describe_configs.STATIC_BROKER_CONFIG:
                configured += broker_default(name)
            known = places.setdefault(name, [])
            known[_dynamic_part(known) :] = configured + known[_dynamic_part(known) :]
    for name in SECRETS:
        places.setdefault(name, [describe_configs.ConfigSynonym(name, None, describe_configs.DEFAULT_CONFIG)])
    return _describe_settings(places, synonyms)


def _of_broker(
    own: Iterable[ConfigEntry], of_all: Iterable[ConfigEntry]
) -> dict[str, list[describe_configs.ConfigSynonym]]:
    """Return the overrides of broker settings by name, the broker's own first."""
    places = _dynamic(own, describe_configs.DYNAMIC_BROKER_CONFIG)
    for name, configured in _dynamic(of_all, describe_configs.DYNAMIC_DEFAULT_BROKER_CONFIG).items():
        places.setdefault(name, []).extend(configured)
    return places


def _dynamic_part(places: Sequence[describe_configs.ConfigSynonym]) -> int:
    """Return the number of overrides among these sources."""
    return sum(
        each.source in (describe_configs.DYNAMIC_BROKER_CONFIG, describe_configs.DYNAMIC_DEFAULT_BROKER_CONFIG)
        for each in places
    )


def broker_default(setting: str) -> list[describe_configs.ConfigSynonym]:
    """Return Kafka's default of a broker setting; an empty list if it has no default, or no field in NodeSettings."""
    field = FIELDS.get(field_of(setting))
    default = None if field is None or field.default is attrs.NOTHING else text_of(field.default)
    return (
        [] if default is None else [describe_configs.ConfigSynonym(setting, default, describe_configs.DEFAULT_CONFIG)]
    )


def _value_of(node: NodeSettings, field: str) -> object:
    """Return a setting's value.

    None for `advertised.listeners` if it equals `listeners`, because then it was not set separately.
    """
    value = getattr(node, field)
    return None if field == "advertised_listeners" and value == node.listeners else value


def describe_all_brokers(
    entries: Iterable[ConfigEntry], synonyms: bool = False
) -> tuple[describe_configs.DescribedConfig, ...]:
    """Return the dynamic settings that apply to all brokers (Kafka's cluster-wide defaults)."""
    return _describe_settings(_dynamic(entries, describe_configs.DYNAMIC_DEFAULT_BROKER_CONFIG), synonyms)


def _dynamic(entries: Iterable[ConfigEntry], source: int) -> dict[str, list[describe_configs.ConfigSynonym]]:
    return {name: [describe_configs.ConfigSynonym(name, value, source)] for name, value in entries if type_of(name)}


def _describe_settings(
    places: Mapping[str, list[describe_configs.ConfigSynonym]], synonyms: bool
) -> tuple[describe_configs.DescribedConfig, ...]:
    """Return the settings sorted by name, each with the value of its first source.

    Throttle rates are described as read-only, as in Kafka 3.9.1, although they can be changed.
    """
    return tuple(_described_one(name, configured, synonyms) for name, configured in sorted(places.items()))


def _described_one(
    name: str, configured: Sequence[describe_configs.ConfigSynonym], synonyms: bool
) -> describe_configs.DescribedConfig:
    source, kind = configured[0].source, type_of(name)
    if is_secret(name) or name in UNKNOWN_TO_KAFKA:
        return describe_configs.DescribedConfig(name, None, kind is None, source, True, (), TYPES["PASSWORD"])
    return describe_configs.DescribedConfig(
        name,
        configured[0].value,
        kind is None or name.endswith("throttled.rate"),
        source,
        False,
        tuple(each for each in configured if each.value is not None) if synonyms else (),
        0 if kind is None else TYPES[kind.name],
    )


# -------------------------------------------------------------------------------------------------------- changes


def replace_overrides(changes: Sequence[alter_configs.ConfigChange]) -> tuple[ConfigEntry, ...]:
    """Return the overrides after AlterConfigs, which replaces all of them."""
    _check_changes(changes)
    return _sort_entries({change.name: change.value or "" for change in changes})


def alter_overrides(
    overrides: Iterable[ConfigEntry], changes: Sequence[alter_configs.ConfigChange]
) -> tuple[ConfigEntry, ...]:
    """Return the overrides after IncrementalAlterConfigs."""
    _check_changes(changes)
    entries = {entry.name: entry.value for entry in overrides}
    for change in changes:
        name, value = change.name, change.value or ""
        match change.config_operation:
            case alter_configs.SET:
                entries[name] = value
            case alter_configs.DELETE:
                entries.pop(name, None)
            case alter_configs.APPEND | alter_configs.SUBTRACT as operation:
                entries[name] = _as_list(entries, name, value, operation)
            case unknown:
                raise Refused(f"Unknown config operation type {unknown}")
    return _sort_entries(entries)


def _as_list(entries: Mapping[str, str], name: str, value: str, operation: int) -> str:
    """Return the new value of a list setting, with the items of `value` appended or removed."""
    if name not in CONFIGS or CONFIGS[name].type.name != "LIST":
        word = {alter_configs.APPEND: "append", alter_configs.SUBTRACT: "subtract"}[operation]
        raise InvalidConfig(f"Config value {word} is not allowed for config key: {name}")
    old = [item for item in entries.get(name, CONFIGS[name].default or "").split(",") if item]
    items = value.split(",")
    if operation == alter_configs.APPEND:
        return ",".join([*old, *(item for item in items if item not in old)])
    return ",".join(item for item in old if item not in items)


def _check_changes(changes: Sequence[alter_configs.ConfigChange]) -> None:
    if len({change.name for change in changes}) < len(changes):
        raise Refused("Error due to duplicate config keys")
    without = [
        change.name for change in changes if change.value is None and change.config_operation != alter_configs.DELETE
    ]
    if without:
        raise Refused(f"Null value not supported for : {','.join(without)}")


def _sort_entries(entries: Mapping[str, str]) -> tuple[ConfigEntry, ...]:
    return tuple(ConfigEntry(name, entries[name]) for name in sorted(entries))


def check_topic(topic: str, entries: Sequence[ConfigEntry], node: NodeSettings) -> None:
    """Check the overrides of a topic; `node` has the defaults.

    Raises:
        InvalidConfig: An override is invalid.
    """
    for name, value in entries:
        try:
            check_config(ConfigEntry(name, value))
        except InvalidConfig as wrong:
            if name not in CONFIGS:
                raise
            where = f"ConfigResource(type=TOPIC, name='{topic}')"
            raise InvalidConfig(f"Invalid config value for resource {where}: {wrong}") from None
    check_lags(entries, node)


def check_broker(broker: str, old: Iterable[ConfigEntry], new: Iterable[ConfigEntry], node: NodeSettings) -> None:
    """Check those overrides of a broker that are new (rule 3).

    Args:
        broker: Broker id as text, or ALL_BROKERS.
        node: Settings of the broker that checks the overrides.

    Raises:
        Refused: A new override is invalid or not dynamic.
    """
    for entry in new:
        if entry not in old:
            check_broker_config(entry, broker == ALL_BROKERS, node)
