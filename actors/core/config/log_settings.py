"""Compute the log settings of a topic from its overrides and the broker's defaults.

Rule: An override that Kafka would refuse is ignored and logged, because any client can write it to a znode.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from actors.core.config.topic_config import InvalidConfig, check_config
from messages.cluster import ConfigEntry
from messages.node import NodeSettings
from messages.partition import LogSettings
from messages.protocol_version import at_least, release_of
from messages.records import CODECS, PRODUCER

log = logging.getLogger("kafka.server.ConfigHandler")

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def log_settings(node: NodeSettings, topic: str, overrides: Iterable[ConfigEntry]) -> LogSettings:
    """Return the log settings of `topic`. If a default is set in several time units, the finest unit applies."""
    configured = {entry.name: entry.value.strip() for entry in overrides if _is_valid(topic, entry)}

    def number(name: str, default: int) -> int:
        return int(configured.get(name, default))

    cleanup = configured.get("cleanup.policy", node.log_cleanup_policy).replace(" ", "").split(",")
    timestamp_type = configured.get("message.timestamp.type", node.log_message_timestamp_type)
    return LogSettings(
        segment_bytes=number("segment.bytes", node.log_segment_bytes),
        segment_ms=number("segment.ms", _first(node.log_roll_ms, node.log_roll_hours * HOUR_MS)),
        segment_index_bytes=number("segment.index.bytes", node.log_index_size_max_bytes),
        index_interval_bytes=number("index.interval.bytes", node.log_index_interval_bytes),
        retention_ms=number("retention.ms", _retention_ms(node)),
        retention_bytes=number("retention.bytes", node.log_retention_bytes),
        max_message_bytes=number("max.message.bytes", node.message_max_bytes),
        min_insync_replicas=number("min.insync.replicas", node.min_insync_replicas),
        append_time=timestamp_type == "LogAppendTime",
        timestamp_difference_max_ms=number(
            "message.timestamp.difference.max.ms", node.log_message_timestamp_difference_max_ms
        ),
        compression_type=configured.get("compression.type", node.compression_type),
        compacted="compact" in cleanup,
        deleting="delete" in cleanup,
        lag=node.replica_lag_time_max_ms / 1000,
        min_cleanable_dirty_ratio=float(
            configured.get("min.cleanable.dirty.ratio", node.log_cleaner_min_cleanable_ratio)
        ),
        min_compaction_lag_ms=number("min.compaction.lag.ms", node.log_cleaner_min_compaction_lag_ms),
        max_compaction_lag_ms=number("max.compaction.lag.ms", node.log_cleaner_max_compaction_lag_ms),
        delete_retention_ms=number("delete.retention.ms", node.log_cleaner_delete_retention_ms),
        downconversion=configured.get(
            "message.downconversion.enable", str(node.log_message_downconversion_enable)
        ).lower()
        == "true",
        flush_messages=number("flush.messages", node.log_flush_interval_messages),
        flush_ms=number("flush.ms", _first(node.log_flush_interval_ms, node.log_flush_scheduler_interval_ms)),
        segment_jitter_ms=number(
            "segment.jitter.ms", _first(node.log_roll_jitter_ms, node.log_roll_jitter_hours * HOUR_MS)
        ),
        file_delete_delay_ms=number("file.delete.delay.ms", node.log_segment_delete_delay_ms),
        timestamp_before_max_ms=number("message.timestamp.before.max.ms", node.log_message_timestamp_before_max_ms),
        timestamp_after_max_ms=number("message.timestamp.after.max.ms", node.log_message_timestamp_after_max_ms),
        message_format=_message_format(node, configured.get("message.format.version")),
    )


def log_config(settings: LogSettings) -> tuple[int, ...]:
    """Return the fields of the storage package's LogConfig, in order."""
    return (
        settings.segment_bytes,
        min(settings.segment_ms, settings.max_compaction_lag_ms) if settings.compacted else settings.segment_ms,
        settings.segment_index_bytes,
        settings.index_interval_bytes,
        settings.retention_ms if settings.deleting else -1,
        settings.retention_bytes if settings.deleting else -1,
        _codec(settings.compression_type),
        settings.max_message_bytes,
        int(settings.compacted),
        round(settings.min_cleanable_dirty_ratio * 1_000_000),
        settings.min_compaction_lag_ms,
        settings.max_compaction_lag_ms,
        settings.delete_retention_ms,
        settings.flush_messages,
        settings.flush_ms,
        settings.segment_jitter_ms,
        settings.file_delete_delay_ms,
        settings.message_format,
    )


def _message_format(node: NodeSettings, version: str | None) -> int:
    """Return the format for a topic's `message.format.version`; a version above the protocol's is ignored, as by Kafka.

    Kafka 3.9 `TopicConfigHandler.excludedConfigs`, `MetadataVersion.highestSupportedRecordVersion`.
    """
    if version is None or release_of(version) > release_of(node.inter_broker_protocol_version):
        version = node.log_message_format_version
    return 2 if at_least(version, "0.11.0") else int(at_least(version, "0.10.0"))


def _codec(compression_type: str) -> int:
    """Return the number of the codec with which batches are stored; -1 keeps the producer's codec."""
    if compression_type == PRODUCER:
        return -1
    return CODECS.index("none" if compression_type == "uncompressed" else compression_type)


def _retention_ms(node: NodeSettings) -> int:
    minutes = node.log_retention_minutes
    configured = _first(
        node.log_retention_ms, node.log_retention_hours * HOUR_MS if minutes is None else minutes * MINUTE_MS
    )
    return max(configured, -1)


def _first(configured: int | None, otherwise: int) -> int:
    return otherwise if configured is None else configured


def _is_valid(topic: str, entry: ConfigEntry) -> bool:
    try:
        check_config(entry)
    except InvalidConfig as error:
        log.warning("Using the default instead of an invalid config of topic %s: %s", topic, error)
        return False
    return True
