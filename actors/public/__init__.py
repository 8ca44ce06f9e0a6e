"""Kafka clusters for tests, without Java; a cluster after the first one is ready in a tenth of a second.

    from kafka_actors import KafkaCluster

    with KafkaCluster() as cluster:
        cluster.create_topic("orders", partitions=3)
        ...  # any Kafka client, at cluster.bootstrap_servers
        cluster.kill(cluster.leader_of("orders", 0))

This package is the only part of the project that users' programs import; they import it as `kafka_actors`. The internal
packages run in another process. Except for `simulated` and `trace`, nothing here imports them, so a user's program can
have its own packages with the names `messages`, `actors` or `spark`.
"""

from typing import TYPE_CHECKING, Any

from .kafka_cluster import ClusterError, KafkaCluster, UnknownPartition
from .operations import ReceivedRequest

if TYPE_CHECKING:
    from .asynchronous import AsyncKafkaCluster

__all__ = ["AsyncKafkaCluster", "ClusterError", "KafkaCluster", "ReceivedRequest", "UnknownPartition"]


def __getattr__(name: str) -> Any:
    """Import AsyncKafkaCluster at its first use, because importing asyncio takes longer than all other imports."""
    if name != "AsyncKafkaCluster":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .asynchronous import AsyncKafkaCluster

    return AsyncKafkaCluster
