"""OffsetMap maps the keys of a log to the offset of their last record, while the log is cleaned.

Rule 1: a slot of 24 bytes has the MD5 hash of a key, and the offset. Equal hashes count as equal keys, as in Kafka.
Rule 2: the slots are in one bytearray, which grows with the number of keys. A growth copies the slots in steps.
Rule 3: keys come in lists, because a call for each key would take as long as the work of the call.

Kafka: `SkimpyOffsetMap`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

try:
    from _md5 import md5  # type: ignore[import-not-found]  # takes half the time of hashlib's
except ImportError:
    md5 = partial(hashlib.md5, usedforsecurity=False)

SLOT = 24
FIRST_SLOTS = 1 << 10
MOST_SLOTS = (2**31 - 1) // SLOT
_AT_ONCE = 4096
"""Number of slots that a growth copies in one step."""

_words: Callable[[bytes], tuple[Any, ...]] = struct.Struct("QQ").unpack


class OffsetMap:
    """The last offset of each key; `slots` is the maximum number of slots, of which a fraction `load` may be in use."""

    __slots__ = ("_load", "_most", "_slots", "_table", "size")

    def __init__(self, slots: int, load: float) -> None:
        self._most = max(2, min(slots, MOST_SLOTS))
        self._load = load
        self._slots = min(FIRST_SLOTS, self._most)
        self._table = memoryview(bytearray(self._slots * SLOT)).cast("Q")
        """Three words for each slot: two of the hash, and the offset plus 1; 0 if the slot is free."""
        self.size = 0

    @property
    def utilization(self) -> float:
        """The fraction of the permitted slots that are in use."""
        return self.size / self._most

    @property
    def _capacity(self) -> int:
        """Number of keys for which the table has space; one slot always stays free, where a search ends."""
        return max(1, min(int(self._slots * self._load), self._slots - 1))

    def grow(self, keys: int) -> Iterator[None]:
        """Make space for a number of new keys, if the maximum permits. The map is usable only after the last step."""
        while self._slots < self._most and self.size + keys > self._capacity:
            old, slots = self._table, min(2 * self._slots, self._most)
            table = memoryview(bytearray(slots * SLOT)).cast("Q")
            end = len(table)
            for at in range(0, len(old), 3):
                if old[at + 2]:
                    free = old[at] % slots * 3
                    while table[free + 2]:
                        free += 3
                        if free == end:
                            free = 0
                    table[free], table[free + 1], table[free + 2] = old[at], old[at + 1], old[at + 2]
                if not at % (3 * _AT_ONCE):
                    yield
            self._table, self._slots = table, slots

    def put(self, rows: Sequence[tuple[bytes, int]]) -> int:
        """Store the offset of each key, in order; return how many were stored before the map was full."""
        table, slots, words = self._table, self._slots, _words
        end, free = len(table), self._capacity - self.size
        for number, (key, offset) in enumerate(rows):
            first, second = words(md5(key).digest())
            at = first % slots * 3
            while table[at + 2]:
                if table[at] == first and table[at + 1] == second:
                    break
                at += 3
                if at == end:
                    at = 0
            else:
                if not free:
                    return number
                free -= 1
                self.size += 1
                table[at], table[at + 1] = first, second
            table[at + 2] = offset + 1
        return len(rows)

    def get(self, keys: Iterable[bytes]) -> list[int]:
        """Return the offset of each key; -1 for a key that has none."""
        table, slots, words = self._table, self._slots, _words
        end = len(table)
        found = []
        for key in keys:
            first, second = words(md5(key).digest())
            at = first % slots * 3
            while offset := table[at + 2]:
                if table[at] == first and table[at + 1] == second:
                    break
                at += 3
                if at == end:
                    at = 0
            found.append(offset - 1)
        return found
