"""What the simulated clients know of the records, streams and transactions that they wrote and read.

Rule 1: a stream has the batches that one producer id wrote to one partition. Its values are numbered from 0 on, one
        record after the other; the number of a value is also the sequence number of its record. So the log is enough to
        see a duplicate, a gap or a wrong order.
Rule 2: a transaction without a requested commit, or with an acknowledged abort, is never visible to readers of
        committed data. A transaction with an acknowledged commit is visible as a whole. If a requested commit got no
        response, both outcomes are valid, but all partitions must have the same outcome.
"""

from __future__ import annotations

import enum
from typing import NamedTuple
from zlib import crc32

import attrs

from actors.simulation.observed_facts import PartitionStateWritten, StreamBroken, TopicDeleted
from messages.apis.metadata import MetadataResponse
from messages.cluster import TopicPartition
from messages.wire.batch_records import Record

KEYS = 4
"""Number of keys of the records in a partition."""

TOMBSTONE = b"tombstone of "
"""What a tombstone has in place of a value here, before its key."""


def key_of(value: bytes) -> bytes:
    """Return the key of the record that a simulated producer writes with this value."""
    if value.startswith(TOMBSTONE):
        return value.removeprefix(TOMBSTONE)
    return b"ke%d" % (crc32(value) % KEYS) if value.startswith((b"record ", b"stream ")) else b"key"


def content(record: Record) -> bytes:
    """Return the value of a record; for a tombstone, TOMBSTONE and its key."""
    return TOMBSTONE + (record.key or b"") if record.value is None else record.value


class Acknowledged(NamedTuple):
    """An acknowledged record, the time of the acknowledgement, and the zxid of the topic's creation.

    `sent` is when it was sent, 0.0 if unknown.
    """

    value: bytes
    born: int
    at: float
    sent: float = 0.0


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


class KnownOutcome(enum.Enum):
    """The outcome of a transaction from its producer's point of view: committed, aborted or unknown."""

    OPEN = "open"
    COMMITTING = "commit requested"
    COMMITTED = "committed"
    ABORTED = "aborted"


@attrs.define(eq=False)
class SimulatedTransaction:
    """A transaction and its records; `born` maps each topic to the zxid of the topic's creation.

    `offset` is the input offset that a worker commits in the transaction; -1 if it commits none.
    """

    name: str
    fate: KnownOutcome = KnownOutcome.OPEN
    offset: int = -1
    values: dict[TopicPartition, list[bytes]] = attrs.field(factory=dict)
    born: dict[str, int] = attrs.field(factory=dict)

    @property
    def may_be_visible(self) -> bool:
        """Whether a reader of committed data may see the transaction."""
        return self.fate in (KnownOutcome.COMMITTING, KnownOutcome.COMMITTED)


@attrs.frozen
class CommittedView:
    """The records that a leader returned to a reader of committed data, from the log start to the last stable offset.

    Attributes:
        values: The visible values in the order of the log.
        stable: The last stable offset.
        high_watermark: The high watermark.
        data: The batches as they were read.
    """

    values: tuple[bytes, ...]
    stable: int
    high_watermark: int
    data: bytes = attrs.field(repr=False)


class ClientHistory:
    """The records, streams and transactions of the clients of a run."""

    def __init__(self) -> None:
        self.acknowledged: dict[TopicPartition, dict[int, Acknowledged]] = {}
        """Acknowledged records, by offset."""
        self.deleted: dict[TopicPartition, int] = {}
        """The largest offset up to which a client requested the deletion of records."""
        self.buried: dict[TopicPartition, dict[bytes, float]] = {}
        """The keys of which a tombstone was sent, and when the first one was."""
        self.read: dict[TopicPartition, dict[int, bytes]] = {}
        """Records that the last check of the idle cluster read, by offset."""
        self.seen: dict[TopicPartition, dict[int, bytes]] = {}
        """Records that consumers have read, by offset."""
        self.streams: dict[int, ProducerStream] = {}
        """The batches that idempotent producers have written, by producer id."""
        self.transactions: dict[str, SimulatedTransaction] = {}
        """All transactions by name."""
        self.asked: dict[tuple[int, int], set[bool]] = {}
        """Whether transactional producers have asked to commit and to abort, by producer id and epoch."""
        self.read_committed: dict[TopicPartition, CommittedView] = {}
        """Records that readers of committed data got at the last check of the idle cluster."""
        self.metadata: dict[int, MetadataResponse | None] = {}
        """Each running node's response about all topics at the last check of the idle cluster."""

    def take(self, fact: object) -> None:
        """Forget the records of a deleted topic, or of a partition that a replica outside the ISR leads."""
        if isinstance(fact, TopicDeleted):
            for partition in fact.replicas:
                self._forget(partition)
                if fact.queued:  # only then: a topic whose znodes were removed by hand keeps its logs
                    self.deleted.pop(partition, None)
        elif isinstance(fact, PartitionStateWritten) and fact.is_unclean:
            self._forget(fact.partition)

    def _forget(self, partition: TopicPartition) -> None:
        self.acknowledged.pop(partition, None)
        self.seen.pop(partition, None)

    def delete_up_to(self, partition: TopicPartition, offset: int) -> None:
        """Note a client's request to delete the records before `offset`: they may be deleted from now on."""
        self.deleted[partition] = max(offset, self.deleted.get(partition, 0))
        known = self.acknowledged.get(partition, {})
        for gone in [each for each in known if each < offset]:
            del known[gone]

    def stream_began(self, stream: ProducerStream) -> StreamBroken | None:
        """Note a new producer id of a stream; return a fact if another stream has the same id."""
        before = self.streams.setdefault(stream.producer_id, stream)
        if before is stream:
            return None
        return StreamBroken(f"{stream.name} has producer id {stream.producer_id}, as {before.name} has")
