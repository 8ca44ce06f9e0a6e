"""The producer state of a log, which detects duplicate and out-of-order batches (ProducerStateManager; broker.md 5.3).

Rule 1: the epoch and the last five batches of each producer id are kept.
Rule 2: a batch is a duplicate if a kept batch of the same epoch has the same first and last sequence. The duplicate is
        not appended, and the response has the offsets of the kept batch.
Rule 3: an older epoch is refused. An unknown producer may begin at any sequence. The first batch of a known producer in
        an epoch has sequence 0, and each later batch follows the one before. A marker makes its producer known, too.
Rule 4: a producer without a batch for `producer.id.expiration.ms` expires, unless its transaction is open. If no
        producer of a log has expired, the check of that log is one comparison.
Rule 5: a snapshot holds the state before its offset. The state can be rebuilt: if a snapshot is missing or damaged, the
        log is read.
Rule 6: a snapshot has an entry for each kept batch of a producer without a transactional id, in order. Apache's
        snapshots have only the last batch of each producer; an Apache broker that reads our snapshot uses only the last
        entry of each producer. After the partition's leader restarts, a producer may retry several batches. Apache's
        broker refuses the retry of a batch before the last one (45, fatal in librdkafka). This log treats each
        retried batch as a duplicate. For a transactional producer, a snapshot has the batches of the open transaction;
        if there are none, it has only the producer's last batch. A client never retries batches of an ended
        transaction.
Rule 7: the first transactional batch of a producer opens its transaction. A marker ends the transaction, even if the
        marker has a newer epoch. While the transaction is open, non-transactional batches (48) and batches of a newer
        epoch (47) are refused. The coordinator assigns a newer epoch only after the marker is written. Kafka accepts a
        batch of a newer epoch and then refuses the marker, so the transaction never ends (transactions.md 3.2).
Rule 8: a marker is refused if its producer epoch (47) or its coordinator epoch (52) is older than the known epoch. A
        group coordinator's batch of transactional offsets is not a marker; it is refused only if its producer epoch is
        older (47). Replicated batches are not checked.

Kafka: `ProducerStateManager`, `ProducerAppendInfo`.
"""

from __future__ import annotations

import os
import re
import struct
from collections import deque
from pathlib import Path
from typing import NamedTuple

from actors.storage.log.checkpoint import replace_file
from actors.storage.log.handles import opening
from actors.storage.log.transactions import NO_OFFSET, CompletedTxn, Transactions
from messages.records import NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, TRANSACTION_BIT, BatchHeader
from messages.wire import checksums
from messages.wire.control_batch import EndTransactionMarker

KEPT_BATCHES = 5
EXPIRATION_MS = 24 * 60 * 60 * 1000
"""Default of `producer.id.expiration.ms`."""
NEVER = 2**63 - 1
"""Time of the oldest producer if none can expire."""
NAME = re.compile(r"([0-9]{20})\.snapshot")

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = _HEAD.size


class InvalidProducerEpoch(Exception):
    """The producer epoch of a batch is older than the current one (error code 47)."""


class OutOfOrderSequence(Exception):
    """The sequence number of a batch does not follow the producer's last one (error code 45)."""


class InvalidTxnState(Exception):
    """A batch is not transactional, although its producer has an open transaction (error code 48)."""


class TransactionCoordinatorFenced(Exception):
    """The coordinator epoch of a marker is older than the current one (error code 52)."""


class Batch(NamedTuple):
    """A batch that the producer state remembers; `timestamp` is in ms."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class SnapshotEntry(NamedTuple):
    """An entry of a producer snapshot: a producer and one of its batches.

    `last_offset` is -1 if the producer has no batch. `timestamp` is in ms.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    first_of_transaction: int

    @property
    def first_sequence(self) -> int:
        """The sequence number of the batch's first record."""
        return (self.last_sequence - self.offset_delta) & 0x7FFFFFFF


