"""Encode and decode Produce and Fetch with hand-written code, which takes a third of the time of generated code.

Rule 1: the readers and writers here work like those of the compiler (`compiler`, rule 4): they are generators that
        yield between slices, and they raise the same errors. The tests of all APIs compare every version with an
        independent codec, and read corrupted bytes.
Rule 2: records are not copied: a reader returns views of the frame. A writer returns each body of record batches as a
        piece: its bytes, or a region of a log file. Callers that need the frame as one bytes object join the pieces.
        For these callers, the `LogManager` is configured to return no regions.
Rule 3: a Produce request for one partition, and its response, are processed in one step, because small requests are
        frequent. The general code handles all other requests and responses, and damaged ones.
Rule 4: the messages here have no parts. Produce from version 9 and Fetch from version 12 on are flexible.
Rule 5: Produce before version 3 and Fetch before version 4 may have other formats of records (`message_set`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from messages.apis.fetch import (
    CONSUMER,
    FETCH_LEADERS_SINCE,
    FORMAT_2_SINCE,
    IDS_SINCE,
    READ_UNCOMMITTED,
    AbortedTransaction,
    DivergingEpoch,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    newest_format,
)
from messages.apis.metadata import MetadataBroker
from messages.apis.produce import (
    PRODUCE_LEADERS_SINCE,
    TRANSACTIONAL_SINCE,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    produce_partition,
    produce_request,
)
from messages.cluster import NO_EPOCH, CurrentLeader, TopicPartition
from messages.flow.conversation import SLICE
from messages.parts import MAX_ENTRIES, Part
from messages.records import EMPTY, Region
from messages.wire.compiler import Reader, Steps, Writer
from messages.wire.message_set import downgrade, read_any_format
from messages.wire.primitives import (
    FRAMED_IDS,
    FRAMED_TEXTS,
    FRAMED_TOPIC_IDS,
    MAX_TEXT,
    TEXTS,
    TOPIC_IDS,
    framed_tags,
    length,
    read_tags,
    read_varint,
    read_view,
    skip_tags,
)
from messages.wire.record_batch import body_of, read_records

Data: TypeAlias = bytes | memoryview
Piece: TypeAlias = bytes | memoryview | Region

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_PAIR = struct.Struct(">ii")
_ACKS_TIMEOUT_TOPICS = struct.Struct(">hii")
_ACKS_TIMEOUT = struct.Struct(">hi")
_PRODUCED_ROW = struct.Struct(">ihqqq")
_OF_ONE = struct.Struct(">hhiih")
"""Fields of a Produce request for one partition: no transaction, acks, timeout, one topic, the length of its name."""
_ITS_RECORDS = struct.Struct(">iii")
"""One partition, its number, the size of its records."""
_TO_TOPIC = struct.Struct(">iii")
"""Fields of a response before its topic: size, correlation id, one topic."""
_PRODUCED = {
    version: struct.Struct(">iihqqqihi" if version >= 8 else ">iihqqqi" if version >= 5 else ">iihqqi")
    for version in range(3, 9)
}
"""Fields after the topic in a response to Produce for one partition."""
_ABORTED = struct.Struct(">qq")
_OLD_FETCHED = struct.Struct(">ihqi")
"""Fields of a partition in a response to Fetch before version 4: number, error code, high watermark, size."""
LIMITED_SINCE, NO_LIMIT = 3, 0x7FFFFFFF
"""The first Fetch version with a maximum number of bytes for the whole response, and the maximum before."""
_NULL_TEXT = b"\xff\xff"
_NO_BYTES = _INT.pack(0)
_FRAMED = FRAMED_TEXTS[False]

PRODUCE_FLEXIBLE, FETCH_FLEXIBLE = 9, 12
"""The first flexible versions."""
REPLICA_STATE_SINCE = 15
"""The first Fetch version with the tagged field ReplicaState in place of the replica id."""
_OF_ONE_COMPACT = struct.Struct(">BBhiBB")
"""Fields as in `_OF_ONE` of a flexible request, preceded by the tags of the header."""
_PARTITION_COMPACT = struct.Struct(">Bi")
_PRODUCED_COMPACT = struct.Struct(">BihqqqBBBBiB")
"""Fields after the topic in a flexible response to Produce for one partition."""
_TO_TOPIC_COMPACT = struct.Struct(">iiBB")
_ABORTED_COMPACT = struct.Struct(">qqB")
_LEADER_TAG = struct.Struct(">iiB")
_DIVERGING_TAG = struct.Struct(">iqB")
_REPLICA_TAG = struct.Struct(">iqB")
_NO_TAGS = b"\0"


def _compact_length(data: Data, position: int) -> tuple[int, int]:
    """Return the length at `position`, -1 for null, and the position after it."""
    value = data[position]
    if value < 0x80:
        return value - 1, position + 1
    value, position = read_varint(data, position)  # type: ignore[arg-type]
    return value - 1, position


def _compact_text(data: Data, position: int) -> tuple[str | None, int]:
    length, position = _compact_length(data, position)
    if length < 0:
        return None, position
    end = position + length
    if end > len(data) or length > MAX_TEXT:
        raise ValueError("the message ends in the middle of a field, or a string is too long")
    return TEXTS[bytes(data[position:end])], end


def _compact_count(data: Data, position: int) -> tuple[int, int]:
    count, position = _compact_length(data, position)
    return _count(count), position


def _compact_topic(data: Data, position: int, by_id: bool = False) -> tuple[str, int, int]:
    """Return a topic's name or id, the number of its partitions, and the position of the first partition."""
    topic: str | None
    if by_id:
        topic, position = TOPIC_IDS[bytes(data[position : position + 16])], position + 16
    else:
        topic, position = _compact_text(data, position)
    if topic is None:
        raise ValueError("the name of a topic must not be null")
    return (topic, *_compact_count(data, position))


