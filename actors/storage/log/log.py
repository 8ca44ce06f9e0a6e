"""The class Log stores the records of one partition on disk, in segments (broker.md 5).

Rule 1: `start` is the first offset that is served, and `end` is the offset of the next record. Both only increase,
        except that a truncation, or the method `restart`, lowers `end` and may lower `start`. No other module changes
        either of them.
Rule 2: a leader's append assigns offsets and the leader epoch. A follower appends the leader's bytes unchanged. A batch
        is appended completely or not at all. Client batches that arrive together are written together if none has a
        producer id. Batches with a producer id must be checked one by one.
Rule 3: a new segment begins if the next batch would make the active segment too large or too old, or if an index of the
        active segment is full. The age is that of the records; if the first one has no timestamp, it is that of the
        segment.
Rule 4: complete segments are removed, oldest first, but never a segment with an offset at or above the high watermark.
        Their files are renamed at once and removed at the first check after `file.delete.delay.ms`. `cleaner` replaces
        segments of a compacted log.
Rule 5: after a clean shutdown the log is loaded without checks, and no segment is changed. Otherwise every segment that
        has an offset at or after the recovery point is recovered, and everything after a damaged batch is dropped.
        Damaged records before the recovery point or the high watermark were stored safely, so their loss is an error,
        and their files are kept (`segment`, rule 1).
Rule 6: an append first moves the end, then updates the producers, then the index of aborted transactions. So no offset
        is used twice, even after a failure that follows the write. Readers never see a state between these three steps.
Rule 7: a log whose topic has format 0 or 1 has no leader epochs, because its records do not have them.

Kafka: `Log`; the log end offset (LEO) is `end`, the log start offset `start`.
"""

from __future__ import annotations

import logging
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import attrs

from actors.storage.log import producers
from actors.storage.log.checkpoint import DamagedCheckpoint, EpochStart, LeaderEpochs
from actors.storage.log.flushing import Flush, Flusher, make_durable
from actors.storage.log.handles import Handles
from actors.storage.log.index import AbortedTxn, aborted_in
from actors.storage.log.leftovers import CLEANED, DELETED, SEGMENT_FILE, SWAP, clear_leftovers
from actors.storage.log.region import FileRegion
from actors.storage.log.segment import DAMAGED, MAX_RELATIVE, MOST_TOGETHER, BatchPosition, Segment, damaged_path
from actors.storage.log.transactions import NO_OFFSET
from messages.records import CONTROL_BIT, EARLIEST, LATEST, LOG_OVERHEAD, NO_PRODUCER_ID, NO_TIMESTAMP, BatchHeader
from messages.wire.control_batch import read_marker
from messages.wire.record_batch import MAGIC, has_valid_crc, read_header, stamp, whole_batches

log = logging.getLogger("kafka.log")


Refusal = (
    producers.InvalidProducerEpoch
    | producers.OutOfOrderSequence
    | producers.InvalidTxnState
    | producers.TransactionCoordinatorFenced
)
"""The reason why a batch does not follow its producer's previous batches."""
_REFUSALS = (
    producers.InvalidProducerEpoch,
    producers.OutOfOrderSequence,
    producers.InvalidTxnState,
    producers.TransactionCoordinatorFenced,
)


class OffsetOutOfRange(Exception):
    """The offset is before the log start offset or after the log end offset (error code 1)."""


