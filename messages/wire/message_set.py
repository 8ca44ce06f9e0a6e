"""Message sets of formats 0 and 1, which Kafka before 0.11 wrote and reads (broker.md 5.6.6).

Rule 1: the messages of a Produce request before version 3 become one batch of format 2, with the codec of the messages.
        A topic with an older `message.format.version` stores the records of each batch as messages again, with the
        batch's codec. Other logs have format 2, and logs may have several formats.
Rule 2: a message of format 0 has no time. A compressed message contains a message set; its own key is ignored. The
        offsets in the set are absolute in format 0. In format 1 they begin at 0, and the last one is that of the
        compressed message.
Rule 3: a Fetch response before version 4 has no newer format than its version permits. What is converted for it is not
        compressed. Headers, producer ids and control batches have no counterpart in messages and are left out.

Kafka: `LogValidator`, `AbstractLegacyRecordBatch`, `MemoryRecordsBuilder`, `RecordsUtil.downConvert`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
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
    compress,
    decompress,
    with_lz4_checksum,
)
from messages.wire.record_batch import (
    MAGIC,
    SHORTEST_MESSAGE,
    body_of,
    read_header,
    read_records,
    record,
    whole_batches,
    with_records,
)

_OFFSET_SIZE = struct.Struct(">qi")
_CRC_MAGIC_ATTRIBUTES = struct.Struct(">Ibb")
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_MAGIC_AT = 16
_LZ4, _ZSTD = CODECS.index("lz4"), CODECS.index("zstd")
NO_TIME = -1


class CorruptMessage(ValueError):
    """A message has an impossible size, an unknown format or a wrong checksum."""


class UnsupportedCodec(ValueError):
    """The codec does not exist in formats 0 and 1."""


class OldMessage(NamedTuple):
    """A message; `timestamp` is in ms, -1 without a time. If it is compressed, `value` is a message set."""

    offset: int
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
        return read_records(upgrade(data))
    except CorruptMessage:
        code = errors.CORRUPT_MESSAGE
    except TooManyBytes:
        code = errors.MESSAGE_TOO_LARGE
    except CannotDecompress:
        code = errors.UNKNOWN_SERVER_ERROR
    except (InvalidRecords, struct.error):
        code = errors.INVALID_RECORD
    return Records((), body_of(data), code)


def upgrade(data: Data) -> bytes:
    """Return the messages of a set as one batch of format 2, whose offsets begin at 0.

    Raises:
        ValueError: A message is invalid.
        struct.error: A message is cut.
    """
    found: list[OldMessage] = []
    codec = 0
    for message in _messages(data):
        codec = message.codec or codec
        found += _inner(message)
    if not found:
        raise InvalidRecords("A message set has no whole message")
    return _batch([message._replace(offset=offset) for offset, message in enumerate(found)], codec)


def as_batch(data: Data, header: BatchHeader) -> tuple[memoryview, BatchHeader]:
    """Return a batch of any format as one of format 2, with its header; the offsets stay as they are.

    Args:
        data: The bytes from the batch on.
        header: The header of the batch, by `read_header`.

    Raises:
        ValueError: The batch is a message, and is invalid.
    """
    batch = memoryview(data)[: header.size]
    if header.magic < MAGIC:
        [message] = _messages(batch)
        found = _inner(message)
        if not found:
            raise InvalidRecords("A compressed message contains no message")
        append_time = header.attributes & LOG_APPEND_TIME_BIT
        if append_time:
            found = [each._replace(timestamp=header.max_timestamp) for each in found]
        if message.codec and message.magic:
            first = message.offset - found[-1].offset
            found = [each._replace(offset=first + each.offset) for each in found]
        batch = memoryview(_batch(found, message.codec, append_time))
        header = read_header(batch)
    return batch, header


def _inner(message: OldMessage) -> list[OldMessage]:
    """Return the messages in a compressed message; another message is returned alone."""
    if not message.codec:
        return [message]
    found = list(_messages(_decompress_message(message)))
    if any(each.codec for each in found):
        raise InvalidRecords("A compressed message contains a compressed message")
    return found


def _batch(found: Sequence[OldMessage], codec: int, append_time: int = 0) -> bytes:
    """Return messages with ascending offsets as a batch of format 2; `append_time` is the bit for its attributes."""
    base, first = found[0].offset, found[0].timestamp
    body = b"".join([record(each.offset - base, each.key, each.value, each.timestamp - first) for each in found])
    times = first, max(message.timestamp for message in found)
    no_producer = NO_PRODUCER_ID, -1, NO_SEQUENCE
    last = found[-1].offset - base
    header = BatchHeader(base, 0, NO_EPOCH, MAGIC, 0, codec | append_time, last, *times, *no_producer, len(found))
    return with_records(header, compress(body, codec))


def as_messages(
    batch: Data, magic: int, base_offset: int, codec: int, append_time: int | None = None, limit: int = MAX_DECOMPRESSED
) -> bytes:
    """Return a batch of format 2 as a message set of format 0 or 1, as a log stores it (rules 1, 2).

    Args:
        batch: The batch.
        magic: The format.
        base_offset: The offset of its first record in the log.
        codec: Number of the codec for the messages.
        append_time: The time of the append in ms if the topic's timestamp type is LogAppendTime, else None.
        limit: Maximum number of decompressed bytes.

    Raises:
        UnsupportedCodec: The format has no such codec.
        ValueError: The records cannot be read.
    """
    if codec >= _ZSTD:
        raise UnsupportedCodec(f"Format {magic} has no {CODECS[codec]}")
    header = read_header(batch)
    found = list(records(batch, header, limit))
    shift = base_offset - header.base_offset
    if append_time is None and header.attributes & LOG_APPEND_TIME_BIT:
        append_time = header.max_timestamp
    attributes = 0 if append_time is None or not magic else LOG_APPEND_TIME_BIT
    times = [each.timestamp if append_time is None else append_time for each in found]
    first = header.base_offset if codec and magic else -shift
    inner = b"".join(
        [
            _message(magic, attributes, each.offset - first, time, each.key, each.value)
            for each, time in zip(found, times, strict=True)
        ]
    )
    if not codec:
        return inner
    value = compress(inner, codec)
    if codec == _LZ4 and not magic:
        value = with_lz4_checksum(value, covers_magic=True)
    return _message(magic, attributes | codec, found[-1].offset + shift, max(times), None, value)


def downgrade(data: Data, magic: int) -> Iterator[bytes | memoryview]:
    """Yield each batch in format 0 or 1; a batch of this format or an older one is not changed (rule 3).

    Raises:
        ValueError: The records of a batch cannot be read.
    """
    view = memoryview(data)
    for position, header in whole_batches(view):
        if header.magic <= magic:
            yield view[position : position + header.size]
        elif not header.is_control:
            batch, header = as_batch(view[position:], header)
            yield as_messages(batch, magic, header.base_offset, 0)


def _messages(data: Data) -> Iterator[OldMessage]:
    """Yield the whole messages of a set; a cut message at the end is ignored."""
    view, position = memoryview(data), 0
    while len(view) - position >= LOG_OVERHEAD:
        offset, size = _OFFSET_SIZE.unpack_from(view, position)
        start, end = position + LOG_OVERHEAD, position + LOG_OVERHEAD + size
        if size < SHORTEST_MESSAGE:
            raise CorruptMessage(f"A message has {size} bytes, the minimum is {SHORTEST_MESSAGE}")
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
        yield OldMessage(offset, magic, attributes & CODEC_MASK, timestamp, key, value)
        position = end


def _bytes(view: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(view, position)
    position += _LENGTH.size
    if length < 0:
        return None, position
    if position + length > end:
        raise InvalidRecords("A key or value ends behind its message")
    return bytes(view[position : position + length]), position + length


def _decompress_message(message: OldMessage) -> bytes:
    """Return the message set in a compressed message."""
    if message.value is None or message.codec >= _ZSTD:
        raise InvalidRecords(f"A message of format {message.magic} has no value, or the codec {message.codec}")
    value = message.value
    if message.codec == _LZ4 and not message.magic:
        value = with_lz4_checksum(value)  # the frames of format 0 have a wrong one (KAFKA-3160)
    return decompress(value, message.codec, MAX_DECOMPRESSED)


def _message(magic: int, attributes: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    body = bytes((magic, attributes)) + (_TIME.pack(timestamp) if magic else b"")
    for text in (key, value):
        body += _LENGTH.pack(-1) if text is None else _LENGTH.pack(len(text)) + text
    return _OFFSET_SIZE.pack(offset, 4 + len(body)) + struct.pack(">I", zlib.crc32(body)) + body
