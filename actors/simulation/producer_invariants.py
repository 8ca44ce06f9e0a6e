"""The invariants of idempotent producers; `actors.simulation.invariants` has the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from actors.simulation.streams import StreamBroken

if TYPE_CHECKING:
    from actors.simulation.checker import Checker, ClusterQueried


def streams_are_whole(law: Checker, change: ClusterQueried) -> Iterator[str]:
    """A log has each record of an idempotent producer once, in order and without a gap."""
    for stream in law.streams.values():
        partition = stream.partition
        read = law.read.get(partition)
        if read is None or law.born.get(partition.topic) != stream.born or law.is_lossy(partition):
            continue
        numbers = stream.numbers(read)
        if not numbers:
            continue
        first = numbers[0] if law.first_offset(partition) else 0
        if numbers != list(range(first, first + len(numbers))):
            wrong = next(place for place, number in enumerate(numbers) if number != first + place)
            yield f"{partition}: {stream.name} has {numbers[wrong]} where {first + wrong} follows: {numbers}"


def responses_to_streams_agree(law: Checker, change: StreamBroken) -> Iterator[str]:
    """A producer that sends its batches in order is not refused, and each has one offset."""
    yield change.text
