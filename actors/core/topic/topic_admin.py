"""Validate new topics, new partitions and replica assignments, as Kafka's AdminZkClient does.

Rule 1: A refused request raises Refused (InvalidTopic, InvalidAssignment, TopicRefused) with Kafka's message and error
        code.
Rule 2: Nothing here is random: the caller chooses `start` and `shift`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from actors.core.refusal import Refused
from actors.core.topic.replica_assignment import InvalidAssignment, Racks, assign, extend
from actors.core.topic.topic_name import check_name, collisions
from messages import errors
from messages.cluster import PartitionAssignment, ReplicaAssignment
from messages.parts import MAX_ENTRIES
from messages.zookeeper import TopicAssignment

Replicas = tuple[int, ...]


class TopicRefused(Refused):
    """A topic cannot be created or changed as requested."""


def check_new_name(topic: str, existing: Collection[str]) -> None:
    """Check the name of a new topic.

    Raises:
        InvalidTopic: The name is invalid.
        TopicRefused: The name collides with an existing topic.
    """
    check_name(topic)
    colliding = collisions(topic, existing)
    if colliding:
        raise TopicRefused(
            f"Topic '{topic}' collides with existing topics: {', '.join(colliding)}", errors.INVALID_TOPIC
        )


def check_size(partitions: int) -> None:
    """Check that a topic's metadata fits into a request.

    Raises:
        TopicRefused: The topic would have more than MAX_ENTRIES partitions.
    """
    if partitions > MAX_ENTRIES:
        raise TopicRefused(f"Number of partitions must be no larger than {MAX_ENTRIES}.", errors.INVALID_PARTITIONS)


def new_replicas(
    racks: Racks, partitions: int, replication_factor: int, start: int, shift: int
) -> tuple[Replicas, ...]:
    """Return the replicas of each partition of a new topic. Raises the errors of `replica_assignment.assign`.

    Raises:
        TopicRefused: The topic is too large, or no broker is alive.
    """
    check_size(partitions)
    if not racks:
        raise TopicRefused(
            f"Replication factor: {replication_factor} larger than available brokers: 0.",
            errors.INVALID_REPLICATION_FACTOR,
        )
    return assign(racks, partitions, replication_factor, start, shift)


def requested_replicas(assignments: Sequence[tuple[int, Replicas]]) -> tuple[Replicas, ...]:
    """Return the replicas of a new topic's partitions, as given by the client, ordered by partition number.

    Kafka accepts unknown broker ids; their replicas are offline until these brokers start.

    Raises:
        InvalidAssignment: The assignment is invalid.
    """
    by_number = dict(assignments)
    if len({len(replicas) for replicas in by_number.values()}) != 1:
        raise InvalidAssignment("All partitions should have the same number of replicas")
    for replicas in by_number.values():
        if len(set(replicas)) != len(replicas):
            raise InvalidAssignment(f"Duplicate replica assignment found: {', '.join(map(str, replicas))}")
    if sorted(by_number) != list(range(len(assignments))):
        raise InvalidAssignment("partitions should be a consecutive 0-based integer sequence")
    return tuple(by_number[number] for number in range(len(by_number)))


def further_replicas(
    described: TopicAssignment, partitions: int, racks: Racks, added: Sequence[Replicas] | None
) -> Sequence[Replicas]:
    """Return the replicas of the partitions to add to a topic.

    Args:
        partitions: Number of partitions afterwards.
        added: Replicas given by the client; None to choose them.

    Raises:
        TopicRefused: The topic is being reassigned, or the number of partitions is invalid.
        InvalidAssignment: The given replicas are invalid.
    """
    topic, existing, *_ = described
    if any(partition.assignment.adding or partition.assignment.removing for partition in existing):
        raise TopicRefused(
            f"A partition reassignment is in progress for the topic '{topic}'.", errors.REASSIGNMENT_IN_PROGRESS
        )
    count = len(existing)
    check_size(partitions)
    if partitions == count:
        raise TopicRefused(f"Topic already has {count} partitions.", errors.INVALID_PARTITIONS)
    if partitions < count:
        raise TopicRefused(
            f"Topic currently has {count} partitions, which is higher than the requested {partitions}.",
            errors.INVALID_PARTITIONS,
        )
    partition_0 = dict(existing).get(0)
    if partition_0 is None:
        raise TopicRefused(
            f"Unexpected existing replica assignment for topic '{topic}', partition id 0 is missing. Delete the"
            " topic and create it again."
        )
    if added is None:
        return extend(racks, partition_0.replicas, count, partitions - count)
    unknown = sorted({replica for replicas in added for replica in replicas} - set(racks))
    if unknown:
        raise InvalidAssignment(f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    if len(added) != partitions - count:
        raise InvalidAssignment(
            f"Increasing the number of partitions by {partitions - count} but {len(added)} assignments provided."
        )
    for number, replicas in enumerate(added, count):
        if not replicas:
            raise InvalidAssignment(f"Cannot have replication factor of 0 for partition id {number}.")
        if len(set(replicas)) != len(replicas):
            raise InvalidAssignment(
                f"Duplicate brokers not allowed in replica assignment: {', '.join(map(str, replicas))} for partition"
                f" id {number}."
            )
    factor = len(partition_0.replicas)
    uneven = [at for at, replicas in enumerate(added, count) if len(replicas) != factor]
    if uneven:
        factors = [len(added[at - count]) for at in uneven]
        raise InvalidAssignment(
            f"Inconsistent replication factor between partitions, partition 0 has {factor}"
            f" while partitions {uneven} have replication factors {factors}, respectively."
        )
    return added


def number_partitions(replicas: Sequence[Replicas], first: int = 0) -> tuple[PartitionAssignment, ...]:
    """Return the assignments of partitions numbered from `first`."""
    return tuple(PartitionAssignment(number, ReplicaAssignment(each)) for number, each in enumerate(replicas, first))
