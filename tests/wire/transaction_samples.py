"""Samples of the transaction APIs: messages, their fields in kio, and the fields that versions lack."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from hypothesis import strategies as st

from messages.cluster import TopicPartition
from messages.group_requests import CommittedPartition
from messages.requests import PartitionError
from messages.transaction_requests import (
    AddedPartition,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
    DescribedProducer,
    DescribedProducers,
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MODULES = {
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    61: "describe_producers",
    65: "describe_transactions",
    66: "list_transactions",
}
"""API key -> kio's module."""

SINCE: dict[type, dict[str, int]] = {
    TxnOffsetCommitRequest: {"generation_id": 3, "member_id": 3, "group_instance_id": 3},
    ListTransactionsRequest: {"duration_filter": 1},
    AddPartitionsToTxnResponse: {"error_code": 4, "transactions": 4},
}
"""Message class -> field -> the first version that has it."""
LEADER_EPOCH_SINCE = 2
"""The first TxnOffsetCommit version whose partitions have a leader epoch."""
BROKERS_SINCE = 4
"""The first AddPartitionsToTxn version that brokers send."""


def samples(int32: Any, int64: Any, texts: Any, codes: Any, partitions: Any, several: Any) -> tuple[Any, Any]:
    """Return strategies for (requests by key and version, responses by key), made of the given strategies."""
    spans, when, maybe = st.integers(0, 2**31 - 1), st.integers(0, 2**40), st.none() | texts
    int16 = st.integers(-(2**15), 2**15 - 1)
    marker = st.builds(WritableTxnMarker, int64, int16, st.booleans(), several(partitions), int32)
    committed = st.builds(CommittedPartition, partitions, int64, int32, maybe)
    transaction = st.builds(AddPartitionsToTxnTransaction, texts, int64, int16, st.booleans(), several(partitions))

    def requests(version: int) -> dict[int, Any]:
        this = st.just(version)
        return {
            24: st.builds(AddPartitionsToTxnRequest, this, transactions=several(transaction))
            if version >= BROKERS_SINCE
            else st.builds(AddPartitionsToTxnRequest, this, texts, int64, int16, several(partitions)),
            25: st.builds(AddOffsetsToTxnRequest, this, texts, int64, int16, texts),
            26: st.builds(EndTxnRequest, this, texts, int64, int16, st.booleans()),
            27: st.builds(WriteTxnMarkersRequest, this, several(marker)),
            28: st.builds(
                *(TxnOffsetCommitRequest, this, texts, texts, int64, int16, several(committed), int32, texts, maybe),
            ),
            61: st.builds(DescribeProducersRequest, this, several(partitions)),
            65: st.builds(DescribeTransactionsRequest, this, several(texts)),
            66: st.builds(ListTransactionsRequest, this, several(texts), several(int64), int64),
        }

    errors = several(st.builds(PartitionError, partitions, codes))
    added = st.builds(AddedPartition, partitions, codes)
    producer = st.builds(DescribedProducer, int64, int32, int32, int64, int32, int64)
    producers = st.builds(DescribedProducers, partitions, codes, maybe, several(producer))
    described = st.builds(
        *(DescribedTransaction, codes, texts, texts, spans, when, int64, int16, several(partitions)),
    )
    listed = st.builds(ListedTransaction, texts, int64, texts)
    responses = {
        24: st.builds(
            AddPartitionsToTxnResponse,
            several(added),
            spans,
            codes,
            several(st.builds(AddPartitionsToTxnResult, texts, several(added))),
        ),
        25: st.builds(AddOffsetsToTxnResponse, codes, spans),
        26: st.builds(EndTxnResponse, codes, spans),
        27: st.builds(WriteTxnMarkersResponse, several(st.builds(WritableTxnMarkerResult, int64, errors))),
        28: st.builds(TxnOffsetCommitResponse, errors, spans),
        61: st.builds(DescribeProducersResponse, several(producers), spans),
        65: st.builds(DescribeTransactionsResponse, several(described), spans),
        66: st.builds(ListTransactionsResponse, codes, several(texts), several(listed), spans),
    }
    by_key: dict[int, Callable[[int], Any]] = {key: lambda v, key=key: requests(v)[key] for key in MODULES}
    return by_key, responses


