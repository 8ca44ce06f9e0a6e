"""Check the records inside a batch, and read their times, keys and values.

Rule 1: the check and the reader of records get the decompressed data as a stream (`compression`, rule 1). The check
        holds at most SPAN bytes of this data in memory, and the reader holds one record.
Rule 2: the check looks at all lengths and counts, as Kafka's `DefaultRecord.readFrom` does, but not at the contents.
        The compiled `_walk.c` checks records at 10 ns each, and stops at an invalid record, which the Python code then
        reports. Without a compiler, Python checks all records, which takes fifty times as long.
Rule 3: the check is a generator of steps. For a large chunk it yields a function that decompresses the chunk. The
        caller may call this function in another thread, because the decompression libraries release the GIL while they
        work.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

from messages.apis.produce import ProduceRequest, produce_partition, produce_request
from messages.errors import INVALID_RECORD, MESSAGE_TOO_LARGE, NONE, UNKNOWN_SERVER_ERROR
from messages.records import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    MAX_KEYLESS_RANGES,
    NO_TIMESTAMP,
    TRANSACTION_BIT,
    BatchHeader,
    InvalidRecordsReason,
    Records,
)
from messages.wire.compiler import LongSteps
from messages.wire.compression import (
    CHUNK,
    MAX_DECOMPRESSED,
    CannotDecompress,
    Data,
    TooManyBytes,
    compress,
    decompress,
    decompressed_chunks,
)
from messages.wire.record_batch import HEADER, read_header, read_records, varint, with_records

try:
    from messages.wire._walk import check as compiled_check
except ImportError:
    compiled_check = None  # type: ignore[assignment]

LONG_MAX = 2**63 - 1
SLICE, COMPILED_SLICE = 1000, 50_000
"""Number of records that the check reads before it yields."""
SPAN = 1 << 20
"""Bytes that one call on another thread decompresses."""
FEW = 16 << 10
"""Compressed bytes up to which the first chunk is decompressed at once: changing threads costs more."""
_LONGEST_INT, _LONGEST_LONG = 5, 10
"""Maximum bytes of a varint of 32 bits and of one of 64."""
_LONGEST_HEAD = 2 * _LONGEST_INT + 1 + _LONGEST_LONG
"""Maximum bytes of a record's length, attributes, time and offset."""


class InvalidRecords(ValueError):
    """The records of a batch do not match its header, or their lengths are wrong."""


class UnexpectedOffsets(InvalidRecords):
    """The offsets of compressed records are not consecutive; Kafka returns the error code -1 in this case."""


class LongLength(InvalidRecords):
    """The varint with the length of a record has more than five bytes.

    Kafka returns the error code -1 in this case, or INVALID_RECORD if the batch is compressed.
    """


