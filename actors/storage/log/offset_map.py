"""OffsetMap maps the keys of a log to the offset of their last record, while the log is cleaned.

Rule 1: a slot of 24 bytes has the MD5 hash of a key, and the offset. Equal hashes count as equal keys, as in Kafka.
Rule 2: the slots are in one bytearray, which grows with the number of keys. A growth copies the slots in steps.
Rule 3: the compiled `_walk.c` reads the records of a batch, and stops at an invalid one or when the map is full. The
        Python code then does the same for the rest. Without a compiler, Python does all of the work. Whole batches are
        read by `_walk.c` as far as they need nothing else.

Kafka: `SkimpyOffsetMap`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from messages.wire import checksums
from messages.wire.batch_records import KeptRecords, frames

try:
    from messages.wire._walk import kept as compiled_kept
    from messages.wire._walk import kept_batches as compiled_kept_batches
    from messages.wire._walk import move as compiled_move
    from messages.wire._walk import put_batches as compiled_put_batches
    from messages.wire._walk import put_keys as compiled_put
except ImportError:
    compiled_kept = compiled_kept_batches = None  # type: ignore[assignment]
    compiled_move = compiled_put = compiled_put_batches = None  # type: ignore[assignment]

try:
    from _md5 import md5  # type: ignore[import-not-found]  # takes half the time of hashlib's
except ImportError:
    md5 = partial(hashlib.md5, usedforsecurity=False)

SLOT = 24
FIRST_SLOTS = 1 << 10
MOST_SLOTS = (2**31 - 1) // SLOT
NEVER = -(2**63)
"""A time delta below that of each record."""
_AT_ONCE = 4096
"""Number of slots that a growth copies in one step."""

_words: Callable[[bytes], tuple[Any, ...]] = struct.Struct("QQ").unpack


class OffsetMap:
    """The last offset of each key; `slots` is the maximum number of slots, of which a fraction `load` may be in use."""

    __slots__ = ("_load", "_most", "_slots", "_table", "capacity", "size")

    def __init__(self, slots: int, load: float) -> None:
        self._most = max(2, min(slots, MOST_SLOTS))
        self._load = load
        self._slots = min(FIRST_SLOTS, self._most)
        self._table = memoryview(bytearray(self._slots * SLOT)).cast("Q")
        """Three words for each slot: two of the hash, and the offset plus 1; 0 if the slot is free."""
        self.size = 0
        self.capacity = self._capacity_of(self._slots)
        """Number of keys for which the table has space."""

    @property
    def utilization(self) -> float:
        """The fraction of the permitted slots that are in use."""
        return self.size / self._most

    def _capacity_of(self, slots: int) -> int:
        """Return the maximum number of keys in a table; one slot always stays free, where a search ends."""
        return max(1, min(int(slots * self._load), slots - 1))

    def grow(self, keys: int) -> Iterator[None]:
        """Make space for a number of new keys, if the maximum permits. The map is usable only after the last step."""
        while self._slots < self._most and self.size + keys > self.capacity:
            old, slots = self._table, min(2 * self._slots, self._most)
            table = memoryview(bytearray(slots * SLOT)).cast("Q")
            for start in range(0, len(old), 3 * _AT_ONCE):
                part = old[start : start + 3 * _AT_ONCE]
                if compiled_move is None:
                    _move(part, table, slots)
                else:
                    compiled_move(part, table, slots)
                yield
            self._table, self._slots, self.capacity = table, slots, self._capacity_of(slots)

    def put(self, data: bytes, position: int, count: int, base: int, first: int) -> tuple[int, int, int]:
        """Store the offsets of the next records of a batch, unless they are below `first` or have no key.

        Args:
            data: The decompressed records.
            position: Position of the first record.
            count: Number of records.
            base: Base offset of the batch.
            first: First offset to store.

        Returns:
            The number of records that were read before the map was full, the position after them, and the last stored
            offset or -1.

        Raises:
            InvalidRecords: A length is wrong.
        """
        table, slots, words = self._table, self._slots, _words
        end, done, last = len(table), 0, -1
        if compiled_put is not None:
            free = self.capacity - self.size
            done, position, added, last = compiled_put(table, slots, free, data, position, count, base, first)
            self.size += added
            if done == count:
                return done, position, last
        for _, next_position, _, delta, key, _ in frames(data, position, count - done):
            offset = base + delta
            if key is not None and offset >= first:
                one, two = words(md5(key).digest())
                at = one % slots * 3
                while table[at + 2]:
                    if table[at] == one and table[at + 1] == two:
                        break
                    at += 3
                    if at == end:
                        at = 0
                else:
                    if self.size >= self.capacity:
                        break
                    self.size += 1
                    table[at], table[at + 1] = one, two
                table[at + 2] = offset + 1
                last = offset
            position = next_position
            done += 1
        return done, position, last

    def find_kept(
        self, data: bytes, position: int, count: int, base: int, limit: int, is_due: bool
    ) -> tuple[KeptRecords, int]:
        """Find the next records of a batch that stay: the last one of each key, and those from the offset `limit` on.

        Args:
            data: The decompressed records.
            position: Position of the first record.
            count: Number of records.
            base: Base offset of the batch.
            limit: The offset after the last mapped record.
            is_due: Whether tombstones go, too.

        Returns:
            The records that stay, and the position after all records.

        Raises:
            InvalidRecords: A length is wrong.
        """
        table, slots, words = self._table, self._slots, _words
        places: list[tuple[int, int]] = []
        end, done, staying, newest, has_tombstone = len(table), 0, 0, NEVER, False
        if compiled_kept is not None:
            arguments = table, slots, data, position, count, base, limit, is_due
            done, position, staying, places, newest, has_tombstone = compiled_kept(*arguments)
            if done == count:
                return KeptRecords(staying, places, newest, has_tombstone), position
        run, runs_to = position, position
        for start, stop, time, delta, key, has_value in frames(data, position, count - done):
            position = stop
            offset = base + delta
            if offset < limit:
                if key is None or (is_due and not has_value):
                    continue
                one, two = words(md5(key).digest())
                at = one % slots * 3
                while stored := table[at + 2]:
                    if table[at] == one and table[at + 1] == two:
                        break
                    at += 3
                    if at == end:
                        at = 0
                if offset < stored - 1:
                    continue
            if start != runs_to:
                if run < runs_to:
                    places.append((run, runs_to))
                run = start
            runs_to = stop
            staying += 1
            if time > newest:
                newest = time
            if not has_value:
                has_tombstone = True
        if run < runs_to:
            places.append((run, runs_to))
        return KeptRecords(staying, places, newest, has_tombstone), position

    def put_batches(self, data: bytes, position: int, most: int, first: int) -> tuple[int, int, int, int]:
        """Store the offsets of the records of plain batches, as `put` does, up to another batch or a full map.

        Plain batches are complete, uncompressed, outside transactions and without a delete horizon. Without the
        compiled loop there are none.

        Args:
            data: The batches.
            position: Position of the first one.
            most: Number of batches and records after which to return.
            first: First offset to store.

        Returns:
            The position after the batches, the numbers of records and of batches, and the offset after the last one.
        """
        if compiled_put_batches is None:
            return position, 0, 0, -1
        free = self.capacity - self.size
        arguments = self._table, self._slots, free, checksums.crc32c, data, position, most, first
        position, records, batches, added, end = compiled_put_batches(*arguments)
        self.size += added
        return position, records, batches, end

    def kept_batches(self, data: bytes, position: int, most: int, limit: int) -> tuple[int, int, int, list[int]]:
        """Find the plain batches that stay unchanged, up to one that changes.

        A batch of which no record stays is passed over, unless it has a producer id or ends at `limit`.

        Args:
            data: The batches.
            position: Position of the first one.
            most: Number of batches and records after which to return.
            limit: The offset after the last mapped record.

        Returns:
            The position after the batches, the numbers of records and of batches, and the positions of those that stay.
        """
        if compiled_kept_batches is None:
            return position, 0, 0, []
        return compiled_kept_batches(self._table, self._slots, checksums.crc32c, data, position, most, limit)


def _move(old: memoryview, table: memoryview, slots: int) -> None:
    """Copy the slots in use to a larger table, which has space for them."""
    end = len(table)
    for at in range(0, len(old), 3):
        if old[at + 2]:
            free = old[at] % slots * 3
            while table[free + 2]:
                free += 3
                if free == end:
                    free = 0
            table[free], table[free + 1], table[free + 2] = old[at], old[at + 1], old[at + 2]
