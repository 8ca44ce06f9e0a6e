"""Samples of the APIs for records: messages, their fields in kio, and the fields that versions lack."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from hypothesis import strategies as st

from messages.cluster import TopicPartition
from messages.data_requests import (
    AbortedTransaction,
    DeletedRecords,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    EpochEnd,
    EpochQuery,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListedOffset,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetQuery,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    RecordError,
    TrimmedPartition,
)
from messages.wire.record_batch import body_of, read_records
from tests.storage.batches import batch

PRODUCE, FETCH, LIST_OFFSETS, DELETE_RECORDS, INIT_PRODUCER_ID, EPOCH_ENDS = 0, 1, 2, 21, 22, 23

MODULES = {
    PRODUCE: "produce",
    FETCH: "fetch",
    LIST_OFFSETS: "list_offsets",
    DELETE_RECORDS: "delete_records",
    INIT_PRODUCER_ID: "init_producer_id",
    EPOCH_ENDS: "offset_for_leader_epoch",
}
"""API key -> kio's module."""

SINCE: dict[type, dict[str, int]] = {
    ProducedPartition: {"log_append_time_ms": 2, "log_start_offset": 5, "record_errors": 8, "error_message": 8},
    FetchRequest: {"session_id": 7, "session_epoch": 7, "forgotten": 7, "rack_id": 11},
    FetchPartition: {"current_leader_epoch": 9, "log_start_offset": 5},
    FetchResponse: {"error_code": 7, "session_id": 7},
    FetchedPartition: {"log_start_offset": 5, "preferred_read_replica": 11},
    ListOffsetsRequest: {"isolation_level": 2},
    OffsetQuery: {"current_leader_epoch": 4},
    ListOffsetsResponse: {"throttle_time_ms": 2},
    ListedOffset: {"leader_epoch": 4},
    OffsetForLeaderEpochRequest: {"replica_id": 3},
    EpochQuery: {"current_leader_epoch": 2},
    OffsetForLeaderEpochResponse: {"throttle_time_ms": 2},
    EpochEnd: {"leader_epoch": 1},
    InitProducerIdRequest: {"producer_id": 3, "producer_epoch": 3},
}
"""Message class -> field -> the first version that has it, if this is later than the first supported version."""

READ_AS: dict[tuple[type, str], Any] = {(OffsetForLeaderEpochRequest, "replica_id"): -2}
"""Values of the schema for fields that a version lacks and that have no default in the message class."""


def samples(
    int16: Any, int32: Any, int64: Any, texts: Any, codes: Any, partitions: Any, several: Any
) -> tuple[Any, Any]:
    """Return strategies for (requests by key and version, responses by key), made of the given strategies."""
    records = st.lists(st.binary(max_size=5), max_size=3).map(lambda values: read_records(batch(*values)))
    bodies = st.lists(st.binary(max_size=5), max_size=3).map(lambda values: body_of(batch(*values) if values else b""))
    aborted = st.none() | several(st.builds(AbortedTransaction, int64, int64))
    when = st.integers(-1, 2**40)
    spans = st.integers(0, 2**31 - 1)
    int8 = st.integers(-128, 127)

    def requests(version: int) -> dict[int, Any]:
        this = st.just(version)
        return {
            PRODUCE: st.builds(
                ProduceRequest,
                *(this, st.none() | texts, int16, spans, several(st.builds(ProducePartition, partitions, records))),
            ),
            FETCH: st.builds(
                FetchRequest,
                *(this, int32, spans, int32),
                several(st.builds(FetchPartition, partitions, int64, int32, int32, int64)),
                *(int32, int8, int32, int32, several(partitions), texts),
            ),
            LIST_OFFSETS: st.builds(
                ListOffsetsRequest, this, int32, several(st.builds(OffsetQuery, partitions, int64, int32)), int8
            ),
            DELETE_RECORDS: st.builds(
                DeleteRecordsRequest, this, several(st.builds(TrimmedPartition, partitions, int64)), spans
            ),
            INIT_PRODUCER_ID: st.builds(InitProducerIdRequest, this, st.none() | texts, spans, int64, int16),
            EPOCH_ENDS: st.builds(
                OffsetForLeaderEpochRequest, this, int32, several(st.builds(EpochQuery, partitions, int32, int32))
            ),
        }

    errors = several(st.builds(RecordError, int32, st.none() | texts))
    produced = st.builds(ProducedPartition, partitions, codes, int64, when, int64, errors, st.none() | texts)
    fetched = st.builds(FetchedPartition, partitions, codes, int64, int64, int64, aborted, int32, bodies)
    responses = {
        PRODUCE: st.builds(ProduceResponse, several(produced), spans),
        FETCH: st.builds(FetchResponse, several(fetched), codes, int32, spans),
        LIST_OFFSETS: st.builds(
            ListOffsetsResponse, several(st.builds(ListedOffset, partitions, codes, int64, int64, int32)), spans
        ),
        DELETE_RECORDS: st.builds(
            DeleteRecordsResponse, several(st.builds(DeletedRecords, partitions, codes, int64)), spans
        ),
        INIT_PRODUCER_ID: st.builds(InitProducerIdResponse, codes, int64, int16, spans),
        EPOCH_ENDS: st.builds(
            OffsetForLeaderEpochResponse, several(st.builds(EpochEnd, partitions, codes, int32, int64)), spans
        ),
    }
    by_key: dict[int, Callable[[int], Any]] = {key: lambda v, key=key: requests(v)[key] for key in MODULES}
    return by_key, responses


