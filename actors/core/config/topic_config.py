"""The configs of topics with their types and defaults, and Kafka's errors for invalid values (Kafka 3.9 LogConfig)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from actors.core.refusal import Refused
from messages.cluster import ConfigEntry
from messages.error_codes import INVALID_CONFIG
from messages.records import COMPRESSION_TYPES

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


class InvalidConfig(Refused):
    """The value of a topic config is invalid."""

    code = INVALID_CONFIG


class ConfigType(NamedTuple):
    """The type of a config: the type's name in Kafka, and a function that returns what is wrong with a value."""

    type: str
    problem: Callable[[str], str | None]


def number(kind: str, low: float | None, high: float | None = None) -> ConfigType:
    """Return the type of a number between `low` and `high`; None for no limit."""
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

CONFIGS: dict[str, ConfigType] = {
    "cleanup.policy": _list_of("compact", "delete"),
    "compression.gzip.level": ConfigType("INT", _gzip_level),
    "compression.lz4.level": number("INT", 1, 17),
    "compression.type": _one_of(*COMPRESSION_TYPES),
    "compression.zstd.level": number("INT", -131072, 22),
    "delete.retention.ms": TIME,
    "file.delete.delay.ms": TIME,
    "flush.messages": number("LONG", 1),
    "flush.ms": TIME,
    "follower.replication.throttled.replicas": _throttled("follower.replication.throttled.replicas"),
    "index.interval.bytes": number("INT", 0),
    "leader.replication.throttled.replicas": _throttled("leader.replication.throttled.replicas"),
    "local.retention.bytes": number("LONG", -2),
    "local.retention.ms": number("LONG", -2),
    "max.compaction.lag.ms": number("LONG", 1),
    "max.message.bytes": number("INT", 0),
    "message.downconversion.enable": BOOLEAN,
    "message.format.version": ConfigType("STRING", _format_version),
    "message.timestamp.after.max.ms": TIME,
    "message.timestamp.before.max.ms": TIME,
    "message.timestamp.difference.max.ms": TIME,
    "message.timestamp.type": _one_of("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": number("DOUBLE", 0, 1),
    "min.compaction.lag.ms": TIME,
    "min.insync.replicas": number("INT", 1),
    "preallocate": BOOLEAN,
    "remote.log.copy.disable": BOOLEAN,
    "remote.log.delete.on.disable": BOOLEAN,
    "remote.storage.enable": BOOLEAN,
    "retention.bytes": number("LONG", None),
    "retention.ms": number("LONG", -1),
    "segment.bytes": number("INT", 14),
    "segment.index.bytes": number("INT", 4),
    "segment.jitter.ms": TIME,
    "segment.ms": number("LONG", 1),
    "unclean.leader.election.enable": BOOLEAN,
}
"""Topic config -> type of its value."""

FOREVER = str(2**63 - 1)

FROM_SERVER: dict[str, tuple[str, str]] = {
    "cleanup.policy": ("log.cleanup.policy", "delete"),
    "compression.gzip.level": ("compression.gzip.level", "-1"),
    "compression.lz4.level": ("compression.lz4.level", "9"),
    "compression.type": ("compression.type", "producer"),
    "compression.zstd.level": ("compression.zstd.level", "3"),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms", "86400000"),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms", "60000"),
    "flush.messages": ("log.flush.interval.messages", FOREVER),
    "flush.ms": ("log.flush.interval.ms", FOREVER),
    "follower.replication.throttled.replicas": ("", ""),
    "index.interval.bytes": ("log.index.interval.bytes", "4096"),
    "leader.replication.throttled.replicas": ("", ""),
    "local.retention.bytes": ("log.local.retention.bytes", "-2"),
    "local.retention.ms": ("log.local.retention.ms", "-2"),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms", FOREVER),
    "max.message.bytes": ("message.max.bytes", "1048588"),
    "message.downconversion.enable": ("log.message.downconversion.enable", "true"),
    "message.format.version": ("log.message.format.version", "3.0-IV1"),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms", FOREVER),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms", FOREVER),
    "message.timestamp.difference.max.ms": ("log.message.timestamp.difference.max.ms", FOREVER),
    "message.timestamp.type": ("log.message.timestamp.type", "CreateTime"),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio", "0.5"),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms", "0"),
    "min.insync.replicas": ("min.insync.replicas", "1"),
    "preallocate": ("log.preallocate", "false"),
    "remote.log.copy.disable": ("", "false"),
    "remote.log.delete.on.disable": ("", "false"),
    "remote.storage.enable": ("", "false"),
    "retention.bytes": ("log.retention.bytes", "-1"),
    "retention.ms": ("log.retention.ms", "604800000"),
    "segment.bytes": ("log.segment.bytes", "1073741824"),
    "segment.index.bytes": ("log.index.size.max.bytes", "10485760"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "0"),
    "segment.ms": ("log.roll.ms", "604800000"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable", "false"),
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
