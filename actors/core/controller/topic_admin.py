"""What may be asked of topics: names that are free, replicas of new partitions, of further ones (AdminZkClient).

Rule 1: what is refused raises ValueError (InvalidTopic, InvalidAssignment, TopicRefused) with Kafka's words.
Rule 2: chance is given in: `start` and `shift` are drawn by who asks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from actors.core.controller.replica_assignment import assign, extend
from actors.core.topic_name import check_name, collisions
from messages.cluster import PartitionAssignment, ReplicaAssignment
from messages.zookeeper import TopicAssignment

Replicas = tuple[int, ...]


class TopicRefused(ValueError):
    """A topic cannot be made or changed so; the text is what Kafka says."""


def check_new_name(topic: str, existing: Collection[str]) -> None:
    """Raise InvalidTopic or TopicRefused unless a topic can be called so beside those that exist."""
    check_name(topic)
    colliding = collisions(topic, existing)
    if colliding:
        raise TopicRefused(f"Topic '{topic}' collides with existing topics: {', '.join(colliding)}")


def new_replicas(
    brokers: Sequence[int], partitions: int, replication_factor: int, start: int, shift: int
) -> tuple[Replicas, ...]:
    """Replicas of each partition of a new topic on these brokers. Raises as `replica_assignment.assign`."""
    if not brokers:
        raise TopicRefused(f"Replication factor: {replication_factor} larger than available brokers: 0.")
    return assign(brokers, partitions, replication_factor, start, shift)


def further_replicas(
    described: TopicAssignment, partitions: int, brokers: Sequence[int], proposed: Sequence[Replicas] | None
) -> Sequence[Replicas]:
    """Replicas of the partitions to add to a topic, which is to have `partitions` then.

    `proposed` are replicas of all its partitions as the asker wants them, None where they are to be chosen. Raises
    TopicRefused.
    """
    topic, existing = described
    if any(partition.assignment.adding or partition.assignment.removing for partition in existing):
        raise TopicRefused(f"A partition reassignment is in progress for the topic '{topic}'.")
    count = len(existing)
    if partitions == count:
        raise TopicRefused(f"Topic already has {count} partitions.")
    if partitions < count:
        raise TopicRefused(f"Topic currently has {count} partitions, which is higher than the requested {partitions}.")
    partition_0 = dict(existing).get(0)
    if partition_0 is None:
        raise TopicRefused(
            f"Unexpected existing replica assignment for topic '{topic}', partition id 0 is missing. Add none, but"
            " delete the topic and create it anew."
        )
    if proposed is None:
        return extend(brokers, partition_0.replicas, count, partitions - count)
    added = proposed[count:]
    if len(added) != partitions - count:
        raise TopicRefused(
            f"Increasing the number of partitions by {partitions - count} but {len(added)} assignments provided."
        )
    unknown = sorted({replica for replicas in added for replica in replicas} - set(brokers))
    if unknown:
        raise TopicRefused(f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    factor = len(partition_0.replicas)
    uneven = [at for at, replicas in enumerate(added, count) if len(replicas) != factor]
    if uneven:
        factors = [len(added[at - count]) for at in uneven]
        raise TopicRefused(
            f"Inconsistent replication factor between partitions, partition 0 has {factor}"
            f" while partitions {uneven} have replication factors {factors}, respectively."
        )
    return added


def numbered(replicas: Sequence[Replicas], first: int = 0) -> tuple[PartitionAssignment, ...]:
    """The assignments of partitions numbered from `first`."""
    return tuple(PartitionAssignment(number, ReplicaAssignment(each)) for number, each in enumerate(replicas, first))
