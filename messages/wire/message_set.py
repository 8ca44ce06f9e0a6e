"""Message sets of formats 0 and 1, which clients before Kafka 0.11 write and read (broker.md 5.6.6).

Rule 1: logs have format 2 only. The messages of a Produce request before version 3 become one batch of format 2, with
        the codec of the messages. A Fetch response before version 4 has the records as messages.
Rule 2: a message of format 0 has no time. A compressed message contains a message set; its own key is ignored.
Rule 3: messages that are sent are not compressed, also if the batch is. Headers, producer ids and control batches have
        no counterpart and are left out.

Kafka: `LogValidator`, `AbstractLegacyRecordBatch`, `RecordsUtil.downConvert`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from messages import errors
from messages.cluster import NO_EPOCH
from messages.records import (
    CODEC_MASK,
    CODECS,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Records,
)
from messages.wire.batch_records import InvalidRecords, records
from messages.wire.compression import (
    MAX_DECOMPRESSED,
    CannotDecompress,
    Data,
    TooManyBytes,
    compressed,
    decompressed,
    with_lz4_checksum,
)
from messages.wire.record_batch import MAGIC, body_of, read_records, record, whole_batches, with_records

_OFFSET_SIZE = struct.Struct(">qi")
_CRC_MAGIC_ATTRIBUTES = struct.Struct(">Ibb")
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_SHORTEST = 14
"""Minimum size of a message: format 0 without key and value."""
_MAGIC_AT = 16
_LZ4, _ZSTD = CODECS.index("lz4"), CODECS.index("zstd")
NO_TIME = -1


class CorruptMessage(ValueError):
    """A message has an impossible size, an unknown format or a wrong checksum."""


class OldMessage(NamedTuple):
    """A message; `timestamp` is in ms, -1 without a time. If it is compressed, `value` is a message set."""

    magic: int
    codec: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def read_any_format(data: Data | None) -> Records:
    """Return the records of a Produce request before version 3, whose format may be 0, 1 or 2 (rule 1)."""
    if data is None or len(data) <= _MAGIC_AT or data[_MAGIC_AT] >= MAGIC:
        return read_records(data)
    try:
        return read_records(upgraded(data))
    except CorruptMessage:
        code = errors.CORRUPT_MESSAGE
    except TooManyBytes:
        code = errors.MESSAGE_TOO_LARGE
    except CannotDecompress:
        code = errors.UNKNOWN_SERVER_ERROR
    except (InvalidRecords, struct.error):
        code = errors.INVALID_RECORD
    return Records((), body_of(data), code)


def upgraded(data: Data) -> bytes:
    """Return the messages of a set as one batch of format 2, whose offsets begin at 0.

    Raises:
        ValueError: A message is invalid.
        struct.error: A message is cut.
    """
    found: list[OldMessage] = []
    codec = 0
    for message in _messages(data):
        if not message.codec:
            found.append(message)
            continue
        codec = message.codec
        for inner in _messages(_decompressed(message)):
            if inner.codec:
                raise InvalidRecords("A compressed message contains a compressed message")
            found.append(inner)
    if not found:
        raise InvalidRecords("A message set has no whole message")
    first, last = found[0].timestamp, len(found) - 1
    body = b"".join([record(delta, each.key, each.value, each.timestamp - first) for delta, each in enumerate(found)])
    times = first, max(message.timestamp for message in found)
    no_producer = NO_PRODUCER_ID, -1, NO_SEQUENCE
    header = BatchHeader(0, 0, NO_EPOCH, MAGIC, 0, codec, last, *times, *no_producer, len(found))
    return with_records(header, compressed(body, codec))


def downgraded(data: Data, magic: int) -> Iterator[bytes]:
    """Yield the records of each batch of format 2 as messages of format 0 or 1 (rule 3).

    Raises:
        ValueError: The records of a batch cannot be read.
    """
    view = memoryview(data)
    for position, header in whole_batches(view):
        if not header.is_control:
            append_time = header.attributes & LOG_APPEND_TIME_BIT
            yield b"".join(
                [
                    _message(
                        magic,
                        append_time,
                        record.offset,
                        header.max_timestamp if append_time else record.timestamp,
                        record.key,
                        record.value,
                    )
                    for record in records(view[position : position + header.size], header)
                ]
            )


def _messages(data: Data) -> Iterator[OldMessage]:
    """Yield the whole messages of a set; a cut message at the end is ignored."""
    view, position = memoryview(data), 0
    while len(view) - position >= LOG_OVERHEAD:
        _, size = _OFFSET_SIZE.unpack_from(view, position)
        start, end = position + LOG_OVERHEAD, position + LOG_OVERHEAD + size
        if size < _SHORTEST:
            raise CorruptMessage(f"A message has {size} bytes, the minimum is {_SHORTEST}")
        if end > len(view):
            return
        crc, magic, attributes = _CRC_MAGIC_ATTRIBUTES.unpack_from(view, start)
        if magic not in (0, 1) or zlib.crc32(view[start + 4 : end]) != crc:
            raise CorruptMessage("A message has an unknown format or a wrong checksum")
        at = start + _CRC_MAGIC_ATTRIBUTES.size
        timestamp = NO_TIME
        if magic:
            (timestamp,) = _TIME.unpack_from(view, at)
            at += _TIME.size
        key, at = _bytes(view, at, end)
        value, at = _bytes(view, at, end)
        yield OldMessage(magic, attributes & CODEC_MASK, timestamp, key, value)
        position = end


def _bytes(view: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(view, position)
    position += _LENGTH.size
    if length < 0:
        return None, position
    if position + length > end:
        raise InvalidRecords("A key or value ends behind its message")
    return bytes(view[position : position + length]), position + length


def _decompressed(message: OldMessage) -> bytes:
    """Return the message set in a compressed message."""
    if message.value is None or message.codec >= _ZSTD:
        raise InvalidRecords(f"A message of format {message.magic} has no value, or the codec {message.codec}")
    value = message.value
    if message.codec == _LZ4 and not message.magic:
        value = with_lz4_checksum(value)  # the frames of format 0 have a wrong one (KAFKA-3160)
    return decompressed(value, message.codec, MAX_DECOMPRESSED)


def _message(magic: int, attributes: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    body = bytes((magic, attributes)) + _TIME.pack(timestamp) if magic else bytes(2)
    for text in (key, value):
        body += _LENGTH.pack(-1) if text is None else _LENGTH.pack(len(text)) + text
    return _OFFSET_SIZE.pack(offset, 4 + len(body)) + struct.pack(">I", zlib.crc32(body)) + body
