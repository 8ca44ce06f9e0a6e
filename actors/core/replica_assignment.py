"""Assign replicas of new partitions to brokers, as Kafka's AdminUtils does.

Rule 1: first replicas go round the brokers, beginning at `start`.
Rule 2: the further replicas of a partition follow its first at a distance that begins at `shift` + 1 and grows by one
        each time the first replicas have gone round once, so that the same brokers do not always stand together.
Rule 3: where the brokers have racks, they are gone round rack by rack, and the distance grows by as many as there are
        racks. A broker is passed over while its rack has a replica that another rack still lacks, or itself has one.
        Racks of some only are as good as none to count on: that is refused.
Rule 4: `start` and `shift` are drawn by the caller; partitions that are added to a topic go on from its partition 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from actors.core.refusal import Refused
from messages.error_codes import (
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    UNKNOWN_SERVER_ERROR,
)

Racks = Mapping[int, str | None]
"""Brokers, in the order of their ids, and where they stand."""


class InvalidAssignment(Refused):
    """The partitions cannot be assigned to these brokers."""

    code = INVALID_REPLICA_ASSIGNMENT


def assign(
    racks: Racks, partitions: int, replication_factor: int, start: int, shift: int, first_partition: int = 0
) -> tuple[tuple[int, ...], ...]:
    """Replicas of each of `partitions` new partitions, the first of them numbered `first_partition`, preferred first.

    InvalidAssignment where there are too few brokers.
    """
    count = len(racks)
    if partitions <= 0:
        raise InvalidAssignment("Number of partitions must be larger than 0.", INVALID_PARTITIONS)
    if replication_factor <= 0:
        raise InvalidAssignment("Replication factor must be larger than 0.", INVALID_REPLICATION_FACTOR)
    if replication_factor > count:
        raise InvalidAssignment(
            f"Replication factor: {replication_factor} larger than available brokers: {count}.",
            INVALID_REPLICATION_FACTOR,
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
    """The brokers after the first replica's, round and round, from that distance on (rule 2)."""
    count = len(brokers)
    for step in itertools.count(distance):
        yield brokers[(first + 1 + step % (count - 1)) % count]


def _one_per_rack(
    racks: Racks, leader: int, candidates: Iterator[int], replication_factor: int, aware: bool
) -> tuple[int, ...]:
    """The leader and as many candidates as are wanted, none of them twice, as many racks as possible (rule 3)."""
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
    """The brokers, of each rack one in turn; racks by name. Raises Refused where a broker has none."""
    by_rack: dict[str, list[int]] = {}
    for broker, rack in racks.items():
        if rack is None:
            raise Refused(
                "Not all brokers have rack information for replica rack aware assignment.", UNKNOWN_SERVER_ERROR
            )
        by_rack.setdefault(rack, []).append(broker)
    rounds = itertools.zip_longest(*(sorted(by_rack[rack]) for rack in sorted(by_rack)))
    return tuple(broker for each in rounds for broker in each if broker is not None)


def extend(
    racks: Racks, partition_0: Sequence[int], existing: int, added: int, planned: int = 0
) -> tuple[tuple[int, ...], ...]:
    """Replicas of `added` partitions after the `existing` ones of a topic whose partition 0 has these replicas.

    They begin at the first broker whose id is not below that of partition 0's preferred replica. Who plans in slices
    says how many after the existing ones are `planned` already.
    """
    start = next((at for at, broker in enumerate(racks) if broker >= partition_0[0]), 0)
    first, rounds = existing + planned, max(1, len(racks))
    shift = start + max(0, first - 1) // rounds - max(0, existing - 1) // rounds
    return assign(racks, added, len(partition_0), start, shift, first)
