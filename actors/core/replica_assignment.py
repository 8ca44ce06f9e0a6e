"""Which brokers hold the replicas of new partitions, as Kafka's admin tools spread them (AdminUtils, rack-unaware).

Rule 1: first replicas go round the brokers, beginning at `start`.
Rule 2: the further replicas of a partition follow its first at a distance that begins at `shift` + 1 and grows by one
        each time the first replicas have gone round once, so that the same brokers do not always stand together.
Rule 3: `start` and `shift` are drawn by who asks; partitions that are added to a topic go on from its partition 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.core.refusal import Refused
from messages.errors import INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR


class InvalidAssignment(Refused):
    """Partitions cannot be assigned so."""

    code = INVALID_REPLICA_ASSIGNMENT


def assign(
    brokers: Sequence[int], partitions: int, replication_factor: int, start: int, shift: int, first_partition: int = 0
) -> tuple[tuple[int, ...], ...]:
    """Replicas of each of `partitions` new partitions, the first of them numbered `first_partition`, preferred first.

    `brokers` are ids, in the order in which to go round. InvalidAssignment where there are too few.
    """
    count = len(brokers)
    if partitions <= 0:
        raise InvalidAssignment("Number of partitions must be larger than 0.", INVALID_PARTITIONS)
    if replication_factor <= 0:
        raise InvalidAssignment("Replication factor must be larger than 0.", INVALID_REPLICATION_FACTOR)
    if replication_factor > count:
        raise InvalidAssignment(
            f"Replication factor: {replication_factor} larger than available brokers: {count}.",
            INVALID_REPLICATION_FACTOR,
        )
    rounds_before = max(0, first_partition - 1) // count
    assigned = []
    for partition in range(first_partition, first_partition + partitions):
        first = (partition + start) % count
        distance = shift + partition // count - rounds_before
        replicas = [brokers[first]]
        for follower in range(replication_factor - 1):
            step = 1 + (distance + follower) % (count - 1)
            replicas.append(brokers[(first + step) % count])
        assigned.append(tuple(replicas))
    return tuple(assigned)


def extend(
    brokers: Sequence[int], partition_0: Sequence[int], existing: int, added: int
) -> tuple[tuple[int, ...], ...]:
    """Replicas of `added` partitions after the `existing` ones of a topic whose partition 0 has these replicas.

    They begin at the first broker whose id is not below that of partition 0's preferred replica.
    """
    start = next((at for at, broker in enumerate(brokers) if broker >= partition_0[0]), 0)
    return assign(brokers, added, len(partition_0), start, start, existing)
