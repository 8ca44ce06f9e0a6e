"""The transaction index of a segment, which lists aborted transactions in `<base>.txnindex` (transactions.md 3.3).

Rule 1: an entry is in the index of the segment that has the transaction's marker. Entries ascend by the marker's
        offset. The first entry creates the file.
Rule 2: an invalid file is removed, and the index is rebuilt from the log.

Kafka: `TransactionIndex`, `AbortedTxn`.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from actors.storage.log.handles import Handles, opening
from actors.storage.log.transactions import CompletedTxn

ENTRY = struct.Struct(">hqqqq")
VERSION = 0

_LAST_OFFSET = attrgetter("last_offset")


class AbortedTxn(NamedTuple):
    """An entry of a transaction index: an aborted transaction, and the last stable offset after the abort."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def read_entries(data: bytes) -> list[AbortedTxn]:
    """Return the complete entries of a file."""
    return [AbortedTxn._make(entry) for entry in ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY.size])]


def aborted_in(indexes: Iterable[TransactionIndex], offset: int, upper: int) -> list[AbortedTxn]:
    """Return the aborted transactions with offsets >= `offset` and < `upper`.

    The first of `indexes` is that of the segment that contains `offset`. The result may have more transactions than
    needed: consumers skip a transaction only up to its marker.
    """
    found: list[AbortedTxn] = []
    for index in indexes:
        entries, is_complete = index.find(offset, upper)
        found += entries
        if is_complete:
            break
    return found


class TransactionIndex:
    """The index of the aborted transactions whose markers are in one segment."""

    __slots__ = ("_entries", "_handles", "path")

    def __init__(self, path: str, handles: Handles) -> None:
        self.path = path
        self._handles = handles
        self._entries: list[AbortedTxn] = []

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, base_offset: int) -> bool:
        """Read the file of the segment that begins at `base_offset`, if it exists.

        Returns:
            False if the file is invalid: the index is then empty and must be rebuilt (rule 2).

        Raises:
            OSError: The file cannot be read or removed.
        """
        self._entries = []
        try:
            data = opening(Path(self.path).read_bytes)
        except FileNotFoundError:
            return True
        entries = read_entries(data)
        if len(data) % ENTRY.size or any(entry.version < 0 or entry.last_offset < base_offset for entry in entries):
            self.reset()
            return False
        self._entries = entries
        return True

    def append(self, ended: CompletedTxn) -> None:
        """Add an aborted transaction, if its marker is after the marker of the last entry. Raises OSError."""
        if self._entries and ended.last_offset <= self._entries[-1].last_offset:
            return
        entry = AbortedTxn(VERSION, *ended)
        file = self._handles.get(self.path, create=True)
        os.pwrite(file.descriptor, ENTRY.pack(*entry), len(self._entries) * ENTRY.size)
        self._entries.append(entry)

    def find(self, offset: int, upper: int) -> tuple[list[AbortedTxn], bool]:
        """Find the transactions with offsets >= `offset` and < `upper`.

        Returns:
            The entries, and whether they are complete. If not, later segments may have more.
        """
        found = []
        for entry in self._entries[bisect_left(self._entries, offset, key=_LAST_OFFSET) :]:
            if entry.first_offset < upper:
                found.append(entry)
            if entry.last_stable_offset >= upper:
                return found, True
        return found, False

    def truncate(self, offset: int) -> None:
        """Remove the entries whose markers are at `offset` or later. Raises OSError."""
        at = bisect_left(self._entries, offset, key=_LAST_OFFSET)
        if at < len(self._entries):
            del self._entries[at:]
            os.truncate(self.path, at * ENTRY.size)

    def reset(self) -> None:
        """Remove all entries and the file. Raises OSError."""
        self._entries = []
        self._handles.close(self.path)
        Path(self.path).unlink(missing_ok=True)
