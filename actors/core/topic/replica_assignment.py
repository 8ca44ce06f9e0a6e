"""Assign replicas of new partitions to brokers, as Kafka's AdminUtils does.

Rule 1: The first replicas of the partitions are assigned to the brokers in turn, beginning at `start`.
Rule 2: The further replicas of a partition follow its first one at a distance. The distance begins at `shift` + 1 and
        grows by one each time the first replicas have gone once around all brokers. So the sets of brokers vary.
Rule 3: If brokers have racks, the brokers are ordered so that racks alternate, and the distance grows by the number of
        racks instead of by one. For each partition, a broker is skipped if its rack already has a replica while another
        rack has none, or if the broker itself already has a replica. If only some brokers have racks, the assignment is
        refused.
Rule 4: The caller chooses `start` and `shift` (at random in Kafka). If partitions are added to a topic, their
        assignment starts from the first replica of the topic's partition 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from actors.core.refusal import Refused
from messages import errors

Racks = Mapping[int, str | None]
"""Broker id -> rack or None, ordered by id."""


class InvalidAssignment(Refused):
    """The partitions cannot be assigned to these brokers."""

    code = errors.INVALID_REPLICA_ASSIGNMENT


def assign(
    racks: Racks, partitions: int, replication_factor: int, start: int, shift: int, first_partition: int = 0
) -> tuple[tuple[int, ...], ...]:
    """Return the replicas of each new partition, the preferred replica first.

    Args:
        partitions: Number of new partitions.
        first_partition: Number of the first new partition.

    Raises:
        InvalidAssignment: A count is not positive, or too few brokers are alive.
        Refused: Only some brokers have racks.
    """
    count = len(racks)
    if partitions <= 0:
        raise InvalidAssignment("Number of partitions must be larger than 0.", errors.INVALID_PARTITIONS)
    if replication_factor <= 0:
        raise InvalidAssignment("Replication factor must be larger than 0.", errors.INVALID_REPLICATION_FACTOR)
    if replication_factor > count:
        raise InvalidAssignment(
            f"Replication factor: {replication_factor} larger than available brokers: {count}.",
            errors.INVALID_REPLICATION_FACTOR,
        )
    aware = any(rack is not None for rack in racks.values())
    brokers = _rack_by_rack(racks) if aware else tuple(racks)
    stride = len(set(racks.values())) if aware else 1
    rounds_before = max(0, first_partition - 1) // count
    assigned = []
    for partition in range(first_partition, first_partition + partitions):
        first = (partition + start) % count
        distance = (shift + partition // count - rounds_before) * stride
        candidates = _following(brokers, first, distance)
        assigned.append(_one_per_rack(racks, brokers[first], candidates, replication_factor, aware))
    return tuple(assigned)


def _following(brokers: Sequence[int], first: int, distance: int) -> Iterator[int]:
    """Yield all brokers except `brokers[first]`, in turn and endlessly.

    `distance` determines at which broker the sequence starts (rule 2).
    """
    count = len(brokers)
    for step in itertools.count(distance):
        yield brokers[(first + 1 + step % (count - 1)) % count]


def _one_per_rack(
    racks: Racks, leader: int, candidates: Iterator[int], replication_factor: int, aware: bool
) -> tuple[int, ...]:
    """Return the leader and further candidates without duplicates, on as many racks as possible (rule 3)."""
    replicas = {leader: None}
    used = {racks[leader]}
    every = len(set(racks.values()))
    while len(replicas) < replication_factor:
        broker = next(candidates)
        taken = aware and racks[broker] in used and len(used) < every
        if broker not in replicas and not taken:
            replicas[broker] = None
            used.add(racks[broker])
    return tuple(replicas)


def _rack_by_rack(racks: Racks) -> tuple[int, ...]:
    """Return the brokers, ordered so that consecutive brokers are in different racks.

    The racks are in the order of their names. Raise Refused if a broker has no rack.
    """
    by_rack: dict[str, list[int]] = {}
    for broker, rack in racks.items():
        if rack is None:
            raise Refused(
                "Not all brokers have rack information for replica rack aware assignment.", errors.UNKNOWN_SERVER_ERROR
            )
        by_rack.setdefault(rack, []).append(broker)
    rounds = itertools.zip_longest(*(sorted(by_rack[rack]) for rack in sorted(by_rack)))
    return tuple(broker for each in rounds for broker in each if broker is not None)


def extend(
    racks: Racks, partition_0: Sequence[int], existing: int, added: int, planned: int = 0
) -> tuple[tuple[int, ...], ...]:
    """Return the replicas of partitions that are added to a topic.

    The assignment starts at the first broker whose id is not below the preferred replica of partition 0.

    Args:
        partition_0: Replicas of partition 0.
        existing: Number of existing partitions.
        added: Number of new partitions to plan in this call.
        planned: Number of new partitions that earlier calls have planned.
    """
    start = next((at for at, broker in enumerate(racks) if broker >= partition_0[0]), 0)
    first, rounds = existing + planned, max(1, len(racks))
    shift = start + max(0, first - 1) // rounds - max(0, existing - 1) // rounds
    return assign(racks, added, len(partition_0), start, shift, first)
