"""An I/O adapter for all logs of a broker, like Kafka's LogManager; each call by an actor is recorded.

Actors call it as `self.port("logs").append(...)`, with the path of a log's folder. Arguments and results are text,
numbers, booleans, tuples of them, and bodies of batches, which are recorded by size and checksum. The only exception
that a call raises is OSError; other errors are returned as error codes.

Rule 1: a log is opened when its partition is first needed. The checkpoints of unopened logs are kept. For an empty log,
        only the configuration is kept in memory until the first append or read, because a broker may host 100,000 empty
        logs.
Rule 2: checkpoints are written when they are due and something changed, not for each change (broker.md 5.1).
Rule 3: the clean shutdown marker of a log directory is removed before any log in the directory is read or written. At
        the shutdown, the marker is written if every log in the directory is known to be closed cleanly. A log that was
        opened in this run must be closed cleanly in this run. Logs that were not opened count as closed cleanly only
        if the removed marker existed.
Rule 4: files of dropped segments are removed at a check for old segments, after `file.delete.delay.ms`.
Rule 5: a flusher makes complete segments durable. It may use a thread, so that checkpoints do not wait for the
        disk. Without a thread, checkpoints waited 60 to 130 ms in a measurement. The disk takes a second for a large
        segment. The recovery point moves at the first checkpoint after the flush.
Rule 6: nothing is written to a failed log directory any more: it gets no checkpoints and no clean shutdown marker. The
        disk errors of a log directory do not affect the others.
Rule 7: a checkpoint never has an entry of an earlier log of the same name, even after a kill. The lines of deleted logs
        are removed from the files before the response to the deletion, and in any case before a log is created in the
        same log directory. Lines of logs without a folder are dropped when the files are first read after a start. A
        log start offset or a high watermark that decreases is written before the log is truncated. So a high watermark
        above the log end offset shows that the log has lost committed records.
Rule 8: every call that may move the first unstable offset of a log returns this offset: the first offset of the log's
        earliest unfinished transaction, -1 without one. A partition needs only this value and its high watermark to
        compute its last stable offset.

Rule 9: a log is cleaned in steps, between which other calls may append to it and read it. A call that truncates or
        closes the log ends the cleaning. No segment expires meanwhile.
Rule 10: a log moves to another directory by a copy there, which is truncated with the log. A complete copy replaces the
        log between two other calls. A copy that a stopped process left is not continued; the log is copied again.

Kafka: `LogManager`, `LogCleaner`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from math import ceil
from pathlib import Path
from typing import ClassVar

import attrs

from actors.core.broker.replication_quota import ReplicationQuota
from actors.storage.disk import DiskAdapter
from actors.storage.log import (
    LIMIT,
    NO_DESCRIPTORS,
    Appended,
    Handles,
    InvalidProducerEpoch,
    InvalidTxnState,
    Log,
    LogConfig,
    OffsetOutOfRange,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
    opening,
)
from actors.storage.log.checkpoint import UNDEFINED
from actors.storage.log.cleaner import WAITS, Cleaning, Dirt, Steps, measure
from actors.storage.log.flushing import Flusher, SynchronousFlusher
from actors.storage.log.key_values import Row, key_values
from actors.storage.log.leftovers import remove_topic_id, store_topic_id, stored_topic_id
from actors.storage.log.producers import EXPIRATION_MS, NEVER
from actors.storage.log.transactions import NO_OFFSET
from actors.storage.log_directories import (
    CLEAN_MARKER,
    LOCK_FILE,
    DirectoryCheckpoints,
    Partition,
    parse_name,
)
from messages.log_cleaner import ABORTED, CLEANED, UNCLEANABLE, WAITING, WORKING
from messages.records import (
    EMPTY,
    LARGEST_TIMESTAMP,
    LOG_APPEND_TIME_BIT,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Body,
    body,
)
from messages.wire import WireError
from messages.wire.batch_records import recompress, record_times
from messages.wire.control_batch import EndTransactionMarker, marker_batch
from messages.wire.message_set import UnsupportedCodec, as_batch, as_messages
from messages.wire.record_batch import MAGIC, body_of, read_header, whole_batches

_log = logging.getLogger("kafka.log.LogManager")

NONE, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, OUT_OF_ORDER_SEQUENCE, INVALID_PRODUCER_EPOCH = 0, 1, 2, 45, 47
MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, UNSUPPORTED_FOR_MESSAGE_FORMAT, UNKNOWN_SERVER_ERROR = 10, 18, 43, -1
INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED = 48, 52
"""Kafka's codes for the errors that log operations return."""

PRODUCER_CHECK_MS = 600_000
"""Kafka's default of `producer.id.expiration.check.interval.ms`."""
MAX_RECOMPRESSED = 16 << 20
"""Maximum decompressed size in bytes of a batch that is stored with another codec, because the conversion blocks the
loop."""
SEARCH_STEP = 64
"""Maximum number of records that a search reads in one step. A skipped chunk of decompressed data is a step too."""
SEARCH_SLICE = 32
"""Number of steps in one call of `find_time`."""
MAX_SEARCHES = 64
"""Maximum number of unfinished searches. Further searches complete in one call."""

_FAULTS: dict[type, tuple[int, int, int, int]] = {
    OutOfOrderSequence: (OUT_OF_ORDER_SEQUENCE, -1, -1, -1),
    InvalidProducerEpoch: (INVALID_PRODUCER_EPOCH, -1, -1, -1),
    InvalidTxnState: (INVALID_TXN_STATE, -1, -1, -1),
    TransactionCoordinatorFenced: (TRANSACTION_COORDINATOR_FENCED, -1, -1, -1),
}
"""Class of a producer state error -> result of its batch."""

_BLANK = 0, 0, UNDEFINED, 0, NO_OFFSET
"""Result of `open` for an empty log."""

Failures = tuple[tuple[str, str], ...]
"""(directory, the disk's error) of the directories that could not be written."""


