"""Record batches (built by kafka-python), transaction markers and old messages for tests of logs."""

from __future__ import annotations

import struct
import zlib

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from messages.records import BatchHeader
from messages.wire.record_batch import HEADER, read_header


def batch(
    *values: bytes,
    timestamp: int = 1_000,
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    base_offset: int = 0,
    leader_epoch: int = -1,
    transactional: bool = False,
) -> bytes:
    """Return a batch of format 2 with these values; the timestamps of its records are 1 ms apart."""
    builder = DefaultRecordBatchBuilder(2, 0, transactional, producer, epoch, sequence, 1 << 30)
    for offset, value in enumerate(values):
        builder.append(offset, timestamp + offset, None, value, [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, 12, leader_epoch)
    return bytes(data)


def end_marker(
    producer: int,
    epoch: int,
    committed: bool,
    coordinator_epoch: int = 0,
    timestamp: int = 1_000,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return a transaction marker, written field by field from Kafka's definition (transactions.md 3.7)."""
    key, value = struct.pack(">hh", 0, committed), struct.pack(">hi", 0, coordinator_epoch)
    record = b"\0\0\0" + bytes([2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    rest = struct.pack(">hiqqqhii", 0x30, 0, timestamp, timestamp, producer, epoch, -1, 1)
    rest += bytes([2 * len(record)]) + record
    return struct.pack(">qiibI", base_offset, len(rest) + 9, leader_epoch, 2, crc32c(rest)) + rest


def header_of(data: bytes) -> BatchHeader:
    """Return the first batch's header."""
    return read_header(data)


def with_header(data: bytes, **fields: int) -> bytes:
    """Return the batch with these header fields changed and a valid checksum."""
    header = read_header(data)._replace(**fields)
    changed = bytearray(HEADER.pack(*header) + data[HEADER.size :])
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def message(magic: int, offset: int, value: bytes, timestamp: int = 1_000) -> bytes:
    """Return a message of format 0 or 1 without a key, as Kafka before 0.11 wrote it."""
    rest = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"")
    rest += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(rest) + 4, zlib.crc32(rest)) + rest
