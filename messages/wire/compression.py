"""The records inside a batch, decompressed: needed only where a record's own time or key is asked for."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import cramjam

from messages.records import CODECS, BatchHeader
from messages.wire.record_batch import HEADER

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_CHUNK = struct.Struct(">i")


class Record(NamedTuple):
    """One record, but for its headers. `timestamp` in ms."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def records(batch: bytes | memoryview, header: BatchHeader) -> Iterator[Record]:
    """The records of a whole batch. Raises ValueError where they are not what the header says."""
    data = decompressed(bytes(memoryview(batch)[HEADER.size : header.size]), header.codec)
    position = 0
    try:
        for _ in range(header.record_count):
            length, position = _varint(data, position)
            end = position + length
            if length < 0 or end > len(data):
                raise ValueError("a record is cut")
            delta, position = _varint(data, position + 1)
            offset_delta, position = _varint(data, position)
            key, position = _text(data, position, end)
            value, _ = _text(data, position, end)
            yield Record(header.base_offset + offset_delta, header.first_timestamp + delta, key, value)
            position = end
    except IndexError as error:
        raise ValueError("a record is cut") from error


def decompressed(data: bytes, codec: int) -> bytes:
    """What `codec` compressed. Raises ValueError for an unknown codec or damaged data."""
    try:
        match CODECS[codec]:
            case "none":
                return data
            case "gzip":
                return bytes(cramjam.gzip.decompress(data))
            case "snappy":
                return _snappy(data)
            case "lz4":
                return bytes(cramjam.lz4.decompress(data))
            case _:
                return bytes(cramjam.zstd.decompress(data))
    except (IndexError, cramjam.DecompressionError, struct.error) as error:
        raise ValueError(f"records compressed with codec {codec} cannot be read: {error}") from error


def _snappy(data: bytes) -> bytes:
    """Java's clients cut snappy into chunks under a header of their own; others send it as it is."""
    if not data.startswith(_XERIAL):
        return bytes(cramjam.snappy.decompress_raw(data))
    position, parts = _XERIAL_HEADER, []
    while position < len(data):
        (size,) = _CHUNK.unpack_from(data, position)
        position += _CHUNK.size
        parts.append(bytes(cramjam.snappy.decompress_raw(data[position : position + size])))
        position += size
    return b"".join(parts)


def _text(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """A key or value, None where there is none, and where it ends."""
    length, position = _varint(data, position)
    if position + max(length, 0) > end:
        raise ValueError("a record is cut")
    return (None, position) if length < 0 else (data[position : position + length], position + length)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A signed number in zigzag form, and where it ends."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise ValueError("a varint of more than ten bytes")
