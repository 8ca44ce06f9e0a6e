"""A segment is a part of a log: one file with batches, and its indexes (broker.md 5.4).

Rule 1: batches are contiguous, in the order of appends. The segment's size is the position after its last readable
        batch. Bytes from this position on are unreadable. They are removed before the next write, and a copy of the
        file is kept as `*.damaged`.
Rule 2: if more than `index.interval.bytes` were appended since the last index entry, the next batch gets an
        entry. The bytes of this batch count for the next index entry.
Rule 3: an index only gives the position at which a search begins. If there is no batch at this position, or if the
        batch there begins after the requested offset, the search begins at the segment's start.
Rule 4: loads and reads go from batch to batch by the lengths in the headers, as in Kafka. A batch with a wrong format
        or checksum is stepped over, and only its reader notices the damage. A batch with an impossible length ends the
        segment. A load does not change the file.
Rule 5: recovery, after an unclean shutdown, also checks each format and checksum. The first incomplete or damaged batch
        ends the segment, and the indexes are rebuilt.
Rule 6: messages of format 0 or 1, which Kafka before 0.11 wrote, are batches as well (`record_batch`, rule 3).

Kafka: `LogSegment`.
"""

from __future__ import annotations

import os
import shutil
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from actors.storage.log.flushing import make_durable
from actors.storage.log.handles import Handles, opening
from actors.storage.log.index import OffsetIndex, TimeIndex, TransactionIndex
from actors.storage.log.region import FileRegion, TruncationFlag
from messages.records import LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader
from messages.wire import WireError
from messages.wire.record_batch import HEADER, MAGIC, has_valid_crc, read_header

DAMAGED = ".damaged"
"""The suffix of a kept file with unreadable bytes. Neither this program nor Kafka reads or removes such a file."""

RECENT = 512
"""Number of last batches whose positions are cached, because consumers and followers mostly read them."""

MAX_RELATIVE = 2**31 - 1
MOST_TOGETHER = 500
"""Maximum number of client batches in one write. Each has two pieces, and the system's limit is 1024."""
_READ_AHEAD = 1 << 20


class BatchPosition(NamedTuple):
    """A batch header, and the position of the batch in its segment."""

    position: int
    header: BatchHeader

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.header.size


def damaged_path(path: str) -> str:
    """Return an unused path for the damaged file at `path`."""
    paths = (f"{path}{f'.{number}' if number else ''}{DAMAGED}" for number in count())
    return next(each for each in paths if not Path(each).exists())