def _skip(data: Data, position: int) -> int:
    """Return the end of the tagged fields at `position`."""
    return skip_tags(data, position) if data[position] else position + 1  # type: ignore[arg-type]


def _leader_tags(leader: CurrentLeader | None, tag: int) -> tuple[tuple[int, bytes], ...]:
    return () if leader is None else ((tag, _LEADER_TAG.pack(*leader, 0)),)


def _endpoint_tags(endpoints: Sequence[MetadataBroker]) -> tuple[tuple[int, bytes], ...]:
    if not endpoints:
        return ()
    text, nodes = FRAMED_TEXTS[True], []
    for node in endpoints:
        rack = _NO_TAGS if node.rack is None else text[node.rack]  # a null text has the same byte
        nodes.append(_INT.pack(node.id) + text[node.host] + _INT.pack(node.port) + rack + _NO_TAGS)
    return ((0, length(len(nodes), compact=True) + b"".join(nodes)),)


def _text(data: Data, position: int) -> tuple[str | None, int]:
    (length,) = _SHORT.unpack_from(data, position)
    position += 2
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise ValueError("the message ends in the middle of a field")
    return TEXTS[bytes(data[position:end])], end


def _topic(data: Data, position: int) -> tuple[str, int, int]:
    """Return a topic's name, the number of its partitions, and the position of the first partition."""
    topic, position = _text(data, position)
    if topic is None:
        raise ValueError("the name of a topic must not be null")
    (count,) = _INT.unpack_from(data, position)
    return topic, _count(count), position + 4


def _count(count: int) -> int:
    if count < 0:
        raise ValueError("an array must not be null")
    return count


def _view(data: Data, position: int) -> tuple[Data | None, int]:
    """Return a view of the bytes field at `position` (None if null), and the position after the field."""
    (length,) = _INT.unpack_from(data, position)
    position += 4
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise ValueError("the message ends in the middle of a field")
    return memoryview(data)[position:end], end


def _more(done: int) -> int:
    """Return `done` + 1, the number of entries including the next one. Raises ValueError above MAX_ENTRIES."""
    if done >= MAX_ENTRIES:
        raise ValueError(f"all arrays of the request or response together have more than {MAX_ENTRIES} elements")
    return done + 1


def _group_by_topic(entries: tuple[Any, ...]) -> tuple[tuple[str, list[Any]], ...]:
    """Return entries grouped by topic, as on the wire; the topics are in the order of their first occurrence."""
    if len(entries) == 1:
        return ((entries[0].partition.topic, [*entries]),)
    groups: dict[str, list[Any]] = {}
    for entry in entries:
        groups.setdefault(entry.partition.topic, []).append(entry)
    return tuple(groups.items())


# ---------------------------------------------------------------------------------------------------- Produce


