"""The configs of topics with their types and defaults, and Kafka's errors for invalid values (Kafka 3.9 LogConfig)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from actors.core.config.server_defaults import default_of, field_of
from actors.core.refusal import Refused
from messages import errors
from messages.cluster import ConfigEntry
from messages.records import COMPRESSION_TYPES

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


class InvalidConfig(Refused):
    """The value of a topic config is invalid."""

    code = errors.INVALID_CONFIG


class ConfigType(NamedTuple):
    """The type of a config: its name in Kafka, and a function that returns the error message for an invalid value."""

    type: str
    problem: Callable[[str], str | None]


class TopicSetting(NamedTuple):
    """The declaration of a topic config: its type and its default.

    Attributes:
        kind: The type of its value.
        server: The broker setting with the same meaning; "" if there is none.
        default: Kafka's default; None if the default of the broker setting applies.
    """

    kind: ConfigType
    server: str = ""
    default: str | None = None


def number(kind: str, low: float | None, high: float | None = None) -> ConfigType:
    """Return the type of a number between `low` and `high`; a limit of None means no limit."""
    limit = INT_MAX if kind == "INT" else LONG_MAX

    def problem(text: str) -> str | None:
        try:
            value = float(text) if kind == "DOUBLE" else int(text)
        except ValueError:
            return f"Not a number of type {kind}"
        if kind != "DOUBLE" and not -limit - 1 <= value <= limit:
            return f"Not a number of type {kind}"
        if low is not None and value < low:
            return f"Value must be at least {low}"
        if high is not None and value > high:
            return f"Value must be no more than {high}"
        return None

    return ConfigType(kind, problem)


def _one_of(*choices: str) -> ConfigType:
    def problem(text: str) -> str | None:
        return None if text in choices else f"String must be one of: {', '.join(choices)}"

    return ConfigType("STRING", problem)


def _list_of(*choices: str) -> ConfigType:
    def problem(text: str) -> str | None:
        wrong = [item for item in text.split(",") if item.strip() not in choices]
        return f"String must be one of: {', '.join(choices)}" if wrong else None

    return ConfigType("LIST", problem)


def _boolean(text: str) -> str | None:
    return None if text.lower() in ("true", "false") else "Expected value to be either true or false"


def _gzip_level(text: str) -> str | None:
    problem = number("INT", None).problem(text)
    if problem is None and int(text) != -1 and not 1 <= int(text) <= 9:
        return "Value must be between 1 and 9 or equal to -1"
    return problem


def _throttled(name: str) -> ConfigType:
    def problem(text: str) -> str | None:
        if text == "*" or not text or re.fullmatch(r"[0-9]+:[0-9]+(,\s*[0-9]+:[0-9]+)*", text):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format:"
            " [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return ConfigType("LIST", problem)


def _format_version(text: str) -> str | None:
    return (
        None
        if re.fullmatch(r"(0\.(8|9|10|11)\.[0-9]+|[1-4]\.[0-9]+)(\.[0-9]+)*(-IV[0-9])?", text)
        else (f"Version {text} is not a valid version")
    )


BOOLEAN = ConfigType("BOOLEAN", _boolean)
TEXT = ConfigType("STRING", lambda text: None)
TIME = number("LONG", 0)

FOREVER = str(2**63 - 1)

SETTINGS: dict[str, TopicSetting] = {
    "cleanup.policy": TopicSetting(_list_of("compact", "delete"), "log.cleanup.policy"),
    "compression.gzip.level": TopicSetting(ConfigType("INT", _gzip_level), "compression.gzip.level", "-1"),
    "compression.lz4.level": TopicSetting(number("INT", 1, 17), "compression.lz4.level", "9"),
    "compression.type": TopicSetting(_one_of(*COMPRESSION_TYPES), "compression.type"),
    "compression.zstd.level": TopicSetting(number("INT", -131072, 22), "compression.zstd.level", "3"),
    "delete.retention.ms": TopicSetting(TIME, "log.cleaner.delete.retention.ms", "86400000"),
    "file.delete.delay.ms": TopicSetting(TIME, "log.segment.delete.delay.ms"),
    "flush.messages": TopicSetting(number("LONG", 1), "log.flush.interval.messages", FOREVER),
    "flush.ms": TopicSetting(TIME, "log.flush.interval.ms", FOREVER),
    "follower.replication.throttled.replicas": TopicSetting(
        _throttled("follower.replication.throttled.replicas"), default=""
    ),
    "index.interval.bytes": TopicSetting(number("INT", 0), "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": TopicSetting(
        _throttled("leader.replication.throttled.replicas"), default=""
    ),
    "local.retention.bytes": TopicSetting(number("LONG", -2), "log.local.retention.bytes", "-2"),
    "local.retention.ms": TopicSetting(number("LONG", -2), "log.local.retention.ms", "-2"),
    "max.compaction.lag.ms": TopicSetting(number("LONG", 1), "log.cleaner.max.compaction.lag.ms", FOREVER),
    "max.message.bytes": TopicSetting(number("INT", 0), "message.max.bytes"),
    "message.downconversion.enable": TopicSetting(BOOLEAN, "log.message.downconversion.enable", "true"),
    "message.format.version": TopicSetting(
        ConfigType("STRING", _format_version), "log.message.format.version", "3.0-IV1"
    ),
    "message.timestamp.after.max.ms": TopicSetting(TIME, "log.message.timestamp.after.max.ms", FOREVER),
    "message.timestamp.before.max.ms": TopicSetting(TIME, "log.message.timestamp.before.max.ms", FOREVER),
    "message.timestamp.difference.max.ms": TopicSetting(TIME, "log.message.timestamp.difference.max.ms"),
    "message.timestamp.type": TopicSetting(_one_of("CreateTime", "LogAppendTime"), "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": TopicSetting(number("DOUBLE", 0, 1), "log.cleaner.min.cleanable.ratio", "0.5"),
    "min.compaction.lag.ms": TopicSetting(TIME, "log.cleaner.min.compaction.lag.ms", "0"),
    "min.insync.replicas": TopicSetting(number("INT", 1), "min.insync.replicas"),
    "preallocate": TopicSetting(BOOLEAN, "log.preallocate", "false"),
    "remote.log.copy.disable": TopicSetting(BOOLEAN, default="false"),
    "remote.log.delete.on.disable": TopicSetting(BOOLEAN, default="false"),
    "remote.storage.enable": TopicSetting(BOOLEAN, default="false"),
    "retention.bytes": TopicSetting(number("LONG", None), "log.retention.bytes"),
    "retention.ms": TopicSetting(number("LONG", -1), "log.retention.ms", "604800000"),
    "segment.bytes": TopicSetting(number("INT", 14), "log.segment.bytes"),
    "segment.index.bytes": TopicSetting(number("INT", 4), "log.index.size.max.bytes"),
    "segment.jitter.ms": TopicSetting(TIME, "log.roll.jitter.ms", "0"),
    "segment.ms": TopicSetting(number("LONG", 1), "log.roll.ms", "604800000"),
    "unclean.leader.election.enable": TopicSetting(BOOLEAN, "unclean.leader.election.enable"),
}
"""The configs of topics."""

CONFIGS: dict[str, ConfigType] = {name: each.kind for name, each in SETTINGS.items()}
"""Topic config -> type of its value."""

FROM_SERVER: dict[str, tuple[str, str]] = {
    name: (each.server, (default_of(field_of(each.server)) or "") if each.default is None else each.default)
    for name, each in SETTINGS.items()
}
"""Topic config -> the broker setting with the same meaning ("" for none), and Kafka's default."""

UNSAID = ("flush.ms", "retention.ms", "segment.jitter.ms", "segment.ms")
"""Topic configs whose broker setting has no default; other broker settings apply then."""


def check_config(entry: ConfigEntry) -> None:
    """Check an override of a topic.

    Raises:
        InvalidConfig: The name or the value is invalid.
    """
    kind = CONFIGS.get(entry.name)
    if kind is None:
        raise InvalidConfig(f"Unknown topic config name: {entry.name}")
    problem = kind.problem(entry.value.strip())
    if problem is not None:
        shown = entry.value.strip()
        if kind.type == "DOUBLE" and not problem.startswith("Not a"):
            shown = str(float(shown))
        elif problem.endswith("..."):
            shown = f"[{shown}]"
        raise InvalidConfig(f"Invalid value {shown} for configuration {entry.name}: {problem}")
