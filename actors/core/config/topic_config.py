"""The configs of topics with their types and defaults, and Kafka's errors for invalid values (Kafka 3.9 LogConfig)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from actors.core.refusal import Refused
from messages import errors
from messages.cluster import ConfigEntry
from messages.node_settings import BOOLEAN, LONG_MAX, SETTINGS, NodeSettings, Setting, SettingType, integer, long


class InvalidConfig(Refused):
    """The value of a topic config is invalid."""

    code = errors.INVALID_CONFIG


def _gzip_level(text: str) -> int:
    level = int(str(integer().parse(text)))
    if level != -1 and not 1 <= level <= 9:
        raise ValueError("Value must be between 1 and 9 or equal to -1")
    return level


def _throttled_replicas(name: str) -> SettingType:
    def parse(text: str) -> str:
        if text and text != "*" and not re.fullmatch(r"[0-9]+:[0-9]+(,\s*[0-9]+:[0-9]+)*", text):
            raise ValueError(
                f"{name} must be the literal '*' or a list of replicas in the following format:"
                " [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
        return text

    return SettingType("LIST", "* or partition:broker pairs", parse)


MIN_LAG, MAX_LAG = "min.compaction.lag.ms", "max.compaction.lag.ms"
TIME = long(0)
FOREVER = str(LONG_MAX)
_GZIP_LEVEL = SettingType("INT", "-1 or a whole number from 1 to 9", _gzip_level)

_OTHERS = (
    Setting("compression.gzip.level", _GZIP_LEVEL, "-1", topic="compression.gzip.level"),
    Setting("compression.lz4.level", integer(1, 17), "9", topic="compression.lz4.level"),
    Setting("compression.zstd.level", integer(-131072, 22), "3", topic="compression.zstd.level"),
    Setting("log.flush.interval.ms", TIME, FOREVER, topic="flush.ms"),
    Setting("log.local.retention.bytes", long(-2), "-2", topic="local.retention.bytes"),
    Setting("log.local.retention.ms", long(-2), "-2", topic="local.retention.ms"),
    Setting("log.preallocate", BOOLEAN, "false", topic="preallocate"),
    Setting("log.retention.ms", long(-1), "604800000", topic="retention.ms"),
    Setting("log.roll.jitter.ms", TIME, "0", topic="segment.jitter.ms"),
    Setting("log.roll.ms", long(1), "604800000", topic="segment.ms"),
    *(
        Setting("", BOOLEAN, "false", topic=name)
        for name in ("remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable")
    ),
    *(
        Setting("", _throttled_replicas(name), "", topic=name)
        for name in ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
    ),
)
"""The topic configs whose broker setting has no field, another range or another default; a missing name means none."""

CONFIGS: dict[str, Setting] = {
    each.topic: each
    for each in sorted((*filter(lambda each: each.topic, SETTINGS), *_OTHERS), key=lambda each: each.topic)
}
"""Topic config -> its type, Kafka's default, and the broker setting with the same meaning (`name`); sorted."""

UNSAID = ("flush.ms", "retention.ms", "segment.jitter.ms", "segment.ms")
"""Topic configs whose broker setting has no default; other broker settings apply then."""


def check_lags(entries: Iterable[ConfigEntry], node: NodeSettings) -> None:
    """Check that a topic's records may be cleaned before they must be; raises InvalidConfig."""
    configured = {entry.name: entry.value.strip() for entry in entries}
    shortest = int(configured.get(MIN_LAG, node.log_cleaner_min_compaction_lag_ms))
    longest = int(configured.get(MAX_LAG, node.log_cleaner_max_compaction_lag_ms))
    if shortest > longest:
        raise InvalidConfig(f"conflict topic config setting {MIN_LAG} ({shortest}) > {MAX_LAG} ({longest})")


def check_config(entry: ConfigEntry) -> None:
    """Check an override of a topic.

    Raises:
        InvalidConfig: The name or the value is invalid.
    """
    config = CONFIGS.get(entry.name)
    if config is None:
        raise InvalidConfig(f"Unknown topic config name: {entry.name}")
    shown = entry.value.strip()
    if entry.name == "remote.storage.enable" and shown.lower() == "true":
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    problem = config.type.problem(shown)
    if problem is not None:
        if config.type.name == "DOUBLE" and not problem.startswith("Not a"):
            shown = str(float(shown))
        elif problem.endswith("..."):
            shown = f"[{shown}]"
        raise InvalidConfig(f"Invalid value {shown} for configuration {entry.name}: {problem}")
