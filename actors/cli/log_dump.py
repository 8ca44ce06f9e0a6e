"""The output of `kafka-actors dump-log`, which equals that of Kafka 3.9.1's DumpLogSegments.

Rule 1: Contents of a file are printed with `print_line`. Differences between a segment and its indexes are printed with
        `warn` at the end, as in Kafka.
Rule 2: Checkpoint files, which Kafka's tool does not read, are printed in the same form.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from actors.cli import log_files
from actors.cli.app import CommandFailed
from actors.cli.record_decoders import MARKERS, Decoder, marker_of
from actors.storage.log.checkpoint import Checkpoint, DamagedCheckpoint
from actors.storage.log.producers import DamagedSnapshot, read_snapshot
from messages.records import CODECS, NO_SEQUENCE
from messages.wire.batch_records import Record

PARTITIONS = (("topic",), ("partition", "offset"))
CHECKPOINTS = {
    "leader-epoch-checkpoint": ((), ("epoch", "startOffset")),
    **dict.fromkeys(
        (f"{name}-checkpoint" for name in ("replication-offset", "recovery-point-offset", "log-start-offset")),
        PARTITIONS,
    ),
    "cleaner-offset-checkpoint": PARTITIONS,
}
"""Checkpoint file -> its text columns and its number columns."""


class DumpOptions(NamedTuple):
    """The options that select what is printed for each file."""

    deep: bool = False
    contents: Decoder | None = None
    skip_record_metadata: bool = False
    sanity_only: bool = False
    verify_only: bool = False
    max_message_size: int = 5 << 20
    max_bytes: int = log_files.LIMIT


class LogDump:
    """A printer for the files of a log directory."""

    def __init__(self, options: DumpOptions, print_line: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self._options = options
        self._print_line = print_line
        self._warn = warn
        self._mismatches: dict[Path, list[tuple[int, int]]] = {}
        self._gaps: dict[Path, list[tuple[int, int]]] = {}
        self._wrong_times: dict[Path, list[tuple[int, int]]] = {}
        self._unordered_times: dict[Path, list[tuple[int, int]]] = {}
        self._missing: dict[Path, list[tuple[int, int]]] = {}
        self._by_suffix: dict[str, Callable[[Path], None]] = {
            ".log": self._segment,
            ".index": self._index,
            ".timeindex": self._time_index,
            ".snapshot": self._snapshot,
            ".txnindex": self._transaction_index,
        }

    def file(self, file: Path) -> None:
        """Print one file.

        Raises:
            CommandFailed: The file is invalid.
            OSError: The file cannot be read.
        """
        self._print_line(f"Dumping {file}")
        if file.name in CHECKPOINTS:
            self._checkpoint(file)
        elif file.suffix in self._by_suffix:
            self._by_suffix[file.suffix](file)
        else:
            self._warn(f"Ignoring unknown file {file}")

    def differences(self) -> None:
        """Print the differences collected while the files were printed."""
        for file, pairs in self._mismatches.items():
            self._warn(f"Mismatches in :{file}")
            for index, log in reversed(pairs):
                self._warn(f"  Index offset: {index}, log offset: {log}")
        for file, pairs in self._wrong_times.items():
            self._warn(f"Found timestamp mismatch in :{file}")
            for index, log in pairs:
                self._warn(f"  Index timestamp: {index}, log timestamp: {log}")
        for file, pairs in self._unordered_times.items():
            self._warn(f"Found out of order timestamp in :{file}")
            for index, before in pairs:
                self._warn(f"  Index timestamp: {index}, Previously indexed timestamp: {before}")
        for pairs in self._missing.values():
            self._warn("The following indexed offsets are not found in the log.")
            for index, log in pairs:
                self._warn(f"Indexed offset: {index}, found log offset: {log}")
        for file, pairs in self._gaps.items():
            self._warn(f"Non-consecutive offsets in {file}")
            for first, second in reversed(pairs):
                self._warn(f"  {first} is followed by {second}")

    # ------------------------------------------------------------------------------------------------ segments

    def _segment(self, file: Path) -> None:
        self._print_line(f"Log starting offset: {log_files.base_offset(file)}")
        options = self._options
        end, last = 0, -1
        for batch in log_files.batches(file, size=options.max_bytes):
            self._print_line(_batch_line(batch))
            if options.deep:
                try:
                    last = self._records(file, batch, last)
                except ValueError as error:
                    raise CommandFailed(f"{file}: the batch at position {batch.position}: {error}") from error
            end = batch.position + batch.size
        rest = log_files.file_size(file) - end
        if rest > 0 and options.max_bytes == log_files.LIMIT:
            self._print_line(f"Found {rest} invalid bytes at the end of {file.name}")

    def _records(self, file: Path, batch: log_files.DefaultRecordBatch | log_files.LegacyRecordBatch, last: int) -> int:
        """Print the records of a batch, and return the offset of its last record.

        `last` is the offset of the record before the batch, -1 if there is none.
        """
        lines = _record_lines(batch) if isinstance(batch, log_files.DefaultRecordBatch) else _message_lines(batch)
        is_control = isinstance(batch, log_files.DefaultRecordBatch) and batch.header.is_control
        for record, line in lines:
            if last not in (-1, record.offset - 1):
                self._gaps.setdefault(file.absolute(), []).append((last, record.offset))
            last = record.offset
            text = "" if self._options.skip_record_metadata else f"| {line}"
            if self._options.contents is not None and not is_control:
                key, value = self._options.contents(record)
                if key is not None:
                    text += f" key: {key}" if text else f"| key: {key}"
                if value is not None:
                    text += f" payload: {value}"
            self._print_line(text)
        return last

    # ------------------------------------------------------------------------------------------------ indexes

    def _index(self, file: Path) -> None:
        entries = log_files.offset_index(file)
        log = file.with_name(f"{file.name.split('.')[0]}.log")
        size = log_files.file_size(log)
        if not entries or (
            not size and entries[0] == (log_files.base_offset(file), 0)
        ):  # a running broker preallocates zeros
            self._print_line(f"{file} is empty.")
            return
        if self._options.sanity_only:
            log_files.check_index(file, entries)
            self._print_line(f"{file} passed sanity check.")
            return
        for entry in entries[: log_files.written(entries, log_files.base_offset(file))]:
            found = None
            if entry.position <= size:
                found = next(log_files.batches(log, entry.position, self._options.max_message_size), None)
            if found is None:
                raise CommandFailed(
                    f"{file}: the entry of offset {entry.offset} has position {entry.position}, where no batch of"
                    f" {log.name} begins. Remove the index file: a broker builds it again when it starts."
                )
            if found.last_offset != entry.offset:
                self._mismatches.setdefault(file.absolute(), []).append((entry.offset, found.last_offset))
            if not self._options.verify_only:
                self._print_line(f"offset: {entry.offset} position: {entry.position}")

    def _time_index(self, file: Path) -> None:
        entries = log_files.time_index(file)
        name = file.name.split(".")[0]
        log, offsets = file.with_name(f"{name}.log"), file.with_name(f"{name}.index")
        log_files.file_size(log)
        positions = log_files.offset_index(offsets) if offsets.exists() else []
        if self._options.sanity_only:
            log_files.check_time_index(file, entries)
            self._print_line(f"{file} passed sanity check.")
            return
        base = log_files.base_offset(file)
        positions = positions[: log_files.written(positions, base)]
        before = -1
        for timestamp, offset in entries[: log_files.written(entries, base)]:
            start = _position_before(positions, offset)
            found = next((batch for batch in log_files.batches(log, start) if batch.last_offset >= offset), None)
            if found is None or found.last_offset != offset:
                missing = self._missing.setdefault(file.absolute(), [])
                missing.append((offset, -1 if found is None else found.last_offset))
            else:
                latest = max((time for time in _times(found)), default=-1)
                if latest != timestamp:
                    self._wrong_times.setdefault(file.absolute(), []).append((timestamp, latest))
                if before >= timestamp:
                    self._unordered_times.setdefault(file.absolute(), []).append((timestamp, before))
            if not self._options.verify_only:
                self._print_line(f"timestamp: {timestamp} offset: {offset}")
            before = timestamp

    def _transaction_index(self, file: Path) -> None:
        for entry in log_files.transaction_index(file):
            self._print_line(
                f"version: {entry.version} producerId: {entry.producer_id} firstOffset: {entry.first_offset}"
                f" lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
            )

    # ------------------------------------------------------------------------------------------------ other files

    def _snapshot(self, file: Path) -> None:
        try:
            entries = read_snapshot(file.read_bytes())
        except DamagedSnapshot as error:
            self._warn(str(error))
            return
        for entry in entries:
            line = (
                f"producerId: {entry.producer_id} producerEpoch: {entry.epoch}"
                f" coordinatorEpoch: {entry.coordinator_epoch}"
                f" currentTxnFirstOffset: {_optional(entry.first_of_transaction)} lastTimestamp: {entry.timestamp} "
            )
            if entry.last_offset >= 0:
                line += (
                    f"firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence}"
                    f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
                )
            self._print_line(line)

    def _checkpoint(self, file: Path) -> None:
        names, numbers = CHECKPOINTS[file.name]
        log_files.file_size(file)
        try:
            entries = Checkpoint(str(file), len(names), len(numbers)).read()
        except DamagedCheckpoint as error:
            raise CommandFailed(str(error)) from error
        for entry in entries:
            columns = zip((*names, *numbers), entry, strict=True)
            self._print_line(" ".join(f"{name}: {value}" for name, value in columns))


def _position_before(entries: list[log_files.IndexEntry], offset: int) -> int:
    at = bisect_right(entries, offset, key=lambda entry: entry.offset)
    return entries[at - 1].position if at else 0


def _times(batch: log_files.DefaultRecordBatch | log_files.LegacyRecordBatch) -> list[int]:
    if isinstance(batch, log_files.DefaultRecordBatch):
        return [record.timestamp for record in batch.records()]
    return [message.timestamp for message in batch.messages()]


def _optional(value: int) -> str:
    """Return a number as Java prints an OptionalLong; a negative number is printed as an empty OptionalLong."""
    return "OptionalLong.empty" if value < 0 else f"OptionalLong[{value}]"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _timestamp_type(batch: log_files.DefaultRecordBatch | log_files.LegacyRecordBatch) -> str:
    if isinstance(batch, log_files.LegacyRecordBatch) and not batch.magic:
        return "NoTimestampType"
    return "LogAppendTime" if batch.has_append_time else "CreateTime"


def _batch_line(batch: log_files.DefaultRecordBatch | log_files.LegacyRecordBatch) -> str:
    time_type = _timestamp_type(batch)
    if isinstance(batch, log_files.LegacyRecordBatch):
        return (
            f"offset: {batch.offset} position: {batch.position} {time_type}: {batch.timestamp} size: {batch.size}"
            f" magic: {batch.magic} compresscodec: {_codec(batch.codec)} crc: {batch.crc}"
            f" isvalid: {_boolean(batch.is_valid)}"
        )
    header = batch.header
    horizon = header.first_timestamp if header.attributes & log_files.DELETE_HORIZON_BIT else -1
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count}"
        f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} producerId: {header.producer_id}"
        f" producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch}"
        f" isTransactional: {_boolean(header.is_transactional)} isControl: {_boolean(header.is_control)}"
        f" deleteHorizonMs: {_optional(horizon)} position: {batch.position} {time_type}: {header.max_timestamp}"
        f" size: {batch.size} magic: {header.magic} compresscodec: {_codec(header.codec)} crc: {header.crc}"
        f" isvalid: {_boolean(batch.is_valid)}"
    )


def _codec(number: int) -> str:
    return CODECS[number] if number < len(CODECS) else f"unknown ({number})"


def _record_lines(batch: log_files.DefaultRecordBatch) -> list[tuple[Record, str]]:
    """Return each record with the line to print for it; the line does not contain the key and value."""
    header, time_type = batch.header, _timestamp_type(batch)
    found = []
    for record in batch.records():
        sequence = header.base_sequence
        if sequence != NO_SEQUENCE:
            sequence = (sequence + record.offset - header.base_offset) & 0x7FFFFFFF
        names = ",".join(name for name, _ in record.headers)
        line = f"{_head(record, time_type)} sequence: {sequence} headerKeys: [{names}]"
        if header.is_control:
            kind, epoch = marker_of(record)
            if kind in MARKERS:
                line += f" endTxnMarker: {MARKERS[kind]} coordinatorEpoch: {epoch}"
            else:
                line += f" controlType: UNKNOWN({kind})"
        found.append((record, line))
    return found


def _message_lines(message: log_files.LegacyRecordBatch) -> list[tuple[Record, str]]:
    found = []
    for each in message.messages():
        record = Record(each.offset, each.timestamp, each.key, each.value)
        line = f"{_head(record, _timestamp_type(message))} isValid: {_boolean(each.is_valid)} crc: {each.crc}}}"
        found.append((record, line))
    return found


def _head(record: Record, time_type: str) -> str:
    sizes = (-1 if part is None else len(part) for part in (record.key, record.value))
    return "offset: {} {}: {} keySize: {} valueSize: {}".format(record.offset, time_type, record.timestamp, *sizes)
