"""What the simulated clients know of the records and transactions that they wrote and read."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from actors.simulation.observed_facts import PartitionStateWritten, TopicDeleted
from actors.simulation.simulated_transactions import CommittedView, SimulatedTransaction
from actors.simulation.streams import ProducerStream, StreamBroken
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