class Segment:
    """A segment of the log in `folder`; the segment begins at `base_offset`.

    Every method may raise OSError.
    """

    def __init__(
        self, folder: str, base_offset: int, handles: Handles, index_interval: int, max_index: int, suffix: str = ""
    ) -> None:
        self.base_offset = base_offset
        self.path = f"{folder}/{base_offset:020d}.log{suffix}"
        self.size = 0
        self.unreadable = 0
        """Number of bytes in the file after the last readable batch (rule 1)."""
        self.first_timestamp = NO_TIMESTAMP
        """Timestamp of the first batch, from which the segment's age is measured."""
        self.seen_ms = NO_TIMESTAMP
        """Time of the first append to this object, if the segment has no timestamps."""
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1
        self.offsets = OffsetIndex(f"{folder}/{base_offset:020d}.index{suffix}", handles)
        self.times = TimeIndex(f"{folder}/{base_offset:020d}.timeindex{suffix}", handles)
        self.aborted = TransactionIndex(f"{folder}/{base_offset:020d}.txnindex{suffix}", handles)
        self.lacks_aborted = False
        """Whether `aborted` lost its entries at the opening, so that the log must add them again."""
        self._handles = handles
        self._index_interval = index_interval
        self._max_index = max_index
        self._since_entry = 0
        self._recent_offsets: list[int] = []
        self._recent_positions: list[int] = []
        self._uncut: TruncationFlag | None = None
        """Flag that is shared by all regions since the last truncation."""

    def set_folder(self, folder: str) -> None:
        """Set the folder of the segment's files, after it was renamed."""
        for file in (self, self.offsets, self.times, self.aborted):
            file.path = f"{folder}/{os.path.basename(file.path)}"  # noqa: PTH119  (text in, text out)

    @property
    def files(self) -> tuple[str, str, str, str]:
        """The paths of the segment's files, whether or not they exist."""
        return self.path, self.offsets.path, self.times.path, self.aborted.path

    @property
    def durable_files(self) -> tuple[str, ...]:
        """The paths of the files that a flush makes durable.

        The offset index and the time index are not among them: they are rebuilt if they do not match the batches.
        """
        return (self.path, self.aborted.path) if len(self.aborted) else (self.path,)

    def has_capacity(self, entries: int) -> bool:
        """Return whether each index has space for a number of new entries (`segment.index.bytes`).

        The time index also keeps space for the entry that it gets at the end of the segment.
        """
        offsets, times = len(self.offsets) + entries, len(self.times) + entries + 1
        return 8 * offsets <= self._max_index and 12 * times <= self._max_index

    @property
    def modified_ms(self) -> int:
        """The modification time of the segment's file in ms."""
        return self._handles.modified_ms(self.path)

    # ------------------------------------------------------------------------------------------------ writing

    def append(self, pieces: Sequence[bytes | memoryview], headers: Sequence[BatchHeader]) -> None:
        """Append batches in one write.

        Args:
            pieces: Bytes of the batches.
            headers: Headers of the batches, as these bytes contain them.

        Raises:
            OSError: The write failed or was incomplete. An incomplete write is undone.
        """
        self.remove_unreadable()
        file = self._handles.get(self.path, create=True)
        written = self._handles.write(file.descriptor, pieces, self.size)
        if written != sum([header.size for header in headers]):
            os.ftruncate(file.descriptor, self.size)
            raise OSError(28, "No space left on device")
        for header in headers:
            self._count(header)

    def _count(self, header: BatchHeader) -> None:
        """Account for a batch that was written at the segment's end: index it (rule 2) and cache its position."""
        base_offset, length, _, _, _, _, delta, _, time, _, _, _, _ = header
        size, last = length + LOG_OVERHEAD, base_offset + delta
        if self.first_timestamp == NO_TIMESTAMP:
            self.first_timestamp = time
        if time > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = time, last
        if self._since_entry > self._index_interval and 0 <= last - self.base_offset <= MAX_RELATIVE:
            self.offsets.append(last - self.base_offset, self.size)
            if self.max_timestamp_offset >= 0:
                self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            self._since_entry = 0
        self._since_entry += size
        self._recent_offsets.append(base_offset)
        self._recent_positions.append(self.size)
        if len(self._recent_offsets) >= 2 * RECENT:
            del self._recent_offsets[:RECENT], self._recent_positions[:RECENT]
        self.size += size

    def remove_unreadable(self) -> None:
        """Remove the unreadable bytes from the file, and keep a copy of the file (rule 1)."""
        if self.unreadable:
            self._keep_copy()
            os.truncate(self.path, self.size)
            self.unreadable = 0

    def _keep_copy(self) -> None:
        copy = damaged_path(self.path)
        shutil.copyfile(self.path, copy)
        make_durable((copy,))

    def create(self) -> None:
        """Create the empty file. In a log without other segments, only this file's name records the log end offset."""
        self._handles.get(self.path, create=True)

    def close_for_writing(self) -> None:
        """End writing: add the largest timestamp to the time index.

        Both indexes then have a file, even if it is empty: Kafka recovers a segment without an index file.
        """
        if self.max_timestamp_offset >= 0:
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        if Path(self.path).exists():
            for path in (self.offsets.path, self.times.path):
                self._handles.close(path)
                opening(Path(path).touch)

    def flush(self) -> None:
        """Flush the appended batches to disk."""
        for path in self.durable_files if self.size else ():
            os.fsync(self._handles.get(path).descriptor)

    # ------------------------------------------------------------------------------------------------ reading

    def batches(self, position: int = 0, end: int | None = None, checked: bool = False) -> Iterator[BatchPosition]:
        """Yield the batches from `position` to `end`, up to the first incomplete one or one of an impossible length.

        Args:
            position: Position of the first batch.
            end: End position; None means the end of the segment.
            checked: Whether the batches also end at a wrong format or checksum.
        """
        end = self.size if end is None else end
        at_once = _READ_AHEAD if checked else HEADER.size
        data, start = b"", position
        while position < end:
            if position + HEADER.size > start + len(data):
                start, data = position, self._pread(position, at_once)
            try:
                header = read_header(data, position - start, any_format=not checked)
            except WireError:
                return
            if position + header.size > end:
                return
            if checked:
                if position + header.size > start + len(data):
                    start, data = position, self._pread(position, max(header.size, at_once))
                if not has_valid_crc(data, position - start, header):
                    return
            yield BatchPosition(position, header)
            position += header.size

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes of the file, fewer at the segment's end."""
        return self._pread(position, min(size, self.size - position))

    def region(self, position: int, size: int) -> FileRegion | bytes:
        """Return a region of the file, or its bytes (as `read` does) if the limit of open files is reached."""
        if not self._handles.may_lend:
            return self.read(position, size)
        uncut = self._uncut = self._uncut or TruncationFlag()
        return FileRegion(self._handles.get(self.path), self.path, position, min(size, self.size - position), uncut)

    def _pread(self, position: int, size: int) -> bytes:
        file = self._handles.get(self.path)
        return os.pread(file.descriptor, size, position)

    def find(self, offset: int) -> BatchPosition | None:
        """Return the batch with `offset`, or the first after it; None if all are before it."""
        if self._recent_offsets and offset >= self._recent_offsets[0]:
            at = bisect_right(self._recent_offsets, offset) - 1
            position = self._recent_positions[at]
        else:
            position = self._position_before(offset)
        for place in self.batches(position):
            if place.header.last_offset >= offset:
                return place
        return None

    def _position_before(self, offset: int) -> int:
        """Return the position of a batch that begins at or before `offset`. Use the index if it is valid (rule 3)."""
        position = self.offsets.position_before(offset - self.base_offset)
        place = next(self.batches(position), None)
        return position if place is not None and self.base_offset <= place.header.base_offset <= offset else 0

    def find_time(self, timestamp: int, from_offset: int) -> BatchPosition | None:
        """Return the first batch from `from_offset` on whose largest timestamp is `timestamp` or later."""
        if timestamp > self.max_timestamp:
            return None
        relative = self.times.offset_before(timestamp)
        for place in self.batches(self._position_before(self.base_offset + relative)):
            if place.header.max_timestamp >= timestamp and place.header.last_offset >= from_offset:
                return place
        return None

    def upper_bound(self, position: int) -> int | None:
        """Return an offset from the index that is greater than all offsets of the batches before `position`.

        None if the index has no later entry.
        """
        relative = self.offsets.offset_after(position)
        return None if relative < 0 else self.base_offset + relative

    # ------------------------------------------------------------------------------------------------ opening, cutting

    def load(self) -> int:
        """Load a segment after a clean shutdown.

        Read the indexes. Then read the batches from the last entry of the offset index on, to find the segment's end
        (rule 4). If they do not end at the file's end, read all batches. If these do not end earlier, the indexes are
        rebuilt, because they may not match the batches.

        Returns:
            The next offset.
        """
        self.size = size = Path(self.path).stat().st_size
        self.offsets.load()
        self.times.load()
        self.lacks_aborted = not self.aborted.load(self.base_offset)
        start = self.offsets.position_before(MAX_RELATIVE)
        found = self._readable(start)
        whole = self._readable(0) if start and not (found and found[-1].end == size) else None
        if whole is not None and (not found or (whole and whole[-1].end >= found[-1].end)):
            self._remove_indexes()
            for _, header in whole:
                self._count(header)
            found = whole
        else:
            self._count_indexed(found, start)
        self.size = found[-1].end if found else 0
        self.unreadable = size - self.size
        return found[-1].header.next_offset if found else self.base_offset

    def _count_indexed(self, found: Sequence[BatchPosition], start: int) -> None:
        """Account for the batches from the last entry of the indexes on, which is at the position `start`."""
        first = next(self.batches(0), None)
        self.first_timestamp = first.header.max_timestamp if first else NO_TIMESTAMP
        if len(self.times):
            self.max_timestamp = self.times.last.timestamp
            self.max_timestamp_offset = self.times.last.offset + self.base_offset
        for position, header in found:
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
            self._recent_offsets.append(header.base_offset)
            self._recent_positions.append(position)
            self._since_entry = position + header.size - start

    def _readable(self, start: int) -> list[BatchPosition]:
        """Return the batches from the position `start` on, without a last one whose offsets are damaged."""
        found = list(self.batches(start))
        while found and not self._has_end(found[-1]):
            found.pop()
        return found

    def _has_end(self, place: BatchPosition) -> bool:
        """Return whether the last offset of a batch is plausible: the log ends after it.

        The checksum is only needed if unreadable bytes follow, because the batch's length may be wrong, or if the
        records are fewer than the offsets, as they are in a compacted topic, or for a format below 2, because the byte
        with the format may be damaged.
        """
        position, header = place
        if not self.base_offset <= header.base_offset <= header.last_offset <= self.base_offset + MAX_RELATIVE:
            return False
        if header.record_count == header.last_offset_delta + 1 and place.end == self.size and header.magic >= MAGIC:
            return True
        return has_valid_crc(self._pread(position, header.size), 0, header)

    def recover(self, committed: int = 0) -> Iterator[BatchHeader]:
        """Recover the segment (rule 5).

        Yield the header of each valid batch. At the end, truncate the file after the last valid batch. Keep a copy of
        the file if the segment then ends before the offset `committed`.
        """
        size = Path(self.path).stat().st_size
        self._remove_indexes()
        self.aborted.reset()
        self.lacks_aborted = True
        end = self.base_offset
        for _, header in self.batches(0, size, checked=True):
            if header.base_offset < end or header.last_offset - self.base_offset > MAX_RELATIVE:
                break
            self._count(header)
            end = header.next_offset
            yield header
        if self.size < size:
            if end < committed:
                self._keep_copy()
            os.truncate(self.path, self.size)

    def truncate(self, offset: int) -> None:
        """Remove the batch that contains `offset` and all later ones."""
        place = self.find(offset)
        if place is None:
            return
        self.remove_unreadable()
        if self._uncut is not None:
            self._uncut.holds, self._uncut = False, None
        file = self._handles.get(self.path)
        os.ftruncate(file.descriptor, place.position)
        relative = place.header.base_offset - self.base_offset
        self.offsets.truncate(relative)
        self.times.truncate(relative)
        self.aborted.truncate(place.header.base_offset)
        self._recent_offsets.clear()
        self._recent_positions.clear()
        self.size = place.position
        self._since_entry = self.size - self.offsets.position_before(MAX_RELATIVE)
        self.max_timestamp, last = self.times.last
        self.max_timestamp_offset = last + self.base_offset if last >= 0 else -1
        for _, header in self.batches(self.offsets.position_before(MAX_RELATIVE)):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        if not self.size:
            self.first_timestamp = NO_TIMESTAMP

    def rename(self, old: str, new: str) -> None:
        """Replace the suffix of the files' names, that of the log first (see `leftovers`)."""
        for file in (self, self.offsets, self.times, self.aborted):
            path = file.path.removesuffix(old) + new
            self._handles.close(file.path)
            if Path(file.path).exists():
                Path(file.path).replace(path)
            file.path = path

    def remove_files(self) -> None:
        """Remove the files, that of the log last."""
        for path in reversed(self.files):
            self._handles.close(path)
            Path(path).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files."""
        for path in self.files:
            self._handles.close(path)

    def _remove_indexes(self) -> None:
        """Remove the offset index and the time index, and forget what was counted."""
        for path in (self.offsets.path, self.times.path):
            self._handles.close(path)
            Path(path).unlink(missing_ok=True)
        self.offsets = OffsetIndex(self.offsets.path, self._handles)
        self.times = TimeIndex(self.times.path, self._handles)
        self.size = self._since_entry = 0
        self.first_timestamp = self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1
        self._recent_offsets.clear()
        self._recent_positions.clear()
