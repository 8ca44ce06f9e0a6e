"""A table of valid and damaged batches, each kind in every codec, that a broker must accept or refuse.

The checksum of each batch is valid. Its header is consistent, unless the kind is about the header.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

import cramjam
from crc32c import crc32c

from messages.records import CODECS
from messages.wire import compression
from messages.wire.record_batch import varint

NOISE = bytes((n * 193 + 71) % 251 for n in range(400))
MOST = 2**31 - 1


class Bad(NamedTuple):
    """One batch of the table."""

    kind: str
    codec: int
    data: bytes
    code: int
    apache: int
    """Error code of Apache Kafka 3.9.1, which may differ from `code`."""

    @property
    def records(self) -> int:
        """The number of records in the header."""
        return int.from_bytes(self.data[57:61], "big", signed=True)

    @property
    def name(self) -> str:
        """The kind and the codec, for test ids and failure messages."""
        return f"{self.kind}, {CODECS[self.codec] if self.codec < len(CODECS) else self.codec}"


def record(
    delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"value",
    time_delta: int = 0,
    headers: bytes = b"\0",
    length: int | None = None,
    value_length: int | None = None,
) -> bytes:
    """Return a record; `length` and `value_length` replace the true lengths if they are given."""
    body = b"\0" + varint(time_delta) + varint(delta)
    for text, said in ((key, None), (value, value_length)):
        body += varint((-1 if text is None else len(text)) if said is None else said) + (text or b"")
    body += headers
    return varint(len(body) if length is None else length) + body


def batch(
    data: bytes,
    count: int,
    codec: int = 0,
    delta: int | None = None,
    attributes: int = 0,
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytes:
    """Return a batch with a valid checksum that contains `data` unchanged after its header."""
    now = int(time.time() * 1000)
    last = count - 1 if delta is None else delta
    rest = struct.pack(">hiqqqhii", codec | attributes, last, now, now, producer, epoch, sequence, count) + data
    return struct.pack(">qiibI", 0, len(rest) + 9, -1, 2, crc32c(rest)) + rest


TWO = record(0) + record(1)

CONTENTS: dict[str, tuple[bytes, int]] = {
    "good": (TWO, 2),
    "good, a thousand": (b"".join(record(n, None, b"v" * (n % 9)) for n in range(1000)), 1000),
    "good, with headers": (
        record(0, headers=varint(2) + varint(1) + b"h" + varint(1) + b"v" + varint(0) + varint(-1)),
        1,
    ),
    "more records announced": (TWO, 3),
    "fewer records announced": (TWO, 1),
    "2^31-1 records announced": (TWO, MOST),
    "no record": (b"", 1),
    "noise": (NOISE, 2),
    "the last record is cut": (TWO[:-3], 2),
    "bytes behind the records": (TWO + b"\0\0\0", 2),
    "a record of negative length": (record(0) + varint(-5) + record(1), 2),
    "a record longer than the batch": (record(0) + record(1, length=90), 2),
    "a record that says to be shorter": (record(0, length=6) + record(1), 2),
    "a record that says to be longer": (record(0, length=14) + record(1), 2),
    "a value longer than its record": (record(0, value_length=40) + record(1), 2),
    "a value shorter than its record": (record(0, value_length=3) + record(1), 2),
    "a negative number of headers": (record(0, headers=varint(-1)), 1),
    "more headers than there are": (record(0, headers=varint(3)), 1),
    "a header without a key": (record(0, headers=varint(1) + varint(-1) + varint(0)), 1),
    "a key of length -7": (
        b"".join((varint(12), b"\0\0\0", varint(-7), varint(5), b"value", b"\0"))[:1]
        + b"\0\0\0"
        + varint(-7)
        + varint(6)
        + b"value!"
        + b"\0",
        1,
    ),
    "offsets with a hole": (record(0) + record(5), 2),
    "offsets that go back": (record(1) + record(0), 2),
    "a length of six bytes": (b"\x9a\x80\x80\x80\x80\x00" + record(0)[1:], 1),
}
"""Kind -> (uncompressed bytes after the header, number of records in the header)."""

HEADERS: dict[str, dict[str, int]] = {
    "no record announced": {"count": 0},
    "a negative count": {"count": -1},
    "count and offsets differ": {"count": 2, "delta": 5},
    "a control batch": {"count": 2, "attributes": 0x20, "producer": 1, "epoch": 0, "sequence": 0},
    "a producer without a sequence": {"count": 2, "producer": 1, "epoch": 0},
    "append time set": {"count": 2, "attributes": 0x08},
    "a transaction without a producer": {"count": 2, "attributes": 0x10},
    "producer id -2": {"count": 2, "producer": -2, "epoch": 0, "sequence": 0},
}


ACCEPTED = {
    "good",
    "good, a thousand",
    "good, with headers",
    "a key of length -7",
    "append time set",
    "snappy in one block",
}
UNEXPECTED = {"damaged compression", "cut compression", "lz4 of linked blocks", "unknown compression"}
"""Kinds that Apache does not expect: it answers with UNKNOWN_SERVER_ERROR (-1)."""
BY_CODEC: dict[str, tuple[int, ...]] = {
    "offsets with a hole": (0, -1, -1, -1, -1),
    "offsets that go back": (0, -1, -1, -1, -1),
    "empty compression": (0, -1, -1, -1, 87),
    "bytes behind the compression": (0, 0, -1, 0, -1),
    "a length of six bytes": (-1, 87, 87, 87, 87),
}
KEYLESS = {"good, a thousand", "a key of length -7"}
"""Kinds with a record without a key, which a compacted topic refuses."""
LENGTHS = {"a record longer than the batch", "a record that says to be shorter", "a record that says to be longer"}
"""Kinds that Apache accepts if compressed, although consumers stop there (docs/explanation/decisions.md)."""


def _bad(kind: str, codec: int, data: bytes) -> Bad:
    otherwise = 0 if kind in ACCEPTED else -1 if kind in UNEXPECTED else 87
    code = apache = BY_CODEC[kind][codec] if kind in BY_CODEC else otherwise
    if kind == "a transaction without a producer":
        apache = 53  # if the request has no transactional id; with one, the batch is accepted
    elif kind == "producer id -2" or (kind in LENGTHS and codec):
        apache = 0
    return Bad(kind, codec, data, code, apache)


def table() -> Iterator[Bad]:
    """Yield all batches of the table."""
    for codec in range(len(CODECS)):
        for kind, (data, count) in CONTENTS.items():
            yield _bad(kind, codec, batch(compression.compress(data, codec), count, codec))
        for kind, fields in HEADERS.items():
            yield _bad(kind, codec, batch(compression.compress(TWO, codec), codec=codec, **fields))
        if codec:
            whole = compression.compress(TWO, codec)
            yield _bad("damaged compression", codec, batch(NOISE, 2, codec))
            yield _bad("cut compression", codec, batch(whole[: len(whole) * 2 // 3], 2, codec))
            yield _bad("empty compression", codec, batch(b"", 2, codec))
            yield _bad("bytes behind the compression", codec, batch(whole + NOISE, 2, codec))
    yield _bad("snappy in one block", 2, batch(bytes(cramjam.snappy.compress_raw(TWO)), 2, 2))
    yield _bad("lz4 of linked blocks", 3, batch(bytes(cramjam.lz4.compress(TWO)), 2, 3))
    for codec in (5, 6, 7):
        yield _bad("unknown compression", codec, batch(TWO, 2, codec))
