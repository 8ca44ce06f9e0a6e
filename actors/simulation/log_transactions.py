"""Read the aborted and the unfinished transactions, and the leader epochs, from the batches of one replica's log.

Rule 1: the batches are read from the files after each call that changes the files. If the call opened or truncated the
        log, all files are read again, from the first one on.
Rule 2: an unfinished transaction is open, or its marker is not yet below the high watermark. Markers that were in the
        files when the log was opened or truncated count as replicated. The reason: no file stores the offset up to
        which the log was replicated.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import attrs

from actors.core.topic.topic_name import TRANSACTION_STATE
from actors.core.transaction.transaction import Transaction
from actors.core.transaction.transaction_records import read_key, read_value
from actors.storage.log.key_values import key_values
from messages.records import NO_PRODUCER_ID
from messages.wire.control_batch import read_marker
from messages.wire.record_batch import BatchHeader, has_valid_crc, whole_batches

NO_OFFSET = -1


@attrs.frozen
class AbortedInLog:
    """An aborted transaction: its producer, its first offset, and the offset of its marker."""

    producer_id: int
    first: int
    marker: int

    def has(self, header: BatchHeader) -> bool:
        """Return whether a batch has records of the transaction."""
        return header.producer_id == self.producer_id and self.first <= header.last_offset < self.marker


class LastBatch(NamedTuple):
    """The latest epoch of a producer, and the last sequence number and the last offset of its last batch of records.

    These two are -1 if the producer has no batch of records in this epoch. `coordinator` is the coordinator epoch of
    its last marker, -1 if it has none.
    """

    epoch: int
    sequence: int = -1
    offset: int = NO_OFFSET
    coordinator: int = -1


class LogTransactions:
    """What the batches of the log in `folder` say, according to rules 1 and 2 of this module."""

    def __init__(self, folder: Path, end: int) -> None:
        self.aborted: list[AbortedInLog] = []
        self.producers: dict[int, LastBatch] = {}
        self.epochs: list[tuple[int, int, int]] = []
        """The leader epochs of successive batches, each with the first offset and the offset after the last."""
        self.states: dict[str, tuple[Transaction, int]] = {}
        """The last state of each transactional id, with its offset; of the coordinator's log only."""
        self.changes: list[tuple[Transaction, Transaction]] = []
        """Successive states that were written since the log was opened or truncated, until they are taken."""
        self._has_states = folder.name.startswith(TRANSACTION_STATE)
        self._folder = folder
        self._file: Path | None = None
        self._position = 0
        self._end = 0
        self._open: dict[int, int] = {}
        """Producer id -> first offset."""
        self._unreplicated: list[tuple[int, int, int]] = []
        """(first offset, offset of the marker, producer id)."""
        self.read_on(end)
        self._unreplicated.clear()
        self.changes.clear()

    @property
    def first_unfinished(self) -> int:
        """The first offset of the earliest unfinished transaction (rule 2); NO_OFFSET without one."""
        return min((*self._open.values(), *(first for first, *_ in self._unreplicated)), default=NO_OFFSET)

    def first_of(self, producer_id: int, since: int) -> int:
        """Return the first offset of the producer's unfinished transaction; NO_OFFSET without one.

        Markers before the offset `since` count as replicated.
        """
        late = (first for first, marker, producer in self._unreplicated if producer == producer_id and marker >= since)
        return next(late, self._open.get(producer_id, NO_OFFSET))

    def aborted_within(self, first: int, last: int) -> Iterator[AbortedInLog]:
        """Yield the aborted transactions that have a record or their marker between these offsets."""
        for each in self.aborted:
            if each.first <= last and each.marker >= first:
                yield each

    def raise_high_watermark(self, high_watermark: int) -> None:
        """Note the high watermark."""
        if self._unreplicated:
            self._unreplicated = [each for each in self._unreplicated if each[1] >= high_watermark]

    def read_on(self, end: int) -> None:
        """Read the batches up to the log end offset `end`."""
        while self._end < end:
            if self._file is not None and not self._read_file(end):
                return
            if self._end >= end or not self._next_file():
                return

    def _next_file(self) -> bool:
        """Go to the next file; return whether there is one."""
        for file in sorted(self._folder.glob("*.log")):
            if self._file is None or file.name > self._file.name:
                self._file, self._position = file, 0
                self._end = max(self._end, int(file.stem))
                return True
        return False

    def _read_file(self, end: int) -> bool:
        """Read on in the file up to `end`. Return False if the file has batches after `end`, and True otherwise."""
        assert self._file is not None
        try:
            with self._file.open("rb") as file:
                file.seek(self._position)
                data = file.read()
        except FileNotFoundError:  # the file of an old segment, deleted meanwhile
            return True
        for position, header in whole_batches(data):
            if header.next_offset > end:
                return False
            self._take(header, data[position : position + header.size])
            self._position += header.size
            self._end = header.next_offset
            if self._end >= end:
                break  # the bytes after it may be unreadable
        return True

    def _take(self, header: BatchHeader, batch: bytes) -> None:
        start = header.base_offset
        if self.epochs and self.epochs[-1][0] == header.leader_epoch:
            start = self.epochs.pop()[1]
        self.epochs.append((header.leader_epoch, start, header.next_offset))
        for _, _, key, value, offset in key_values(batch, 0)[1] if self._has_states else ():
            if value and (name := read_key(key.encode("latin-1"))):
                state = read_value(name, value.encode("latin-1"))
                if name in self.states:
                    self.changes.append((self.states[name][0], state))
                self.states[name] = state, offset
        if header.producer_id == NO_PRODUCER_ID or not has_valid_crc(batch, 0, header):
            return  # a flipped bit may have made it another transaction's
        known = self.producers.get(header.producer_id, LastBatch(header.producer_epoch))
        marker = read_marker(batch, header) if header.is_control else None
        if not header.is_control:
            known = known._replace(
                epoch=header.producer_epoch, sequence=header.last_sequence, offset=header.last_offset
            )
        elif header.producer_epoch != known.epoch:
            known = LastBatch(header.producer_epoch)
        if marker is not None:
            known = known._replace(coordinator=marker.coordinator_epoch)
        self.producers[header.producer_id] = known
        if header.is_control:
            first = self._open.pop(header.producer_id, None)
            if first is None:
                return
            self._unreplicated.append((first, header.base_offset, header.producer_id))
            if marker is not None and not marker.committed:
                self.aborted.append(AbortedInLog(header.producer_id, first, header.base_offset))
        elif header.is_transactional:
            self._open.setdefault(header.producer_id, header.base_offset)