def _read_produce(version: int) -> Reader:
    if version >= PRODUCE_FLEXIBLE:
        return partial(_read_compact_produce, version)
    transactional = version >= TRANSACTIONAL_SINCE
    records_of = read_records if transactional else read_any_format

    def read(data: Data, position: int) -> Steps[tuple[tuple[()], ProduceRequest, int]]:
        transactional_id, position = _text(data, position) if transactional else (None, position)
        acks, timeout, topics = _ACKS_TIMEOUT_TOPICS.unpack_from(data, position)
        position += _ACKS_TIMEOUT_TOPICS.size
        parts: list[ProducePartition] = []
        done = 0
        for _ in range(_count(topics)):
            topic, partitions, position = _topic(data, position)
            done = _more(done)
            for _ in range(partitions):
                (index,) = _INT.unpack_from(data, position)
                records, position = _view(data, position + 4)
                done = _more(done)
                parts.append(ProducePartition(TopicPartition(topic, index), records_of(records)))
                if not (transactional and done % SLICE):
                    yield
        return (), ProduceRequest(version, transactional_id, acks, timeout, tuple(parts)), position

    return read


def _read_compact_produce(version: int, data: Data, position: int) -> Steps[tuple[tuple[()], ProduceRequest, int]]:
    transactional_id, position = _compact_text(data, position)
    acks, timeout = _ACKS_TIMEOUT.unpack_from(data, position)
    topics, position = _compact_count(data, position + _ACKS_TIMEOUT.size)
    parts: list[ProducePartition] = []
    done = 0
    for _ in range(topics):
        topic, partitions, position = _compact_topic(data, position)
        done = _more(done)
        for _ in range(partitions):
            (index,) = _INT.unpack_from(data, position)
            records, position = read_view(data, position + 4, compact=True)  # type: ignore[arg-type]
            position = _skip(data, position)
            done = _more(done)
            parts.append(ProducePartition(TopicPartition(topic, index), read_records(records)))
            if not done % SLICE:
                yield
        position = _skip(data, position)
    position = _skip(data, position)
    return (), ProduceRequest(version, transactional_id, acks, timeout, tuple(parts)), position


def _read_compact_of_one(version: int, data: Data, position: int) -> ProduceRequest | None:
    tags, transactional, acks, timeout, topics, length = _OF_ONE_COMPACT.unpack_from(data, position)
    if tags or transactional or topics != 2 or not 0 < length < 0x80:
        return None
    position += _OF_ONE_COMPACT.size
    start = position + length - 1
    partitions, index = _PARTITION_COMPACT.unpack_from(data, start)
    size, records = _compact_length(data, start + _PARTITION_COMPACT.size)
    end = records + size
    if partitions != 2 or size < 0 or end + 3 != len(data) or data[end] or data[end + 1] or data[end + 2]:
        return None
    place = tuple.__new__(TopicPartition, (TEXTS[bytes(data[position:start])], index))
    part = produce_partition(place, read_records(memoryview(data)[records:end]))
    return produce_request(version, None, acks, timeout, (part,))


def read_produce_of_one(version: int, data: Data, position: int) -> ProduceRequest | None:
    """Decode a non-transactional request for one partition in one step; return None for any other request.

    `position` is that of the header's tags in a flexible version, else that of the body. Raises ValueError or
    struct.error for invalid bytes.
    """
    if version >= PRODUCE_FLEXIBLE:
        return _read_compact_of_one(version, data, position)
    transactional, acks, timeout, topics, length = _OF_ONE.unpack_from(data, position)
    if transactional >= 0 or topics != 1 or length < 0:
        return None
    position += _OF_ONE.size
    start = position + length
    partitions, index, size = _ITS_RECORDS.unpack_from(data, start)
    end = start + _ITS_RECORDS.size
    if partitions != 1 or size < 0 or end + size != len(data):
        return None
    place = tuple.__new__(TopicPartition, (TEXTS[bytes(data[position:start])], index))
    part = produce_partition(place, read_records(memoryview(data)[end:]))
    return produce_request(version, None, acks, timeout, (part,))