def is_mine(message: Any) -> bool:
    """Return whether a message belongs to these APIs."""
    return type(message).__module__ == "messages.transaction_requests"


def words(message: Any) -> dict[str, Any]:
    """Return kio's fields of a message, including those that the version lacks."""
    said: dict[str, Any] = {}
    for field in attrs.fields(type(message)):
        value: Any = getattr(message, field.name)
        if field.name == "transaction_start_time_ms":
            value = datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
        name = field.name.removesuffix("_ms")
        if isinstance(message, AddPartitionsToTxnResponse) and name == "transactions":
            name = "results_by_transaction"
        if field.name == "partitions":
            name, value = _topics(message)
        elif isinstance(value, tuple):
            value = [words(each) if is_mine(each) else each for each in value]
        said[name] = value
    if isinstance(message, AddPartitionsToTxnRequest):
        said |= {f"v3_and_below_{name}": value for name, value in said.items()}
    return said


def _topics(message: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return kio's field for the topics of a message, and its value."""
    match message:
        case AddPartitionsToTxnRequest():
            return "topics", _grouped(message.partitions, "partitions")
        case AddPartitionsToTxnResponse():
            return "results_by_topic_v3_and_below", _grouped(message.partitions, "results_by_partition")
        case AddPartitionsToTxnResult():
            return "topic_results", _grouped(message.partitions, "results_by_partition")
        case WritableTxnMarker() | DescribeProducersRequest():
            return "topics", _grouped(message.partitions, "partition_indexes")
        case DescribedTransaction():
            topics = _grouped(message.partitions, "partitions")
            return "topics", [{"topic": each["name"], **each} for each in topics]
    return "topics", _grouped(message.partitions, "partitions")


def _grouped(entries: Iterable[Any], array: str) -> list[dict[str, Any]]:
    topics: dict[str, list[Any]] = {}
    for entry in entries:
        if isinstance(entry, TopicPartition):
            topics.setdefault(entry.topic, []).append(entry.partition)
            continue
        said = {field.name: getattr(entry, field.name) for field in attrs.fields(type(entry))}
        topic, said["partition_index"] = said.pop("partition")
        if isinstance(entry, AddedPartition):
            said["partition_error_code"] = said.pop("error_code")
        if isinstance(entry, DescribedProducers):
            said["active_producers"] = [words(each) for each in entry.active_producers]
        topics.setdefault(topic, []).append(said)
    return [{"name": topic, array: partitions} for topic, partitions in topics.items()]


def as_read(message: Any, version: int) -> Any:
    """Return a message as its receiver decodes it: without the fields that the version lacks, partitions by topic."""
    changes: dict[str, Any] = {}
    for field in attrs.fields(type(message)):
        value = getattr(message, field.name)
        if version < SINCE.get(type(message), {}).get(field.name, 0):
            changes[field.name] = field.default
        elif (
            isinstance(message, AddPartitionsToTxnResponse) and field.name == "partitions" and version >= BROKERS_SINCE
        ):
            changes[field.name] = ()
        elif field.name == "partitions":
            changes[field.name] = tuple(_partition_as_read(each, version) for each in _by_topic(value))
        elif isinstance(value, tuple):
            changes[field.name] = tuple(as_read(each, version) if is_mine(each) else each for each in value)
    return attrs.evolve(message, **changes)


def _partition_as_read(entry: Any, version: int) -> Any:
    if isinstance(entry, CommittedPartition) and version < LEADER_EPOCH_SINCE:
        return attrs.evolve(entry, committed_leader_epoch=-1)
    return entry


def _by_topic(entries: tuple[Any, ...]) -> list[Any]:
    topics = [entry.topic if isinstance(entry, TopicPartition) else entry.partition.topic for entry in entries]
    return [entry for _, entry in sorted(zip(topics, entries, strict=True), key=lambda pair: topics.index(pair[0]))]