@attrs.frozen
class LogConfig:
    """The settings of a topic's log, named as in Kafka; sizes are in bytes, times in ms, and -1 is unlimited.

    `compression` is the number of the codec for stored client batches; -1 keeps the client's codec. `compacted` is
    whether the log is cleaned; `min_cleanable_dirty_ratio` is in millionths.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    compression: int = -1
    max_message_bytes: int = 1048588
    compacted: int = False
    min_cleanable_dirty_ratio: int = 500_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    segment_jitter_ms: int = 0
    file_delete_delay_ms: int = 60_000
    message_format: int = MAGIC


class Appended(NamedTuple):
    """The result of an append.

    `append_time` is the log append time in ms, or NO_TIMESTAMP if the topic uses the create time.

    If the batch is a `duplicate`, the offsets are those of the stored batch. `append_time` is then the log append time
    of the stored batch, or the newest timestamp of its records if the topic uses the create time.
    """

    first_offset: int
    last_offset: int
    append_time: int = NO_TIMESTAMP
    duplicate: bool = False


class FetchDataInfo(NamedTuple):
    """The bytes that a read of the log returns: batches, of which the last may be cut off.

    The first batch may start before the fetch offset.

    Attributes:
        data: The bytes, or a region of the file.
        first_is_cut: Whether even the first batch is incomplete.
        crc: The checksum in the first batch's header.
    """

    data: bytes | FileRegion
    first_is_cut: bool = False
    crc: int = 0


class Log:
    """The log of a partition in `folder`; open it with `load`.

    Every method may raise OSError.
    """

    __slots__ = (
        *("_deleted", "_dropped", "_flushed_ms", "_flushing", "_handles", "_segments", "config", "damaged", "end"),
        *("epochs", "expired_by", "folder", "has_aborted", "producers", "recovery_point", "start"),
    )

    def __init__(self, folder: str, handles: Handles, config: LogConfig) -> None:
        self.folder = folder
        self.config = config
        self.start = 0
        self.end = 0
        self.recovery_point = 0
        self.epochs = LeaderEpochs(folder)
        self.producers = producers.Producers(folder)
        self.damaged = False
        """Whether the log lacked records when it was loaded, or its folder has a kept file with unreadable bytes."""
        self.has_aborted = False
        """Whether the log may have an aborted transaction: if not, no index is searched."""
        self.expired_by = ""
        """Which setting, or else the log start offset, removed the segment that `expire` removed last."""
        self._handles = handles
        self._segments: list[Segment] = []
        self._dropped: list[str] = []
        """Files of segments that were dropped since the last call of `remove_deleted`."""
        self._deleted: deque[tuple[int, str]] = deque()
        """(time in ms, path) of files to be removed."""
        self._flushed_ms = 0
        """Time of the last flush by `flush.ms`."""
        self._flushing: tuple[Flush, int] | None = None
        """The flush in progress, and the recovery point after it."""

    @property
    def size(self) -> int:
        """Size of all segments in bytes."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[int, ...]:
        """The base offsets of the segments, ascending."""
        return tuple(segment.base_offset for segment in self._segments)

    @property
    def parts(self) -> tuple[Segment, ...]:
        """The segments, ascending by their base offsets."""
        return tuple(self._segments)

    @property
    def active(self) -> Segment:
        """The segment for appends. It is created when first needed, because a log may stay empty for long."""
        if not self._segments:
            self._segments.append(self._segment(self.end))
        return self._segments[-1]

    @property
    def first_base(self) -> int:
        """The base offset of the first segment; `end` if the log has no segment."""
        return self._segments[0].base_offset if self._segments else self.end

    @property
    def is_blank(self) -> bool:
        """Whether the log has no data and no trace of earlier data."""
        return not (self._segments or self.end or self.start or self.epochs.entries)

    # ------------------------------------------------------------------------------------------------ opening, closing

    def load(self, clean: bool, recovery_point: int = 0, start: int = 0, high_watermark: int = 0) -> None:
        """Load the contents of the folder (rule 5).

        Args:
            clean: Whether the last shutdown was clean.
            recovery_point: The checkpointed recovery point.
            start: The checkpointed log start offset.
            high_watermark: The checkpointed high watermark.
        """
        clear_leftovers(self.folder)
        lacks_epochs = False
        try:
            self.epochs.load()
        except DamagedCheckpoint as damage:
            log.warning("%s: rebuilding the leader epochs from the record batches", damage)
            lacks_epochs, recovery_point = True, 0 if not clean else recovery_point
        entries = [entry.name for entry in Path(self.folder).iterdir()]
        names = (SEGMENT_FILE.fullmatch(entry) for entry in entries)
        bases = sorted(int(name[1]) for name in names if name is not None and name[2] == "log")
        self._segments = [self._segment(base) for base in bases]
        if clean:
            self.end = self._load_segments()
        else:
            self.end = self._recover_segments(recovery_point, max(recovery_point, high_watermark))
        self.damaged |= self.end < high_watermark or any(entry.endswith(DAMAGED) for entry in entries)
        if self.end < high_watermark:
            log.error(
                "%s: the log ends at offset %d, but its records before offset %d were committed. This replica does not"
                " lead while another member of the ISR is alive, and fetches the missing records from the leader.",
                *(self.folder, self.end, high_watermark),
            )
        for _, (_, header) in self._places(0, self.end) if clean and lacks_epochs else ():
            self._note_epoch(header)
        self.start = max(start, self.first_base)
        if self.end < self.start:
            self.restart(self.start)
        self.recovery_point = min(max(recovery_point, self.start), self.end) if not clean else self.end
        self.epochs.truncate_from_end(self.end)
        self.epochs.truncate_from_start(self.start)
        self.configure(self.config)
        self.producers.remove_snapshots(0, self.end)
        if clean:
            self._load_producers(self.end, missing_is_none=not self.damaged)
        self.has_aborted = any(len(segment.aborted) for segment in self._segments)

    def configure(self, config: LogConfig) -> None:
        """Change the settings (rule 7)."""
        self.config = config
        if config.message_format < MAGIC:
            self.epochs.truncate_from_end(0)
            self.epochs.save()

    def begin_epoch(self, epoch: int) -> None:
        """Start a leader epoch at the log end offset, unless it is already the latest one (rule 7).

        A log that never had a record has no file yet: the first append writes the epoch.
        """
        if self.config.message_format >= MAGIC:
            self.epochs.assign(epoch, self.end)
            if self._segments:
                self.epochs.save()

    def close(self) -> None:
        """Flush everything and close the files. The caller writes the checkpoints and the clean shutdown marker."""
        if not self._segments:
            return  # nothing was ever written: with 100,000 partitions, many logs are empty
        self.flush()
        self.active.close_for_writing()
        self._snapshot()
        self.epochs.save()
        self.close_files()

    def rename(self, folder: str) -> None:
        """Rename the log's folder. Regions of its files stay readable."""
        self.close_files()
        Path(self.folder).rename(folder)
        self.folder = self.epochs.folder = self.producers.folder = folder
        for segment in self._segments:
            segment.set_folder(folder)

    def close_files(self) -> None:
        """Close the files without a flush: the directory has failed, or will be renamed."""
        self._handles.close_below(self.folder)

    def flush_complete(self, flusher: Flusher) -> bool:
        """Flush the segments before the active one. The recovery point then moves to the active segment.

        If the flusher is asynchronous, a later call of this method takes the result of the flush: it moves the recovery
        point, or raises the disk's error.

        Returns:
            Whether no flush is in progress.
        """
        self._finish_flush()
        if len(self._segments) > 1 and self.recovery_point < self.active.base_offset:
            self._flush_up_to(self.active.base_offset, flusher)
        return self._flushing is None

    def flush_old(self, flusher: Flusher, now_ms: int) -> bool:
        """Flush everything if the last such flush was `flush.ms` ago, as `flush_complete` does.

        Returns:
            Whether this call has begun a flush.
        """
        self._finish_flush()
        is_dirty = self._flushing is None and self.recovery_point < self.end
        if not is_dirty or now_ms - self._flushed_ms < self.config.flush_ms:
            return False
        self._flushed_ms = now_ms
        self._flush_up_to(self.end, flusher)
        return True

    def _flush_up_to(self, offset: int, flusher: Flusher) -> None:
        """Begin to flush the segments that begin below an offset, unless a flush is in progress."""
        if self._flushing is None:
            below = [part for part in self._segments if part.base_offset < offset and part.size]
            doubtful = [part for part in below if self._end_of(part) > self.recovery_point]
            paths = [path for segment in doubtful for path in segment.durable_files]
            self._flushing = flusher.submit(make_durable, paths), offset
            self._finish_flush()

    def _finish_flush(self) -> None:
        if self._flushing is not None and self._flushing[0].done():
            (done, offset), self._flushing = self._flushing, None
            done.result()
            self.recovery_point = max(self.recovery_point, offset)

    def flush(self) -> None:
        """Flush everything from the recovery point on. The recovery point moves to the end."""
        if self.recovery_point < self.end:
            for segment in self._segments:
                if segment is self.active or self._end_of(segment) > self.recovery_point:
                    segment.flush()
            self.recovery_point = self.end
        self._flushing = None

    def _note_loss(self, segment: Segment, count: int, end: int) -> None:
        self.damaged = True
        log.error(
            "%s: %d bytes from position %d on cannot be read: records from offset %d on are missing",
            *(segment.path, count, segment.size, end),
        )

    def _load_segments(self) -> int:
        end = 0
        for segment in self._segments:
            end = self._load_segment(segment)
        return end

    def _load_segment(self, segment: Segment) -> int:
        end = segment.load()
        if segment.unreadable:
            self._note_loss(segment, segment.unreadable, end)
        return end

    def _recover_segments(self, recovery_point: int, safe: int) -> int:
        """Recover the segments from the recovery point on. Keep files of damaged records before the offset `safe`.

        The producers are rebuilt from the newest snapshot before these segments.
        """
        end = self._segments[0].base_offset if self._segments else 0
        doubtful = 0
        for number, segment in enumerate(self._segments):
            if number + 1 < len(self._segments) and self._segments[number + 1].base_offset <= recovery_point:
                end = self._load_segment(segment)
                doubtful = number + 1
        if self._segments:
            self._load_producers(self._segments[doubtful].base_offset, missing_is_none=False)
        for number in range(doubtful, len(self._segments)):
            segment = self._segments[number]
            before = Path(segment.path).stat().st_size
            end = segment.base_offset
            for header in segment.recover(safe):
                end = header.next_offset
                self._note_epoch(header)
                self._note_producer(segment, BatchPosition(segment.size - header.size, header))
            if segment.size < before:
                if end < safe:
                    self._note_loss(segment, before - segment.size, end)
                else:
                    log.warning(
                        "%s: truncating %d damaged bytes at the end; the log now ends at offset %d",
                        *(segment.path, before - segment.size, end),
                    )
                self._drop(self._segments[number + 1 :], keep=end < safe)
                del self._segments[number + 1 :]
                break
        return end

    def _note_epoch(self, header: BatchHeader) -> None:
        if header.leader_epoch > self.epochs.latest:
            self.epochs.assign(header.leader_epoch, header.base_offset)

    def _load_producers(self, offset: int, missing_is_none: bool) -> None:
        """Rebuild the producers as of `offset` from the newest usable snapshot and the batches after it.

        If segments lost their transaction indexes, snapshots after the start of the first of these segments are not
        used. So the batches after the snapshot rebuild the indexes too.
        """
        self.producers.clear()
        lacking = [segment for segment in self._segments if segment.lacks_aborted]
        latest = min([offset, *(segment.base_offset for segment in lacking)])
        since, snapshots = None, self.producers.snapshots()
        for snapshot in reversed(snapshots):
            if snapshot <= latest and self.producers.load_snapshot(snapshot):
                since = snapshot
                break
        if not snapshots and missing_is_none and not lacking:
            return
        for segment, place in self._places(since or self.start, offset):
            self._note_producer(segment, place)
        for segment in lacking:
            segment.lacks_aborted = False

    def _note_producer(self, segment: Segment, place: BatchPosition) -> None:
        """Add a stored batch to its producer's state. Add a transaction that the batch aborts to the index (rule 6)."""
        header = place.header
        if not header.is_control:
            self.producers.add(header)
            return
        marker = read_marker(segment.read(place.position, header.size), header)
        if marker is None:
            return
        ended = self.producers.end(header, marker)
        if ended is not None and not marker.committed:
            segment.aborted.append(ended)
            self.has_aborted = True

    def _places(self, offset: int, end: int) -> Iterator[tuple[Segment, BatchPosition]]:
        for segment in self._segments:
            if self._end_of(segment) > offset and segment.base_offset < end:
                for place in segment.batches():
                    if offset <= place.header.base_offset < end and place.header.magic == MAGIC:
                        yield segment, place

    def _segment(self, base_offset: int, suffix: str = "") -> Segment:
        config = self.config
        return Segment(
            self.folder, base_offset, self._handles, config.index_interval_bytes, config.segment_index_bytes, suffix
        )

    def _end_of(self, segment: Segment) -> int:
        """Return the offset after the segment's last record, which is where the next segment begins."""
        at = self._segments.index(segment) + 1
        return self._segments[at].base_offset if at < len(self._segments) else self.end

    # ------------------------------------------------------------------------------------------------ appending

    def append_as_leader(
        self,
        batches: Sequence[memoryview],
        leader_epoch: int,
        now_ms: int,
        append_time: bool = False,
        from_client: bool = True,
    ) -> Sequence[Appended | Refusal]:
        """Append batches of clients or of a coordinator (rule 2). The caller has already checked their format.

        Args:
            batches: The batches, one per element.
            leader_epoch: Leader epoch of the batches.
            now_ms: The current time in ms.
            append_time: Whether the topic uses LogAppendTime as its timestamp type.
            from_client: Whether the batches are from clients: coordinators' batches have weaker checks.

        Returns:
            For each batch the result of its append, or the reason why it was refused.
        """
        headers = [read_header(batch) for batch in batches]
        if append_time:
            headers = [header._replace(max_timestamp=now_ms) for header in headers]
        time = now_ms if append_time else NO_TIMESTAMP
        if len(headers) > 1 and self._fit_together(headers, now_ms):
            return self._append_clients(batches, headers, leader_epoch, time)
        done: list[Appended | Refusal] = []
        for batch, header in zip(batches, headers, strict=True):
            known = None
            try:
                if header.producer_id != NO_PRODUCER_ID:
                    if from_client:
                        known = self.producers.check(header)
                    else:
                        marker = read_marker(batch, header) if header.is_control else None
                        self.producers.check_coordinators(header, marker)
            except _REFUSALS as error:
                done.append(error)
                continue
            if known is not None:
                done.append(Appended(known.first_offset, known.last_offset, known.timestamp, duplicate=True))
                continue
            if self._must_roll(header.with_position(self.end, leader_epoch), now_ms):
                self.roll(self.end, now_ms)
            done += self._append_clients((batch,), (header,), leader_epoch, time)
        return done

    def _fit_together(self, headers: Sequence[BatchHeader], now_ms: int) -> bool:
        """Return whether client batches can be written together.

        They can if no segment has to begin between them and no batch has a producer id.
        """
        if len(headers) > MOST_TOGETHER or any(header.producer_id != NO_PRODUCER_ID for header in headers):
            return False
        size = sum([header.size for header in headers])
        offsets = sum([header.last_offset_delta + 1 for header in headers])
        newest = max([header.max_timestamp for header in headers])
        active, config = self.active, self.config
        return (
            0 < active.size <= config.segment_bytes - size
            and active.has_capacity(len(headers))
            and active.first_timestamp != NO_TIMESTAMP
            and newest - active.first_timestamp <= self._roll_ms(active)
            and self.end + offsets - active.base_offset <= MAX_RELATIVE
        )

    def _append_clients(
        self, batches: Sequence[memoryview], headers: Sequence[BatchHeader], leader_epoch: int, append_time: int
    ) -> list[Appended]:
        """Write batches into the active segment, in one call."""
        stamp_time = None if append_time == NO_TIMESTAMP else append_time
        pieces: list[bytes | memoryview] = []
        stored: list[BatchHeader] = []
        done: list[Appended] = []
        end = self.end
        for batch, header in zip(batches, headers, strict=True):
            pieces += stamp(batch, header, end, leader_epoch, stamp_time)
            stored.append(header.with_position(end, leader_epoch))
            first, end = end, end + header.last_offset_delta + 1
            done.append(Appended(first, end - 1, append_time))
        self._write(pieces, stored)
        return done

    def append_messages(self, data: bytes, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Append the messages of format 0 or 1 that a leader has made of one batch, in one call."""
        newest = max(header.max_timestamp for header in headers)
        if self._must_roll(headers[-1]._replace(length=len(data) - LOG_OVERHEAD, max_timestamp=newest), now_ms):
            self.roll(self.end, now_ms)
        self._write((data,), headers)

    def append_as_follower(self, data: memoryview, now_ms: int) -> None:
        """Append complete batches of the leader (rule 2).

        Raises:
            ValueError: Offsets do not increase, or a checksum is wrong. Earlier batches stay appended.
        """
        for position, header in whole_batches(data):
            if not has_valid_crc(data, position, header):
                raise ValueError(f"{self.folder}: the batch at offset {header.base_offset} does not match its checksum")
            if header.base_offset < self.end:
                if self.end == self.start and header.next_offset > self.end:
                    self.restart(header.base_offset)
                else:
                    raise ValueError(
                        f"{self.folder}: the batch begins at offset {header.base_offset}, but must not begin before"
                        f" the log end offset {self.end}"
                    )
            latest = self.epochs.latest
            if header.leader_epoch < 0:
                self.epochs.truncate_from_end(0)
            elif header.leader_epoch != latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
                if header.leader_epoch < latest:
                    # The file still has later epochs, and recovery after a crash would not remove them.
                    self.epochs.save()
            if self._must_roll(header, now_ms):
                self.roll(header.base_offset, now_ms)
            self._write((data[position : position + header.size],), (header,))

    def _write(self, pieces: Sequence[bytes | memoryview], headers: Sequence[BatchHeader]) -> None:
        """Write batches into the active segment; `headers` are their headers as stored."""
        self.epochs.save()
        active = self.active
        active.append(pieces, headers)
        self.end = headers[-1].next_offset
        for header in headers:
            if header.producer_id != NO_PRODUCER_ID:
                if header.attributes & CONTROL_BIT:  # a control batch is always written alone
                    self._note_producer(active, BatchPosition(active.size - header.size, header))
                else:
                    self.producers.add(header)
        if self.end - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def _must_roll(self, header: BatchHeader, now_ms: int) -> bool:
        """Return whether a new segment must begin (rule 3)."""
        active, config = self.active, self.config
        if not active.size:
            active.seen_ms = now_ms
            return header.last_offset - active.base_offset > MAX_RELATIVE
        if active.size + header.size > config.segment_bytes or not active.has_capacity(1):
            return True
        if active.first_timestamp != NO_TIMESTAMP:
            age = header.max_timestamp - active.first_timestamp
        else:
            active.seen_ms = now_ms if active.seen_ms == NO_TIMESTAMP else active.seen_ms
            age = now_ms - active.seen_ms
        return age > self._roll_ms(active) or header.last_offset - active.base_offset > MAX_RELATIVE

    def _roll_ms(self, segment: Segment) -> int:
        """Return the maximum age of a segment; its name determines the jitter, so runs of a simulation are equal."""
        config = self.config
        if not config.segment_jitter_ms:
            return config.segment_ms
        name = f"{self.folder.rpartition('/')[2]}/{segment.base_offset}".encode()
        return max(0, config.segment_ms - zlib.crc32(name) % config.segment_jitter_ms)

    def roll(self, base_offset: int, now_ms: int = NO_TIMESTAMP) -> None:
        """Begin a new segment. The next flush makes the finished segment durable."""
        self.active.remove_unreadable()
        self.active.close_for_writing()
        self._segments.append(self._segment(base_offset))
        self.active.seen_ms = now_ms
        self.active.create()
        self._snapshot()

    def _snapshot(self) -> None:
        if len(self.producers):
            self.producers.write_snapshot(self.end)

    # ------------------------------------------------------------------------------------------------ reading

    def read(
        self, offset: int, max_bytes: int, limit: int, at_least_one: bool = False, region_from: int | None = None
    ) -> FetchDataInfo:
        """Read batches of one segment, from the batch that contains `offset`.

        Args:
            offset: First offset to read.
            max_bytes: Maximum number of bytes.
            limit: Offset to stop before.
            at_least_one: Whether the first batch is returned completely even if it exceeds `max_bytes`.
            region_from: A read of at least this many bytes returns a region of the file; None means that no read does.

        Raises:
            OffsetOutOfRange: `offset` is not in the log.
        """
        span = self._span(offset, max_bytes, limit, at_least_one)
        if span is None:
            return FetchDataInfo(b"")
        segment, place, size = span
        stays = region_from is not None and size >= region_from
        data = (segment.region if stays else segment.read)(place.position, size)
        return FetchDataInfo(data, len(data) < place.header.size, place.header.crc)

    def _span(
        self, offset: int, max_bytes: int, limit: int, at_least_one: bool
    ) -> tuple[Segment, BatchPosition, int] | None:
        """Return what `read` has to read: the segment, the first batch and the number of bytes; None without data."""
        if not self.start <= offset <= self.end:
            raise OffsetOutOfRange(f"{self.folder}: offset {offset} is not in [{self.start}, {self.end}]")
        place_in = self._find(offset) if offset < limit else None
        if place_in is None:
            return None
        segment, place = place_in
        end = segment.size
        if limit < self._end_of(segment):
            beyond = segment.find(limit)
            end = beyond.position if beyond is not None else end
        size = end - place.position
        if size > max_bytes:
            size = max(max_bytes, place.header.size) if at_least_one else max_bytes
        return segment, place, size

    def aborted_transactions(self, offset: int, max_bytes: int, limit: int, at_least_one: bool) -> list[AbortedTxn]:
        """Return the aborted transactions for a `read` with these arguments. The list may have more than needed."""
        span = self._span(offset, max_bytes, limit, at_least_one) if self.has_aborted else None
        if span is None:
            return []
        segment, place, size = span
        upper = segment.upper_bound(place.position + size) or self._end_of(segment)
        later = self._segments[self._segments.index(segment) :]
        return aborted_in((each.aborted for each in later), offset, upper)

    def _find(self, offset: int) -> tuple[Segment, BatchPosition] | None:
        """Return the batch that contains `offset`, or the first after it."""
        for segment in self._segments_from(offset):
            place = segment.find(offset)
            if place is not None:
                return segment, place
        return None

    def _segments_from(self, offset: int) -> list[Segment]:
        first = 0
        for number in range(len(self._segments) - 1, -1, -1):
            if self._segments[number].base_offset <= offset:
                first = number
                break
        return self._segments[first:]

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp (ms) in the log; -1 if it is empty."""
        return max([segment.max_timestamp for segment in self._segments], default=-1)

    def batch_for_time(self, timestamp: int, from_offset: int) -> tuple[BatchHeader, bytes] | None:
        """Return the header and the bytes of the first batch whose largest timestamp (ms) is `timestamp` or later.

        Batches that end before `from_offset` are skipped. Return None if there is no such batch.
        """
        for segment in self._segments:
            place = segment.find_time(timestamp, from_offset)
            if place is not None:
                return place.header, segment.read(place.position, place.header.size)
        return None

    def offsets_before(self, timestamp: int, most: int, now_ms: int) -> tuple[int, ...]:
        """Return up to `most` offsets, descending: the end, and the starts of segments modified up to `timestamp` (ms).

        `timestamp` may be LATEST or EARLIEST.

        Kafka: `UnifiedLog.legacyFetchOffsetsBefore`.
        """
        found = [
            (max(part.base_offset, self.start), part.modified_ms if part.size else now_ms) for part in self._segments
        ] or [(self.end, now_ms)]
        if self._segments and self.active.size:
            found.append((self.end, now_ms))
        if timestamp == EARLIEST:
            del found[1:]
        while timestamp not in (EARLIEST, LATEST) and found and found[-1][1] > timestamp:
            found.pop()
        return tuple(sorted([offset for offset, _ in found[::-1][: max(most, 0)]], reverse=True))

    def end_offset_for(self, epoch: int) -> EpochStart:
        """See `LeaderEpochs.end_offset_for`."""
        return self.epochs.end_offset_for(epoch, self.end)

    @property
    def first_unstable(self) -> int:
        """The first offset that may belong to an unfinished transaction; -1 without one."""
        return self.producers.first_unstable

    def raise_high_watermark(self, high_watermark: int) -> int:
        """Update the transactions for a new high watermark. Return the first unstable offset."""
        transactions = self.producers.transactions
        if transactions is None:
            return NO_OFFSET
        transactions.raise_high_watermark(high_watermark)
        return transactions.first_unstable

    # ------------------------------------------------------------------------------------------------ cleaning

    def draft(self, base_offset: int) -> Segment:
        """Return a new segment that will replace segments from this offset on."""
        return self._segment(base_offset, CLEANED)

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace consecutive segments by one whose files are complete and have the suffix of a swap."""
        at = self._segments.index(old[0])
        self._drop(old)
        new.rename(SWAP, "")
        self._segments[at : at + len(old)] = [new]

    # ------------------------------------------------------------------------------------------------ cutting

    def truncate_to(self, offset: int) -> None:
        """Remove all records from `offset` on (rule 1), and an epoch that begins at the end, without records."""
        if self.end > offset <= self.first_base:
            self.restart(offset)
            return
        cuts = offset < self.end
        if cuts:
            # The snapshots are removed before the records; otherwise a crash could leave outdated snapshots.
            self.producers.remove_snapshots(0, offset)
            deleted_segments = [segment for segment in self._segments if segment.base_offset >= offset]
            if deleted_segments:
                self._drop(deleted_segments)
                del self._segments[-len(deleted_segments) :]
            self.active.truncate(offset)
            self.end = offset
            self.start = min(self.start, self.end)
            self.recovery_point = min(self.recovery_point, self.end)
            self._flushing = None  # a flush that is under way does not make later data at these offsets durable
        self.epochs.truncate_from_end(self.end)
        self.epochs.save()
        if cuts:
            self._load_producers(self.end, missing_is_none=False)

    def restart(self, offset: int) -> None:
        """Remove all records and producers, and restart the log at `offset`.

        The snapshots are removed before the segments. In the opposite order, a crash in between would leave snapshots.
        The next process would load one of them as the state at the snapshot's offset.
        """
        self.producers.clear()
        self.producers.remove_snapshots(0, -1)
        self._drop(self._segments)
        self._segments = [self._segment(offset)]
        self.active.create()
        self.start = self.end = self.recovery_point = offset
        self._flushing = None
        self.epochs.truncate_from_end(0)
        self.epochs.save()

    def advance_start(self, offset: int) -> None:
        """Advance the log start offset. Earlier records are removed segment by segment."""
        if offset > self.start:
            self.start = offset
            self.epochs.truncate_from_start(offset)

    def may_expire(self, now_ms: int, producer_expiration_ms: int = producers.EXPIRATION_MS) -> bool:
        """Return whether `expire` or `remove_deleted` would have work if all records were committed."""
        return bool(
            self._dropped
            or (self._deleted and self._deleted[0][0] <= now_ms)
            or self.producers.may_expire(now_ms, producer_expiration_ms)
            or (self._segments and self._removal_reason(self._segments[0], self.end, now_ms))
        )

    def expire(self, high_watermark: int, now_ms: int, producer_expiration_ms: int = producers.EXPIRATION_MS) -> int:
        """Remove segments by retention time, size and log start offset (rule 4), and expire inactive producers.

        Return the number of removed segments.
        """
        self.producers.expire(now_ms, producer_expiration_ms)
        gone = 0
        while self._segments and (why := self._removal_reason(self._segments[0], high_watermark, now_ms)):
            if len(self._segments) == 1:
                if not self.active.size:
                    break
                self.roll(self.end)
            self._drop([self._segments.pop(0)])
            self.advance_start(self._segments[0].base_offset)
            self.expired_by = why
            gone += 1
        if gone:
            self.producers.remove_snapshots(self.start, self.end)
        return gone

    def _removal_reason(self, segment: Segment, high_watermark: int, now_ms: int) -> str:
        """Return which setting, or else the log start offset, removes a segment; "" if it stays."""
        end, config = self._end_of(segment), self.config
        if end > high_watermark or (segment is self.active and not segment.size):
            return ""
        if end <= self.start and segment is not self.active:
            return "log start offset"
        if config.retention_ms >= 0:
            newest = segment.max_timestamp
            if newest < 0:
                newest = segment.modified_ms
            if now_ms - newest > config.retention_ms:
                return "retention.ms"
        is_large = config.retention_bytes >= 0 and self.size - segment.size >= config.retention_bytes
        return "retention.bytes" if is_large else ""

    def _drop(self, segments: Sequence[Segment], keep: bool = False) -> None:
        """Rename the files of segments, newest first, so that a crash leaves a log without a gap.

        The log files of segments with unreadable bytes are kept, with `keep` those of all segments.

        Expired segments are at the start of the log, so they are dropped in separate calls, oldest first.

        `remove_deleted` removes the renamed files.
        """
        for segment in reversed(segments):
            segment.close()
            if keep or segment.unreadable:
                Path(segment.path).replace(damaged_path(segment.path))
            for path in segment.files:
                if Path(path).exists():
                    Path(path).replace(path + DELETED)
                    self._dropped.append(path + DELETED)

    def remove_deleted(self, now_ms: int) -> None:
        """Remove the files of dropped segments whose delay has passed. `load` removes those of a stopped process."""
        due = now_ms + self.config.file_delete_delay_ms
        self._deleted += [(due, path) for path in self._dropped]
        self._dropped.clear()
        while self._deleted and self._deleted[0][0] <= now_ms:
            Path(self._deleted.popleft()[1]).unlink(missing_ok=True)
