"""Test the checks of records in batches: Apache's error codes, and bounded memory for decompression bombs."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest
import zstandard

from actors.core.broker.leader import produce_verdict
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.errors import MESSAGE_TOO_LARGE, NONE
from messages.flow.conversation import all_at_once
from messages.partition import LogSettings
from messages.records import CODECS, MAX_KEYLESS_RANGES, Records
from messages.wire import batch_records, compression
from messages.wire.batch_records import SPAN, InvalidRecords, checking, checking_produce, record_times, records
from messages.wire.record_batch import read_header, read_records, varint
from tests.storage import bad_batches
from tests.storage.bad_batches import record
from tests.storage.batches import with_header

MOST = 2**31
T0 = TopicPartition("t", 0)
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LARGE = 200 << 20
"""Decompressed bytes of a bomb: more than the decompression limit."""


def seen(data: bytes) -> Records:
    """Return the result of the listener's check of a batch."""
    request = ProduceRequest(8, None, 1, 1000, (ProducePartition(T0, read_records(data)),))
    return all_at_once(checking_produce(request)).partitions[0].records


@pytest.fixture(autouse=True, params=["compiled", "plain"])
def walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with the compiled walker, if it is available, and with the Python one."""
    if request.param == "plain":
        monkeypatch.setattr(batch_records, "compiled_check", None)
    elif batch_records.compiled_check is None:
        pytest.skip("messages/wire/_walk.c is not compiled")


def test_a_batch_is_judged_by_its_records() -> None:
    verdicts = {bad: produce_verdict(seen(bad.data), 8, LogSettings()).error_code for bad in bad_batches.table()}
    assert {bad.name: code for bad, code in verdicts.items() if code != bad.code} == {}


def test_there_are_all_kinds_in_all_codecs() -> None:
    kinds = [bad.kind for bad in bad_batches.table() if bad.code != NONE]
    assert len(set(kinds)) >= 14
    assert all(kinds.count(kind) >= len(CODECS) - 1 for kind in bad_batches.CONTENTS if kind in kinds)


def _plainly(data: bytes, count: int) -> tuple[tuple[int, ...], int] | None:
    """Check the records field by field; return what `checking` returns, or None if the check fails."""
    position, keyless, times = 0, [], []

    def number(most: int = 5) -> int:
        nonlocal position
        value = 0
        for at in range(most):
            byte = data[position]
            position += 1
            value |= (byte & 127) << 7 * at
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
        raise IndexError

    try:
        for place in range(count):
            end = number() + position
            position += 1
            times.append(number(10))
            number()
            key = number()
            if key < 0:
                keyless.append(place)
            position += max(key, 0)
            value = number()
            position += max(value, 0)
            headers = number()
            if not 0 <= headers <= end - position:
                return None
            for _ in range(headers):
                for least in (0, -MOST):
                    size = number()
                    if size < least:
                        return None
                    position += max(size, 0)
            if position != end or end > len(data):
                return None
    except IndexError:
        return None
    if position != len(data):
        return None
    starts = [place for place in keyless if place - 1 not in keyless]
    ends = [place for place in keyless if place + 1 not in keyless]
    return tuple(place for run in zip(starts, ends, strict=True) for place in run)[: 2 * MAX_KEYLESS_RANGES], max(times)


def _samples(chance: random.Random) -> Iterator[tuple[bytes, int]]:
    """Yield records of equal and of different shapes, about half of them damaged."""
    for _ in range(400):
        count, mode, size, out = chance.choice([1, 3, 20, 80, 300]), chance.random(), chance.randrange(140), []
        for number in range(count):
            if chance.random() < (0.02 if mode < 0.5 else 0.5):
                size = chance.randrange(140)
            key = chance.choice([None, b"k"]) if mode > 0.7 else None
            out.append(record(number, key, bytes(size), chance.randrange(200) if mode > 0.8 else number // 3))
        data, damage = bytearray(b"".join(out)), chance.random()
        if damage < 0.4:
            data[chance.randrange(len(data))] = chance.randrange(256)
        elif damage < 0.5:
            del data[chance.randrange(len(data)) :]
        yield bytes(data), max(1, count + (chance.choice([-1, 1]) if 0.5 < damage < 0.6 else 0))


def test_the_check_finds_what_a_naive_one_finds() -> None:
    for data, count in _samples(random.Random(7)):
        try:
            found = all_at_once(checking(data, 0, count))
        except InvalidRecords:
            found = None
        seen_at_once = seen(bad_batches.batch(data, count))
        if seen_at_once.fault is None:
            [header] = seen_at_once.batches
            newest = header.max_timestamp - header.first_timestamp
        assert (None if seen_at_once.fault else (seen_at_once.keyless, newest)) == found
        assert found == _plainly(data, count), (data, count)


@pytest.mark.parametrize("codec", range(len(CODECS)))
def test_a_batch_gets_the_largest_time_of_its_records_whatever_its_header_says(codec: int) -> None:
    data = compression.compress(record(0, time_delta=7) + record(1, time_delta=-9), codec)
    for said in (-1, 5, 10**15):
        batch = with_header(bad_batches.batch(data, 2, codec), first_timestamp=1_000, max_timestamp=said)
        found = seen(batch)
        [header] = found.batches
        assert (header.max_timestamp, found.error_code) == (1_007, NONE)
        assert bytes(found.body.data) == with_header(batch, max_timestamp=1_007)
        assert seen(bytes(found.body.data)).batches == found.batches
    stamped = with_header(batch, attributes=codec | 8)
    assert bytes(seen(stamped).body.data) == stamped, "the header has the time of all its records"


def test_a_large_record_is_checked_in_parts() -> None:
    """The record is larger than one decompressed chunk, has a key, a value and headers, and has records around it."""
    for codec in range(len(CODECS)):
        for keyless, key in ((1, 1), None), ((), b"k" * (3 * SPAN)):
            headers = varint(1) + varint(SPAN) + b"h" * SPAN + varint(-1)
            data = record(0) + record(1, key, b"v" * (2 * SPAN), headers=headers) + record(2)
            packed = compression.compress(data, codec)
            assert all_at_once(checking(packed, codec, 3)) == (keyless, 0)
            for damaged in (
                record(0) + record(1, key, b"v" * (2 * SPAN), headers=headers[:-1]) + record(2),
                data[:-20],
            ):
                with pytest.raises(InvalidRecords):
                    all_at_once(checking(compression.compress(damaged, codec), codec, 3))


# ------------------------------------------------------------------------------------------------ bombs


def bomb(codec: int) -> bytes:
    """Return the records of a batch: one compressed record of LARGE zeros."""
    head = varint(LARGE + 14) + b"\0\0\0" + varint(-1) + varint(LARGE)
    zeros = bytes(1 << 20)
    if codec == GZIP:
        made = zlib.compressobj(1, wbits=31)
        return made.compress(head) + b"".join(made.compress(zeros) for _ in range(LARGE >> 20)) + made.flush()
    if codec == ZSTD:
        maker = zstandard.ZstdCompressor(level=1).compressobj()
        return maker.compress(head) + b"".join(maker.compress(zeros) for _ in range(LARGE >> 20)) + maker.flush()
    whole = compression.compress(zeros, codec)
    start = compression.compress(head, codec)
    frame, end = (7, 4) if codec == LZ4 else (16, 0)
    return start[: len(start) - end] + whole[frame : len(whole) - end] * (LARGE >> 20) + start[len(start) - end :]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=CODECS[1:])
def test_of_a_bomb_no_more_is_decompressed_and_held_than_the_bounds(codec: int) -> None:
    """A bomb of 10 KB to 10 MB contains 200 MB.

    All readers of batches decompress at most 100 MB of it, and hold a few MB at a time.
    """
    packed = bomb(codec)
    batch = bad_batches.batch(packed, 1, codec)
    header = read_header(batch)
    produced, largest = 0, 0
    with pytest.raises(compression.TooManyBytes):
        for chunk in compression.decompressed_chunks(packed, codec):
            produced, largest = produced + len(chunk), max(largest, len(chunk))
    assert produced <= compression.MAX_DECOMPRESSED
    assert largest <= 4 << 20
    tracemalloc.start()
    try:
        [fault] = [seen(batch).fault]
        assert fault is not None
        assert fault.error_code == MESSAGE_TOO_LARGE
        with pytest.raises(compression.TooManyBytes):
            list(record_times(batch, header))
        with pytest.raises(compression.TooManyBytes):
            list(records(batch, header, 4 << 20))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(batch) + (24 << 20)


def test_what_claims_to_be_large_allocates_nothing() -> None:
    """A snappy block announces 4 GB of decompressed data."""
    with pytest.raises(compression.CannotDecompress, match="claim"):
        list(compression.decompressed_chunks(b"\xff\xff\xff\xff\x0f\x00a", SNAPPY))


@pytest.mark.parametrize("codec", range(len(CODECS)), ids=CODECS)
@pytest.mark.parametrize("data", [b"", b"abc" * 100_000, random.Random(3).randbytes(200_000), bytes(5_000_000)])
def test_what_is_compressed_is_decompressed(codec: int, data: bytes) -> None:
    packed = compression.compress(data, codec)
    assert compression.decompress(packed, codec) == data
