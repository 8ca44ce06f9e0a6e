"""The overrides a topic may have, as data, and Kafka's words for a wrong one (LogConfig of Kafka 3.9)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from actors.core.refusal import Refused
from messages.cluster import ConfigEntry
from messages.errors import INVALID_CONFIG
from messages.records import COMPRESSION_TYPES

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


class InvalidConfig(Refused):
    """A topic cannot have this override."""

    code = INVALID_CONFIG


class Kind(NamedTuple):
    """How a value is read (its type in Kafka's words), and what is wrong with it, if anything."""

    type: str
    problem: Callable[[str], str | None]


def number(kind: str, low: float | None, high: float | None = None) -> Kind:
    """A number between `low` and `high`, where they are given."""
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

    return Kind(kind, problem)


def _one_of(*choices: str) -> Kind:
    def problem(text: str) -> str | None:
        return None if text in choices else f"String must be one of: {', '.join(choices)}"

    return Kind("STRING", problem)


def _list_of(*choices: str) -> Kind:
    def problem(text: str) -> str | None:
        wrong = [item for item in text.split(",") if item.strip() not in choices]
        return f"String must be one of: {', '.join(choices)}" if wrong else None

    return Kind("LIST", problem)


def _boolean(text: str) -> str | None:
    return None if text.lower() in ("true", "false") else "Expected value to be either true or false"


def _gzip_level(text: str) -> str | None:
    problem = number("INT", None).problem(text)
    if problem is None and int(text) != -1 and not 1 <= int(text) <= 9:
        return "Value must be between 1 and 9 or equal to -1"
    return problem


def _throttled(name: str) -> Kind:
    def problem(text: str) -> str | None:
        if text == "*" or not text or re.fullmatch(r"[0-9]+:[0-9]+(,\s*[0-9]+:[0-9]+)*", text):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format:"
            " [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return Kind("LIST", problem)


def _format_version(text: str) -> str | None:
    return (
        None
        if re.fullmatch(r"(0\.(8|9|10|11)\.[0-9]+|[1-4]\.[0-9]+)(\.[0-9]+)*(-IV[0-9])?", text)
        else (f"Version {text} is not a valid version")
    )


BOOLEAN = Kind("BOOLEAN", _boolean)
TEXT = Kind("STRING", lambda text: None)
TIME = number("LONG", 0)

CONFIGS: dict[str, Kind] = {
    "cleanup.policy": _list_of("compact", "delete"),
    "compression.gzip.level": Kind("INT", _gzip_level),
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
    "message.format.version": Kind("STRING", _format_version),
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
"""Every override by name."""


def check_config(entry: ConfigEntry) -> None:
    """Raise InvalidConfig unless a topic can have this override."""
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
