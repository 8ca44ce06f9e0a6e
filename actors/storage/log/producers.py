"""The producer state of a log, for detecting duplicate and out-of-order batches (broker.md 5.3).

Rule 1: of each producer id the epoch and the last five batches are kept.
Rule 2: a batch of the same epoch whose first and last sequence are those of a kept one is a duplicate: it is not
        appended, and is answered with the offsets of the first.
Rule 3: an older epoch is refused; a newer one begins at sequence 0; within an epoch each batch follows the last, and
        the first has sequence 0. A producer that is not known may begin anywhere. A marker makes its producer known.
Rule 4: a producer that has written nothing for a week expires, unless its transaction is open. A log without producers
        that may expire costs one comparison.
Rule 5: a snapshot holds the state before its offset. It is an aid: what is missing or damaged is rebuilt from the log.
Rule 6: it has an entry for each batch that is kept, the last one last. Apache's has one for each producer, the last
        batch, and takes of ours the last: who tries several batches again after its leader was started anew is refused
        there (45), and is known here.

Kafka: `ProducerStateManager`.
"""

from __future__ import annotations

import os
import re
import struct
from collections import deque
from pathlib import Path
from typing import NamedTuple

import crc32c as checksums

from actors.storage.log.checkpoint import replace_file
from actors.storage.log.handles import opening
from messages.records import NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader

KEPT_BATCHES = 5
EXPIRATION_MS = 7 * 24 * 60 * 60 * 1000
NEVER = 2**63 - 1
"""The time of the oldest producer where none can expire."""
NAME = re.compile(r"([0-9]{20})\.snapshot")

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = _HEAD.size


class InvalidProducerEpoch(Exception):
    """The batch has an old producer epoch (code 47)."""


class OutOfOrderSequence(Exception):
    """The batch's sequence number does not follow its producer's last one (code 45)."""


class Batch(NamedTuple):
    """A batch in the producer state; `timestamp` in ms."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class SnapshotEntry(NamedTuple):
    """A producer with one of its batches, or without one (`last_offset` -1), as in a snapshot. `timestamp` in ms."""

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
    """A snapshot that is not loaded; the text is Kafka's."""


def read_snapshot(data: bytes) -> list[SnapshotEntry]:
    """The entries of a snapshot's file. Raises DamagedSnapshot."""
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
"""Of a producer that is known by its epoch alone."""


class _Producer:
    """The state of a producer id: its epoch, its last batches, and the time (ms) of its last batch or marker."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "first_of_transaction", "timestamp")

    def __init__(self, epoch: int, coordinator_epoch: int = -1, first_of_transaction: int = -1) -> None:
        self.epoch = epoch
        self.batches: deque[Batch] = deque(maxlen=KEPT_BATCHES)
        self.timestamp = NO_TIMESTAMP
        self.coordinator_epoch = coordinator_epoch
        self.first_of_transaction = first_of_transaction


class Producers:
    """The producers of one log, in its folder."""

    __slots__ = ("_folder", "_oldest", "_producers")

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._producers: dict[int, _Producer] = {}
        self._oldest = NEVER
        """No producer that may expire has an earlier time (ms)."""

    def __len__(self) -> int:
        return len(self._producers)

    def clear(self) -> None:
        """Forget everything."""
        self._producers.clear()
        self._oldest = NEVER

    def check(self, header: BatchHeader) -> Batch | None:
        """Rules 2 and 3 for a batch of a client: the one that it repeats, None if it is to be appended.

        Raises InvalidProducerEpoch, OutOfOrderSequence.
        """
        known = self._producers.get(header.producer_id)
        if known is None:
            return None
        if header.producer_epoch < known.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} has epoch {known.epoch}, the batch {header.producer_epoch}"
            )
        if header.producer_epoch > known.epoch:
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
        return None

    def add(self, header: BatchHeader) -> None:
        """The batch has been appended: one of records, or the marker that ends a transaction."""
        is_control = header.is_control
        if header.producer_id == NO_PRODUCER_ID or (is_control and not header.record_count):
            return  # a control batch without records is what cleaning leaves of a marker
        known = self._producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            known = self._producers[header.producer_id] = _Producer(header.producer_epoch)
        known.timestamp = header.max_timestamp
        if known.timestamp < self._oldest:
            self._oldest = known.timestamp
        if is_control:
            known.first_of_transaction = -1
            return
        known.batches.append(
            Batch(
                header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
            )
        )

    def may_expire(self, now_ms: int) -> bool:
        """Whether `expire` has to look at the producers."""
        return now_ms - self._oldest >= EXPIRATION_MS

    def expire(self, now_ms: int) -> None:
        """Forget the producers that have been silent for a week (rule 4)."""
        if not self.may_expire(now_ms):
            return
        self._oldest = NEVER
        for producer_id, known in list(self._producers.items()):
            if known.first_of_transaction >= 0:
                continue
            if now_ms - known.timestamp >= EXPIRATION_MS:
                del self._producers[producer_id]
            else:
                self._oldest = min(self._oldest, known.timestamp)

    # ------------------------------------------------------------------------------------------------ snapshots

    def snapshots(self) -> list[int]:
        """The offsets of the snapshots there are, ascending."""
        names = map(NAME.fullmatch, opening(lambda: os.listdir(self._folder)))  # noqa: PTH208
        return sorted(int(name[1]) for name in names if name)

    def write_snapshot(self, offset: int) -> None:
        """Write the state as that before `offset`. Raises OSError."""
        entries = [
            _ENTRY.pack(
                producer_id,
                known.epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.last_offset - batch.first_offset,
                batch.timestamp if known.batches else known.timestamp,
                known.coordinator_epoch,
                known.first_of_transaction,
            )
            for producer_id, known in self._producers.items()
            for batch in known.batches or (_NOTHING,)
        ]
        rest = _COUNT.pack(len(entries)) + b"".join(entries)
        replace_file(self._path(offset), _HEAD.pack(_VERSION, checksums.crc32c(rest)) + rest)

    def load_snapshot(self, offset: int) -> bool:
        """Take over a snapshot; False, without producers, if it is damaged. Raises OSError."""
        self.clear()
        data = opening(Path(self._path(offset)).read_bytes)
        try:
            entries = read_snapshot(data)
        except DamagedSnapshot:
            return False
        for entry in entries:
            self._restore(entry)
        return True

    def remove_snapshots(self, keep_from: int, keep_to: int) -> None:
        """Remove the snapshots before `keep_from` and beyond `keep_to`. Raises OSError."""
        for offset in self.snapshots():
            if not keep_from <= offset <= keep_to:
                Path(self._path(offset)).unlink(missing_ok=True)

    def _restore(self, entry: SnapshotEntry) -> None:
        known = self._producers.get(entry.producer_id)
        if known is None or known.epoch != entry.epoch:
            known = _Producer(entry.epoch, entry.coordinator_epoch, entry.first_of_transaction)
            self._producers[entry.producer_id] = known
        known.timestamp = entry.timestamp
        self._oldest = min(self._oldest, entry.timestamp)
        if entry.last_offset >= 0:
            first = entry.first_sequence if entry.last_sequence >= 0 else entry.last_sequence
            first_offset = entry.last_offset - entry.offset_delta
            known.batches.append(Batch(first, entry.last_sequence, first_offset, entry.last_offset, entry.timestamp))

    def _path(self, offset: int) -> str:
        return f"{self._folder}/{offset:020d}.snapshot"
