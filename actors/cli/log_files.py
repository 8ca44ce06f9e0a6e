"""Read the files of a log directory for `dump-log`: segments and their indexes.

Rule 1: Files of Apache's brokers are supported, including messages of formats 0 and 1, and indexes with the trailing
        zeros that a running broker preallocates.
Rule 2: Nothing is repaired or skipped. A file with invalid content raises CommandFailed with its name, the position and
        the reason.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from actors.cli.app import CommandFailed
from actors.storage.log.index import OFFSET_ENTRY, TIME_ENTRY
from actors.storage.log.transaction_index import AbortedTxn, read_entries
from messages.records import CODEC_MASK, LOG_APPEND_TIME_BIT, LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader
from messages.wire.batch_records import Record, records
from messages.wire.compression import decompressed
from messages.wire.errors import MalformedFrame
from messages.wire.record_batch import MAGIC, has_valid_crc, read_header

DELETE_HORIZON_BIT = 0x40
"""Attribute bit of a batch that the log cleaner has processed: its first timestamp is the delete horizon in ms."""
LIMIT = 2**31 - 1
"""Maximum number of decompressed bytes of a batch, and of bytes of a file: Kafka's tool has no lower limit."""

_FRAME = struct.Struct(">qi")
_UP_TO_MAGIC = 17
_MAGIC_AT = 16
_MIN_SIZE = 14
"""Number of bytes of a message of format 0 without key and value, after its length field."""
_LEGACY_HEAD = struct.Struct(">Ibb")
_TIMESTAMP = struct.Struct(">q")
_SIZE = struct.Struct(">i")


class DefaultRecordBatch(NamedTuple):
    """A record batch of message format 2, with its position in the file."""

    position: int
    header: BatchHeader
    data: memoryview

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.header.last_offset

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.header.size

    @property
    def is_valid(self) -> bool:
        """Whether the checksum is valid."""
        return has_valid_crc(self.data, 0, self.header)

    @property
    def has_append_time(self) -> bool:
        """Whether the records have the time of their append as timestamp."""
        return bool(self.header.attributes & LOG_APPEND_TIME_BIT)

    def records(self) -> Iterator[Record]:
        """Yield the records with their headers.

        Raises:
            ValueError: The records cannot be decoded.
        """
        for record in records(self.data, self.header, LIMIT, with_headers=True):
            yield record._replace(timestamp=self.header.max_timestamp) if self.has_append_time else record


class LegacyRecordBatch(NamedTuple):
    """A message of format 0 or 1, which is one record or a set of compressed records; `timestamp` is in ms."""

    position: int
    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    is_valid: bool

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.offset

    @property
    def codec(self) -> int:
        """Number of the compression codec."""
        return self.attributes & CODEC_MASK

    @property
    def has_append_time(self) -> bool:
        """Whether the timestamp is the time of the append."""
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME_BIT)

    def messages(self) -> list[LegacyRecordBatch]:
        """Return the messages in this compressed message, or only this message if it is not compressed.

        The returned messages have absolute offsets, although format 1 stores relative offsets.

        Raises:
            ValueError: The compressed messages cannot be decoded.
        """
        if not self.codec:
            return [self]
        inner = list(_messages(memoryview(decompressed(self.value or b"", self.codec, LIMIT))))
        first = self.offset - inner[-1].offset if inner and self.magic else 0
        found = [each._replace(offset=first + each.offset) for each in inner]
        return [each._replace(timestamp=self.timestamp) for each in found] if self.has_append_time else found


class IndexEntry(NamedTuple):
    """An entry of an offset index: an offset, and the position of its batch in the segment."""

    offset: int
    position: int


class TimeIndexEntry(NamedTuple):
    """An entry of a time index: a time in ms, and the offset of the record with that time."""

    timestamp: int
    offset: int


# ---------------------------------------------------------------------------------------------------- segments


def batches(file: Path, start: int = 0, size: int = LIMIT) -> Iterator[DefaultRecordBatch | LegacyRecordBatch]:
    """Yield the batches in the `size` bytes after position `start` of a segment; stop at a truncated batch.

    Raises:
        CommandFailed: A batch is malformed.
    """
    data = _mapped(file)[start:][:size]
    try:
        yield from _batches(data, start)
    except (MalformedFrame, struct.error) as error:
        raise CommandFailed(f"{file}: {error}") from error
    except ValueError as error:
        raise CommandFailed(f"{error} in file {file}.") from error


def file_size(file: Path) -> int:
    """Return the number of bytes of a file.

    Raises:
        OSError: The file cannot be read.
    """
    return file.stat().st_size


def base_offset(file: Path) -> int:
    """Return the offset in a file's name.

    Raises:
        CommandFailed: The name does not begin with an offset.
    """
    name = file.name.split(".")[0]
    if not name.isdecimal():
        raise CommandFailed(f"{file}: the name does not begin with an offset, as in 00000000000000000000{file.suffix}")
    return int(name)


def _mapped(file: Path) -> memoryview:
    with file.open("rb") as opened:
        if not file.stat().st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))