# --------------------------------------------------------------------------------------------------- kio's fields


def words(message: Any) -> dict[str, Any] | None:
    """Return kio's fields of a message, including those that the version lacks; None for a message of other APIs."""
    if type(message).__module__ != "messages.data_requests":
        return None
    said = {
        field.name: getattr(message, field.name)
        for field in attrs.fields(type(message))
        if field.name not in ("partitions", "version", "forgotten")
    }
    for ours, theirs in (("throttle_time_ms", "throttle_time"), ("max_wait_ms", "max_wait")):
        if ours in said:
            said[theirs] = said.pop(ours)
    for ours in ("timeout_ms", "transaction_timeout_ms"):
        if ours in said:
            said[ours.removesuffix("_ms")] = said.pop(ours)
    match message:
        case ProduceRequest():
            said["topic_data"] = _topics(message.partitions, "name", "partition_data", "index", _produce)
        case ProduceResponse():
            said["responses"] = _topics(message.partitions, "name", "partition_responses", "index", _produced)
        case FetchRequest():
            said["topics"] = _topics(message.partitions, "topic", "partitions", "partition", _plain)
            said["forgotten_topics_data"] = [
                {"topic": topic, "partitions": [number for _, number in group]}
                for topic, group in _grouped(message.forgotten, lambda partition: partition).items()
            ]
        case FetchResponse():
            said["responses"] = _topics(message.partitions, "topic", "partitions", "partition_index", _fetched)
        case OffsetForLeaderEpochRequest() | OffsetForLeaderEpochResponse():
            said["topics"] = _topics(message.partitions, "topic", "partitions", "partition", _plain)
        case InitProducerIdRequest() | InitProducerIdResponse():
            pass
        case _:
            said["topics"] = _topics(message.partitions, "name", "partitions", "partition_index", _plain)
    return said


def _topics(
    states: Iterable[Any], topic: str, partitions: str, index: str, row: Callable[[Any], dict[str, Any]]
) -> list[dict[str, Any]]:
    return [
        {topic: name, partitions: [{index: state.partition.partition, **row(state)} for state in group]}
        for name, group in _grouped(states, lambda state: state.partition).items()
    ]


def _grouped(entries: Iterable[Any], partition_of: Callable[[Any], TopicPartition]) -> dict[str, list[Any]]:
    topics: dict[str, list[Any]] = {}
    for entry in entries:
        topics.setdefault(partition_of(entry).topic, []).append(entry)
    return topics


def _plain(state: Any) -> dict[str, Any]:
    return {field.name: getattr(state, field.name) for field in attrs.fields(type(state)) if field.name != "partition"}


def _produce(part: Any) -> dict[str, Any]:
    return {"records": bytes(part.records.body.data)}


def _produced(state: Any) -> dict[str, Any]:
    said = _plain(state)
    ms = said.pop("log_append_time_ms")
    epoch = datetime.datetime.fromtimestamp(0, datetime.UTC)
    said["log_append_time"] = None if ms == -1 else epoch + datetime.timedelta(milliseconds=ms)
    said["record_errors"] = [_plain(error) for error in state.record_errors]
    return said


def _fetched(state: Any) -> dict[str, Any]:
    said = _plain(state)
    said["records"] = bytes(said.pop("body").data)
    aborted = state.aborted_transactions
    said["aborted_transactions"] = None if aborted is None else [_plain(each) for each in aborted]
    return said


# ------------------------------------------------------------------------------------------------------- as decoded


def as_read(message: Any, version: int, by_topic: Callable[[Iterable[Any]], tuple[Any, ...]]) -> Any:
    """Return a message as its receiver decodes it: without the fields that the version lacks, partitions by topic."""
    kind = type(message)
    if kind.__module__ != "messages.data_requests":
        return message
    changes: dict[str, Any] = {}
    for name, since in SINCE.get(kind, {}).items():
        if version < since:
            default = attrs.fields_dict(kind)[name].default
            changes[name] = READ_AS.get((kind, name), default)
    if hasattr(message, "partitions"):
        changes["partitions"] = tuple(as_read(state, version, by_topic) for state in by_topic(message.partitions))
    if hasattr(message, "forgotten") and "forgotten" not in changes:
        groups = _grouped(message.forgotten, lambda partition: partition)
        changes["forgotten"] = tuple(partition for group in groups.values() for partition in group)
    return attrs.evolve(message, **changes)
