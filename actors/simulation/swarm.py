"""Swarm testing: each seed selects the cluster's size, its settings, the kinds of actions and their frequencies.

Rule 1: the values that may be drawn are data: `CLUSTERS`, `NODE_SETTINGS`, `TOPIC_CONFIGS`. The first value is the
        default.
Rule 2: a drawn value is part of the schedule, so the schedule alone is enough to repeat the run. Defaults are left out
        of the schedule.
Rule 3: a seed that leaves actions out reaches states that those actions would disturb. A seed that repeats one action
        reaches states that need this action many times.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from actors.simulation.schedule import Schedule

Choices = Mapping[str, tuple[int | str, ...]]
"""Settings, each with the values from which a seed selects one; the first is the default."""

CLUSTERS: tuple[tuple[int, int], ...] = ((3, 0), (3, 0), (3, 0), (3, 2), (4, 0), (4, 2), (5, 3), (2, 0))
"""Numbers of brokers and racks."""

LATENCIES = (0.0002, 0.0002, 0.002, 0.02)
"""Minimum delays of each message in seconds."""

DISTANCES = (0.01, 0.1, 0.3)
"""Additional delays in seconds of messages between two distant nodes."""

DRIFTS = (0.99, 0.999, 1.001, 1.02)
"""Rates of drifting clocks."""

NODE_SETTINGS: Choices = {
    "replica_lag_time_max_ms": (10_000, 10_000, 4_000, 16_000),
    "zookeeper_session_timeout_ms": (6_000, 6_000, 4_000, 12_000),
    "min_insync_replicas": (1, 1, 2),
    "unclean_leader_election_enable": (0, 0, 0, 0, 1),
    "delete_topic_enable": (1, 1, 1, 1, 1, 1, 1, 1, 1, 0),
    "auto_leader_rebalance_enable": (1, 1, 1, 0),
    "leader_imbalance_check_interval_seconds": (15, 15, 5, 40),
    "controller_socket_timeout_ms": (10_000, 10_000, 3_000),
    "controlled_shutdown_max_retries": (3, 3, 1),
    "num_replica_fetchers": (1, 1, 2),
    "replica_fetch_max_bytes": (1_048_576, 1_048_576, 2_048),
    "replica_fetch_response_max_bytes": (10_485_760, 10_485_760, 8_192),
    "replica_fetch_wait_max_ms": (500, 500, 100, 2_000),
    "replica_high_watermark_checkpoint_interval_ms": (5_000, 5_000, 1_000),
    "log_flush_offset_checkpoint_interval_ms": (10_000, 10_000, 3_000),
    "log_segment_bytes": (1_073_741_824, 1_073_741_824, 4_096),
    "log_segment_delete_delay_ms": (10_000, 10_000, 1_000),
    "group_initial_rebalance_delay_ms": (500, 500, 0, 3_000),
    "transaction_state_log_load_buffer_size": (5_242_880, 300),
    "max_incremental_fetch_session_cache_slots": (1_000, 1_000, 1),
}
"""Choices for settings of all nodes."""

TOPIC_CONFIGS: Choices = {
    "retention.ms": ("604800000", "700000000"),
    "min.insync.replicas": ("1", "2"),
    "unclean.leader.election.enable": ("false", "false", "true"),
    "segment.bytes": ("1073741824", "2048"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "compression.type": ("producer", "gzip", "uncompressed"),
    "max.message.bytes": ("1048588", "4096"),
    "index.interval.bytes": ("4096", "256"),
}
"""Choices for the overrides that `configure` sets."""

LOG_SETTINGS: Choices = {
    "log_cleaner_backoff_ms": (500, 2_000),
    "log_cleaner_threads": (1, 2),
    "log_cleaner_dedupe_buffer_size": (134_217_728, 134_217_728, 100),
    "log_cleaner_io_buffer_size": (524_288, 400),
    "log_initial_task_delay_ms": (1_000,),
    "log_retention_check_interval_ms": (2_000, 5_000),
    "offsets_topic_segment_bytes": (104_857_600, 2_000),
    "transaction_state_log_segment_bytes": (104_857_600, 2_000),
}
"""Choices for settings of all nodes in runs where logs are cleaned."""

CLEANED_CONFIGS: Choices = {
    "cleanup.policy": ("compact", "compact", "compact,delete"),
    "segment.ms": (500, 2_000),
    "min.cleanable.dirty.ratio": ("0.01", "0.5"),
    "min.compaction.lag.ms": (0, 0, 2_000),
    "delete.retention.ms": (100, 100, 86_400_000),
}
"""Choices for the configs of a topic that is cleaned."""

RETENTION_CONFIGS: Choices = {
    "cleanup.policy": ("delete", "delete", "compact,delete"),
    "segment.ms": (500, 2_000),
    "retention.ms": (604_800_000, 3_000, 12_000),
    "retention.bytes": (-1, -1, 500),
}
"""Choices for the configs of a topic with a short retention."""

WEIGHTS = (0, 1, 1, 2, 6)
"""Factors for the weight of an action."""


def draw_surroundings(chance: random.Random, brokers: int | None) -> Schedule:
    """Return a schedule without actions, whose cluster, network, clocks and settings are drawn.

    If given, `brokers` is the number of nodes.
    """
    drawn, racks = chance.choice(CLUSTERS)
    brokers = drawn if brokers is None else brokers
    settings = [drawn for drawn in draw_settings(chance, NODE_SETTINGS) if drawn[1] != NODE_SETTINGS[drawn[0]][0]]
    nodes = [node for node in range(brokers) if chance.random() < 0.2]
    distances = []
    if brokers > 1 and chance.random() < 0.25:
        one, other = sorted(chance.sample(range(brokers), 2))
        distances.append((one, other, chance.choice(DISTANCES)))
    return Schedule(
        brokers,
        racks=racks,
        latency=chance.choice(LATENCIES),
        settings=tuple(settings),
        clocks=tuple((node, chance.choice(DRIFTS)) for node in nodes),
        distances=tuple(distances),
    )


def draw_weights(chance: random.Random, weights: Sequence[int]) -> list[int]:
    """Draw the weight of each action; at least one is not 0."""
    drawn = [weight * chance.choice(WEIGHTS) for weight in weights]
    return drawn if any(drawn) else list(weights)


def draw_settings(chance: random.Random, choices: Choices) -> tuple[tuple[str, int | str], ...]:
    """Draw a value of each setting."""
    return tuple((name, chance.choice(values)) for name, values in choices.items())


def draw_entries(chance: random.Random, choices: Choices) -> str:
    """Draw several config overrides for a topic, as name=value, separated by semicolons."""
    return ";".join(f"{name}={value}" for name, value in draw_settings(chance, choices))


def draw_config(chance: random.Random) -> str:
    """Draw a config override for a topic, as name=value."""
    name, values = chance.choice([*TOPIC_CONFIGS.items()])
    return f"{name}={chance.choice(values)}"