def write_produced_of_one(version: int, correlation_id: int, response: ProduceResponse) -> bytes | None:
    """Return the whole frame of a response with a single partition, encoded in one step; None for other responses.

    The result is also None if the partition has record errors, an error message or another leader.
    """
    if len(response.partitions) != 1:
        return None
    [part] = response.partitions
    if part.record_errors or part.error_message is not None or part.current_leader is not None:
        return None
    if version >= PRODUCE_FLEXIBLE:
        name = FRAMED_TEXTS[True][part.partition.topic]
        fields = part.partition.partition, part.error_code, part.base_offset, part.log_append_time_ms
        body = _PRODUCED_COMPACT.pack(2, *fields, part.log_start_offset, 1, 0, 0, 0, response.throttle_time_ms, 0)
        return _TO_TOPIC_COMPACT.pack(6 + len(name) + len(body), correlation_id, 0, 2) + name + body
    values = (1, part.partition.partition, part.error_code, part.base_offset, part.log_append_time_ms)
    start = (part.log_start_offset,) if version >= 5 else ()
    errors = (0, -1) if version >= 8 else ()
    rest = _PRODUCED[version].pack(*values, *start, *errors, response.throttle_time_ms)
    topic = _FRAMED[part.partition.topic]
    return _TO_TOPIC.pack(8 + len(topic) + len(rest), correlation_id, 1) + topic + rest


def _write_compact_produced(
    version: int, response: ProduceResponse, parts: Sequence[Part] = ()
) -> Steps[Sequence[Data]]:
    text, groups, hints = FRAMED_TEXTS[True], _group_by_topic(response.partitions), version >= PRODUCE_LEADERS_SINCE
    pieces: list[Data] = [length(len(groups), compact=True)]
    for topic, entries in groups:
        pieces += (text[topic], length(len(entries), compact=True))
        for done, part in enumerate(entries, 1):
            values = (part.partition.partition, part.error_code, part.base_offset, part.log_append_time_ms)
            pieces.append(_PRODUCED_ROW.pack(*values, part.log_start_offset))
            pieces.append(length(len(part.record_errors), compact=True))
            for error in part.record_errors:
                message = error.batch_index_error_message
                pieces += (_INT.pack(error.batch_index), _NO_TAGS if message is None else text[message], _NO_TAGS)
            pieces.append(_NO_TAGS if part.error_message is None else text[part.error_message])
            pieces.append(framed_tags(_leader_tags(part.current_leader, 0) if hints else ()))
            if not done % SLICE:
                yield
        pieces.append(_NO_TAGS)
    pieces.append(_INT.pack(response.throttle_time_ms))
    pieces.append(framed_tags(_endpoint_tags(response.node_endpoints) if hints else ()))
    return pieces


def _write_produced(version: int) -> Writer:
    if version >= PRODUCE_FLEXIBLE:
        return partial(_write_compact_produced, version)
    fields = struct.Struct(">ihqqq" if version >= 5 else ">ihqq" if version >= 2 else ">ihq")
    with_start, with_errors = version >= 5, version >= 8
    with_time, with_throttle = version >= 2, version >= 1

    def write(response: ProduceResponse, parts: Sequence[Part] = ()) -> Steps[Sequence[Data]]:
        groups = _group_by_topic(response.partitions)
        pieces: list[Data] = [_INT.pack(len(groups))]
        for topic, entries in groups:
            pieces += (_FRAMED[topic], _INT.pack(len(entries)))
            for done, part in enumerate(entries, 1):
                values: tuple[int, ...] = part.partition.partition, part.error_code, part.base_offset
                if with_time:
                    values += (part.log_append_time_ms,)
                pieces.append(fields.pack(*values, part.log_start_offset) if with_start else fields.pack(*values))
                if with_errors:
                    pieces.append(_INT.pack(len(part.record_errors)))
                    for error in part.record_errors:
                        pieces += (_INT.pack(error.batch_index), _nullable(error.batch_index_error_message))
                    pieces.append(_nullable(part.error_message))
                if not done % SLICE:
                    yield
        if with_throttle:
            pieces.append(_INT.pack(response.throttle_time_ms))
        return pieces

    return write


def _nullable(text: str | None) -> bytes:
    return _NULL_TEXT if text is None else _FRAMED[text]


# ---------------------------------------------------------------------------------------------------- Fetch requests


def _fetch_row(version: int) -> struct.Struct:
    """Return the layout of a partition: number, leader epoch, fetch offset, log start offset, maximum bytes."""
    return struct.Struct(">iiqqi" if version >= 9 else ">iqqi" if version >= 5 else ">iqi")


_FETCH_ROW = struct.Struct(">iiqiqiB")
"""A partition in a flexible version; the last byte is the number of tagged fields."""
_FETCH_HEAD = struct.Struct(">iiibii")
"""Fields of a flexible version from the maximum wait to the session epoch."""


