"""Messages of formats 0 and 1: what a leader stores of them, and what old consumers get."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages.errors import CORRUPT_MESSAGE, INVALID_RECORD, NONE
from messages.records import CODECS
from messages.wire.batch_records import records
from messages.wire.compression import compress
from messages.wire.message_set import as_batch, as_messages, downgrade, read_any_format, upgrade
from messages.wire.record_batch import has_valid_crc, read_header, read_records, whole_batches
from tests.storage.batches import batch, end_marker, with_header

Row = tuple[int, bytes | None, bytes | None]


def message(magic: int, offset: int, row: Row, codec: int = 0) -> bytes:
    """Return a message of this format, written independently of the product."""
    time, key, value = row
    body = struct.pack(">bb", magic, codec) + (struct.pack(">q", time) if magic else b"")
    for text in (key, value):
        body += struct.pack(">i", -1) if text is None else struct.pack(">i", len(text)) + text
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def stored(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [tuple(each)[:4] for each in records(data, read_header(data))]  # type: ignore[misc]


texts = st.none() | st.binary(max_size=300)
rows = st.lists(st.tuples(st.integers(0, 2**40), texts, texts), min_size=1, max_size=8)


@given(rows, st.sampled_from((0, 1)), st.sampled_from(("none", "gzip", "snappy", "lz4")))
def test_messages_become_one_batch_and_come_back(found: list[Row], magic: int, codec: str) -> None:
    number = CODECS.index(codec)
    inner = b"".join(message(magic, offset, row) for offset, row in enumerate(found))
    data = message(magic, 7, (99, None, compress(inner, number)), number) if number else inner
    data += inner[:20]  # a cut message at the end is ignored
    taken = read_any_format(data)
    [header] = taken.batches
    times = [time if magic else -1 for time, _, _ in found]
    assert (taken.error_code, header.codec, header.record_count, header.base_offset) == (NONE, number, len(found), 0)
    assert (header.first_timestamp, header.max_timestamp) == (times[0], max(times))
    wanted = [(offset, times[offset], key, value) for offset, (_, key, value) in enumerate(found)]
    assert stored(bytes(taken.body.data)) == wanted
    assert b"".join(downgrade(taken.body.data, magic)) == inner


def test_a_batch_of_format_2_is_taken_as_it_is() -> None:
    data = batch(b"a", b"b")
    assert read_any_format(data) == read_records(data)


@given(rows, st.sampled_from((0, 1)), st.sampled_from(("none", "gzip", "snappy", "lz4")), st.booleans())
def test_a_log_stores_a_batch_as_messages_and_reads_them(
    found: list[Row], magic: int, codec: str, append_time: bool
) -> None:
    number, time = CODECS.index(codec), 99 if append_time else None
    made = upgrade(b"".join(message(1, 0, row) for row in found))
    data = as_messages(made, magic, 50, number, time)
    stored_times = [(99 if append_time else row[0]) if magic else -1 for row in found]
    wanted = [(50 + offset, at, *row[1:]) for offset, (at, row) in enumerate(zip(stored_times, found, strict=True))]
    entries = list(whole_batches(data + data[:20]))
    assert all(has_valid_crc(data, position, header) for position, header in entries)
    assert [header.last_offset for _, header in entries] == [49 + len(found)] if number else [row[0] for row in wanted]
    assert {(header.magic, header.codec, header.max_timestamp) for _, header in entries[number and -1 :]} <= {
        (magic, number, at) for at in ((max(stored_times),) if number else stored_times)
    }
    back = [as_batch(data[position:], header) for position, header in entries]
    read = [
        (each.offset, header.max_timestamp if append_time else each.timestamp, each.key, each.value)
        for batch, header in back
        for each in records(batch, header)
    ]
    assert read == wanted
    if not number:
        assert data == b"".join(
            message(magic, row[0], row[1:], codec=8 if append_time and magic else 0) for row in wanted
        )


def damaged(at: int) -> bytes:
    data = bytearray(message(1, 0, (5, b"k", b"v")))
    data[at] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (damaged(-1), CORRUPT_MESSAGE),
        (struct.pack(">qiIb", 0, 5, 0, 1), CORRUPT_MESSAGE),
        (message(1, 0, (5, None, None), codec=1), INVALID_RECORD),
        (message(1, 0, (5, None, b"x"), codec=4), INVALID_RECORD),
        (message(1, 0, (5, None, gzip.compress(message(1, 0, (5, None, b"x"), codec=1))), codec=1), INVALID_RECORD),
        (message(1, 0, (5, b"k", b"v"))[:-1], INVALID_RECORD),
    ],
    ids=["flipped bit", "short size", "no inner set", "codec of format 2", "set in a set", "cut off"],
)
def test_an_invalid_set_is_refused(data: bytes, code: int) -> None:
    taken = read_any_format(data)
    assert (taken.batches, taken.error_code) == ((), code)


def test_lz4_of_format_0_has_another_checksum() -> None:
    frame = bytearray(compress(message(0, 0, (0, b"k", b"v")), 3))
    frame[6] ^= 0xFF
    assert bytes.fromhex("04224d1860401a") in as_messages(batch(b"v"), 0, 0, 3), "as Kafka 0.9 writes it"
    assert stored(upgrade(message(0, 0, (0, None, bytes(frame)), codec=3))) == [(0, -1, b"k", b"v")]


def test_control_batches_are_left_out_and_append_times_are_those_of_the_batch() -> None:
    timed = with_header(batch(b"a", b"b"), attributes=8, max_timestamp=77)
    assert list(downgrade(timed + end_marker(7, 0, True, base_offset=2), 1)) == [
        message(1, 0, (77, None, b"a"), codec=8) + message(1, 1, (77, None, b"b"), codec=8)
    ]
