"""The offset index and the time index of a segment (broker.md 5.4).

Rule 1: offsets are relative to the segment's base offset. Entries ascend: by offset and position in the offset index,
        by time and offset in the time index.
Rule 2: closed files are exactly as long as their entries. Java's brokers preallocate index files with zeros, so an
        entry of zeros after the first entry marks the end of the index.
Rule 3: an index can be rebuilt: missing or damaged entries are made anew from the log (`segment.recover`).

Kafka: `OffsetIndex`, `TimeIndex`.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import NamedTuple

from actors.storage.log.handles import Handles, opening

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