def _read_compact_fetch(version: int, data: Data, position: int) -> Steps[tuple[tuple[()], FetchRequest, int]]:
    by_id, replica = version >= IDS_SINCE, CONSUMER
    if version < REPLICA_STATE_SINCE:
        (replica,) = _INT.unpack_from(data, position)
        position += 4
    max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = _FETCH_HEAD.unpack_from(data, position)
    topics, position = _compact_count(data, position + _FETCH_HEAD.size)
    parts: list[FetchPartition] = []
    done = 0
    for _ in range(topics):
        topic, partitions, position = _compact_topic(data, position, by_id)
        done = _more(done)
        for _ in range(partitions):
            index, epoch, offset, last_epoch, start, size, tags = _FETCH_ROW.unpack_from(data, position)
            position += _FETCH_ROW.size
            if tags:
                position = skip_tags(data, position - 1)  # type: ignore[arg-type]
            done = _more(done)
            parts.append(FetchPartition(TopicPartition(topic, index), offset, size, epoch, start, last_epoch))
            if not done % SLICE:
                yield
        position = _skip(data, position)
    forgotten: list[TopicPartition] = []
    topics, position = _compact_count(data, position)
    for _ in range(topics):
        topic, partitions, position = _compact_topic(data, position, by_id)
        done = _more(done)
        if position + 4 * partitions > len(data):
            raise ValueError("the message ends in the middle of a field")
        for _ in range(partitions):
            done = _more(done)
            forgotten.append(TopicPartition(topic, *_INT.unpack_from(data, position)))
            position += 4
        position = _skip(data, position)
    rack, position = _compact_text(data, position)
    if rack is None:
        raise ValueError("rack_id must not be null")
    found, position = read_tags(data, position)  # type: ignore[arg-type]
    if version >= REPLICA_STATE_SINCE and 1 in found:
        replica, _, _ = _REPLICA_TAG.unpack_from(found[1])
    request = FetchRequest(
        *(version, replica, max_wait, min_bytes, tuple(parts), max_bytes, isolation, session_id, session_epoch),
        tuple(forgotten),
        rack,
    )
    return (), request, position


def _read_fetch(version: int) -> Reader:
    if version >= FETCH_FLEXIBLE:
        return partial(_read_compact_fetch, version)
    sessions, racks, epochs, starts = version >= 7, version >= 11, version >= 9, version >= 5
    isolated, limited = version >= FORMAT_2_SINCE, version >= LIMITED_SINCE
    head = struct.Struct(">iiiibiii" if sessions else ">iiiibi" if isolated else ">iiiii" if limited else ">iiii")
    fields = _fetch_row(version)

    def read(data: Data, position: int) -> Steps[tuple[tuple[()], FetchRequest, int]]:
        values = head.unpack_from(data, position)
        if not isolated:
            values = (*values[:3], values[3] if limited else NO_LIMIT, READ_UNCOMMITTED, values[-1])
        replica, max_wait, min_bytes, max_bytes, isolation, *rest = values
        position += head.size
        session_id, session_epoch = rest[:2] if sessions else (0, -1)
        parts: list[FetchPartition] = []
        done = 0
        for _ in range(_count(rest[-1])):
            topic, partitions, position = _topic(data, position)
            done = _more(done)
            for _ in range(partitions):
                values = fields.unpack_from(data, position)
                position += fields.size
                done = _more(done)
                index, epoch, offset, start, size = values if epochs else (values[0], NO_EPOCH, *range_of_row(values))
                parts.append(FetchPartition(TopicPartition(topic, index), offset, size, epoch, start))
                if not done % SLICE:
                    yield
        forgotten: list[TopicPartition] = []
        if sessions:
            (topics,) = _INT.unpack_from(data, position)
            position += 4
            for _ in range(_count(topics)):
                topic, partitions, position = _topic(data, position)
                done = _more(done)
                if position + 4 * partitions > len(data):
                    raise ValueError("the message ends in the middle of a field")
                for _ in range(partitions):
                    done = _more(done)
                    forgotten.append(TopicPartition(topic, *_INT.unpack_from(data, position)))
                    position += 4
        rack = ""
        if racks:
            text, position = _text(data, position)
            if text is None:
                raise ValueError("rack_id must not be null")
            rack = text
        request = FetchRequest(
            *(version, replica, max_wait, min_bytes, tuple(parts), max_bytes, isolation, session_id, session_epoch),
            tuple(forgotten),
            rack,
        )
        return (), request, position

    def range_of_row(values: tuple[int, ...]) -> tuple[int, int, int]:
        return (values[1], values[2], values[3]) if starts else (values[1], -1, values[2])

    return read


