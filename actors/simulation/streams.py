"""A stream consists of the batches that one producer id wrote to one partition, and of their acknowledgements.

Rule 1: the values of a stream are numbered from 0 on, one record after the other; the number of a value is also the
        sequence number of its record. So the log is enough to see a duplicate, a gap or a wrong order.
"""

from __future__ import annotations

import attrs

from messages.cluster import TopicPartition

NOWHERE = -1
"""The offset of a batch that was not acknowledged."""


@attrs.define(eq=False)
class SentBatch:
    """A batch that a producer sent: its first sequence number, number of records, and offset once acknowledged."""

    first: int
    size: int
    offset: int = NOWHERE


@attrs.define(eq=False)
class ProducerStream:
    """The batches that one producer id has written to one partition.

    `born` is the ZooKeeper transaction id (czxid) of the topic's creation.
    """

    name: str
    partition: TopicPartition
    born: int
    producer_id: int = -1
    batches: list[SentBatch] = attrs.field(factory=list)
    """All batches, in the order of their numbers."""

    def value(self, number: int) -> bytes:
        """Return the value of the record with this number."""
        return f"{self.name}:{number}".encode()

    def numbers(self, read: dict[int, bytes]) -> list[int]:
        """Return the numbers of the stream's records in a log, in log order. `read` maps each offset to its value."""
        prefix = f"{self.name}:".encode()
        return [int(value.removeprefix(prefix)) for _, value in sorted(read.items()) if value.startswith(prefix)]


@attrs.frozen
class StreamBroken:
    """A response to a producer contradicts the acknowledgements of earlier batches; `text` describes how."""

    text: str
