"""Encode and decode the records of __consumer_offsets in Kafka's format (broker.md 5.7).

Rule 1: A record's key begins with its version: keys of versions 0 and 1 identify offsets, and keys of version 2
        identify groups. Records with other versions are skipped.
Rule 2: A value begins with its version too. All value versions that Kafka defines are read.
        inter.broker.protocol.version determines the written version, because an older broker may have to read the
        value. An offset with its own expiry time is always written in version 1.
Rule 3: A record without a value deletes what its key identifies.

Kafka: `GroupMetadataManager`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from messages import groups
from messages.cluster import NO_EPOCH, TopicPartition

KeyValue = tuple[bytes, bytes | None]
Record = groups.OffsetRecord | groups.GroupRecord

OFFSET_KEYS = (0, 1)
OFFSET_KEY, GROUP_KEY = 1, 2
WITH_EXPIRY = 1

FORMATS = (((2, 3), (3, 3)), ((2, 1), (3, 2)), ((0, 10, 1), (1, 1)), ((0, 0), (1, 0)))
"""(first protocol version, (offset version, group version)), newest first."""

DAMAGED = (struct.error, UnicodeDecodeError, IndexError)
"""Exceptions that decoding raises for truncated or damaged bytes."""


class DamagedRecord(ValueError):
    """A record of __consumer_offsets cannot be decoded."""


def written_format(protocol: tuple[int, ...]) -> tuple[int, int]:
    """Return the versions of offset values and group values that a cluster of this protocol version can read."""
    return next(versions for first, versions in FORMATS if protocol >= first)


def key_value(record: Record, versions: tuple[int, int]) -> KeyValue:
    """Return the record's key and value.

    Args:
        versions: Versions of offset values and group values.
    """
    match record:
        case groups.OffsetRecord(group, partition, value):
            key = _ValueWriter(OFFSET_KEY).text(group).text(partition.topic).number("i", partition.partition)
            return key.data, None if value is None else _offset_value(value, versions[0])
        case groups.GroupRecord(group, generation):
            named = _ValueWriter(GROUP_KEY).text(group)
            return named.data, None if generation is None else _group_value(generation, versions[1])


def read_record(key: bytes, value: bytes | None) -> Record | None:
    """Decode a record; return None if its key has an unknown version.

    Raises:
        DamagedRecord: The record cannot be decoded.
    """
    try:
        reader = ValueReader(key)
        if reader.version in OFFSET_KEYS:
            group, partition = reader.text(), TopicPartition(reader.text(), reader.number("i"))
            return groups.OffsetRecord(group, partition, None if value is None else _read_offset(ValueReader(value)))
        if reader.version == GROUP_KEY:
            return groups.GroupRecord(reader.text(), None if value is None else _read_group(ValueReader(value)))
    except DAMAGED as error:
        raise DamagedRecord(f"a record with the key {key.hex()} is cut or damaged: {error}") from error
    return None


# ---------------------------------------------------------------------------------------------------- values


def _offset_value(value: groups.CommittedOffset, version: int) -> bytes:
    version = WITH_EXPIRY if value.expires_at_ms != groups.NO_TIME else version
    out = _ValueWriter(version).number("q", value.offset)
    if version >= 3:
        out.number("i", value.leader_epoch)
    out.text(value.metadata).number("q", value.committed_at_ms)
    return out.number("q", value.expires_at_ms).data if version == WITH_EXPIRY else out.data


def _read_offset(reader: ValueReader) -> groups.CommittedOffset:
    version = reader.read_version(3, "an offset")
    offset = reader.number("q")
    epoch = reader.number("i") if version >= 3 else NO_EPOCH
    metadata, committed = reader.text(), reader.number("q")
    return groups.CommittedOffset(
        offset, epoch, metadata, committed, reader.number("q") if version == WITH_EXPIRY else groups.NO_TIME
    )


def _group_value(value: groups.RecordedGroup, version: int) -> bytes:
    out = _ValueWriter(version).text(value.protocol_type).number("i", value.generation)
    out.nullable(value.protocol).nullable(value.leader)
    if version >= 2:
        out.number("q", value.since_ms)
    out.number("i", len(value.members))
    for member in value.members:
        out.text(member.member_id)
        if version >= 3:
            out.nullable(member.instance_id)
        out.text(member.client_id).text(member.client_host)
        if version >= 1:
            out.number("i", member.rebalance_timeout_ms)
        out.number("i", member.session_timeout_ms).blob(member.subscription).blob(member.assignment)
    return out.data


def _read_group(reader: ValueReader) -> groups.RecordedGroup:
    version = reader.read_version(3, "a group")
    protocol_type, generation = reader.text(), reader.number("i")
    protocol, leader = reader.nullable(), reader.nullable()
    since = reader.number("q") if version >= 2 else groups.NO_TIME
    members = tuple([_read_member(reader, version) for _ in range(reader.number("i"))])
    return groups.RecordedGroup(protocol_type, generation, protocol, leader, since, members)


def _read_member(reader: ValueReader, version: int) -> groups.RecordedMember:
    member_id = reader.text()
    instance = reader.nullable() if version >= 3 else None
    client, host = reader.text(), reader.text()
    rebalance = reader.number("i") if version >= 1 else None
    session = reader.number("i")
    return groups.RecordedMember(
        *(member_id, instance, client, host, session if rebalance is None else rebalance, session),
        *(reader.blob(), reader.blob()),
    )


# ---------------------------------------------------------------------------------------------------- primitives


class _ValueWriter:
    """An encoder for the value of a Kafka record in __consumer_offsets."""

    def __init__(self, version: int) -> None:
        self.data = struct.pack(">h", version)

    def number(self, form: str, value: int) -> _ValueWriter:
        self.data += struct.pack(f">{form}", value)
        return self

    def text(self, value: str) -> _ValueWriter:
        encoded = value.encode()
        return self._add("h", encoded)

    def nullable(self, value: str | None) -> _ValueWriter:
        return self.number("h", -1) if value is None else self.text(value)

    def blob(self, value: bytes) -> _ValueWriter:
        return self._add("i", value)

    def _add(self, form: str, value: bytes) -> _ValueWriter:
        self.data += struct.pack(f">{form}", len(value)) + value
        return self


class ValueReader:
    """A decoder for the value of a Kafka record in __consumer_offsets."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.version = self.number("h")

    def read_version(self, newest: int, what: str) -> int:
        """Return the version of the value, if it is supported; `what` names the kind of value in the error text.

        Raises:
            DamagedRecord: The version is newer than `newest` or negative.
        """
        if not 0 <= self.version <= newest:
            raise DamagedRecord(f"{what} of version {self.version}, of which nothing is known")
        return self.version

    def number(self, form: str) -> int:
        """Return the next integer; `form` is its `struct` format."""
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def text(self) -> str:
        """Return the next string."""
        return self.take(self.number("h")).decode()

    def nullable(self) -> str | None:
        """Return the next nullable string."""
        length = self.number("h")
        return None if length < 0 else self.take(length).decode()

    def blob(self) -> bytes:
        """Return the next byte array."""
        return self.take(self.number("i"))

    def take(self, length: int) -> bytes:
        """Return the next `length` bytes.

        Raises:
            IndexError: Fewer bytes are left.
        """
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise IndexError(
                f"a field of {length} bytes at position {self._at} exceeds the record of {len(self._data)} bytes"
            )
        taken, self._at = self._data[self._at : end], end
        return taken


def subscribed_topics(subscriptions: Iterable[bytes]) -> tuple[str, ...] | None:
    """Return the topics of consumer subscriptions, sorted; None if a subscription is malformed.

    A subscription begins with a version and the topics. The rest is for the assignor and is not read.
    """
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            reader = ValueReader(subscription)
            topics.update([reader.text() for _ in range(reader.number("i"))])
    except DAMAGED:
        return None
    return tuple(sorted(topics))


def assigned_partitions(assignment: bytes) -> list[TopicPartition]:
    """Return the partitions of a consumer's assignment; empty if it is malformed."""
    found: list[TopicPartition] = []
    try:
        reader = ValueReader(assignment)
        for _ in range(reader.number("i")):
            topic = reader.text()
            found += [TopicPartition(topic, reader.number("i")) for _ in range(reader.number("i"))]
    except DAMAGED:
        return []
    return found