def _write_compact_fetch(version: int, request: FetchRequest, parts: Sequence[Part] = ()) -> Steps[Sequence[Data]]:
    topics = FRAMED_TOPIC_IDS if version >= IDS_SINCE else FRAMED_TEXTS[True]
    values = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    groups = _group_by_topic(request.partitions)
    pieces: list[Data] = [] if version >= REPLICA_STATE_SINCE else [_INT.pack(request.replica_id)]
    pieces.append(_FETCH_HEAD.pack(*values, request.session_id, request.session_epoch))
    pieces.append(length(len(groups), compact=True))
    for topic, entries in groups:
        pieces += (topics[topic], length(len(entries), compact=True))
        for done, part in enumerate(entries, 1):
            place = part.partition.partition, part.current_leader_epoch, part.fetch_offset, part.last_fetched_epoch
            pieces.append(_FETCH_ROW.pack(*place, part.log_start_offset, part.partition_max_bytes, 0))
            if not done % SLICE:
                yield
        pieces.append(_NO_TAGS)
    gone: dict[str, list[int]] = {}
    for topic, number in request.forgotten:
        gone.setdefault(topic, []).append(number)
    pieces.append(length(len(gone), compact=True))
    for topic, numbers in gone.items():
        pieces += (topics[topic], FRAMED_IDS[True][tuple(numbers)], _NO_TAGS)
    pieces.append(FRAMED_TEXTS[True][request.rack_id])
    is_broker = version >= REPLICA_STATE_SINCE and request.replica_id != CONSUMER
    pieces.append(framed_tags(((1, _REPLICA_TAG.pack(request.replica_id, -1, 0)),) if is_broker else ()))
    return pieces


def _write_fetch(version: int) -> Writer:
    if version >= FETCH_FLEXIBLE:
        return partial(_write_compact_fetch, version)
    sessions, racks, epochs, starts = version >= 7, version >= 11, version >= 9, version >= 5
    count = 5 if version >= FORMAT_2_SINCE else 4 if version >= LIMITED_SINCE else 3
    head, fields = struct.Struct(">iiiib"[: count + 1]), _fetch_row(version)

    def write(request: FetchRequest, parts: Sequence[Part] = ()) -> Steps[Sequence[Data]]:
        values = (request.replica_id, request.max_wait_ms, request.min_bytes, request.max_bytes)
        groups = _group_by_topic(request.partitions)
        pieces: list[Data] = [head.pack(*(*values, request.isolation_level)[:count])]
        if sessions:
            pieces.append(_PAIR.pack(request.session_id, request.session_epoch))
        pieces.append(_INT.pack(len(groups)))
        for topic, entries in groups:
            pieces += (_FRAMED[topic], _INT.pack(len(entries)))
            for done, part in enumerate(entries, 1):
                index, offset, size = part.partition.partition, part.fetch_offset, part.partition_max_bytes
                epoch = (part.current_leader_epoch,) if epochs else ()
                start = (part.log_start_offset,) if starts else ()
                pieces.append(fields.pack(index, *epoch, offset, *start, size))
                if not done % SLICE:
                    yield
        if sessions:
            gone: dict[str, list[int]] = {}
            for topic, number in request.forgotten:
                gone.setdefault(topic, []).append(number)
            pieces.append(_INT.pack(len(gone)))
            for topic, numbers in gone.items():
                pieces += (_FRAMED[topic], struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers))
        if racks:
            pieces.append(_FRAMED[request.rack_id])
        return pieces

    return write


# ---------------------------------------------------------------------------------------------------- Fetch answers


_FETCHED_HEAD = struct.Struct(">ihi")
_FETCHED_ROW = struct.Struct(">ihqqq")


def _fetched_tags(part: FetchedPartition, hints: bool) -> tuple[tuple[int, bytes], ...]:
    diverging = part.diverging_epoch
    tags = () if diverging is None else ((0, _DIVERGING_TAG.pack(*diverging, 0)),)
    return tags + _leader_tags(part.current_leader, 1) if hints else tags


