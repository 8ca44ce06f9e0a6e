"""A log directory for dumps: batches of each codec, markers, gaps, and damaged files."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path

from crc32c import crc32c

from messages.records import NO_PRODUCER_ID
from messages.wire.compression import compress
from messages.wire.record_batch import HEADER, read_header, varint, with_records
from tests.storage.bad_batches import batch, record

TIME = 1_700_000_000_000
INDEX_ENTRY, TIME_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")

APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x30, 0x40


def placed(
    data: bytes, count: int, base: int, codec: int = 0, attributes: int = 0, producer: int = NO_PRODUCER_ID, **of: int
) -> bytes:
    """Return a batch of these records at offset `base`, of leader epoch 3.

    `of` may have `epoch`, `sequence` and `delta`.
    """
    made = batch(compress(data, codec), count, codec, of.pop("delta", None), attributes, producer, **of)
    header = read_header(made)._replace(base_offset=base, leader_epoch=3, first_timestamp=TIME, max_timestamp=TIME + 5)
    return with_records(header, made[HEADER.size :])


def marker(kind: int, coordinator_epoch: int) -> bytes:
    """Return a control record that ends a transaction: 0 aborts, 1 commits."""
    return record(0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch))


HEADERS = varint(2) + varint(1) + b"h" + varint(1) + b"v" + varint(3) + b"abc" + varint(-1)

BATCHES = (
    placed(record(0) + record(1, None, b"x", 3), 2, 0),
    placed(record(0, b"kk", "vé".encode(), 2, headers=HEADERS), 1, 2, codec=1),
    placed(record(0, b"", None) + record(1, b"k", b"tab\tx"), 2, 3, codec=2),
    placed(record(0) + record(1), 2, 5, codec=3, producer=7, epoch=1, sequence=2**31 - 1),
    placed(record(0) + record(1), 2, 7, codec=4, attributes=TRANSACTIONAL, producer=9, epoch=0, sequence=3),
    placed(marker(1, 4), 1, 9, attributes=CONTROL, producer=9, epoch=0),
    placed(marker(0, 5), 1, 10, attributes=CONTROL, producer=9, epoch=0),
    placed(record(0), 1, 15, attributes=APPEND_TIME),
    placed(record(0), 1, 16, attributes=DELETE_HORIZON),
    placed(b"", 0, 17, attributes=CONTROL, producer=4, epoch=0, delta=2),
)
POSITIONS = tuple(sum(map(len, BATCHES[:number])) for number in range(len(BATCHES)))
"""Position of each batch in its segment."""


def text(value: bytes) -> bytes:
    """Return the bytes, preceded by their length."""
    return struct.pack(">h", len(value)) + value


def transaction(state: int, partitions: Sequence[tuple[bytes, int]] | None) -> bytes:
    """Return a value of __transaction_state."""
    head = struct.pack(">hqhib", 0, 5, 3, 60_000, state)
    parts = b"".join(text(topic) + struct.pack(">ii", 1, number) for topic, number in partitions or ())
    count = -1 if partitions is None else len(partitions)
    return head + struct.pack(">i", count) + parts + struct.pack(">qq", TIME + 1, TIME)


OFFSET_KEY = text(b"g") + text(b"t") + struct.pack(">i", 2)
SUBSCRIPTION = struct.pack(">hi", 1, 1) + text(b"t") + struct.pack(">i", -1) + struct.pack(">i", 0)
ASSIGNMENT = struct.pack(">hi", 0, 1) + text(b"t") + struct.pack(">iii", 2, 0, 1) + struct.pack(">i", 1) + b"u"


def group(version: int, protocol: bytes, subscription: bytes, assignment: bytes) -> bytes:
    """Return a value of __consumer_offsets: a group with one member."""
    value = struct.pack(">h", version) + text(protocol) + struct.pack(">i", 4) + text(b"range") + struct.pack(">h", -1)
    value += struct.pack(">q", TIME) if version >= 2 else b""
    value += struct.pack(">i", 1) + text(b"m") + (struct.pack(">h", -1) if version >= 3 else b"")
    value += text(b"client") + text(b"/host") + (struct.pack(">i", 7) if version >= 1 else b"")
    value += struct.pack(">i", 8)
    return value + b"".join(struct.pack(">i", len(each)) + each for each in (subscription, assignment))


def key(kind: int, rest: bytes) -> bytes:
    """Return a key of this type."""
    return struct.pack(">h", kind) + rest


OFFSETS = (
    (key(1, OFFSET_KEY), struct.pack(">hqi", 3, 77, 5) + text('m"é'.encode()) + struct.pack(">q", TIME)),
    (key(1, OFFSET_KEY), struct.pack(">hq", 1, 77) + text(b"") + struct.pack(">qq", TIME, TIME + 9)),
    (key(0, OFFSET_KEY), struct.pack(">hq", 0, 77) + text(b"") + struct.pack(">q", TIME)),
    (key(1, OFFSET_KEY), None),
    (key(2, text(b"g")), None),
    (key(55, text(b"g")), b"xx"),
    (key(2, text(b"g")), group(3, b"consumer", SUBSCRIPTION, ASSIGNMENT)),
    (key(2, text(b"g")), group(1, b"other", b"\1\2", b"")),
    (key(2, text(b"g")), group(0, b"consumer", b"\0\0", b"")),
)
TRANSACTIONS = (
    *((key(0, text(b"tx")), transaction(state, [(b"t", 3)])) for state in range(1, 8)),
    (key(0, text(b"tx")), None),
    (key(0, text(b"empty")), transaction(0, None)),
    (key(9, b"x"), b"y"),
)
NUMBERS = ((struct.pack(">i", -7), struct.pack(">q", 2**40)), (None, struct.pack(">q", -1)))


def records_of(pairs: Sequence[tuple[bytes | None, bytes | None]]) -> bytes:
    """Return a segment with one batch of these keys and values."""
    return placed(b"".join(record(number, *pair) for number, pair in enumerate(pairs)), len(pairs), 0)


def snapshot(entries: Sequence[tuple[int, ...]], damage: int = 0) -> bytes:
    """Return a producer snapshot; `damage` damages its checksum."""
    rest = struct.pack(">i", len(entries)) + b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", 1, crc32c(rest) ^ damage) + rest


PRODUCERS = ((7, 1, 0, 6, 1, TIME, -1, -1), (9, 0, 4, 8, 1, TIME, 4, 7), (11, 0, -1, -1, 0, TIME, 5, -1))
DAMAGED = bytes(byte ^ (number == 30) for number, byte in enumerate(BATCHES[0]))


def write(folder: Path) -> Path:
    """Write all files; `file` maps the short name of each to its path."""
    folder.mkdir(exist_ok=True)
    for name, data in {
        "0.log": b"".join(BATCHES) + b"\0\0\0\0\0\0\0\7\0\0\0",
        "0.index": b"".join(INDEX_ENTRY.pack(*each) for each in ((2, POSITIONS[1]), (6, POSITIONS[3])))
        + INDEX_ENTRY.pack(9, POSITIONS[4])
        + bytes(80),
        "0.timeindex": b"".join(
            TIME_ENTRY.pack(TIME + time, offset) for time, offset in ((2, 2), (3, 6), (1, 8), (5, 12), (9, 99))
        )
        + bytes(120),
        "0.txnindex": struct.pack(">hqqqq", 0, 9, 7, 10, 7) + struct.pack(">hqqqq", 0, 10, 11, 12, 8),
        "17.snapshot": snapshot(PRODUCERS),
        "18.snapshot": snapshot(PRODUCERS, damage=1),
        "100.log": DAMAGED + BATCHES[0],
        "200.log": b"",
        "200.index": b"",
        "200.timeindex": b"",
        "300.log": BATCHES[0] + bytes(200),
        "400.log": BATCHES[0],
        "400.index": INDEX_ENTRY.pack(-5, 0),
        "400.timeindex": TIME_ENTRY.pack(TIME, 3) + TIME_ENTRY.pack(TIME - 1, 4),
        "500.log": BATCHES[0],
        "500.index": INDEX_ENTRY.pack(1, 0) + b"xyz",
        "700.log": records_of(TRANSACTIONS),
        "800.log": records_of(OFFSETS),
        "900.log": records_of(NUMBERS),
    }.items():
        file(folder, name).write_bytes(data)
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 5\n")
    (folder / "replication-offset-checkpoint").write_text("0\n2\nt 0 5\nu 1 7\n")
    return folder


def file(folder: Path, name: str) -> Path:
    """Return the path for a short name such as `17.snapshot`; in the file's name, the offset has twenty digits."""
    offset, _, suffix = name.partition(".")
    return folder / f"{int(offset):020d}.{suffix}"


FIELD = re.compile(r"(\w+): (.*?)(?= \w+: |$)")


def dumped_fields(line: str) -> dict[str, str]:
    """Return the fields in a line of `dump-log`, or in one of Kafka's tool, whose absent numbers are -1."""
    head, has_payload, payload = line.partition(" payload: ")
    head, has_key, key = head.partition(" key: ")
    fields = dict(FIELD.findall(re.sub(r"OptionalLong(?:\.empty|\[(\d+)])", lambda m: m[1] or "-1", head.strip())))
    return fields | ({"key": key} if has_key else {}) | ({"payload": payload} if has_payload else {})
