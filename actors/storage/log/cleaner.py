"""Clean a compacted log: only the last record of each key stays.

Rule 1: offsets never change, and the batches that stay keep their first and last offset. Nothing at or above the first
        uncleanable offset changes: the active segment, what may still be rolled back, and what is younger than
        `min.compaction.lag.ms`.
Rule 2: the first pass maps the keys from the first dirty offset on to their last offsets. If the map is full, only the
        records up to its last offset are cleaned. The second pass copies all segments before that offset in groups:
        what may be dropped is left out.
Rule 3: a group is written to `.cleaned` files and flushed. The files become `.swap` files, then replace the old
        segments (`leftovers`). The offset where the next cleaning begins is stored after that, so a kill at any moment
        leaves the old segments or the new ones, and at worst the work is repeated.
Rule 4: a tombstone stays for `delete.retention.ms` after the first cleaning that met it, and so does the marker of a
        transaction whose records are gone. The batch has that time (KIP-534). Records of aborted transactions go at
        once; control records are never compared by key. Messages of formats 0 and 1 have no such time: the
        tombstones of a segment go if it is older, by `delete.retention.ms`, than the last clean segment.
Rule 5: the last batch of each live producer stays, empty if need be: it has the producer's last sequence number
        (KAFKA-5490). The last batch before the end of a cleaning stays as well, so that a new follower's log does not
        end before it (KAFKA-17076).
Rule 6: the work is a generator, so that the caller can do it in small steps. No other call may truncate or close the
        log meanwhile, except after `abort`.

Kafka: `LogCleaner`, `Cleaner`, `LogCleanerManager.cleanableOffsets`, `CleanedTransactionMetadata`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from actors.storage.log.flushing import Flusher, make_durable
from actors.storage.log.index import AbortedTxn, aborted_in
from actors.storage.log.leftovers import CLEANED, SWAP
from actors.storage.log.log import Log
from actors.storage.log.offset_map import OffsetMap, compiled_put
from actors.storage.log.segment import MAX_RELATIVE, MOST_TOGETHER, Segment
from actors.storage.log.transactions import CompletedTxn
from messages.records import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    TRANSACTION_BIT,
    BatchHeader,
)
from messages.wire import WireError, checksums
from messages.wire.batch_records import KeptRecords, clean_batch
from messages.wire.compression import Data, decompress
from messages.wire.control_batch import read_marker
from messages.wire.message_set import as_batch, as_messages
from messages.wire.record_batch import CRC_FROM, HEADER, MAGIC, has_valid_crc, read_header

EVERYTHING = 2**63 - 1
NONE_KEPT = KeptRecords(0, [], 0, False)
SPECIAL = CONTROL_BIT | TRANSACTION_BIT
RECORDS, BATCH_WORK = (256, 1) if compiled_put is None else (1000, 4)
"""Maximum number of records that one step reads, less than a millisecond of work; and the number of records whose
reading takes as long as the rest of the work for a batch, about 4 us."""
BYTES = 256 << 10
"""Maximum number of bytes that one step copies without reading their records, and that are written in one call."""
OTHERS = 8
"""Number of batches that are read one by one after a batch that could not be passed over."""
WAITS = -1
"""Yielded while the disk flushes what was written."""


class DamagedLog(ValueError):
    """The log cannot be cleaned, because a batch in it is damaged."""


class Dirt(NamedTuple):
    """What a cleaning of a log would do: sizes are in bytes, offsets as in rule 1.

    `overdue_ms` is for how long a record has been dirty beyond `max.compaction.lag.ms`.
    """

    first_dirty: int
    end: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int


def unpack(header: BatchHeader, batch: Data) -> bytes:
    """Return the decompressed records of a batch."""
    return decompress(memoryview(batch)[HEADER.size :], header.codec)


def measure(log: Log, checkpoint: int, last_stable: int, now_ms: int) -> Dirt:
    """Return what can be cleaned in a log.

    Args:
        log: The log.
        checkpoint: The offset up to which it is clean.
        last_stable: Its last stable offset.
        now_ms: The time in ms.
    """
    segments, config = log.parts, log.config
    first_dirty = checkpoint if log.start <= checkpoint <= log.end else log.start
    if not segments:
        return Dirt(first_dirty, first_dirty, 0, 0, 0)
    *others, active = segments
    dirty = [part for part, later in pairwise(segments) if later.base_offset > first_dirty]
    end = min(last_stable, active.base_offset)
    if config.min_compaction_lag_ms > 0:
        lag = now_ms - config.min_compaction_lag_ms
        end = min([end, *(part.base_offset for part in dirty if part.max_timestamp > lag)])
    end = max(end, first_dirty)
    holding = [part.base_offset for part, later in pairwise(segments) if part.base_offset <= end < later.base_offset]
    end = holding[0] if holding else active.base_offset
    times = [part.first_timestamp for part in dirty if part.first_timestamp > 0]
    overdue = now_ms - max(config.max_compaction_lag_ms, 0) - min(times, default=EVERYTHING)
    return Dirt(
        first_dirty,
        end,
        sum(part.size for part in others if part.base_offset < first_dirty),
        sum(part.size for part in dirty if part.base_offset < end),
        max(0, overdue),
    )


class CleanedTransactions:
    """The transactions in the batches of one pass, in the order of the log.

    `entries` returns the index entries of aborted transactions of which the pass has met records: their markers stay.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._coming = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}
        """Producer id -> its aborted transaction, and whether records of it were met."""
        self._committed: set[int] = set()
        """Producers of which records of a committed transaction were met."""
        self.entries: list[AbortedTxn] = []

    def _begin(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            entry = self._coming.popleft()
            self._aborted.setdefault(entry.producer_id, (entry, False))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch of records belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._begin(header.last_offset)
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = aborted[0], True
        return True

    def is_spent(self, header: BatchHeader, batch: bytes) -> bool:
        """Return whether no record of a control batch's transaction is left. A batch without a record is spent."""
        self._begin(header.last_offset)
        if not header.record_count:
            return True
        marker = read_marker(batch, header)
        if marker is None:
            return False
        if marker.committed:
            met = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not met
        entry, met = self._aborted.pop(header.producer_id, (None, False))
        if met and entry is not None:
            self.entries.append(entry)
        return not met


Steps = Generator[int, None, None]
"""The work of a cleaning: each item is the number of bytes that were read and written, or WAITS."""


class Cleaning:
    """A cleaning of one log.

    Args:
        log: The log.
        dirt: What `measure` has returned.
        now_ms: The time in ms.
        slots: Maximum number of slots of the offset map.
        load: The fraction of the slots that may be in use.
        buffer: Number of bytes that are read together.
        flusher: Flushes the new files.
    """

    def __init__(
        self, log: Log, dirt: Dirt, now_ms: int, slots: int, load: float, buffer: int, flusher: Flusher
    ) -> None:
        self.dirt = dirt
        self.end = dirt.first_dirty
        """The offset where the next cleaning begins, as far as the keys are mapped."""
        self.records = 0
        """Number of records that were read."""
        self.bytes_before = self.bytes_after = 0
        self.map = OffsetMap(slots, load)
        self._log = log
        self._now_ms = now_ms
        self._buffer = max(buffer, HEADER.size)
        self._flusher = flusher
        self._transactions = CleanedTransactions(())
        self._draft: Segment | None = None
        """The new segment of the group."""
        self._pieces: list[bytes] = []
        self._headers: list[BatchHeader] = []
        self._pending = 0
        """Number of bytes in `_pieces`."""
        self._message_horizon_ms = 0
        """Tombstones of formats 0 and 1 go from segments that were modified up to this time (rule 4)."""

    @property
    def figures(self) -> tuple[int, ...]:
        """First dirty offset, that of the next cleaning, bytes before and after, records read, keys, map use in %."""
        return (
            *(self.dirt.first_dirty, self.end, self.bytes_before, self.bytes_after),
            *(self.records, self.map.size, round(100 * self.map.utilization)),
        )

    def steps(self) -> Steps:
        """Do the work.

        Raises:
            DamagedLog: A batch is damaged, or its records are.
            OSError: The disk failed.
        """
        log, dirt = self._log, self.dirt
        segments = [part for part in log.parts if part.base_offset < dirt.end]
        bases = [*(part.base_offset for part in segments[1:]), dirt.end][: len(segments)]
        aborted = aborted_in((part.aborted for part in log.parts), 0, EVERYTHING)
        self._transactions = CleanedTransactions(each for each in aborted if each.last_offset >= dirt.first_dirty)
        for part, next_base in zip(segments, bases, strict=True):
            if next_base > dirt.first_dirty and not (yield from self._map(part, next_base)):
                break
        self._transactions = CleanedTransactions(aborted)
        clean = [part for part in segments if part.base_offset < dirt.first_dirty]
        if clean:
            self._message_horizon_ms = clean[-1].modified_ms - log.config.delete_retention_ms
        producers = log.producers.last_batches()
        for group in self._groups(segments, bases):
            yield from self._clean(group, producers)

    # ------------------------------------------------------------------------------------------------ mapping

    def _map(self, segment: Segment, next_base: int) -> Generator[int, None, bool]:
        """Map the keys of a segment. Return False if the map is full (rule 2)."""
        first = segment.find(self.dirt.first_dirty) if segment.base_offset < self.dirt.first_dirty else None
        keys, first_dirty, work, read = self.map, self.dirt.first_dirty, 0, 0
        start = first.position if first is not None else 0
        for header, batch, reading in self._batches(segment, start, self._skim_keys):
            if work >= RECORDS or read >= BYTES:
                yield read
                work = read = 0
            work, read = work + reading, read + len(batch)
            if header is None:
                continue
            if header.magic < MAGIC:
                view, header = as_batch(batch, header)
                batch = bytes(view)
            attributes, left, base = header.attributes, header.record_count, header.base_offset
            if not (attributes & SPECIAL and self._is_skipped(header, batch)):
                data, position = (unpack(header, batch), 0) if attributes & CODEC_MASK else (batch, HEADER.size)
                self.records += left
                while left:
                    count = left if left < RECORDS else RECORDS
                    if count > keys.capacity - keys.size:
                        for _ in keys.grow(count):
                            yield 0
                    done, position, last = keys.put(data, position, count, base, first_dirty)
                    if last >= self.end:
                        self.end = last + 1
                    if done < count:
                        return False
                    left -= count
                    work += count
                    if work >= RECORDS:
                        yield read
                        work = read = 0
            self.end = max(self.end, header.next_offset)
        self.end = max(self.end, next_base)
        yield read
        return True

    def _skim_keys(self, data: bytes, at: int) -> tuple[int, int]:
        """Map the keys of plain batches; return the position after them, and how many batches and records they are."""
        at, records, batches, end = self.map.put_batches(data, at, RECORDS, self.dirt.first_dirty)
        self.records += records
        self.end = max(self.end, end)
        return at, records + batches

    def _is_skipped(self, header: BatchHeader, batch: bytes) -> bool:
        """Note a control batch or a batch of a transaction; return whether no key of it is mapped."""
        if header.is_control:
            self._transactions.is_spent(header, batch)
            return True
        return self._transactions.is_aborted(header)

    def _batches(
        self, segment: Segment, position: int, skim: Callable[[bytes, int], tuple[int, int]]
    ) -> Iterator[tuple[BatchHeader | None, bytes, int]]:
        """Yield the batches of a segment from a position on, and the work of reading them, counted in records.

        Those that `skim` passes over come together, without a header.
        """
        data, at, end, others = b"", 0, segment.size, 0
        while position < end:
            others -= 1
            if others <= 0:
                after, skimmed = skim(data, at)
                if after > at:
                    yield None, data[at:after], skimmed
                    position += after - at
                    at = after
                    continue
                if len(data) > at:
                    others = OTHERS
            size = 0
            try:
                if len(data) - at < HEADER.size:
                    data, at = segment.read(position, self._buffer), 0
                header = read_header(data, at)
                size = header.length + LOG_OVERHEAD
                if len(data) - at < size:
                    data, at = segment.read(position, max(self._buffer, size)), 0
            except WireError:
                size = 0
            batch = data[at : at + size]
            if len(batch) < size or not size:
                raise DamagedLog(f"{segment.path}: the batch at position {position} is cut")
            if checksums.crc32c(batch[CRC_FROM:]) != header.crc and not has_valid_crc(batch, 0, header):
                raise DamagedLog(f"{segment.path}: the batch at position {position} is damaged")
            yield header, batch, BATCH_WORK
            position += size
            at += size

    # ------------------------------------------------------------------------------------------------ groups

    def _groups(self, segments: Sequence[Segment], bases: Sequence[int]) -> list[list[Segment]]:
        """Return the segments to be cleaned; each group becomes one segment (Kafka's `groupSegmentsBySize`)."""
        config = self._log.config
        groups: list[list[Segment]] = []
        size = offsets = times = 0
        for part, next_base in zip(segments, bases, strict=True):
            if part.base_offset >= self.end:
                break
            size, offsets, times = size + part.size, offsets + 8 * len(part.offsets), times + 12 * len(part.times)
            if (
                groups
                and size <= config.segment_bytes
                and max(offsets, times) <= config.segment_index_bytes
                and (not part.size or next_base - 1 - groups[-1][0].base_offset <= MAX_RELATIVE)
            ):
                groups[-1].append(part)
            else:
                groups.append([part])
                size, offsets, times = part.size, 8 * len(part.offsets), 12 * len(part.times)
        return groups

    def _clean(self, group: Sequence[Segment], producers: dict[int, tuple[int, int]]) -> Steps:
        """Copy what stays of a group to a new segment, which replaces the group (rule 3)."""
        log = self._log
        self._draft = draft = log.draft(group[0].base_offset)
        draft.remove_files()
        draft.create()
        self._transactions.entries.clear()
        for part in group:
            yield from self._copy(part, producers)
        self._write()
        for entry in self._transactions.entries:
            draft.aborted.append(CompletedTxn(*entry[1:]))
        draft.close_for_writing()
        modified = Path(group[-1].path).stat().st_mtime_ns
        os.utime(draft.path, ns=(modified, modified))
        yield from self._flush(draft.files)
        draft.rename(CLEANED, SWAP)
        yield from self._flush((log.folder,))
        log.replace(group, draft)
        self._draft = None
        self.bytes_before += sum(part.size for part in group)
        self.bytes_after += draft.size
        yield from self._flush((log.folder,))

    def _flush(self, paths: Sequence[str]) -> Steps:
        flush = self._flusher.submit(make_durable, paths)
        while not flush.done():
            yield WAITS
        flush.result()

    def _copy(self, segment: Segment, producers: dict[int, tuple[int, int]]) -> Steps:
        keys, end, work, read = self.map, self.end, 0, 0
        is_late = segment.modified_ms <= self._message_horizon_ms
        for header, batch, reading in self._batches(segment, 0, self._skim_kept):
            if work >= RECORDS or read >= BYTES:
                yield read
                work = read = 0
            work, read = work + reading, read + len(batch)
            if header is None:
                continue
            if header.magic < MAGIC:
                work += self._copy_message(header, batch, is_late)
                continue
            attributes, left, base = header.attributes, header.record_count, header.base_offset
            has_horizon = bool(attributes & DELETE_HORIZON_BIT)
            is_due = has_horizon and self._now_ms >= header.first_timestamp
            sets_horizon = False
            kept = NONE_KEPT
            if attributes & CONTROL_BIT:
                sets_horizon = self._transactions.is_spent(header, batch)
                if not (sets_horizon and (is_due or not left)):
                    data, kept = batch, KeptRecords(left, [(HEADER.size, len(batch))], 0, False)
            elif not (attributes & TRANSACTION_BIT and self._transactions.is_aborted(header)):
                data, position = (unpack(header, batch), 0) if attributes & CODEC_MASK else (batch, HEADER.size)
                self.records += left
                while left:
                    count = left if left < RECORDS else RECORDS
                    found, position = keys.find_kept(data, position, count, base, end, is_due)
                    kept = found if kept is NONE_KEPT else kept.append(found)
                    left -= count
                    work += count
                    if work >= RECORDS:
                        yield read
                        work = read = 0
                sets_horizon = kept.has_tombstone
            if not kept.number:
                if header.next_offset == end or self._is_last(header, producers):
                    self._add(clean_batch(header, b"", kept))
            elif kept.number == header.record_count and (has_horizon or not sets_horizon):
                self._add(batch, header)
            elif has_horizon or not sets_horizon:
                self._add(clean_batch(header, data, kept))
            else:
                self._add(clean_batch(header, data, kept, self._now_ms + self._log.config.delete_retention_ms))
        yield read

    def _copy_message(self, header: BatchHeader, message: bytes, is_late: bool) -> int:
        """Copy what stays of a message of format 0 or 1; return the number of records in it (rule 4)."""
        view, whole = as_batch(message, header)
        data, count = unpack(whole, view), whole.record_count
        kept, _ = self.map.find_kept(data, 0, count, whole.base_offset, self.end, is_late)
        if kept.number == count:
            self._add(message, header)
        elif kept.number:
            rest = clean_batch(whole, data, kept)
            self._add(as_messages(rest, header.magic, whole.base_offset, header.codec))
        self.records += count
        return count

    def _skim_kept(self, data: bytes, at: int) -> tuple[int, int]:
        """Pass over plain batches that stay or go as a whole; return what `_skim_keys` does."""
        at, records, batches, places = self.map.kept_batches(data, at, RECORDS, self.end)
        self.records += records
        for place in places:
            header = read_header(data, place)
            self._add(data[place : place + header.size], header)
        return at, records + batches

    @staticmethod
    def _is_last(header: BatchHeader, producers: dict[int, tuple[int, int]]) -> bool:
        """Return whether the batch is the last one of a live producer (rule 5); without one, its last marker is."""
        if header.producer_id == NO_PRODUCER_ID:
            return False
        last_offset, epoch = producers.get(header.producer_id, (-1, -1))
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch

    def _add(self, batch: bytes, header: BatchHeader | None = None) -> None:
        """Add a batch to the new segment; `header` is known for batches that do not change."""
        self._pieces.append(batch)
        self._headers.append(header or read_header(batch))
        self._pending += len(batch)
        if len(self._pieces) == MOST_TOGETHER or self._pending >= BYTES:
            self._write()

    def _write(self) -> None:
        if self._draft is not None and self._pieces:
            self._draft.append(self._pieces, self._headers)
            self._pieces, self._headers, self._pending = [], [], 0

    def abort(self) -> None:
        """End the cleaning: remove the new files, so that the log may change.

        The log file goes last: a `.swap` file of an index counts only after that of its log.
        """
        if self._draft is not None:
            self._draft.remove_files()
            self._draft = None
