"""Record batches: a decoded header, and the bytes of the records, which are not decoded.

Rule: the body (the records' bytes) is never copied from actor to actor and never stored in the trace. The trace has the
size and the checksum of each body. Bodies are compared by size and checksum, so a replay without the bytes makes the
same decisions.

Kafka: `DefaultRecordBatch`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import attrs

from messages.vocabulary import maker

NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_OFFSET = -1
LATEST, EARLIEST, LARGEST_TIMESTAMP = -1, -2, -3
"""Special times in a search for an offset: the log's end, its start, and the record with the largest timestamp."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Compression codecs by the number in a batch's attributes."""

PRODUCER = "producer"
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", PRODUCER)
"""Values of `compression.type`: the codec of stored batches; PRODUCER keeps each producer's own."""

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTION_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
"""Set by the log cleaner: the first timestamp of the batch is the time from which tombstones in it may be removed."""
LOG_OVERHEAD = 12
"""Bytes at the start of a batch that its `length` does not include."""


class BatchHeader(NamedTuple):
    """The header of a record batch: the 61 bytes that precede the records (format 2, broker.md 5.2); times in ms."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def with_position(self, base_offset: int, leader_epoch: int) -> BatchHeader:
        """Return the header with the base offset and the leader epoch that the leader assigns."""
        return tuple.__new__(BatchHeader, (base_offset, self[1], leader_epoch, *self[3:]))

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes: `length` plus LOG_OVERHEAD."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the batch's last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; it wraps at 2^31 (broker.md 5.3)."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        """The number of the compression codec."""
        return self.attributes & CODEC_MASK

    @property
    def delete_horizon(self) -> int:
        """Time in ms from which the batch's tombstones or its marker may be removed; -1 if it is not set yet."""
        return self.first_timestamp if self.attributes & DELETE_HORIZON_BIT else NO_TIMESTAMP

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTION_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch contains a marker of a transaction coordinator."""
        return bool(self.attributes & CONTROL_BIT)


class Region(ABC):
    """A region of `len` bytes in an open file; the file stays open as long as this object exists."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of bytes."""

    @abstractmethod
    def read(self) -> bytes:
        """Return the bytes. Raises OSError if the file no longer has them."""

    @abstractmethod
    def send(self, socket: int) -> int:
        """Send bytes from the beginning of the region to a socket, given by its descriptor.

        Returns the number of bytes that the socket took. Raises OSError if the file no longer has the bytes.
        """

    @abstractmethod
    def skip(self, count: int) -> Region:
        """Return the region after the first `count` bytes."""


class _Bytes:
    """The base class of Body. Its attribute holds the bytes; comparisons and traces ignore this attribute."""

    __slots__ = ("_data",)
    _data: bytes | memoryview | Region

    @property
    def data(self) -> bytes | memoryview:
        """The bytes. Raises AttributeError in a replay."""
        data = self._data
        return data if isinstance(data, (bytes, memoryview)) else data.read()

    @property
    def piece(self) -> bytes | memoryview | Region:
        """The bytes, or their region in a file, for sending."""
        return self._data


@attrs.frozen
class Body(_Bytes):
    """The bytes of one or more record batches, received from a socket or read from a file.

    Bodies are equal if their sizes and checksums are equal. In a replay they have no `data`: the trace stores only size
    and checksum. The checksum covers all bytes. Exception: the bytes of a Region are not read, so the checksum of a
    body with a Region is the checksum of the first batch.
    """

    size: int
    crc: int


_body = maker(Body)
_set_data = vars(_Bytes)["_data"].__set__
"""The setter of the slot, called directly because it runs for every batch."""


def body(data: bytes | memoryview | Region, crc: int) -> Body:
    """Return a body of these bytes, whose CRC-32C is `crc`."""
    made = _body(len(data), crc)
    _set_data(made, data)
    return made


EMPTY = body(b"", 0)
"""A body without batches."""


MAX_KEYLESS_RANGES = 64
"""Maximum number of ranges of records without a key that are stored per batch."""


class InvalidRecordsReason(NamedTuple):
    """The reason why the records of a batch are invalid."""

    error_code: int
    message: str


class Records(NamedTuple):
    """The records that a producer sends to one partition: the batch headers and the bytes.

    The listener computes all other fields from `body` (the bytes). Actors can thus validate records without the bytes.

    Attributes:
        error_code: 87 if a batch has an invalid header or a format other than 2; 2 if a batch is incomplete or its
            checksum is wrong; else 0.
        fault: The error that the check of the records found, or None. The records are checked only if there is exactly
            one batch and `error_code` is 0.
        keyless: Ranges of records without a key: (first index, last index, first index, last index, ...). The tuple is
            flat, so that the trace need not convert its elements.
    """

    batches: tuple[BatchHeader, ...]
    body: Body
    error_code: int = 0
    fault: InvalidRecordsReason | None = None
    keyless: tuple[int, ...] = ()