def _batches(data: memoryview, start: int) -> Iterator[DefaultRecordBatch | LegacyRecordBatch]:
    position = 0
    while position < len(data) - _UP_TO_MAGIC:
        _, length = _FRAME.unpack_from(data, position)
        if length < _MIN_SIZE:
            raise ValueError(f"Found record size {length} smaller than minimum record overhead ({_MIN_SIZE})")
        size = LOG_OVERHEAD + length
        if position + size > len(data):
            return
        part = data[position : position + size]
        if data[position + _MAGIC_AT] < MAGIC:
            yield _message(part, start + position)
        else:
            yield DefaultRecordBatch(start + position, read_header(part), part)
        position += size


def _messages(data: memoryview) -> Iterator[LegacyRecordBatch]:
    position = 0
    while position < len(data):
        _, length = _FRAME.unpack_from(data, position)
        yield _message(data[position : position + LOG_OVERHEAD + length], position)
        position += LOG_OVERHEAD + length


def _message(data: memoryview, position: int) -> LegacyRecordBatch:
    offset, _ = _FRAME.unpack_from(data)
    crc, magic, attributes = _LEGACY_HEAD.unpack_from(data, LOG_OVERHEAD)
    at, timestamp = LOG_OVERHEAD + _LEGACY_HEAD.size, NO_TIMESTAMP
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(data, at)
        at += _TIMESTAMP.size
    key, at = _bytes(data, at)
    value, _ = _bytes(data, at)
    is_valid = zlib.crc32(data[LOG_OVERHEAD + _SIZE.size :]) == crc
    return LegacyRecordBatch(position, offset, len(data), crc, magic, attributes, timestamp, key, value, is_valid)


def _bytes(data: memoryview, position: int) -> tuple[bytes | None, int]:
    (size,) = _SIZE.unpack_from(data, position)
    position += _SIZE.size
    return (None, position) if size < 0 else (bytes(data[position : position + size]), position + size)


# ---------------------------------------------------------------------------------------------------- other files


def offset_index(file: Path) -> list[IndexEntry]:
    """Return all entries of an offset index, including trailing zeros.

    Raises:
        OSError: The file cannot be read.
        CommandFailed: The file's name has no offset.
    """
    base = base_offset(file)
    return [
        IndexEntry(base + offset, position)
        for offset, position in OFFSET_ENTRY.iter_unpack(_whole(file, OFFSET_ENTRY.size))
    ]


def time_index(file: Path) -> list[TimeIndexEntry]:
    """Return all entries of a time index, including the zero entries at its end.

    Raises:
        OSError: The file cannot be read.
        CommandFailed: The file's name has no offset.
    """
    base = base_offset(file)
    return [
        TimeIndexEntry(time, base + offset) for time, offset in TIME_ENTRY.iter_unpack(_whole(file, TIME_ENTRY.size))
    ]


def written(entries: Sequence[IndexEntry | TimeIndexEntry], base: int) -> int:
    """Return the number of entries before the zeros that a broker preallocates."""
    return next((n for n, entry in enumerate(entries) if n and entry.offset == base), len(entries))


def _whole(file: Path, size: int) -> bytes:
    data = file.read_bytes()
    return data[: len(data) - len(data) % size]


def check_index(file: Path, entries: list[IndexEntry]) -> None:
    """Check an offset index as a broker does. The broker rebuilds an index that fails this check.

    Raises:
        CommandFailed: A broker would rebuild the index.
    """
    base, size = base_offset(file), file_size(file)
    if entries and entries[-1].offset < base:
        raise CommandFailed(
            f"Corrupt index found, index file {file.absolute()} has non-zero size but the last offset is"
            f" {entries[-1].offset} which is less than the base offset {base}"
        )
    _check_size("Index", file, size, OFFSET_ENTRY.size)


def check_time_index(file: Path, entries: list[TimeIndexEntry]) -> None:
    """Check a time index as a broker does. The broker rebuilds an index that fails this check.

    Raises:
        CommandFailed: A broker would rebuild the index.
    """
    base, size = base_offset(file), file_size(file)
    found = f"Corrupt time index found, time index file ({file.absolute()}) has non-zero size but the last"
    if entries and entries[-1].timestamp < entries[0].timestamp:
        raise CommandFailed(
            f"{found} timestamp is {entries[-1].timestamp} which is less than the first timestamp"
            f" {entries[0].timestamp}"
        )
    if entries and entries[-1].offset < base:
        raise CommandFailed(f"{found} offset is {entries[-1].offset} which is less than the first offset {base}")
    _check_size("Time index", file, size, TIME_ENTRY.size)


def _check_size(what: str, file: Path, size: int, entry: int) -> None:
    if size % entry:
        raise CommandFailed(
            f"{what} file {file.absolute()} is corrupt, found {size} bytes which is neither positive nor a"
            f" multiple of {entry}"
        )


def transaction_index(file: Path) -> list[AbortedTxn]:
    """Return the entries of a transaction index.

    Raises:
        OSError: The file cannot be read.
        CommandFailed: The file is invalid.
    """
    return read_entries(file.read_bytes())
