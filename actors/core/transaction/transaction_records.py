"""Encode and decode the records of __transaction_state in Kafka's format.

Rule 1: A key consists of the version (0) and the transactional id; other versions are skipped.
Rule 2: Values are written in version 0, which every broker reads. Version 1 is read too: it has compact lengths, and
        its tagged fields are skipped.
Rule 3: A null value deletes the id.

Kafka: `TransactionLog`, TransactionLogKey.json, TransactionLogValue.json.
"""

from __future__ import annotations

import struct
from itertools import groupby

from actors.core.coordinator.group_metadata_records import DAMAGED, DamagedRecord, KeyValue, ValueReader
from actors.core.transaction.transaction import Transaction
from actors.core.transaction.transaction_states import BY_BYTE, BYTES, EMPTY
from messages.cluster import TopicPartition

KEY_VERSION, VALUE_VERSION, FLEXIBLE_VERSION = 0, 0, 1
_HEAD = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")


def key_value(transactional_id: str, txn: Transaction | None) -> KeyValue:
    """Return the record of a transactional id: its metadata, or a tombstone if `txn` is None."""
    key = struct.pack(">h", KEY_VERSION) + _text(transactional_id)
    return key, None if txn is None else _value(txn)


def _value(txn: Transaction) -> bytes:
    head = _HEAD.pack(VALUE_VERSION, txn.producer_id, txn.producer_epoch, txn.timeout_ms, BYTES[txn.state])
    if txn.state is EMPTY:
        topics = struct.pack(">i", -1)
    else:
        groups = [(topic, [each.partition for each in group]) for topic, group in groupby(txn.partitions, _topic)]
        topics = struct.pack(">i", len(groups)) + b"".join([_topic_value(*group) for group in groups])
    return head + topics + _TIMES.pack(txn.updated_ms, txn.start_ms)


def _topic(partition: TopicPartition) -> str:
    return partition.topic


def _topic_value(topic: str, numbers: list[int]) -> bytes:
    return _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def read_key(key: bytes) -> str | None:
    """Return the transactional id; None for a key of another version (rule 1).

    Raises:
        DamagedRecord: The key cannot be decoded.
    """
    try:
        reader = ValueReader(key)
        return reader.text() if reader.version == KEY_VERSION else None
    except DAMAGED as error:
        raise DamagedRecord(f"the key {key.hex()} is cut or damaged: {error}") from error


def read_value(transactional_id: str, value: bytes) -> Transaction:
    """Return the metadata in a record's value.

    Raises:
        DamagedRecord: The value cannot be decoded.
    """
    try:
        reader = ValueReader(value)
        version = reader.read_version(FLEXIBLE_VERSION, "a transaction")
        fields = _Fields(reader, flexible=version >= FLEXIBLE_VERSION)
        producer_id, epoch, timeout = reader.number("q"), reader.number("h"), reader.number("i")
        state = BY_BYTE[reader.number("b")]
        partitions = fields.partitions()
        updated, start = reader.number("q"), reader.number("q")
    except (*DAMAGED, KeyError) as error:
        raise DamagedRecord(f"the value of {transactional_id!r} is cut or damaged: {error}") from error
    return Transaction(transactional_id, producer_id, epoch, timeout, state, partitions, start, updated)


class _Fields:
    """Decodes the partitions in a transaction state record; `flexible` selects the encoding of version 1."""

    def __init__(self, reader: ValueReader, flexible: bool) -> None:
        self._reader = reader
        self._flexible = flexible

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Return the partitions, sorted; a null array is read as empty."""
        found: list[TopicPartition] = []
        for _ in range(self._count()):
            topic = self._text()
            found += [TopicPartition(topic, self._reader.number("i")) for _ in range(self._count())]
            self._skip_tags()
        return tuple(sorted(found))

    def _count(self) -> int:
        return self._varint() - 1 if self._flexible else self._reader.number("i")

    def _text(self) -> str:
        return self._reader.take(self._varint() - 1).decode() if self._flexible else self._reader.text()

    def _skip_tags(self) -> None:
        if self._flexible:
            for _ in range(self._varint()):
                self._varint()
                self._reader.take(self._varint())

    def _varint(self) -> int:
        value = shift = 0
        while shift < 35:
            byte = self._reader.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise IndexError("a varint has more than five bytes")