def _write_compact_fetched(version: int, response: FetchResponse, parts: Sequence[Part] = ()) -> Steps[Sequence[Piece]]:
    topics = FRAMED_TOPIC_IDS if version >= IDS_SINCE else FRAMED_TEXTS[True]
    groups, hints = _group_by_topic(response.partitions), version >= FETCH_LEADERS_SINCE
    head = response.throttle_time_ms, response.error_code, response.session_id
    pieces: list[Piece] = [_FETCHED_HEAD.pack(*head), length(len(groups), compact=True)]
    for topic, entries in groups:
        pieces += (topics[topic], length(len(entries), compact=True))
        for done, part in enumerate(entries, 1):
            values = (part.partition.partition, part.error_code, part.high_watermark, part.last_stable_offset)
            pieces.append(_FETCHED_ROW.pack(*values, part.log_start_offset))
            aborted = part.aborted_transactions
            pieces.append(_NO_TAGS if aborted is None else length(len(aborted), compact=True))
            pieces += [_ABORTED_COMPACT.pack(each.producer_id, each.first_offset, 0) for each in aborted or ()]
            pieces += (_INT.pack(part.preferred_read_replica), length(part.body.size, compact=True))
            if part.body.size:
                pieces.append(part.body.piece)
            plain = part.diverging_epoch is None and part.current_leader is None
            pieces.append(_NO_TAGS if plain else framed_tags(_fetched_tags(part, hints)))
            if not done % SLICE:
                yield
        pieces.append(_NO_TAGS)
    pieces.append(framed_tags(_endpoint_tags(response.node_endpoints) if hints else ()))
    return pieces


def _write_fetched(version: int) -> Writer:
    if version >= FETCH_FLEXIBLE:
        return partial(_write_compact_fetched, version)
    sessions, readers, starts = version >= 7, version >= 11, version >= 5
    fields = struct.Struct(">ihqqq" if starts else ">ihqq")
    head = struct.Struct(">ihii" if sessions else ">ii")
    if version < FORMAT_2_SINCE:
        return partial(_write_old_fetched, version)

    def write(response: FetchResponse, parts: Sequence[Part] = ()) -> Steps[Sequence[Piece]]:
        groups = _group_by_topic(response.partitions)
        throttle = response.throttle_time_ms
        start = (throttle, response.error_code, response.session_id) if sessions else (throttle,)
        pieces: list[Piece] = [head.pack(*start, len(groups))]
        for topic, entries in groups:
            pieces += (_FRAMED[topic], _INT.pack(len(entries)))
            for done, part in enumerate(entries, 1):
                values = (part.partition.partition, part.error_code, part.high_watermark, part.last_stable_offset)
                pieces.append(fields.pack(*values, part.log_start_offset) if starts else fields.pack(*values))
                aborted = part.aborted_transactions
                pieces.append(_INT.pack(-1 if aborted is None else len(aborted)))
                pieces += [_ABORTED.pack(each.producer_id, each.first_offset) for each in aborted or ()]
                if readers:
                    pieces.append(_INT.pack(part.preferred_read_replica))
                if part.body.size:
                    pieces += (_INT.pack(part.body.size), part.body.piece)
                else:
                    pieces.append(_NO_BYTES)
                if not done % SLICE:
                    yield
        return pieces

    return write


def _write_old_fetched(version: int, response: FetchResponse, parts: Sequence[Part] = ()) -> Steps[Sequence[Piece]]:
    """Write a response with messages of format 0 or 1 in place of record batches; this yields after each batch."""
    groups = _group_by_topic(response.partitions)
    throttle = (response.throttle_time_ms,) if version >= 1 else ()
    pieces: list[Piece] = [struct.pack(f">{len(throttle) + 1}i", *throttle, len(groups))]
    for topic, entries in groups:
        pieces += (_FRAMED[topic], _INT.pack(len(entries)))
        for part in entries:
            messages: list[Data] = []
            for of_batch in downgrade(part.body.data, newest_format(version)):
                messages.append(of_batch)
                yield
            values = part.partition.partition, part.error_code, part.high_watermark, sum(map(len, messages))
            pieces += (_OLD_FETCHED.pack(*values), *messages)
    return pieces


def _read_old_fetched(version: int, data: Data, position: int) -> Steps[tuple[tuple[()], FetchResponse, int]]:
    throttle, position = (*_INT.unpack_from(data, position), position + 4) if version >= 1 else (0, position)
    (topics,) = _INT.unpack_from(data, position)
    position += 4
    parts: list[FetchedPartition] = []
    for _ in range(_count(topics)):
        topic, partitions, position = _topic(data, position)
        for _ in range(partitions):
            index, code, watermark, _ = _OLD_FETCHED.unpack_from(data, position)
            messages, position = _view(data, position + _OLD_FETCHED.size - 4)
            body = body_of(messages) if messages else EMPTY
            parts.append(FetchedPartition(TopicPartition(topic, index), code, watermark, body=body))
            if not len(parts) % SLICE:
                yield
    return (), FetchResponse(tuple(parts), throttle_time_ms=throttle), position