class DamagedSnapshot(ValueError):
    """A producer snapshot file is damaged and is ignored; the exception's text is the same as Kafka's."""


def read_snapshot(data: bytes) -> list[SnapshotEntry]:
    """Return the entries of a snapshot file. Raises DamagedSnapshot."""
    try:
        version, stored = _HEAD.unpack_from(data)
        rest = data[_CRC_FROM:]
        if version != _VERSION:
            raise DamagedSnapshot(f"Snapshot contained an unknown file version {version}")
        crc = checksums.crc32c(rest)
        if crc != stored:
            raise DamagedSnapshot(
                f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {crc}"
            )
        (count,) = _COUNT.unpack_from(rest)
        entries = rest[_COUNT.size : _COUNT.size + count * _ENTRY.size]
        return [SnapshotEntry(*entry) for entry in _ENTRY.iter_unpack(entries)]
    except struct.error as error:
        raise DamagedSnapshot(f"Snapshot failed schema validation: {error}") from error


_NOTHING = Batch(NO_SEQUENCE, NO_SEQUENCE, -1, -1, -1)
"""The last batch of a producer of which only the epoch is known."""


class ProducerState(NamedTuple):
    """The state of a producer in a DescribeProducers response; absent values are -1.

    `last_timestamp` is in ms.

    Kafka: `DescribeProducersResponseData.ProducerState`.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    first_of_transaction: int


class _Producer:
    """The state of one producer: its epoch, its last batches, and the time (ms) of its last batch or marker."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "timestamp")

    def __init__(self, epoch: int, coordinator_epoch: int = -1) -> None:
        self.epoch = epoch
        self.batches: deque[Batch] = deque(maxlen=KEPT_BATCHES)
        self.timestamp = NO_TIMESTAMP
        self.coordinator_epoch = coordinator_epoch

    @property
    def last(self) -> Batch:
        """The last batch."""
        return self.batches[-1] if self.batches else _NOTHING


def _old_epoch(known: _Producer, header: BatchHeader) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(
        f"producer {header.producer_id} has epoch {known.epoch}, the batch {header.producer_epoch}"
    )


