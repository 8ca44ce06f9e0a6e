"""The offset, time and transaction indexes of a segment (broker.md 5.4, transactions.md 3.3).

Rule 1: offsets are relative to the segment's base offset. Entries ascend: by offset and position in the offset index,
        by time and offset in the time index.
Rule 2: closed files are exactly as long as their entries. Java's brokers preallocate index files with zeros, so an
        entry of zeros after the first entry marks the end of the index.
Rule 3: an index can be rebuilt: missing or damaged entries are made anew from the log (`segment.recover`).
Rule 4: the transaction index lists aborted transactions in `<base>.txnindex`. An entry is in the index of the segment
        that has the transaction's marker. Entries ascend by the marker's offset. The first entry creates the file.

Kafka: `OffsetIndex`, `TimeIndex`, `TransactionIndex`, `AbortedTxn`.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from actors.storage.log.handles import Handles, opening
from actors.storage.log.transactions import CompletedTxn

ABORTED_ENTRY = struct.Struct(">hqqqq")
ABORTED_VERSION = 0

_LAST_OFFSET = attrgetter("last_offset")


class AbortedTxn(NamedTuple):
    """An entry of a transaction index: an aborted transaction, and the last stable offset after the abort."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def read_entries(data: bytes) -> list[AbortedTxn]:
    """Return the complete entries of a file."""
    return [
        AbortedTxn._make(entry)
        for entry in ABORTED_ENTRY.iter_unpack(data[: len(data) - len(data) % ABORTED_ENTRY.size])
    ]


def aborted_in(indexes: Iterable[TransactionIndex], offset: int, upper: int) -> list[AbortedTxn]:
    """Return the aborted transactions with offsets >= `offset` and < `upper`.

    The first of `indexes` is that of the segment that contains `offset`. The result may have more transactions than
    needed: consumers skip a transaction only up to its marker.
    """
    found: list[AbortedTxn] = []
    for index in indexes:
        entries, is_complete = index.find(offset, upper)
        found += entries
        if is_complete:
            break
    return found


class TransactionIndex:
    """The index of the aborted transactions whose markers are in one segment."""

    __slots__ = ("_entries", "_handles", "path")

    def __init__(self, path: str, handles: Handles) -> None:
        self.path = path
        self._handles = handles
        self._entries: list[AbortedTxn] = []

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, base_offset: int) -> bool:
        """Read the file of the segment that begins at `base_offset`, if it exists.

        Returns:
            False if the file is invalid: the index is then empty and must be rebuilt (rule 2).

        Raises:
            OSError: The file cannot be read or removed.
        """
        self._entries = []
        try:
            data = opening(Path(self.path).read_bytes)
        except FileNotFoundError:
            return True
        entries = read_entries(data)
        if len(data) % ABORTED_ENTRY.size or any(
            entry.version < 0 or entry.last_offset < base_offset for entry in entries
        ):
            self.reset()
            return False
        self._entries = entries
        return True

    def append(self, ended: CompletedTxn) -> None:
        """Add an aborted transaction, if its marker is after the marker of the last entry. Raises OSError."""
        if self._entries and ended.last_offset <= self._entries[-1].last_offset:
            return
        entry = AbortedTxn(ABORTED_VERSION, *ended)
        file = self._handles.get(self.path, create=True)
        os.pwrite(file.descriptor, ABORTED_ENTRY.pack(*entry), len(self._entries) * ABORTED_ENTRY.size)
        self._entries.append(entry)

    def find(self, offset: int, upper: int) -> tuple[list[AbortedTxn], bool]:
        """Find the transactions with offsets >= `offset` and < `upper`.

        Returns:
            The entries, and whether they are complete. If not, later segments may have more.
        """
        found = []
        for entry in self._entries[bisect_left(self._entries, offset, key=_LAST_OFFSET) :]:
            if entry.first_offset < upper:
                found.append(entry)
            if entry.last_stable_offset >= upper:
                return found, True
        return found, False

    def truncate(self, offset: int) -> None:
        """Remove the entries whose markers are at `offset` or later. Raises OSError."""
        at = bisect_left(self._entries, offset, key=_LAST_OFFSET)
        if at < len(self._entries):
            del self._entries[at:]
            os.truncate(self.path, at * ABORTED_ENTRY.size)

    def reset(self) -> None:
        """Remove all entries and the file. Raises OSError."""
        self._entries = []
        self._handles.close(self.path)
        Path(self.path).unlink(missing_ok=True)


OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")


class OffsetIndex:
    """An index that maps the offset of a batch's last record to the position of the batch in the segment."""

    def __init__(self, path: str, handles: Handles) -> None:
        self.path = path
        self._handles = handles
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last_offset(self) -> int:
        """Relative offset of the last entry; -1 without one."""
        return self._offsets[-1] if self._offsets else -1

    def load(self) -> None:
        """Read the file, if it exists. Raises OSError."""
        self._offsets, self._positions = array("i"), array("i")
        for offset, position in OFFSET_ENTRY.iter_unpack(_whole_entries(self.path, OFFSET_ENTRY.size)):
            if position == 0 or offset <= self.last_offset:
                break
            self._offsets.append(offset)
            self._positions.append(position)

    def append(self, offset: int, position: int) -> None:
        """Add an entry in memory and in the file, if it is after the last one. Raises OSError."""
        if offset > self.last_offset:
            self._offsets.append(offset)
            self._positions.append(position)
            place = (len(self._offsets) - 1) * OFFSET_ENTRY.size
            _append(self._handles, self.path, OFFSET_ENTRY.pack(offset, position), place)

    def position_before(self, offset: int) -> int:
        """Return the position of a batch that begins at or before the relative `offset`; the search starts there."""
        at = bisect_right(self._offsets, offset)
        return self._positions[at - 1] if at else 0

    def offset_after(self, position: int) -> int:
        """Return the relative offset of the first entry from `position` on; -1 if there is none."""
        at = bisect_left(self._positions, position)
        return self._offsets[at] if at < len(self._offsets) else -1

    def truncate(self, offset: int) -> None:
        """Remove the entries at and after the relative `offset`. Raises OSError."""
        at = bisect_right(self._offsets, offset - 1)
        if at < len(self._offsets):
            del self._offsets[at:], self._positions[at:]
            _cut(self.path, at * OFFSET_ENTRY.size)


class TimeEntry(NamedTuple):
    """An entry of a time index: the largest timestamp (ms) so far, and the relative offset of its record."""

    timestamp: int
    offset: int


class TimeIndex:
    """An index that maps times to offsets, for the lookup of offsets by time."""

    def __init__(self, path: str, handles: Handles) -> None:
        self.path = path
        self._handles = handles
        self._entries: list[TimeEntry] = []

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def last(self) -> TimeEntry:
        """The last entry; (-1, -1) without one."""
        return self._entries[-1] if self._entries else TimeEntry(-1, -1)

    def load(self) -> None:
        """Read the file, if it exists. Raises OSError."""
        self._entries = []
        for entry in map(TimeEntry._make, TIME_ENTRY.iter_unpack(_whole_entries(self.path, TIME_ENTRY.size))):
            if entry.timestamp <= self.last.timestamp or (self._entries and entry.offset <= self.last.offset):
                break
            self._entries.append(entry)

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry, if it is later than the last one. Raises OSError."""
        if timestamp > self.last.timestamp and offset > self.last.offset:
            self._entries.append(TimeEntry(timestamp, offset))
            place = (len(self._entries) - 1) * TIME_ENTRY.size
            _append(self._handles, self.path, TIME_ENTRY.pack(timestamp, offset), place)

    def offset_before(self, timestamp: int) -> int:
        """Return the relative offset at which to start a search for the first record of `timestamp` or later."""
        at = bisect_right(self._entries, timestamp - 1, key=lambda entry: entry.timestamp)
        return self._entries[at - 1].offset if at else 0

    def truncate(self, offset: int) -> None:
        """Remove the entries at and after the relative `offset`. Raises OSError."""
        at = bisect_right(self._entries, offset - 1, key=lambda entry: entry.offset)
        if at < len(self._entries):
            del self._entries[at:]
            _cut(self.path, at * TIME_ENTRY.size)


def _whole_entries(path: str, size: int) -> bytes:
    try:
        data = opening(Path(path).read_bytes)
    except FileNotFoundError:
        return b""
    return data[: len(data) - len(data) % size]


def _append(handles: Handles, path: str, entry: bytes, position: int) -> None:
    """Write an entry at its position. Preallocated bytes after it stay until the next `_cut`."""
    file = handles.get(path, create=True)
    os.pwrite(file.descriptor, entry, position)


def _cut(path: str, size: int) -> None:
    if Path(path).exists():
        os.truncate(path, size)
