"""Loading of groups and offsets from a partition of __consumer_offsets (broker.md 1.6, 5.7).

Rule 1: of every key the last record counts; a record without a value takes away what was there.
Rule 2: what a transaction commits counts with its marker, and not at all where that says so; records of a transaction
        without a marker are passed over.
Rule 3: offsets of which no group says anything belong to a group that is empty. A group whose record was taken away is
        none, unless it has offsets.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Sequence

from actors.core.coordinator.group_metadata_records import DamagedRecord, read_record
from messages.cluster import TopicPartition
from messages.groups import CommittedOffset, GroupRecord, LoadedGroup, OffsetEntry, OffsetRecord, RecordedGroup

log = logging.getLogger("kafka.coordinator.group.GroupMetadataManager")

NO_TRANSACTION = -1
COMMIT_MARKER = 1
_MARKER = struct.Struct(">hh")

Row = tuple[int, bool, str, str | None]
"""(producer id or NO_TRANSACTION, whether it is a marker, key, value): bytes as characters of one byte each."""


class Loading:
    """The loaded part of one partition; `next` is the next offset to read, -1 before the first is known."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.next = -1
        self.records = 0
        self._groups: dict[str, RecordedGroup] = {}
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._open: dict[int, list[OffsetRecord]] = {}
        """By producer: what its transaction has written."""

    def take(self, rows: Sequence[Row]) -> None:
        """Take in some more records."""
        self.records += len(rows)
        for producer, is_marker, key, value in rows:
            try:
                if is_marker:
                    self._end_transaction(producer, key.encode("latin-1"))
                    continue
                record = read_record(key.encode("latin-1"), None if value is None else value.encode("latin-1"))
            except DamagedRecord as damage:
                log.error("Skipping a damaged record in partition %d of __consumer_offsets: %s", self.partition, damage)
                continue
            match record:
                case GroupRecord(group, generation):
                    self._groups.pop(group, None)
                    if generation is not None:
                        self._groups[group] = generation
                case OffsetRecord() if producer != NO_TRANSACTION:
                    self._open.setdefault(producer, []).append(record)
                case OffsetRecord():
                    self._note(record)

    def _end_transaction(self, producer: int, key: bytes) -> None:
        """Let what it wrote count, or not (rule 2). Raises DamagedRecord where the marker does not say."""
        if len(key) < _MARKER.size:
            raise DamagedRecord(f"a marker with the key {key.hex()!r} is cut")
        _, kind = _MARKER.unpack_from(key)
        for record in self._open.pop(producer, ()):
            if kind == COMMIT_MARKER:
                self._note(record)

    def _note(self, record: OffsetRecord) -> None:
        offsets = self._offsets.setdefault(record.group, {})
        if record.value is None:
            offsets.pop(record.partition, None)
        else:
            offsets[record.partition] = record.value

    def groups(self) -> list[LoadedGroup]:
        """The groups that there are (rule 3)."""
        names: Iterable[str] = dict.fromkeys([*self._groups, *(name for name, known in self._offsets.items() if known)])
        return [
            LoadedGroup(
                name,
                self._groups.get(name),
                tuple([OffsetEntry(*entry) for entry in self._offsets.get(name, {}).items()]),
            )
            for name in names
        ]