class Producers:
    """The state of all producers of one log."""

    __slots__ = ("_oldest", "_producers", "folder", "transactions")

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._producers: dict[int, _Producer] = {}
        self.transactions: Transactions | None = None
        """The transactions; None if the log never had one."""
        self._oldest = NEVER
        """Lower bound (ms) of the times of producers that may expire."""

    def __len__(self) -> int:
        return len(self._producers)

    def clear(self) -> None:
        """Remove all producers and transactions."""
        self._producers.clear()
        self.transactions = None
        self._oldest = NEVER

    # ------------------------------------------------------------------------------------------------ checks

    def check(self, header: BatchHeader) -> Batch | None:
        """Check a client's batch (rules 2, 3 and 7).

        Returns:
            The earlier batch if this one is a duplicate; None if it must be appended.

        Raises:
            InvalidProducerEpoch: The batch's epoch is old, or is new while a transaction is open.
            OutOfOrderSequence: The batch's sequence does not follow the last one.
            InvalidTxnState: The batch is not transactional, although a transaction is open.
        """
        known = self._producers.get(header.producer_id)
        if known is None:
            return None
        if header.producer_epoch < known.epoch:
            raise _old_epoch(known, header)
        if header.producer_epoch > known.epoch:
            if self.first_of_transaction(header.producer_id) >= 0:
                raise InvalidProducerEpoch(f"the transaction of epoch {known.epoch} is open")
            if header.base_sequence != 0:
                raise OutOfOrderSequence(f"a new epoch begins with sequence {header.base_sequence}")
            return None
        sequences = (header.base_sequence, header.last_sequence)
        for batch in known.batches:
            if (batch.first_sequence, batch.last_sequence) == sequences:
                return batch
        last = known.batches[-1] if known.batches else _NOTHING
        expected = (last.last_sequence + 1) & 0x7FFFFFFF
        if header.base_sequence != expected:
            raise OutOfOrderSequence(
                f"producer {header.producer_id}: sequence {header.base_sequence} where {expected} is due"
            )
        if not header.attributes & TRANSACTION_BIT and self.first_of_transaction(header.producer_id) >= 0:
            raise InvalidTxnState(f"the transaction of producer {header.producer_id} is open")
        return None

    def check_coordinators(self, header: BatchHeader, marker: EndTransactionMarker | None) -> None:
        """Check a batch of a coordinator (rule 8). `marker` is the marker in the batch; None without one.

        Raises InvalidProducerEpoch, TransactionCoordinatorFenced.
        """
        known = self._producers.get(header.producer_id)
        if known is None:
            return
        if header.producer_epoch < known.epoch:
            raise _old_epoch(known, header)
        if marker is not None and marker.coordinator_epoch < known.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {header.producer_id} has a marker of coordinator epoch {known.coordinator_epoch}, this"
                f" one has {marker.coordinator_epoch}"
            )

    # ------------------------------------------------------------------------------------------------ appends

    def add(self, header: BatchHeader) -> None:
        """Add an appended batch of records to its producer."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID:
            return
        known = self._producers.get(producer_id)
        if known is None or known.epoch != header.producer_epoch:
            known = self._state_for(header)
        known.timestamp = header.max_timestamp
        if known.timestamp < self._oldest:
            self._oldest = known.timestamp
        known.batches.append(
            Batch(
                header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
            )
        )
        if header.attributes & TRANSACTION_BIT:
            if self.transactions is None:
                self.transactions = Transactions()
            self.transactions.begin(producer_id, header.base_offset)

    def end(self, header: BatchHeader, marker: EndTransactionMarker) -> CompletedTxn | None:
        """Add an appended marker. Return the transaction that the marker ends; None if no transaction is open."""
        known = self._state_for(header)
        known.coordinator_epoch = marker.coordinator_epoch
        known.timestamp = header.max_timestamp
        self._oldest = min(self._oldest, known.timestamp)
        return None if self.transactions is None else self.transactions.end(header.producer_id, header.base_offset)

    def _state_for(self, header: BatchHeader) -> _Producer:
        """Return the state of a batch's or marker's producer. A new epoch replaces the known epoch and its batches."""
        known = self._producers.get(header.producer_id)
        if known is None:
            known = self._producers[header.producer_id] = _Producer(header.producer_epoch)
        elif known.epoch != header.producer_epoch:
            known.epoch = header.producer_epoch
            known.batches.clear()
        return known

    # ------------------------------------------------------------------------------------------------ transactions

    @property
    def first_unstable(self) -> int:
        """The first offset that may belong to an unfinished transaction; -1 without one."""
        return NO_OFFSET if self.transactions is None else self.transactions.first_unstable

    def first_of_transaction(self, producer_id: int) -> int:
        """Return the first offset of the producer's open transaction; -1 without one."""
        return NO_OFFSET if self.transactions is None else self.transactions.first_offset(producer_id)

    @property
    def oldest_transaction_ms(self) -> int:
        """Time (ms) of the last batch of the producer with the oldest open transaction; -1 if none is open."""
        oldest = None if self.transactions is None else self.transactions.oldest
        return NO_TIMESTAMP if oldest is None else self._producers[oldest].timestamp

    def states(self) -> list[ProducerState]:
        """Return the states of all producers."""
        return [
            ProducerState(
                producer_id,
                known.epoch,
                known.last.last_sequence,
                known.timestamp,
                known.coordinator_epoch,
                self.first_of_transaction(producer_id),
            )
            for producer_id, known in self._producers.items()
        ]

    def last_batches(self) -> dict[int, tuple[int, int]]:
        """Return for each producer the last offset of its last batch, -1 if unknown, and its epoch."""
        return {producer_id: (known.last.last_offset, known.epoch) for producer_id, known in self._producers.items()}

    def may_expire(self, now_ms: int, expiration_ms: int = EXPIRATION_MS) -> bool:
        """Return False if no producer can have expired, else True."""
        return now_ms - self._oldest >= expiration_ms

    def expire(self, now_ms: int, expiration_ms: int = EXPIRATION_MS) -> None:
        """Remove producers with no batch in the last `expiration_ms`, unless their transaction is open (rule 4)."""
        if not self.may_expire(now_ms, expiration_ms):
            return
        self._oldest = NEVER
        for producer_id, known in list(self._producers.items()):
            if self.first_of_transaction(producer_id) >= 0:
                continue
            if now_ms - known.timestamp >= expiration_ms:
                del self._producers[producer_id]
            else:
                self._oldest = min(self._oldest, known.timestamp)

    # ------------------------------------------------------------------------------------------------ snapshots

    def snapshots(self) -> list[int]:
        """Return the offsets of the existing snapshots, ascending."""
        names = map(NAME.fullmatch, opening(lambda: os.listdir(self.folder)))  # noqa: PTH208
        return sorted(int(name[1]) for name in names if name)

    def write_snapshot(self, offset: int) -> None:
        """Write a snapshot of the state before `offset`. Raises OSError."""
        entries = [
            _ENTRY.pack(
                producer_id,
                known.epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.last_offset - batch.first_offset,
                known.timestamp if batch is known.last else batch.timestamp,
                known.coordinator_epoch,
                self.first_of_transaction(producer_id),
            )
            for producer_id, known in self._producers.items()
            for batch in self._repeatable(producer_id, known)
        ]
        rest = _COUNT.pack(len(entries)) + b"".join(entries)
        replace_file(self._path(offset), _HEAD.pack(_VERSION, checksums.crc32c(rest)) + rest)

    def _repeatable(self, producer_id: int, known: _Producer) -> list[Batch]:
        """Return those batches of a producer that are written to a snapshot (rule 6)."""
        if known.coordinator_epoch < 0:
            return list(known.batches) or [_NOTHING]
        first = self.first_of_transaction(producer_id)
        batches = [batch for batch in known.batches if batch.first_offset >= first >= 0]
        return batches or [known.last]

    def load_snapshot(self, offset: int) -> bool:
        """Load a snapshot. If it is damaged, remove all producers and return False. Raises OSError."""
        self.clear()
        data = opening(Path(self._path(offset)).read_bytes)
        try:
            entries = read_snapshot(data)
        except DamagedSnapshot:
            return False
        for entry in entries:
            self._restore(entry)
        opened = {entry.producer_id: entry.first_of_transaction for entry in entries if entry.first_of_transaction >= 0}
        if opened:
            self.transactions = Transactions(opened.items())
        return True

    def remove_snapshots(self, keep_from: int, keep_to: int) -> None:
        """Remove the snapshots before `keep_from` and after `keep_to`. Raises OSError."""
        for offset in self.snapshots():
            if not keep_from <= offset <= keep_to:
                Path(self._path(offset)).unlink(missing_ok=True)

    def _restore(self, entry: SnapshotEntry) -> None:
        known = self._producers.get(entry.producer_id)
        if known is None or known.epoch != entry.epoch:
            known = self._producers[entry.producer_id] = _Producer(entry.epoch, entry.coordinator_epoch)
        known.timestamp = entry.timestamp
        self._oldest = min(self._oldest, entry.timestamp)
        if entry.last_offset >= 0:
            first = entry.first_sequence if entry.last_sequence >= 0 else entry.last_sequence
            first_offset = entry.last_offset - entry.offset_delta
            known.batches.append(Batch(first, entry.last_sequence, first_offset, entry.last_offset, entry.timestamp))

    def _path(self, offset: int) -> str:
        return f"{self.folder}/{offset:020d}.snapshot"
