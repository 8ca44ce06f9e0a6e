"""Decode keys and values of records in the formats that kafka-dump-log prints.

Rule 1: A decoder returns (key, value); a key or value that is None is not printed. If a decoder cannot decode a record,
        it returns Kafka's error text as the key, and the dump continues.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from actors.cli.app import CommandFailed
from actors.core.coordinator.group_metadata_records import DAMAGED, DamagedRecord, ValueReader, read_record
from messages.groups import CommittedOffset, GroupRecord, OffsetRecord, RecordedGroup, RecordedMember
from messages.wire.batch_records import Record

Decoded = tuple[str | None, str | None]
Decoder = Callable[[Record], Decoded]

API = "org.apache.kafka.tools.api."
DEPRECATED_API = "kafka.serializer."
STRING = f"{API}StringDecoder"
DELETED = "<DELETE>"
CONSUMER = "consumer"
MARKERS = {0: "ABORT", 1: "COMMIT"}
"""Type of a control record that ends a transaction -> its name."""
TRANSACTION_STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)

_NUMBER = struct.Struct(">h")
_MARKER_EPOCH = struct.Struct(">hi")


def marker_of(record: Record) -> tuple[int, int]:
    """Return a control record's type, and the coordinator epoch of a marker; -1 for a value that the record lacks."""
    key, value = record.key or b"", record.value or b""
    kind = _NUMBER.unpack_from(key, 2)[0] if len(key) >= 2 * _NUMBER.size else -1
    return kind, _MARKER_EPOCH.unpack_from(value)[1] if len(value) >= _MARKER_EPOCH.size else -1


# ---------------------------------------------------------------------------------------------------- bytes


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _integer(size: int, data: bytes) -> str:
    if len(data) != size:
        raise CommandFailed(
            f"the bytes {data.hex()} (hexadecimal) are not a number of {size} bytes: use another decoder class"
        )
    return str(int.from_bytes(data, "big", signed=True))


CLASSES: dict[str, Callable[[bytes], str]] = {
    f"{package}{name}": decode
    for package in (API, DEPRECATED_API)
    for name, decode in (
        ("StringDecoder", _text),
        ("IntegerDecoder", partial(_integer, 4)),
        ("LongDecoder", partial(_integer, 8)),
        ("DefaultDecoder", bytes.hex),
    )
}
"""Kafka's decoder class -> decoder."""


def decoder_of_classes(key_class: str, value_class: str) -> Decoder:
    """Return the decoder of these classes."""
    decode_key, decode_value = CLASSES[key_class], CLASSES[value_class]

    def decode(record: Record) -> Decoded:
        key, value = record.key, record.value
        return None if key is None else decode_key(key), None if value is None else decode_value(value)

    return decode


# ---------------------------------------------------------------------------------------------------- offsets


def decode_offsets(record: Record) -> Decoded:
    """Decode a record of __consumer_offsets.

    Raises:
        CommandFailed: The record has no key.
    """
    if record.key is None:
        raise CommandFailed(
            f"Failed to decode message at offset {record.offset} using offset topic decoder (message had a missing key)"
        )
    try:
        key_type = ValueReader(record.key).version
        found = read_record(record.key, record.value)
        version = None if record.value is None or found is None else ValueReader(record.value).version
    except (DamagedRecord, *DAMAGED) as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    match found:
        case OffsetRecord(group, partition, committed):
            key = {"group": group, "topic": partition.topic, "partition": partition.partition}
            value = None if committed is None or version is None else _offset(committed, version)
        case GroupRecord(group, generation):
            key = {"group": group}
            value = None if generation is None or version is None else _group(generation, version)
        case _:
            return f"Unknown record type {key_type} at offset {record.offset}, skipping.", None
    return (
        _json({"type": str(key_type), "data": key}),
        DELETED if value is None else _json({"version": str(version), "data": value}),
    )


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _offset(value: CommittedOffset, version: int) -> dict[str, Any]:
    data: dict[str, Any] = {"offset": value.offset}
    if version >= 3:
        data["leaderEpoch"] = value.leader_epoch
    data |= {"metadata": value.metadata, "commitTimestamp": value.committed_at_ms}
    return data | ({"expireTimestamp": value.expires_at_ms} if version == 1 else {})


def _group(value: RecordedGroup, version: int) -> dict[str, Any]:
    data: dict[str, Any] = {"protocolType": value.protocol_type, "generation": value.generation}
    data |= {"protocol": value.protocol, "leader": value.leader}
    if version >= 2:
        data["currentStateTimestamp"] = value.since_ms
    members = [_member(each, version, value.protocol_type == CONSUMER) for each in value.members]
    return data | {"members": members}


def _member(value: RecordedMember, version: int, is_consumer: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"memberId": value.member_id}
    if version >= 3:
        data["groupInstanceId"] = value.instance_id
    data |= {"clientId": value.client_id, "clientHost": value.client_host}
    if version >= 1:
        data["rebalanceTimeout"] = value.rebalance_timeout_ms
    data["sessionTimeout"] = value.session_timeout_ms
    for name, blob, read in (
        ("subscription", value.subscription, _subscription),
        ("assignment", value.assignment, _assignment),
    ):
        try:
            data[name] = read(ValueReader(blob)) if is_consumer else _base64(blob)
        except DAMAGED:
            data[name] = _base64(blob)
    return data


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _subscription(reader: ValueReader) -> dict[str, Any]:
    data: dict[str, Any] = {"topics": [reader.text() for _ in range(reader.number("i"))], "userData": _blob(reader)}
    if reader.version >= 1:
        data["ownedPartitions"] = _partitions(reader)
    if reader.version >= 2:
        data["generationId"] = reader.number("i")
    return data | ({"rackId": reader.nullable()} if reader.version >= 3 else {})


def _assignment(reader: ValueReader) -> dict[str, Any]:
    return {"assignedPartitions": _partitions(reader), "userData": _blob(reader)}


def _partitions(reader: ValueReader) -> list[dict[str, Any]]:
    return [
        {"topic": reader.text(), "partitions": [reader.number("i") for _ in range(reader.number("i"))]}
        for _ in range(reader.number("i"))
    ]


def _blob(reader: ValueReader) -> str | None:
    data = reader.nullable_blob()
    return None if data is None else _base64(data)


# ---------------------------------------------------------------------------------------------------- transactions


def decode_transactions(record: Record) -> Decoded:
    """Decode a __transaction_state record of version 0; later versions need a later inter.broker.protocol.version."""
    try:
        reader = ValueReader(record.key or b"")
        if reader.version != 0:
            return f"unknown::version={reader.version}", None
        key = f"transaction_metadata::transactionalId={reader.text()}"
        return key, DELETED if record.value is None else _transaction(ValueReader(record.value))
    except (DamagedRecord, *DAMAGED) as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _transaction(reader: ValueReader) -> str:
    reader.known(0, "a transaction")
    producer, epoch, timeout = reader.number("q"), reader.number("h"), reader.number("i")
    state = reader.number("b")
    partitions = [
        f"{topic}-{number}"
        for _ in range(max(0, reader.number("i")))
        for topic in (reader.text(),)
        for number in [reader.number("i") for _ in range(reader.number("i"))]
    ]
    updated = reader.number("q")
    return (
        f"producerId:{producer},producerEpoch:{epoch},state={TRANSACTION_STATES[state]},"
        f"partitions=[{','.join(partitions)}],txnLastUpdateTimestamp={updated},txnTimeoutMs={timeout}"
    )
