"""Record batches as bytes: read headers, and set the fields that a leader assigns (broker.md 5.2).

Rule 1: a batch's CRC covers all bytes from its attributes on. Base offset and leader epoch precede them, so a leader
        sets both without a new CRC.
Rule 2: this module ignores the records; `batch_records` checks their structure.
Rule 3: a message of format 0 or 1 is read as a batch of one record, also if it contains a compressed set. Its offset is
        the last one of the set. `message_set` reads and writes such messages (broker.md 5.6.6).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

from messages.cluster import NO_EPOCH
from messages.errors import CORRUPT_MESSAGE, INVALID_RECORD, NONE
from messages.records import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    EMPTY,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTION_BIT,
    BatchHeader,
    Body,
    Records,
    body,
)
from messages.wire import checksums, primitives
from messages.wire.errors import MalformedFrame

HEADER = struct.Struct(">qiibIhiqqqhii")
_TO_CRC = struct.Struct(">qiibI")
_AFTER_CRC = struct.Struct(">hiqqqhii")
STAMP = struct.Struct(">qii")
"""The fields before the magic byte: base offset, length, leader epoch."""
MAGIC = 2
CRC_FROM = 21
SHORTEST_MESSAGE = 14
"""Minimum length of a message: format 0 without key and value."""

_CRC_AT = 17
_MAGIC_AT = 16
_MESSAGE = struct.Struct(">qiIbb")
"""The fields at the beginning of a message of format 0 or 1; in format 1, a timestamp follows."""
_TIME = struct.Struct(">q")


def read_header(data: bytes | memoryview, position: int = 0, any_format: bool = False) -> BatchHeader:
    """Return the header of the batch at `position`.

    Args:
        data: The bytes of batches.
        position: The position of the batch.
        any_format: Whether to accept unknown formats, because the byte with the format may be damaged.

    Raises:
        MalformedFrame: The batch is truncated, or its format is unknown.
    """
    if len(data) - position >= HEADER.size:
        header: BatchHeader = tuple.__new__(BatchHeader, HEADER.unpack_from(data, position))
        if header.magic == MAGIC or (any_format and header.magic not in (0, 1)):
            if header.length < HEADER.size - LOG_OVERHEAD:
                raise MalformedFrame(f"a record batch has the impossible length {header.length}")
            return header
    return _read_message_header(data, position)


def _read_message_header(data: bytes | memoryview, position: int) -> BatchHeader:
    """Return the header of a message of format 0 or 1 as that of a batch (rule 3).

    Its checksum is the complement of the message's, a negative number: a CRC-32 must not pass for a CRC-32C.
    """
    left = len(data) - position
    if left < LOG_OVERHEAD + SHORTEST_MESSAGE:
        raise MalformedFrame(f"a record batch ends after {left} bytes")
    offset, length, crc, magic, attributes = _MESSAGE.unpack_from(data, position)
    if magic not in (0, 1):
        raise MalformedFrame(f"a record batch has format {magic}, or ends after {left} bytes")
    if length < SHORTEST_MESSAGE:
        raise MalformedFrame(f"a message has the impossible length {length}")
    attributes &= CODEC_MASK | LOG_APPEND_TIME_BIT if magic else CODEC_MASK
    time = _TIME.unpack_from(data, position + _MESSAGE.size)[0] if magic else NO_TIMESTAMP
    no_producer = NO_PRODUCER_ID, -1, NO_SEQUENCE
    return BatchHeader(offset, length, NO_EPOCH, magic, ~crc, attributes, 0, time, time, *no_producer, 1)


def whole_batches(data: bytes | memoryview, any_format: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each complete batch; an incomplete batch at the end is ignored.

    Raises:
        MalformedFrame: See `read_header`, also for `any_format`.
    """
    position, end = 0, len(data)
    while (left := end - position) >= HEADER.size or (
        left >= LOG_OVERHEAD + SHORTEST_MESSAGE and data[position + _MAGIC_AT] < MAGIC
    ):
        header = read_header(data, position, any_format)
        if end - position < header.size:
            return
        yield position, header
        position += header.size


def body_of(data: bytes | memoryview) -> Body:
    """Return bytes as a body."""
    return body(data, checksums.crc32c(data)) if data else EMPTY