def _read_compact_fetched(version: int, data: Data, position: int) -> Steps[tuple[tuple[()], FetchResponse, int]]:
    throttle, error_code, session_id = _FETCHED_HEAD.unpack_from(data, position)
    topics, position = _compact_count(data, position + _FETCHED_HEAD.size)
    parts: list[FetchedPartition] = []
    for _ in range(topics):
        topic, partitions, position = _compact_topic(data, position, version >= IDS_SINCE)
        for _ in range(partitions):
            index, code, watermark, stable, start = _FETCHED_ROW.unpack_from(data, position)
            count, position = _compact_length(data, position + _FETCHED_ROW.size)
            aborted = []
            for _ in range(count):
                aborted.append(AbortedTransaction(*_ABORTED.unpack_from(data, position)))
                position = _skip(data, position + _ABORTED.size)
            (preferred,) = _INT.unpack_from(data, position)
            records, position = read_view(data, position + 4, compact=True)  # type: ignore[arg-type]
            tags, position = read_tags(data, position)  # type: ignore[arg-type]
            diverging = DivergingEpoch(*_DIVERGING_TAG.unpack_from(tags[0])[:2]) if 0 in tags else None
            leader = CurrentLeader(*_LEADER_TAG.unpack_from(tags[1])[:2]) if 1 in tags else None
            place, body = TopicPartition(topic, index), body_of(records) if records else EMPTY
            parts.append(
                FetchedPartition(
                    *(place, code, watermark, stable, start, None if count < 0 else tuple(aborted), preferred, body),
                    *(diverging, leader),
                )
            )
            if not len(parts) % SLICE:
                yield
        position = _skip(data, position)
    return (), FetchResponse(tuple(parts), error_code, session_id, throttle), _skip(data, position)


def _read_fetched(version: int) -> Reader:
    if version >= FETCH_FLEXIBLE:
        return partial(_read_compact_fetched, version)
    sessions, readers, starts = version >= 7, version >= 11, version >= 5
    fields = struct.Struct(">ihqqqi" if starts else ">ihqqi")
    head = struct.Struct(">ihii" if sessions else ">ii")
    if version < FORMAT_2_SINCE:
        return partial(_read_old_fetched, version)

    def read(data: Data, position: int) -> Steps[tuple[tuple[()], FetchResponse, int]]:
        throttle, *rest = head.unpack_from(data, position)
        position += head.size
        error_code, session_id = rest[:2] if sessions else (0, 0)
        parts: list[FetchedPartition] = []
        done = 0
        for _ in range(_count(rest[-1])):
            topic, partitions, position = _topic(data, position)
            for _ in range(partitions):
                index, code, watermark, stable, *more = fields.unpack_from(data, position)
                position += fields.size
                aborted: tuple[AbortedTransaction, ...] | None = None
                if more[-1] >= 0:
                    rows = range(position, position + more[-1] * _ABORTED.size, _ABORTED.size)
                    if rows.stop > len(data):
                        raise ValueError("the message ends in the middle of a field")
                    aborted = tuple([AbortedTransaction(*_ABORTED.unpack_from(data, row)) for row in rows])
                    position = rows.stop
                preferred = -1
                if readers:
                    (preferred,) = _INT.unpack_from(data, position)
                    position += 4
                records, position = _view(data, position)
                body = body_of(records) if records else EMPTY
                start = more[0] if starts else -1
                place = TopicPartition(topic, index)
                parts.append(FetchedPartition(place, code, watermark, stable, start, aborted, preferred, body))
                done += 1
                if not done % SLICE:
                    yield
        return (), FetchResponse(tuple(parts), error_code, session_id, throttle), position

    return read


READERS: dict[type, Callable[[int], Reader]] = {
    ProduceRequest: _read_produce,
    FetchRequest: _read_fetch,
    FetchResponse: _read_fetched,
}
WRITERS: dict[type, Callable[[int], Writer]] = {
    ProduceResponse: _write_produced,
    FetchRequest: _write_fetch,
    FetchResponse: _write_fetched,
}
"""Readers and writers of the hand-written messages, by class and version. The compiler generates all others."""