class LogManager:
    """The I/O adapter for the logs in all log directories of the process.

    Args:
        wall_ms: Returns the time in ms.
        region_from: A read of at least this many bytes returns a region of the file; None means that no read does.
        flusher: Makes complete segments durable. None means that they are flushed in the caller's thread.
        open_files: Maximum number of open files.
        producer_expiration_ms: A producer expires if it has appended no batch for this time in ms.
        dates_files: Whether written files get the time of `wall_ms`, which is not the system's.
        keeps_topic_ids: Whether logs keep the ids of their topics; if not, they are removed when a log is opened.
        copy_window: Number and seconds of the samples by which the rate of copies to other directories is measured.
        usage: Returns the time and the CPU seconds of the node's thread.
    """

    _cleaning: ClassVar[list[float]] = [0.0, 0.0]
    """The seconds and CPU seconds of all slices of cleanings: the nodes of a test cluster share a thread."""

    def __init__(
        self,
        wall_ms: Callable[[], int],
        region_from: int | None = None,
        flusher: Flusher | None = None,
        open_files: int = LIMIT,
        producer_expiration_ms: int = EXPIRATION_MS,
        dates_files: bool = False,
        keeps_topic_ids: bool = False,
        copy_window: tuple[int, int] = (11, 1),
        usage: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0),
    ) -> None:
        self._usage = usage
        self._rests_since = self._used()
        """The result of `_used` after the last slice of a cleaning."""
        self._keeps_topic_ids = keeps_topic_ids
        self._wall_ms = wall_ms
        self._region_from = region_from
        self._flusher = flusher or SynchronousFlusher()
        self._handles = Handles(open_files, wall_ms if dates_files else None)
        self._producer_expiration_ms = producer_expiration_ms
        self._producers_checked_ms = wall_ms()
        self._expires_producers = True
        """Whether the check for old segments in progress is also one for expired producers."""
        self._logs: dict[str, Log | tuple[int, ...]] = {}
        """Folder -> log, or the fields of its configuration if the log is empty (rule 1)."""
        self._configs: dict[tuple[int, ...], LogConfig] = {}
        self._directories: dict[str, DirectoryCheckpoints] = {}
        """Path -> log directory, for the directories in which a log was opened or created."""
        self._lost: set[str] = set()
        """Failed directories (rule 6), even if nothing was read or written in them."""
        self._places: dict[str, tuple[DirectoryCheckpoints, Partition]] = {}
        self._searches: dict[int, Generator[None, None, tuple[int, int, int]]] = {}
        """Unfinished searches of `find_time`, by number."""
        self.unreadable_batches = 0
        """Number of unreadable batches that coordinators have found."""
        self._last_search = 0
        self._changed: dict[str, None] = {}
        """Logs whose checkpoint entries may have changed."""
        self._compacted: dict[str, None] = {}
        """Open logs that are cleaned."""
        self._cleanings: dict[str, tuple[Cleaning, Steps]] = {}
        """Cleanings in progress."""
        self._cleaner_ran_ms = wall_ms()
        self._copies: dict[str, Log] = {}
        """Folder of a log -> its copy in another directory, where the log moves (rule 10)."""
        samples, seconds = copy_window
        self._copied = ReplicationQuota(samples=samples, sample_seconds=seconds)
        """The rate of all copies, and its maximum."""
        self._copied_at_once = 1 << 20

    # ------------------------------------------------------------------------------------------------ life

    def open(self, path: str, is_new: bool, config: tuple[int, ...]) -> tuple[int, int, int, int, int]:
        """Open the log at `path`.

        Args:
            path: Folder of the log.
            is_new: Whether the log must be created.
            config: The fields of LogConfig.

        Returns:
            (start, end, latest leader epoch, checkpointed high watermark, first unstable offset)

        Raises:
            OSError: The disk failed.
        """
        if is_new:  # up to 100,000 new logs are opened at a failover, so this path is short
            self._directory(path.rpartition("/")[0]).write_forgotten()
            os.mkdir(path)  # noqa: PTH102  (Path costs as much as the call)
            self._logs[path] = config
            return _BLANK
        known = self._logs.get(path)
        if known is None:
            known = self._logs[path] = opening(lambda: self._load(path, config))
        if isinstance(known, tuple):
            return _BLANK
        directory, partition = self._place(path)
        high_watermark = directory.high_watermarks.get(partition)
        first_unstable = known.raise_high_watermark(high_watermark)
        return known.start, known.end, known.epochs.latest, high_watermark, first_unstable

    def _settings(self, config: tuple[int, ...]) -> LogConfig:
        """Return the LogConfig of these fields. Equal configurations share one object."""
        settings = self._configs.get(config)
        if settings is None:
            settings = self._configs[config] = LogConfig(*config)
        return settings

    def _load(self, path: str, config: tuple[int, ...]) -> Log | tuple[int, ...]:
        """Load the log in the folder. Return only its configuration if the log is empty."""
        directory, partition = self._place(path)
        if not self._keeps_topic_ids:
            remove_topic_id(path)
        opened = Log(path, self._handles, self._settings(config))
        opened.load(directory.clean, *(each.get(partition) for each in directory.points))
        if opened.is_blank:
            return config
        self._changed[path] = None
        self._note_policy(path, opened)
        return opened

    def _note_policy(self, path: str, log: Log) -> None:
        if log.config.compacted:
            self._compacted[path] = None
        elif path in self._compacted:
            del self._compacted[path]
            self._abort_cleaning(path)

    def configure(self, path: str, config: tuple[int, ...]) -> None:
        """Change the configuration: new segments and the retention use it."""
        log = self._logs[path]
        if isinstance(log, Log):
            log.configure(self._settings(config))
            self._note_policy(path, log)
        else:
            self._logs[path] = config

    def close(self, path: str, forget: bool) -> None:
        """Close the log without a flush, before the log's directory is renamed, or after the log has failed.

        `forget` also removes the log from the checkpoints.
        """
        directory, partition = self._places.pop(path) if path in self._places else self._find_place(path)
        log = self._logs.pop(path, None)
        self._changed.pop(path, None)
        self._compacted.pop(path, None)
        self._cleanings.pop(path, None)
        self.end_copy(path)
        if isinstance(log, Log):
            log.close_files()
        if forget:
            directory.forget(partition)

    def lose(self, directory: str) -> None:
        """Mark the directory as failed (rule 6)."""
        self._lost.add(directory)
        for path in [path for path in self._cleanings if path.rpartition("/")[0] == directory]:
            del self._cleanings[path]
        for path, copy in list(self._copies.items()):
            if copy.folder.rpartition("/")[0] == directory:
                self.end_copy(path)

    def close_all(self) -> None:
        """Close every log cleanly, and write the checkpoints and the clean shutdown markers (rules 3, 6).

        A directory that fails, or has logs that were not recovered, gets no marker. Its logs are recovered at the next
        start.
        """
        self._flusher.shutdown()
        for home in {path.rpartition("/")[0] for path in self._logs} - self._lost:
            with contextlib.suppress(OSError):  # the directory then gets no clean shutdown marker
                self._directory(home)
        for path, log in self._logs.items():
            if isinstance(log, tuple):
                continue
            directory = self._place(path)[0].path
            if directory not in self._lost:
                self._changed[path] = None  # the recovery point moves to the log's end, whatever the checkpoint says
                try:
                    self._abort_cleaning(path)
                    log.close()
                except OSError:
                    self._lost.add(directory)
        self._in_each(self._close)
        self._logs.clear()
        self._handles.close_all()

    def abandon(self) -> None:
        """Close every file without a flush, as the system does for a killed process."""
        self._flusher.shutdown(wait=False)
        self._cleanings.clear()
        self._copies.clear()
        self._logs.clear()
        self._handles.close_all()

    def _close(self, directory: DirectoryCheckpoints) -> None:
        directory.take_over()
        self._note_points(directory)
        for points in directory.points:
            points.write(durable=True)
        directory.cleaned.write()
        if directory.clean or self._has_all_of(directory.path):
            opening(Path(directory.path, CLEAN_MARKER).touch)

    def _has_all_of(self, directory: str) -> bool:
        """Return whether every log in the directory has been opened, except for those that are being deleted."""
        with opening(lambda: os.scandir(directory)) as entries:
            return all(entry.path in self._logs or not _is_log(entry) for entry in entries)

    # ------------------------------------------------------------------------------------------------ records

    def append(
        self, path: str, leader_epoch: int, append_time: bool, committed: bool, *batches: Body
    ) -> tuple[int | tuple[int, int, int, int], ...]:
        """Append batches of producers to the log of a leader.

        The caller has already checked the format of the batches.

        Args:
            path: Folder of the log.
            leader_epoch: Leader epoch of the batches.
            append_time: Whether the records get the append time as their timestamp.
            committed: Whether the high watermark moves to the log end offset; the new high watermark is kept for the
                next checkpoint.
            batches: One batch in each body.

        Returns:
            (log end offset, first unstable offset, and for each batch (error code, first offset, last offset, time of
            the append in ms or -1))
        """
        return self._append(path, leader_epoch, append_time, committed, batches, from_client=True)

    def append_as_coordinator(
        self, path: str, leader_epoch: int, append_time: bool, committed: bool, *batches: Body
    ) -> tuple[int | tuple[int, int, int, int], ...]:
        """Append the batches of a coordinator, as `append` does.

        Their producers' epochs are checked, but not their sequence numbers.
        """
        return self._append(path, leader_epoch, append_time, committed, batches, from_client=False)

    def _append(
        self,
        path: str,
        leader_epoch: int,
        append_time: bool,
        committed: bool,
        batches: Sequence[Body],
        from_client: bool,
    ) -> tuple[int | tuple[int, int, int, int], ...]:
        log, now_ms = self._changing(path), self._wall_ms()
        config, bodies = log.config, [memoryview(batch.data) for batch in batches]
        refused = {}
        if config.message_format < MAGIC:
            refused = {
                place: self._append_messages(log, batch, append_time, now_ms) for place, batch in enumerate(bodies)
            }
        elif config.compression >= 0:
            for place, batch in enumerate(bodies):
                try:
                    fresh = recompress(batch, config.compression, MAX_RECOMPRESSED)
                except ValueError:
                    fresh = None
                if fresh is None or len(fresh) > config.max_message_bytes:
                    refused[place] = MESSAGE_TOO_LARGE, -1, -1, -1
                elif len(fresh) > config.segment_bytes:
                    refused[place] = RECORD_LIST_TOO_LARGE, -1, -1, -1
                else:
                    bodies[place] = memoryview(fresh)
        became = iter(
            log.append_as_leader(
                [batch for place, batch in enumerate(bodies) if place not in refused],
                leader_epoch,
                now_ms,
                append_time,
                from_client,
            )
        )
        done = [refused.get(place) or _result_of(next(became)) for place in range(len(bodies))]
        if committed:
            self.note_high_watermark(path, log.end)
        return log.end, log.first_unstable, *done

    def append_marker(
        self,
        path: str,
        leader_epoch: int,
        append_time: bool,
        committed: bool,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
    ) -> tuple[int | tuple[int, int, int, int], ...]:
        """Append a marker that ends a producer's transaction. The marker has the current time.

        The result is as for `append`.
        """
        log, now_ms = self._changing(path), self._wall_ms()
        marker = EndTransactionMarker(commit, coordinator_epoch)
        batch = memoryview(marker_batch(producer_id, producer_epoch, marker, now_ms))
        if log.config.message_format < MAGIC:
            return log.end, log.first_unstable, self._append_messages(log, batch, append_time, now_ms)
        [became] = log.append_as_leader([batch], leader_epoch, now_ms, append_time, from_client=False)
        if committed:
            self.note_high_watermark(path, log.end)
        return log.end, log.first_unstable, _result_of(became)

    def _append_messages(
        self, log: Log, batch: memoryview, append_time: bool, now_ms: int
    ) -> tuple[int, int, int, int]:
        """Append the records of a batch as messages of format 0 or 1; return what `append` does for a batch."""
        config, header, first = log.config, read_header(batch), log.end
        if header.producer_id != NO_PRODUCER_ID:
            return UNSUPPORTED_FOR_MESSAGE_FORMAT, -1, -1, -1
        codec = header.codec if config.compression < 0 else config.compression
        time = now_ms if append_time else None
        try:
            data = as_messages(batch, config.message_format, first, codec, time, MAX_RECOMPRESSED)
        except UnsupportedCodec:
            return UNKNOWN_SERVER_ERROR, -1, -1, -1
        except ValueError:
            return MESSAGE_TOO_LARGE, -1, -1, -1
        headers = [each for _, each in whole_batches(data)]
        if max(each.size for each in headers) > config.max_message_bytes:
            return MESSAGE_TOO_LARGE, -1, -1, -1
        if len(data) > config.segment_bytes:
            return RECORD_LIST_TOO_LARGE, -1, -1, -1
        log.append_messages(data, headers, now_ms)
        return NONE, first, log.end - 1, NO_TIMESTAMP if time is None else time

    def replicate(self, path: str, body: Body) -> tuple[int, int, int]:
        """Append the leader's batches unchanged. Return (error code, log end offset, first unstable offset)."""
        log = self._changing(path)
        try:
            log.append_as_follower(memoryview(body.data), self._wall_ms())
        except (ValueError, WireError) as error:
            _log.error("%s: the leader sent a damaged batch for offset %d: %s", path, log.end, error)
            return CORRUPT_MESSAGE, log.end, log.first_unstable
        return NONE, log.end, log.first_unstable

    def read(
        self, path: str, offset: int, max_bytes: int, limit: int, at_least_one: bool, to_be_sent: bool = True
    ) -> tuple[int, Body]:
        """Read batches, from the batch that contains `offset` up to the offset `limit` (exclusive).

        Args:
            path: Folder of the log.
            offset: First offset to read.
            max_bytes: Maximum number of bytes.
            limit: Offset to stop before.
            at_least_one: Whether the first batch is returned completely even if it exceeds `max_bytes`.
            to_be_sent: Whether the caller only sends the batches. Then they may be returned as regions of files.

        Returns:
            (error code, the batches)
        """
        region_from = self._region_from if to_be_sent else None
        try:
            read = self._log(path).read(offset, max_bytes, limit, at_least_one, region_from)
        except OffsetOutOfRange:
            return OFFSET_OUT_OF_RANGE, EMPTY
        if read.first_is_cut:
            return NONE, EMPTY
        return NONE, body_of(read.data) if isinstance(read.data, bytes) else body(read.data, read.crc)

    def read_committed(
        self, path: str, offset: int, max_bytes: int, limit: int, at_least_one: bool
    ) -> tuple[int, Body, tuple[tuple[int, int], ...]]:
        """Read batches as `read` does.

        The result also has the aborted transactions: (producer id, first offset) of each.
        """
        error_code, read = self.read(path, offset, max_bytes, limit, at_least_one)
        log = self._log(path)
        if error_code != NONE or not (read.size and log.has_aborted):
            return error_code, read, ()
        aborted = log.aborted_transactions(offset, max_bytes, limit, at_least_one)
        return NONE, read, tuple([(each.producer_id, each.first_offset) for each in aborted])

    def producers(self, path: str) -> tuple[tuple[int, int, int, int, int, int], ...]:
        """Return the producers of a log, each with the fields of ProducerState."""
        log = self._logs[path]
        return tuple([tuple(state) for state in log.producers.states()]) if isinstance(log, Log) else ()  # type: ignore[misc]

    def key_values(self, body: Body, offset: int) -> tuple[int, tuple[Row, ...], tuple[str, ...]]:
        """Return the offset after the batches in `body`, their records with a key, and the unreadable batches.

        See `actors.storage.log.key_values`.
        """
        found = key_values(body.data, offset)
        self.unreadable_batches += len(found[2])
        return found

    def find_time(self, path: str, timestamp: int, limit: int, search: int = 0) -> tuple[int, int, int, int]:
        """Find the first record of `timestamp` (ms) or later, below the offset `limit`.

        LARGEST_TIMESTAMP finds the first record with the largest timestamp, as in Kafka even before the log's start.

        If much data must be decompressed, the search takes several calls. The first item of the result is then the
        number of the search, which the next call passes as `search`.

        Returns:
            (0 or the number of the search, time, offset, leader epoch). The last three are -1 if no record is found.
            For a batch that cannot be decompressed, its first timestamp and offset are used.
        """
        steps = self._searches.pop(search, None) or self._searching(self._log(path), timestamp, limit)
        try:
            for _ in range(SEARCH_SLICE):
                next(steps)
            while len(self._searches) >= MAX_SEARCHES:
                next(steps)
        except StopIteration as done:
            return 0, *done.value
        self._last_search += 1
        self._searches[self._last_search] = steps
        return self._last_search, -1, -1, -1

    def offsets_before(self, path: str, timestamp: int, most: int) -> tuple[int, ...]:
        """Return the offsets for a ListOffsets of version 0; see `Log.offsets_before`."""
        return self._log(path).offsets_before(timestamp, most, self._wall_ms())

    def end_search(self, search: int) -> None:
        """Cancel a search of `find_time`."""
        self._searches.pop(search, None)

    def _searching(self, log: Log, timestamp: int, limit: int) -> Generator[None, None, tuple[int, int, int]]:
        start = log.start
        if timestamp == LARGEST_TIMESTAMP:
            start, timestamp = 0, log.max_timestamp
            if timestamp < 0:
                return -1, -1, -1
        while (found := log.batch_for_time(timestamp, start)) is not None:
            place, (data, header) = None, as_batch(found[1], found[0])
            if header.attributes & LOG_APPEND_TIME_BIT:
                place = header.max_timestamp, max(header.base_offset, start)
            else:
                try:
                    for number, place in enumerate(record_times(data, header)):
                        if place is None or not number % SEARCH_STEP:
                            yield
                        if place is not None and place[0] >= timestamp and place[1] >= start:
                            break
                    else:
                        place = None
                except ValueError:
                    place = min(header.first_timestamp, header.max_timestamp), max(header.base_offset, start)
            if place is not None:
                return (*place, header.leader_epoch) if place[1] < limit else (-1, -1, -1)
            start = header.next_offset  # all its records that are not older than `timestamp` are below the log start
        return -1, -1, -1

    def begin_epoch(self, path: str, epoch: int) -> None:
        """Start leader epoch `epoch` at the log end offset, before a record of this epoch is appended.

        If `epoch` is already the latest epoch of the log, its start does not change.
        """
        self._log(path).begin_epoch(epoch)

    def assign_topic_id(self, path: str, topic_id: str) -> str:
        """Let a log keep a topic id unless it keeps one; return the id that it keeps, "" if logs keep none."""
        if not self._keeps_topic_ids:
            return ""
        known = stored_topic_id(path)
        if not known:
            store_topic_id(path, topic_id)
        return known or topic_id

    def latest_epoch(self, path: str) -> int:
        """Return the latest leader epoch in the log; -1 without one."""
        return self._log(path).epochs.latest

    def epoch_end(self, path: str, epoch: int) -> tuple[int, int]:
        """Return (the largest leader epoch up to `epoch`, the start offset of the next epoch); (-1, -1) if unknown."""
        return tuple(self._log(path).end_offset_for(epoch))  # type: ignore[return-value]

    def truncate(self, path: str, offset: int) -> tuple[int, int, int]:
        """Remove all records from `offset` on. Return (start, end, first unstable offset)."""
        log = self._changing(path)
        self._abort_cleaning(path)
        self._lower_points(path, log, offset)
        log.truncate_to(offset)
        if path in self._copies and offset < self._copies[path].end:
            self._copies[path].truncate_to(offset)
        # The truncation has read the log's transaction markers again, and has listed each as not yet replicated. The
        # call of `replicated` removes those below the high watermark from the list. Otherwise they would stay in it
        # until the high watermark moves.
        directory, partition = self._place(path)
        return log.start, log.end, log.raise_high_watermark(min(directory.high_watermarks.get(partition), log.end))

    def restart(self, path: str, offset: int) -> tuple[int, int, int]:
        """Remove all records and restart the log at `offset`. Return (start, end, first unstable offset)."""
        log = self._changing(path)
        self._abort_cleaning(path)
        self._lower_points(path, log, offset)
        log.restart(offset)
        if path in self._copies:
            self._copies[path].restart(offset)
        return log.start, log.end, log.first_unstable

    def _lower_points(self, path: str, log: Log, offset: int) -> None:
        """Before a truncation, ensure that the checkpointed log start offset and high watermark are at most `offset`.

        A high watermark above the log end offset stays: records before it are missing (rule 7).
        """
        directory, partition = self._place(path)
        for points in (directory.log_starts, directory.high_watermarks):
            if offset < points.get(partition) <= log.end:
                points.set(partition, offset)
                points.write()
        base = max((base for base in log.segments if base <= offset), default=offset)
        if base < directory.cleaned.get(partition):  # the log will end in this segment
            directory.cleaned.set(partition, base)
            directory.cleaned.write()

    def advance_start(self, path: str, offset: int) -> int:
        """Advance the log start offset, and return it."""
        log = self._changing(path)
        log.advance_start(offset)
        return log.start

    def sizes(self, paths: tuple[str, ...]) -> tuple[int, ...]:
        """Return the sizes in bytes of these logs, opened or not; -1 if a log is missing or its disk failed."""
        return tuple(map(self._size, paths))

    def volumes(self, directories: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
        """Return the total and usable bytes of the volume of each log directory; -1 where the disk fails."""
        return tuple(map(_volume, directories))

    def log_metrics(self) -> Iterator[tuple[tuple[str, str], tuple[int, int, int, int, int, int]]]:
        """Yield the metrics of each open log.

        An item is ((topic, partition), (bytes, start, end, segments, high watermark, first unstable offset)).

        Empty logs are left out. Logs in failed directories are left out too, as in Kafka. The trace does not record
        this call, because the call comes from outside the actors, possibly from another thread.
        """
        for path, log in list(self._logs.items()):
            if isinstance(log, Log) and path.rpartition("/")[0] not in self._lost:
                topic, partition, _ = parse_name(os.path.basename(path))  # noqa: PTH119  (text in, text out)
                points = self._directories[path.rpartition("/")[0]].high_watermarks
                high_watermark = min(max(points.get((topic, partition)), log.start), log.end)
                sizes = (log.size, log.start, log.end, len(log.segments))
                yield (topic, str(partition)), (*sizes, high_watermark, log.first_unstable)

    def producer_count(self) -> int:
        """Return the number of producer ids in all open logs.

        Like calls of `log_metrics`, this call is not recorded in the trace.
        """
        return sum(len(log.producers) for log in list(self._logs.values()) if isinstance(log, Log))

    def damaged_logs(self) -> int:
        """Return the number of open logs that have lost records, or whose folder has a `*.damaged` file.

        Like calls of `log_metrics`, this call is not recorded in the trace.
        """
        return sum(log.damaged for log in list(self._logs.values()) if isinstance(log, Log))

    def late_transactions(self, longest_ms: int) -> int:
        """Return the number of logs whose earliest open transaction had no batch for `longest_ms`.

        Like calls of `log_metrics`, this call is not recorded in the trace.
        """
        since = self._wall_ms() - longest_ms
        logs = [log for log in list(self._logs.values()) if isinstance(log, Log)]
        return sum(0 <= log.producers.oldest_transaction_ms < since for log in logs)

    def _size(self, path: str) -> int:
        log = self._logs.get(path)
        if isinstance(log, Log):
            return log.size
        try:
            return sum(file.stat().st_size for file in Path(path).glob("*.log"))
        except OSError:
            return -1

    # ------------------------------------------------------------------------------------------------ moves

    def begin_copy(self, path: str, folder: str) -> int:
        """Begin to copy the log at `path` to a new folder (rule 10). Return the log end offset."""
        self.end_copy(path)
        log = self._log(path)
        self._abort_cleaning(path)
        os.mkdir(folder)  # noqa: PTH102
        copy = self._copies[path] = Log(folder, self._handles, log.config)
        if log.start:
            copy.restart(log.start)
        return log.end

    def copy(self, path: str, max_bytes: int) -> tuple[int, int, str]:
        """Copy batches of at most `max_bytes` (see also `limit_copies`), unless the rate is exceeded.

        Returns:
            The number of offsets that are not copied yet, -1 if the log is not being copied; ms to wait because of the
            rate; and the disk's error, which ends the copying.

        Raises:
            OSError: The log cannot be read.
        """
        copy = self._copies.get(path)
        if copy is None:
            return -1, 0, ""
        log, now = self._log(path), self._wall_ms() / 1000
        wait = self._copied.free_at(now) - now
        if wait > 0:
            return log.end - copy.end, ceil(1000 * wait), ""
        restarts = copy.end < log.start
        position = max(copy.end, log.start)
        size = min(max_bytes, self._copied_at_once)
        data = log.read(position, size, log.end, True, None).data if position < log.end else b""
        assert isinstance(data, bytes)
        try:
            if restarts:
                copy.restart(log.start)
            if data:
                copy.append_as_follower(memoryview(data), self._wall_ms())
            else:  # a log that was truncated between two cleaned batches ends in a gap
                copy.end = max(copy.end, log.end)
            if copy.start < log.start <= copy.end:
                copy.advance_start(log.start)
        except OSError as error:
            self.end_copy(path)
            return -1, 0, error.strerror or str(error)
        self._copied.count(len(data), now)
        return log.end - copy.end, 0, ""

    def limit_copies(self, rate: int, at_once: int) -> None:
        """Set the maximum number of bytes per second of all copies, and of bytes that are copied together."""
        self._copied.rate, self._copied_at_once = rate, at_once

    def copied_per_second(self) -> float:
        """Return the rate of all copies in bytes per second. Like calls of `log_metrics`, this is not recorded."""
        return self._copied.measured_rate(self._wall_ms() / 1000)

    def end_copy(self, path: str) -> None:
        """Stop copying a log; the copy's files stay."""
        copy = self._copies.pop(path, None)
        if copy is not None:
            copy.close_files()

    def swap(self, path: str) -> str:
        """Let the complete copy replace the log at `path`, which is then renamed by the caller. Return the new path."""
        log, copy = self._log(path), self._copies.pop(path)
        target = f"{copy.folder.rpartition('/')[0]}/{os.path.basename(path)}"  # noqa: PTH119
        old, partition = self._place(path)
        high_watermark, cleaned = old.high_watermarks.get(partition), old.cleaned.get(partition)
        for epoch, start in log.epochs.entries:  # the batches do not show an epoch that has no record yet
            copy.epochs.assign(epoch, start)
        copy.epochs.save()
        copy.rename(target)
        self.close(path, True)
        self._logs[target], self._changed[target] = copy, None
        self._note_policy(target, copy)
        copy.config = log.config
        new, _ = self._place(target)
        if cleaned:
            new.cleaned.set(partition, cleaned)
            new.cleaned.write()
            old.cleaned.write()
        self.note_high_watermark(target, high_watermark)
        new.high_watermarks.write()
        return target

    def copy_lags(self, folders: tuple[str, ...]) -> tuple[int, ...]:
        """Return the number of offsets that each copy still lacks; -1 for a folder that is not a copy."""
        lags = {copy.folder: self._log(path).end - copy.end for path, copy in self._copies.items()}
        return tuple([lags.get(folder, -1) for folder in folders])

    # ------------------------------------------------------------------------------------------------ housekeeping

    def note_high_watermark(self, path: str, offset: int) -> int:
        """Store the high watermark for the next checkpoint (rule 2). Return the first unstable offset (rule 8)."""
        directory, partition = self._place(path)
        directory.high_watermarks.set(partition, offset)
        log = self._logs.get(path)
        return log.raise_high_watermark(offset) if isinstance(log, Log) else NO_OFFSET

    def checkpoint_high_watermarks(self) -> Failures:
        """Write the changed high watermark checkpoints."""
        return self._in_each(lambda directory: directory.high_watermarks.write())

    def checkpoint(self) -> Failures:
        """Flush complete segments, and write recovery points and log start offsets (rule 5)."""
        return self._in_each(self._checkpoint)

    def flush_old(self) -> Failures:
        """Flush the logs whose last flush was `flush.ms` ago (rule 5)."""
        return self._in_each(self._flush_old)

    def _flush_old(self, directory: DirectoryCheckpoints) -> None:
        now_ms = self._wall_ms()
        for path, log in self._logs.items():
            if isinstance(log, Log) and self._place(path)[0] is directory and log.flush_old(self._flusher, now_ms):
                self._changed[path] = None

    def checkpoint_deletions(self) -> Failures:
        """Remove the lines of deleted logs from the checkpoint files (rule 7)."""
        return self._in_each(DirectoryCheckpoints.write_forgotten)

    def _checkpoint(self, directory: DirectoryCheckpoints) -> None:
        self._note_points(directory)
        directory.recovery_points.write()
        directory.log_starts.write()

    def _in_each(self, write: Callable[[DirectoryCheckpoints], None]) -> Failures:
        """Call `write` for every directory that has not failed (rule 6)."""
        failures = []
        for directory in self._directories.values():
            if directory.path not in self._lost:
                try:
                    write(directory)
                except OSError as error:
                    if error.errno in NO_DESCRIPTORS:
                        _log.error(
                            "Failed to write the checkpoints of %s, retrying: %s", directory.path, error.strerror
                        )
                        continue
                    failures.append((directory.path, error.strerror or str(error)))
        return tuple(failures)

    def expire(self, path: str, high_watermark: int) -> tuple[int, int, str]:
        """Remove old segments. Return (log start offset, number of removed segments, what removed the last one)."""
        if isinstance(self._logs[path], tuple):
            return 0, 0, ""
        log = self._changing(path)
        log.remove_deleted(self._wall_ms())
        if path in self._cleanings:
            return log.start, 0, ""
        gone = log.expire(high_watermark, self._wall_ms(), self._producers_expire_after)
        return log.start, gone, log.expired_by if gone else ""

    @property
    def _producers_expire_after(self) -> int:
        return self._producer_expiration_ms if self._expires_producers else NEVER

    def expirable(self, position: int, count: int) -> tuple[int, tuple[Partition, ...]]:
        """Check `count` logs from `position`. Return the next position or -1, and the logs that may need `expire`.

        Producers expire only in a check that begins `PRODUCER_CHECK_MS` or more after the previous such check.
        """
        looked_at = tuple(islice(self._logs.items(), position, position + count))
        now_ms = self._wall_ms()
        if not position:
            self._expires_producers = now_ms - self._producers_checked_ms >= PRODUCER_CHECK_MS
            self._producers_checked_ms = now_ms if self._expires_producers else self._producers_checked_ms
        expiration = self._producers_expire_after
        due = tuple(
            self._place(path)[1]
            for path, log in looked_at
            if isinstance(log, Log) and log.may_expire(now_ms, expiration)
        )
        return position + count if len(looked_at) == count else -1, due

    # ------------------------------------------------------------------------------------------------ cleaning

    def dirt(self, position: int, count: int) -> tuple[int, tuple[tuple[str, int, int, int, int], ...]]:
        """Measure `count` compacted logs from `position`. Return the next position or -1, and those with work.

        A log is (path, clean bytes, bytes that can be cleaned, `min.cleanable.dirty.ratio` in millionths, ms by which a
        record is dirty beyond `max.compaction.lag.ms`).
        """
        if not position:
            self._cleaner_ran_ms = self._wall_ms()
        paths = tuple(islice(self._compacted, position, position + count))
        found = []
        for path in paths:
            log = self._logs[path]
            is_free = path not in self._cleanings and path not in self._copies
            if isinstance(log, Log) and is_free and path.rpartition("/")[0] not in self._lost:
                dirt = self._dirt(path, log)
                if dirt.cleanable_bytes:
                    ratio = log.config.min_cleanable_dirty_ratio
                    found.append((path, dirt.clean_bytes, dirt.cleanable_bytes, ratio, dirt.overdue_ms))
        return position + count if len(paths) == count else -1, tuple(found)

    def cleaner_ran_before(self) -> int:
        """Return for how many ms no dirty log was looked for. Like calls of `log_metrics`, this is not recorded."""
        return self._wall_ms() - self._cleaner_ran_ms

    def roll_compacted(self, topic: str) -> tuple[tuple[str, bool, int], ...]:
        """End the active segments of a topic's logs, so that all records can be cleaned.

        Returns:
            (path, whether the log is compacted, log end offset) of each log.
        """
        found = []
        for path, log in self._logs.items():
            if self._find_place(path)[1][0] != topic:
                continue
            if not isinstance(log, Log):
                found.append((path, bool(self._settings(log).compacted), 0))
                continue
            if log.config.compacted and log.segments and log.active.size:
                log.roll(log.end, self._wall_ms())
                self._changed[path] = None
            found.append((path, bool(log.config.compacted), log.end))
        return tuple(found)

    def last_stable(self, path: str) -> int:
        """Return the last stable offset of a log; -1 if it is not open."""
        log = self._logs.get(path)
        return self._last_stable(path, log) if isinstance(log, Log) else -1

    def _last_stable(self, path: str, log: Log) -> int:
        directory, partition = self._place(path)
        high_watermark = min(max(directory.high_watermarks.get(partition), log.start), log.end)
        unstable = log.first_unstable
        return unstable if 0 <= unstable < high_watermark else high_watermark

    def _dirt(self, path: str, log: Log) -> Dirt:
        directory, partition = self._place(path)
        return measure(log, directory.cleaned.get(partition), self._last_stable(path, log), self._wall_ms())

    def clean(
        self, path: str, begins: bool, slots: int, load_millionths: int, buffer: int, steps: int
    ) -> tuple[int, int, int, tuple[int, ...], str, int]:
        """Do some steps of the cleaning of a log.

        Args:
            path: Folder of the log.
            begins: Whether the cleaning begins with this call.
            slots: Maximum number of slots of the offset map.
            load_millionths: The part of the slots that may be in use, in millionths.
            buffer: Number of bytes that are read together.
            steps: Number of steps; each takes about a millisecond.

        Returns:
            WORKING, WAITING (for the disk), CLEANED, ABORTED or UNCLEANABLE; the number of bytes that were read; how
            long that took in ms; the figures of a complete cleaning (`Cleaning.figures`); why a cleaning failed; and in
            which part of the time since the last call the node has worked, in percent.
        """
        (before, worked_before), (now, worked) = self._rests_since, self._used()
        busy = round(100 * (worked - worked_before) / (now - before)) if now > before else 0
        try:
            return *self._clean(path, begins, slots, load_millionths, buffer, steps), busy
        finally:
            end, end_worked = self._used()
            LogManager._cleaning[0] += end - now
            LogManager._cleaning[1] += end_worked - worked
            self._rests_since = now, worked

    def _used(self) -> tuple[float, float]:
        """Return the time, and the CPU seconds of the node, both without the slices of cleanings."""
        now, worked = self._usage()
        return now - LogManager._cleaning[0], worked - LogManager._cleaning[1]

    def _clean(
        self, path: str, begins: bool, slots: int, load_millionths: int, buffer: int, steps: int
    ) -> tuple[int, int, int, tuple[int, ...], str]:
        began = self._wall_ms()
        if begins and path in self._compacted:
            log = self._log(path)
            cleaning = Cleaning(
                *(log, self._dirt(path, log), self._wall_ms(), slots, load_millionths / 1e6, buffer, self._flusher)
            )
            self._cleanings[path] = cleaning, cleaning.steps()
        if path not in self._cleanings:
            return ABORTED, 0, 0, (), "the log was truncated, deleted or is no longer compacted"
        cleaning, work = self._cleanings[path]
        state, done, reason = WORKING, 0, ""
        figures: tuple[int, ...] = ()
        try:
            for _ in range(steps):
                size = next(work)
                if size == WAITS:
                    state = WAITING
                    break
                done += size
        except StopIteration:
            del self._cleanings[path]
            directory, partition = self._place(path)
            directory.cleaned.set(partition, cleaning.end)
            directory.cleaned.write()
            state, figures = CLEANED, cleaning.figures
        except ValueError as error:
            self._abort_cleaning(path)
            state, reason = UNCLEANABLE, str(error)
        except OSError:
            self._abort_cleaning(path)
            raise
        return state, done, max(0, self._wall_ms() - began), figures, reason

    def _abort_cleaning(self, path: str) -> None:
        """End the cleaning of a log, before the log is truncated (rule 9)."""
        if path in self._cleanings:
            self._cleanings.pop(path)[0].abort()

    def _changing(self, path: str) -> Log:
        """Return the log at `path`, which is about to change."""
        self._changed[path] = None
        return self._log(path)

    def _log(self, path: str) -> Log:
        """Return the open log at `path`."""
        log = self._logs[path]
        if isinstance(log, tuple):
            self._place(path)  # removes the clean shutdown marker (rule 3)
            log = self._logs[path] = Log(path, self._handles, self._settings(log))
            self._note_policy(path, log)
        return log

    def _note_points(self, directory: DirectoryCheckpoints) -> None:
        """Copy the recovery points and log start offsets of changed logs to the directory's checkpoints."""
        for path in [path for path in self._changed if self._place(path)[0] is directory]:
            log, (_, partition) = self._log(path), self._place(path)
            if log.flush_complete(self._flusher):
                del self._changed[path]
            directory.recovery_points.set(partition, log.recovery_point)
            if log.start > log.first_base:
                directory.log_starts.set(partition, log.start)
            else:
                directory.log_starts.forget(partition)

    def _place(self, path: str) -> tuple[DirectoryCheckpoints, Partition]:
        place = self._places.get(path)
        if place is None:
            place = self._places[path] = self._find_place(path)
            place[0].take_over()
        return place

    def _find_place(self, path: str) -> tuple[DirectoryCheckpoints, Partition]:
        parent, name = os.path.split(path)
        topic, partition, _ = parse_name(name)
        return self._directory(parent), (topic, partition)

    def _directory(self, path: str) -> DirectoryCheckpoints:
        directory = self._directories.get(path)
        if directory is None:
            directory = self._directories[path] = opening(lambda: DirectoryCheckpoints(path))
        return directory


def _volume(directory: str) -> tuple[int, int]:
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return -1, -1
    return usage.total, usage.free


def _result_of(became: Appended | Exception) -> tuple[int, int, int, int]:
    return _FAULTS[type(became)] if isinstance(became, Exception) else (NONE, *became[:3])


def recover(
    directories: Iterable[str], wall_ms: Callable[[], int], open_files: int = LIMIT, keeps_topic_ids: bool = False
) -> None:
    """Recover the logs in each directory that has no clean shutdown marker, and close these logs cleanly.

    A process calls this function before it serves clients, because the recovery of a gigabyte takes seconds. Kafka's
    brokers also recover their logs before they register. A directory that does not exist, is in use, or cannot be read
    is skipped.
    """
    disk, logs = DiskAdapter(), LogManager(wall_ms, open_files=open_files, keeps_topic_ids=keeps_topic_ids)
    locks = []
    for directory in filter(os.path.isdir, directories):
        lock = f"{directory}/{LOCK_FILE}"
        try:
            doubtful = [] if Path(directory, CLEAN_MARKER).exists() else _log_paths(directory)
            if doubtful and disk.lock(lock):
                locks.append(lock)
                _log.info("Recovering %d logs from %s since no clean shutdown file was found", len(doubtful), directory)
                for path in doubtful:
                    logs.open(path, False, _DEFAULTS)
        except OSError as error:
            _log.error("Error while recovering log directory %s: %s", directory, error)
            logs.lose(directory)
    logs.close_all()
    for lock in locks:
        disk.unlock(lock)


def number_of_logs(directories: Iterable[str]) -> int:
    """Return the number of partitions in these directories. A directory that cannot be read counts as empty."""
    count = 0
    for directory in directories:
        with contextlib.suppress(OSError):
            count += len(_log_paths(directory))
    return count


_DEFAULTS = attrs.astuple(LogConfig())
"""The topic's other settings have no effect before an append."""


def _is_log(entry: os.DirEntry[str]) -> bool:
    """Return whether the entry is a log that is not being deleted."""
    try:
        return entry.is_dir() and parse_name(entry.name)[2] != "delete"
    except ValueError:
        return False


def _log_paths(directory: str) -> list[str]:
    """Return the paths of a directory's logs, without those that were renamed (deleted, future and stray logs)."""
    with opening(lambda: os.scandir(directory)) as entries:
        return [entry.path for entry in entries if _is_log(entry) and not parse_name(entry.name)[2]]