class Record(NamedTuple):
    """A record; `timestamp` is in ms, and `headers` are empty unless the reader asked for them."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class _Stream:
    """The decompressed bytes of a batch; `data` from `position` on is unread."""

    __slots__ = ("_chunks", "_error", "data", "is_over", "position", "wanted")

    def __init__(self, chunks: Iterator[Data]) -> None:
        self._chunks = chunks
        self._error: ValueError | None = None
        self.data = b""
        self.position = 0
        self.wanted = 0
        """Unread bytes that the next record needs, as far as its length is known."""
        self.is_over = False

    def fill(self, size: int) -> None:
        """Read until `data` has at least `size` unread bytes or the stream ends.

        A decompression error ends the stream; `next_record` raises the error later.
        """
        parts: list[Data] = [self.data[self.position :]]
        held = len(parts[0])
        try:
            while held < size and not self.is_over:
                chunk = next(self._chunks, None)
                self.is_over = chunk is None
                parts.append(chunk or b"")
                held += len(parts[-1])
        except ValueError as error:
            self._error, self.is_over = error, True
        self.data, self.position = b"".join(parts), 0

    def next_record(self) -> tuple[int, int] | None:
        """Return the (start, end) of the next record in `data`, without the record's length field.

        Return None if `data` has only a part of the record. Then `wanted` is the minimum size to pass to `fill`.

        Raises:
            ValueError: The stream has ended, or cannot be read any further.
        """
        data, position = self.data, self.position
        self.wanted = _LONGEST_INT
        if len(data) - position >= _LONGEST_INT or (self.is_over and position < len(data)):
            length, start = _length(data, position)
            end = start + length
            if length < 0:
                raise InvalidRecords(f"Invalid record size: {length}")
            if end <= len(data):
                return start, end
            self.wanted = end - position
        if not self.is_over:
            return None
        self.raise_error()
        raise InvalidRecords(f"Invalid record size: {self.wanted} bytes, {len(data) - position} are left")

    def raise_error(self) -> None:
        """Raise the error that ended the stream, if any."""
        if self._error is not None:
            raise self._error


def records(
    batch: Data, header: BatchHeader, limit: int = MAX_DECOMPRESSED, with_headers: bool = False
) -> Iterator[Record]:
    """Read the records of a whole batch.

    Args:
        batch: The batch from its header on.
        header: Its header.
        limit: Maximum number of decompressed bytes.
        with_headers: Also read the headers of each record.

    Raises:
        ValueError: The records do not match the header, or are larger than `limit` bytes after decompression. Records
            yielded before the error are valid.
    """
    data = memoryview(batch)[HEADER.size : header.size]
    stream = _Stream(decompressed_chunks(data, header.codec, limit))
    try:
        for _ in range(header.record_count):
            while (bounds := stream.next_record()) is None:
                stream.fill(max(stream.wanted, CHUNK))
            position, end = bounds
            delta, position = _varint(stream.data, position + 1, _LONGEST_LONG)
            offset_delta, position = _varint(stream.data, position)
            key, position = _text(stream.data, position, end)
            value, position = _text(stream.data, position, end)
            stream.position = end
            offset, timestamp = header.base_offset + offset_delta, header.first_timestamp + delta
            if with_headers:
                yield Record(offset, timestamp, key, value, _headers(stream.data, position, end))
            else:
                yield Record(offset, timestamp, key, value)
    except IndexError as error:
        raise InvalidRecords("Found invalid record structure: a record is cut") from error


def record_times(batch: Data, header: BatchHeader) -> Iterator[tuple[int, int] | None]:
    """Read only the times of the records of a whole batch: no record is held in memory.

    Yields:
        (timestamp, offset) of each record. If a record continues in further chunks, None is yielded before each of
        these chunks.

    Raises:
        ValueError: As `records`.
    """
    stream = _Stream(decompressed_chunks(memoryview(batch)[HEADER.size : header.size], header.codec))
    try:
        for _ in range(header.record_count):
            if len(stream.data) - stream.position < _LONGEST_HEAD:
                stream.fill(_LONGEST_HEAD)
            length, start = _varint(stream.data, stream.position)
            delta, position = _varint(stream.data, start + 1, _LONGEST_LONG)
            offset_delta, position = _varint(stream.data, position)
            yield header.first_timestamp + delta, header.base_offset + offset_delta
            left = start + length - len(stream.data)
            stream.position = min(max(start + length, position), len(stream.data))
            while left > 0:
                yield None
                stream.fill(1)
                if not stream.data:
                    stream.raise_error()
                    raise InvalidRecords(f"Invalid record size: {left} bytes are missing")
                stream.position = min(left, len(stream.data))
                left -= stream.position
    except IndexError as error:
        stream.raise_error()
        raise InvalidRecords("Found invalid record structure: a record is cut") from error


RecordFrame = tuple[int, int, int, int, bytes | None, bool]
"""(start, end) of a record in decompressed data, its time and offset deltas, its key, and whether it has a value."""


def frames(data: bytes, position: int, count: int) -> list[RecordFrame]:
    """Return the next `count` records of decompressed data, from `position` on.

    The log cleaner reads each record twice by this function or the one in `_walk.c`, so short numbers are decoded
    inline.

    Raises:
        InvalidRecords: A length is wrong.
    """
    found: list[RecordFrame] = []
    add, size = found.append, len(data)
    try:
        for _ in range(count):
            start = position
            byte = data[position]
            if byte < 0x80:
                length, position = byte >> 1, position + 1
            elif (second := data[position + 1]) < 0x80:
                length, position = (byte & 0x7F | second << 7) >> 1, position + 2
            else:
                length, position = _varint(data, position)
            end = position + length
            byte = data[position + 1]
            if byte < 0x80:
                time, position = (byte >> 1) ^ -(byte & 1), position + 2
            else:
                time, position = _varint(data, position + 1, _LONGEST_LONG)
            byte = data[position]
            if byte < 0x80:
                delta, position = byte >> 1, position + 1
            elif (second := data[position + 1]) < 0x80:
                delta, position = (byte & 0x7F | second << 7) >> 1, position + 2
            else:
                delta, position = _varint(data, position)
            byte = data[position]
            if byte < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                length, position = _varint(data, position)
            if length < 0:
                key = None
            else:
                key = data[position : position + length]
                position += length
            add((start, end, time, delta, key, not data[position] & 1))
            if not position < end <= size:
                raise InvalidRecords("Found invalid record structure: a record is cut")
            position = end
    except IndexError as error:
        raise InvalidRecords("Found invalid record structure: a record is cut") from error
    return found


class KeptRecords(NamedTuple):
    """Records of a batch: their number, the (start, end) of each run of them, and their largest time delta."""

    number: int
    places: list[tuple[int, int]]
    newest: int
    has_tombstone: bool

    def append(self, later: KeptRecords) -> KeptRecords:
        """Return these records and later ones of the batch."""
        return KeptRecords(
            self.number + later.number,
            self.places + later.places,
            max(self.newest, later.newest),
            self.has_tombstone or later.has_tombstone,
        )


def clean_batch(header: BatchHeader, data: bytes, kept: KeptRecords, delete_horizon: int = NO_TIMESTAMP) -> bytes:
    """Return a batch with only the records `kept` of its decompressed records `data`; offsets and times are the same.

    With `delete_horizon` (ms), the tombstones or the marker in the batch may be removed from this time on (KIP-534):
    it replaces the first timestamp, and the records' times become relative to it.

    Kafka: `MemoryRecords.buildRetainedRecordsInto`, `DefaultRecordBatch.writeEmptyHeader`.
    """
    if not kept.number:
        bits = header.attributes & (LOG_APPEND_TIME_BIT | TRANSACTION_BIT | CONTROL_BIT)
        return with_records(header._replace(attributes=bits, first_timestamp=NO_TIMESTAMP, record_count=0), b"")
    pieces = [data[start:end] for start, end in kept.places]
    newest = header.first_timestamp + kept.newest
    if delete_horizon != NO_TIMESTAMP:
        shift = header.first_timestamp - delete_horizon
        header = header._replace(attributes=header.attributes | DELETE_HORIZON_BIT, first_timestamp=delete_horizon)
        pieces = [_shift_timestamps(data, place, shift) for place in kept.places]
    if not header.attributes & LOG_APPEND_TIME_BIT:
        header = header._replace(max_timestamp=newest)
    return with_records(header._replace(record_count=kept.number), compress(b"".join(pieces), header.codec))


def _shift_timestamps(data: bytes, place: tuple[int, int], shift: int) -> bytes:
    """Return the records of a run with larger time deltas."""
    position, end = place
    pieces: list[bytes] = []
    while position < end:
        length, start = _varint(data, position)
        position = start + length
        delta, after = _varint(data, start + 1, _LONGEST_LONG)
        record = data[start : start + 1] + varint(delta + shift) + data[after:position]
        pieces += (varint(len(record)), record)
    return b"".join(pieces)


def recompress(batch: memoryview, codec: int, limit: int) -> bytes:
    """Return the batch with its records compressed by `codec`, and the other header fields unchanged.

    A batch with this codec is returned as it is.

    Raises:
        ValueError: The records cannot be decompressed, or have more than `limit` bytes.
    """
    header = read_header(batch)
    if header.codec == codec:
        return bytes(batch)
    packed = compress(decompress(batch[HEADER.size : header.size], header.codec, limit), codec)
    return with_records(header._replace(attributes=header.attributes & ~CODEC_MASK | codec), packed)


def checking_produce(request: ProduceRequest) -> LongSteps[ProduceRequest]:
    """Check the batches of a request in steps, and return the request with the results stored in its `Records`."""
    found = []
    for part in request.partitions:
        records = part.records
        if len(records.batches) == 1 and records.error_code == NONE:
            fault, (keyless, newest) = yield from _judging(records)
            records = records if fault is not None else _with_newest(records, newest)
            if fault is not None or keyless or records is not part.records:
                seen = tuple.__new__(Records, (records.batches, records.body, NONE, fault, keyless))
                part = produce_partition(part.partition, seen)
        found.append(part)
    if all(map(operator.is_, found, request.partitions)):
        return request
    fields = request.version, request.transactional_id, request.acks, request.timeout_ms
    return produce_request(*fields, tuple(found))


def _with_newest(records: Records, newest: int) -> Records:
    """Return the only batch of `records` with the largest timestamp of its records, whatever its header says.

    `newest` is their largest time delta.
    """
    [header] = records.batches
    found = max(NO_TIMESTAMP, header.first_timestamp + newest)
    if found == header.max_timestamp or found > LONG_MAX or header.attributes & LOG_APPEND_TIME_BIT:
        return records
    return read_records(
        with_records(header._replace(max_timestamp=found), bytes(memoryview(records.body.data)[HEADER.size :]))
    )


Seen: TypeAlias = tuple[tuple[int, ...], int]
"""Ranges of records without a key, as `Records.keyless`, and the largest time delta."""
_UNSEEN: Seen = (), 0


def _judging(records: Records) -> LongSteps[tuple[InvalidRecordsReason | None, Seen]]:
    """Check the only batch of `records`; return its error or None, and what was seen in its records."""
    [header] = records.batches
    data, count = memoryview(records.body.data)[HEADER.size :], header.record_count
    if compiled_check is not None and header.codec == 0 and count <= COMPILED_SLICE:
        read, end, runs, newest = compiled_check(data, 0, 0, count, False)
        if read == count > 0 and end == len(data):
            return None, (tuple(runs[: 2 * MAX_KEYLESS_RANGES]), newest)
    try:
        return None, (yield from checking(data, header.codec, header.record_count))
    except TooManyBytes as error:
        return InvalidRecordsReason(MESSAGE_TOO_LARGE, str(error)), _UNSEEN
    except (CannotDecompress, UnexpectedOffsets) as error:
        return InvalidRecordsReason(UNKNOWN_SERVER_ERROR, str(error)), _UNSEEN
    except LongLength as error:
        return InvalidRecordsReason(INVALID_RECORD if header.codec else UNKNOWN_SERVER_ERROR, str(error)), _UNSEEN
    except InvalidRecords as error:
        return InvalidRecordsReason(INVALID_RECORD, str(error)), _UNSEEN


def checking(data: Data, codec: int, count: int) -> LongSteps[Seen]:
    """Check the records of a batch, in steps (rule 3).

    Args:
        data: The batch after its header.
        codec: Number of its codec.
        count: Number of records according to the header.

    Returns:
        See `Seen`; at most MAX_KEYLESS_RANGES ranges.

    Raises:
        InvalidRecords: A length or a count is wrong.
        CannotDecompress: As `decompressed_chunks`.
        TooManyBytes: As `decompressed_chunks`.
    """
    stream = _Stream(decompressed_chunks(data, codec))
    if codec == 0 or len(data) <= FEW:
        stream.fill(1)
    keyless: list[int] = []
    done, newest = 0, -LONG_MAX
    check = compiled_check
    try:
        while done < count:
            if check is not None:
                end = min(count, done + COMPILED_SLICE)
                read, stream.position, runs, latest = check(stream.data, stream.position, done, end, codec != 0)
                newest = max(newest, latest)
                for at in range(0, min(len(runs), 2 * MAX_KEYLESS_RANGES + 2), 2):
                    _extend(keyless, runs[at], runs[at + 1])
                if read == done + COMPILED_SLICE:
                    yield None
                if read > done:
                    done = read
                    continue
            bounds = stream.next_record()
            number = done if codec else None
            if bounds is not None:
                has_key, time = _check(stream.data, *bounds, number)
                stream.position = bounds[1]
            elif stream.wanted <= SPAN:
                yield partial(stream.fill, SPAN)
                continue
            else:
                has_key, time = yield from _checking_large(stream, number)
            if not has_key:
                _extend(keyless, done, done)
            newest = max(newest, time)
            done += 1
            if not done % SLICE:
                yield None
    except IndexError as error:
        raise InvalidRecords("Found invalid record structure: a record is cut") from error
    if stream.position == len(stream.data):
        stream.fill(1)
        stream.raise_error()
    if stream.position < len(stream.data):
        raise InvalidRecords(f"Incorrect declared batch size: there is more behind {count} records")
    return tuple(keyless), newest


def _extend(ranges: list[int], first: int, last: int) -> None:
    if ranges and ranges[-1] == first - 1:
        ranges[-1] = last
    elif len(ranges) < 2 * MAX_KEYLESS_RANGES:
        ranges += (first, last)


def _check(data: bytes, start: int, end: int, number: int | None) -> tuple[bool, int]:
    """Check the record between `start` and `end`; return whether it has a key, and its time delta.

    Its offset delta must be `number`, unless `number` is None.
    """
    time, position = _varint(data, start + 1, _LONGEST_LONG)
    offset, position = _varint(data, position)
    key, position = _varint(data, position)
    value, position = _varint(data, position + max(key, 0))
    position += max(value, 0)
    if position != end - 1 or data[position]:
        _check_headers(data, position, end)
    if number not in (None, offset):
        raise UnexpectedOffsets(f"The offset of record {number} is {offset} behind the first")
    return key >= 0, time


def _checking_large(stream: _Stream, number: int | None) -> LongSteps[tuple[bool, int]]:
    """Check a record that is too large for the stream's buffer; return what `_check` does.

    Its offset delta must be `number`, unless `number` is None.
    """
    left = 0

    def varint(most: int = _LONGEST_INT) -> LongSteps[int]:
        nonlocal left
        if len(stream.data) - stream.position < most and not stream.is_over:
            yield partial(stream.fill, SPAN)
        before = stream.position
        value, stream.position = _varint(stream.data, before, most)
        left -= stream.position - before
        return value

    def skip(size: int) -> LongSteps[None]:
        nonlocal left
        left -= max(size, 0)
        while size > 0 and left >= 0:
            if stream.position == len(stream.data):
                if stream.is_over:
                    stream.raise_error()
                    raise InvalidRecords(f"Invalid record size: {size} bytes are missing")
                yield partial(stream.fill, SPAN)
            step = min(size, len(stream.data) - stream.position)
            stream.position += step
            size -= step

    left = yield from varint()
    yield from skip(1)
    time = yield from varint(_LONGEST_LONG)
    offset = yield from varint()
    if number not in (None, offset):
        raise UnexpectedOffsets(f"The offset of record {number} is {offset} behind the first")
    key = yield from varint()
    yield from skip(key)
    yield from skip((yield from varint()))
    headers = yield from varint()
    if not 0 <= headers <= left:
        raise InvalidRecords(f"Found invalid number of record headers: {headers}")
    for _ in range(headers):
        size = yield from varint()
        if size < 0:
            raise InvalidRecords("Found invalid record structure: a header without a key")
        yield from skip(size)
        yield from skip((yield from varint()))
        if left < 0:
            break
    if left:
        raise InvalidRecords("Found invalid record structure: the fields of a record do not end where it ends")
    return key >= 0, time


def _check_headers(data: bytes, position: int, end: int) -> None:
    """Check the headers of a record from `position` on; the last header must end at `end`, the record's end."""
    if position < end:
        count, position = _varint(data, position)
        if not 0 <= count <= end - position:
            raise InvalidRecords(f"Found invalid number of record headers: {count}")
        for _ in range(count):
            size, position = _varint(data, position)
            if size < 0:
                raise InvalidRecords("Found invalid record structure: a header without a key")
            size, position = _varint(data, position + size)
            position += max(size, 0)
            if position > end:
                break
        if position == end:
            return
    raise InvalidRecords("Found invalid record structure: the fields of a record do not end where it ends")


def _text(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Return a key or value (`None` if null) and its end."""
    length, position = _varint(data, position)
    if position + max(length, 0) > end:
        raise InvalidRecords("Found invalid record structure: a record is cut")
    return (None, position) if length < 0 else (data[position : position + length], position + length)


def _headers(data: bytes, position: int, end: int) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers of a record that ends at `end`."""
    _check_headers(data, position, end)
    count, position = _varint(data, position)
    found = []
    for _ in range(count):
        name, position = _text(data, position, end)
        value, position = _text(data, position, end)
        found.append(((name or b"").decode(errors="replace"), value))
    return tuple(found)


def _length(data: bytes, position: int) -> tuple[int, int]:
    """Return the length of a record, and the position after it. Raises LongLength."""
    try:
        return _varint(data, position)
    except InvalidRecords as error:
        raise LongLength(str(error)) from error


def _varint(data: bytes, position: int, most: int = _LONGEST_INT) -> tuple[int, int]:
    """Decode a signed number whose zigzag form has at most `most` bytes.

    Return the number and the position after it.
    """
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, shift = byte & 0x7F, 7
    for at in range(position + 1, position + most):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
    raise InvalidRecords(f"Found invalid record structure: a number of more than {most} bytes")
