"""Load groups and offsets from a partition of __consumer_offsets (broker.md 1.6, 5.7).

Rule 1: The last record of each key applies. A record without a value deletes the entry.
Rule 2: Offsets follow the rules of `actors.core.coordinator.offsets`, as when they were written: a transaction's values
        are pending until its marker, and a deletion also deletes pending values.
Rule 3: Offsets without a group record, including pending ones, belong to an empty group. A group whose record was
        deleted exists only if it has offsets.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence

from actors.core.coordinator.group_metadata_records import DamagedRecord, read_record
from actors.core.coordinator.offsets import NO_TRANSACTION, Offsets, with_log_offset
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

Keys and values have one character per byte.
"""


class Loading:
    """The groups and offsets loaded so far from one partition of __consumer_offsets."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.records = 0
        self.damaged = 0
        """Number of damaged records, which are skipped."""
        self._groups: dict[str, RecordedGroup] = {}
        self._offsets: dict[str, Offsets] = {}
        self._open: dict[int, dict[str, None]] = {}
        """Producer id -> groups with offsets in its open transaction."""

    def take(self, rows: Sequence[Row]) -> None:
        """Process the next records."""
        self.records += len(rows)
        for producer, is_marker, key, value, log_offset in rows:
            try:
                if is_marker:
                    self._end_transaction(producer, key.encode("latin-1"), log_offset)
                    continue
                record = read_record(key.encode("latin-1"), None if value is None else value.encode("latin-1"))
            except DamagedRecord as damage:
                self.damaged += 1
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
                    self._offsets.setdefault(group, Offsets()).write(
                        producer, partition, with_log_offset(offset, log_offset)
                    )
                    if producer != NO_TRANSACTION:
                        self._open.setdefault(producer, {})[group] = None

    def _end_transaction(self, producer: int, key: bytes, log_offset: int) -> None:
        """End a producer's transaction (rule 2); raise DamagedRecord if the marker has no type."""
        if len(key) < _MARKER.size:
            raise DamagedRecord(f"a marker with the key {key.hex()!r} is cut")
        _, kind = _MARKER.unpack_from(key)
        ended = TransactionEnded(producer, self.partition, kind == COMMIT_MARKER, log_offset)
        for group in self._open.pop(producer, ()):
            self._offsets[group].end_transaction(ended)

    def groups(self) -> list[LoadedGroup]:
        """Return the loaded groups (rule 3)."""
        names = dict.fromkeys([*self._groups, *(name for name, known in self._offsets.items() if known)])
        return [self._loaded_group(name, self._offsets.get(name, Offsets())) for name in names]

    def _loaded_group(self, name: str, offsets: Offsets) -> LoadedGroup:
        committed = tuple([OffsetEntry(*entry) for entry in offsets.committed.items()])
        return LoadedGroup(name, self._groups.get(name), committed, offsets.open_entries())