def batch_of(
    pairs: Iterable[tuple[bytes, bytes | None]],
    timestamp: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> Records:
    """Return a batch with these keys and values, written at `timestamp` (ms)."""
    written = [record(delta, key, value) for delta, (key, value) in enumerate(pairs)]
    rest = b"".join(written)
    last = len(written) - 1
    attributes = TRANSACTION_BIT if is_transactional else 0
    fields = (attributes, last, timestamp, timestamp, producer_id, producer_epoch, base_sequence, len(written))
    after_crc = _AFTER_CRC.pack(*fields) + rest
    length = HEADER.size - LOG_OVERHEAD + len(rest)
    head = _TO_CRC.pack(0, length, NO_EPOCH, MAGIC, checksums.crc32c(after_crc))
    return read_records(head + after_crc)


def record(offset_delta: int, key: bytes | None, value: bytes | None, time_delta: int = 0) -> bytes:
    """Return a record without headers; the deltas are relative to the batch's base offset and first timestamp."""
    body = b"\0" + varint(time_delta) + varint(offset_delta)
    for text in (key, value):
        body += varint(-1) if text is None else varint(len(text)) + text
    body += b"\0"
    return varint(len(body)) + body


def varint(value: int) -> bytes:
    """Return a signed number in zigzag form."""
    return primitives.varint((value << 1) ^ (value >> 63))


def read_records(data: bytes | memoryview | None) -> Records:
    """Return the batches that a producer sent, and their headers. `batch_records` checks the records later."""
    data = data or b""
    whole, view, size = body_of(data), memoryview(data), len(data)
    headers: list[BatchHeader] = []
    position, error_code = 0, NONE
    try:
        while position < size and error_code == NONE:
            header = read_header(view, position)
            end = position + header.length + LOG_OVERHEAD
            if end > size:
                error_code = INVALID_RECORD
                break
            headers.append(header)
            if checksums.crc32c(view[position + CRC_FROM : end]) != header.crc:
                error_code = CORRUPT_MESSAGE if header.magic == MAGIC else INVALID_RECORD
            position = end
    except MalformedFrame:
        # For Kafka, an unknown format or an impossible length is corrupt; an old format or a cut batch is invalid.
        left = size - position
        magic = view[position + STAMP.size] if left > STAMP.size else 0
        is_corrupt = magic > MAGIC or (magic == MAGIC and left >= HEADER.size)
        error_code = CORRUPT_MESSAGE if is_corrupt else INVALID_RECORD
    return tuple.__new__(Records, (tuple(headers), whole, error_code, None, ()))


def has_valid_crc(data: bytes | memoryview, position: int, header: BatchHeader) -> bool:
    """Return whether the checksum of the batch at `position` is correct."""
    view, end = memoryview(data), position + header.size
    return checksums.crc32c(view[position + CRC_FROM : end]) == header.crc or (
        header.magic < MAGIC and ~zlib.crc32(view[position + _MAGIC_AT : end]) == header.crc
    )


def with_records(header: BatchHeader, data: bytes) -> bytes:
    """Return a batch of this header and these bytes, with new length and checksum."""
    head = bytearray(HEADER.pack(*header._replace(length=HEADER.size - LOG_OVERHEAD + len(data))))
    struct.pack_into(">I", head, _CRC_AT, checksums.crc32c(data, checksums.crc32c(head[CRC_FROM:])))
    return bytes(head) + data


def stamp(
    batch: memoryview, header: BatchHeader, base_offset: int, leader_epoch: int, append_time: int | None = None
) -> tuple[bytes, memoryview]:
    """Return the batch as the leader stores it, in two pieces: the new bytes, and the rest of the producer's bytes.

    Args:
        append_time: The time of the append in ms if the topic's timestamp type is LogAppendTime, else None. The bit for
            LogAppendTime in the header is set or cleared accordingly, and the bit of the log cleaner is cleared. The
            checksum is computed again if `append_time` is given, or if the producer had set one of these bits.
    """
    if append_time is None and not header.attributes & (LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT):
        return STAMP.pack(base_offset, header.length, leader_epoch), batch[STAMP.size :]
    rest = batch[HEADER.size : header.size]
    fresh = header._replace(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=header.attributes & ~(LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT)
        | (0 if append_time is None else LOG_APPEND_TIME_BIT),
        max_timestamp=header.max_timestamp if append_time is None else append_time,
    )
    head = bytearray(HEADER.pack(*fresh))
    struct.pack_into(">I", head, _CRC_AT, checksums.crc32c(rest, checksums.crc32c(head[CRC_FROM:])))
    return bytes(head), rest
