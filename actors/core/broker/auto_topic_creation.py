"""Decide the settings and replicas of topics that are created on first use (Kafka's AutoTopicCreationManager).

Rule 1: the internal topics have their own settings. Other topics get the node's default partition count and replication
        factor.
Rule 2: a topic is created only if the number of live brokers is at least the topic's replication factor.
Rule 3: for a topic that exists or was just created, the client gets error code 5 (no leader yet) and retries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from actors.core.refusal import Refused
from actors.core.topic.topic_admin import Replicas, check_new_name, new_replicas
from actors.core.topic.topic_name import GROUP_METADATA, TRANSACTION_STATE
from messages import errors
from messages.cluster import ConfigEntry
from messages.node import NodeSettings


class Specification(NamedTuple):
    """The description of a topic to be created: number of partitions, replication factor and configs."""

    partitions: int
    replication_factor: int
    overrides: tuple[ConfigEntry, ...] = ()


def _group_metadata(settings: NodeSettings) -> Specification:
    overrides = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(settings.offsets_topic_segment_bytes),
    }
    return Specification(
        settings.offsets_topic_num_partitions, settings.offsets_topic_replication_factor, _entries(overrides)
    )


def _transaction_state(settings: NodeSettings) -> Specification:
    overrides = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(settings.transaction_state_log_min_isr),
        "segment.bytes": str(settings.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }
    return Specification(
        settings.transaction_state_log_num_partitions,
        settings.transaction_state_log_replication_factor,
        _entries(overrides),
    )


def _entries(overrides: dict[str, str]) -> tuple[ConfigEntry, ...]:
    return tuple(ConfigEntry(name, value) for name, value in overrides.items())


INTERNAL: dict[str, Callable[[NodeSettings], Specification]] = {
    GROUP_METADATA: _group_metadata,
    TRANSACTION_STATE: _transaction_state,
}
"""Specifications of the internal topics (rule 1)."""


def specification(settings: NodeSettings, topic: str) -> Specification:
    """Return the specification of a topic with this name (rule 1)."""
    if topic in INTERNAL:
        return INTERNAL[topic](settings)
    return Specification(settings.num_partitions, settings.default_replication_factor)


def plan_topic(
    settings: NodeSettings, topic: str, existing: Collection[str], brokers: Sequence[int]
) -> tuple[tuple[Replicas, ...], tuple[ConfigEntry, ...]]:
    """Return the replicas of each partition of a new topic, and its overrides.

    The replicas are assigned round-robin. The first broker depends on the number of existing topics.

    Args:
        settings: The broker's settings.
        topic: The name of the new topic.
        existing: The names of the existing topics.
        brokers: The ids of the live brokers.

    Raises:
        Refused: The name is invalid or collides with an existing topic, or too few brokers are alive (rule 2).
    """
    others = [name for name in existing if name != topic]
    check_new_name(topic, others)
    partitions, factor, overrides = specification(settings, topic)
    if len(brokers) < factor:
        raise Refused(
            f"Number of alive brokers '{len(brokers)}' does not meet the required replication factor '{factor}' for"
            f" topic '{topic}'. This error can be ignored if the cluster is starting up and not all brokers are up"
            " yet.",
            errors.INVALID_REPLICATION_FACTOR,
        )
    start = len(others) % len(brokers)
    return new_replicas(dict.fromkeys(brokers), partitions, factor, start, start), overrides
