"""Load groups and offsets from a partition of __consumer_offsets (broker.md 1.6, 5.7).

Rule 1: of every key the last record counts; a record without a value takes away what was there.
Rule 2: offsets follow the rules of `actors.core.coordinator.offsets`, as they did when they were written: what a
        transaction wrote is pending until its marker, and what was deleted is deleted with what was pending.
Rule 3: offsets of which no group says anything belong to a group that is empty, pending ones too. A group whose record
        was taken away is none, unless it has offsets.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence

from actors.core.coordinator.group_metadata_records import DamagedRecord, read_record
from actors.core.coordinator.offsets import NO_TRANSACTION, Offsets, placed
from messages.groups import (
    CommittedOffset,
    GroupRecord,
    LoadedGroup,
    OffsetEntry,
    OffsetRecord,
    RecordedGroup,
    TransactionEnded,
)

log = logging.getLogger("kafka.coordinator.group.GroupMetadataManager")

COMMIT_MARKER = 1
_MARKER = struct.Struct(">hh")

Row = tuple[int, bool, str, str | None, int]
"""(producer id or NO_TRANSACTION, whether it is a marker, key, value, base offset of the batch).

Bytes are characters of one byte each.
"""


class Loading:
    """What has been loaded from one partition of __consumer_offsets so far."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.records = 0
        self._groups: dict[str, RecordedGroup] = {}
        self._offsets: dict[str, Offsets] = {}
        self._open: dict[int, dict[str, None]] = {}
        """By producer: the groups of whose offsets its transaction has some."""

    def take(self, rows: Sequence[Row]) -> None:
        """Take in some more records."""
        self.records += len(rows)
        for producer, is_marker, key, value, log_offset in rows:
            try:
                if is_marker:
                    self._end_transaction(producer, key.encode("latin-1"), log_offset)
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
                case OffsetRecord(group, partition, None):
                    self._offsets.setdefault(group, Offsets()).forget([partition])
                case OffsetRecord(group, partition, CommittedOffset() as offset):
                    self._offsets.setdefault(group, Offsets()).write(producer, partition, placed(offset, log_offset))
                    if producer != NO_TRANSACTION:
                        self._open.setdefault(producer, {})[group] = None

    def _end_transaction(self, producer: int, key: bytes, log_offset: int) -> None:
        """End a producer's transaction (rule 2). Raises DamagedRecord if the marker has no type."""
        if len(key) < _MARKER.size:
            raise DamagedRecord(f"a marker with the key {key.hex()!r} is cut")
        _, kind = _MARKER.unpack_from(key)
        ended = TransactionEnded(producer, self.partition, kind == COMMIT_MARKER, log_offset)
        for group in self._open.pop(producer, ()):
            self._offsets[group].end_transaction(ended)

    def groups(self) -> list[LoadedGroup]:
        """The groups that there are (rule 3)."""
        names = dict.fromkeys([*self._groups, *(name for name, known in self._offsets.items() if known)])
        return [self._loaded(name, self._offsets.get(name, Offsets())) for name in names]

    def _loaded(self, name: str, offsets: Offsets) -> LoadedGroup:
        committed = tuple([OffsetEntry(*entry) for entry in offsets.committed.items()])
        return LoadedGroup(name, self._groups.get(name), committed, offsets.open_entries())
