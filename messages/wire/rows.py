"""A cache of decoded entries, with the encoded bytes as the key, so that equal bytes are decoded once."""

from __future__ import annotations

import weakref
from collections import deque
from functools import cache
from typing import Any

from messages.parts import Encoded

_kept, _kept_version = Encoded.__dict__["_encoded"].__get__, Encoded.__dict__["_encoded_version"].__get__
_keep, _keep_version = Encoded.__dict__["_encoded"].__set__, Encoded.__dict__["_encoded_version"].__set__


class Rows:
    """The entries of one topic's partitions in a part of a large request.

    `data` are the bytes, `values` the decoded entries.
    """

    __slots__ = "__weakref__", "data", "values"

    def __init__(self, values: list[Any], data: bytes) -> None:
        self.values = values
        self.data = data


RowsTable = weakref.WeakValueDictionary[tuple[str, bytes], Rows]
"""Cached rows of existing parts, by topic and first bytes."""

_KEY_BYTES = 4
"""Bytes of a row's first field, the partition's number."""
_FEW = 8
"""Up to this number, reading rows is as fast as looking them up."""


@cache
def rows_table(kind: type, version: int) -> RowsTable:
    """Return the cache of encoded rows of this message class and version."""
    return weakref.WeakValueDictionary()


def known_rows(table: RowsTable, topic: str, data: bytes, position: int, most: int) -> Rows | None:
    """Return the cached rows whose bytes are in `data` from `position` on.

    Returns:
        None if no such rows are cached, or if they have more than `most` entries.
    """
    known = table.get((topic, data[position : position + _KEY_BYTES]))
    if known is not None and len(known.values) <= most and data.startswith(known.data, position):
        return known
    return None


def kept_rows(part: object, version: int) -> dict[str, Rows] | None:
    """Return the cached rows of a part, by topic; None if the part has no cached rows of this version."""
    try:
        return _kept(part) if _kept_version(part) == version else None
    except AttributeError:
        return None


def kept_version(part: object) -> int | None:
    """Return the version of a part's cached rows; None if the part has no cached rows."""
    try:
        return _kept_version(part)
    except AttributeError:
        return None


Span = tuple[str, int, bytes | Rows]
"""Consecutive rows of one topic: the topic, their number, and their bytes or the cached rows."""


def keep_read(part: Any, spans: deque[Span], version: int) -> None:
    """Cache the rows from which the entries of a part were decoded.

    These rows are the first ones in `spans`. They are removed from `spans`.
    """
    entries, rows, at = part.entries, dict[str, Rows](), 0
    while at < len(entries) and spans:
        topic, count, data = spans.popleft()
        rows[topic] = data if isinstance(data, Rows) else Rows(list(entries[at : at + count]), data)
        at += count
    if at == len(entries) == sum([len(each.values) for each in rows.values()]):
        keep_rows(part, rows, version, None)


def keep_rows(part: object, rows: dict[str, Rows], version: int, table: RowsTable | None) -> None:
    """Cache the rows of a part; also add them to `table`, if it is given, so that readers reuse them."""
    _keep(part, rows)
    _keep_version(part, version)
    if table is not None:
        for topic, made in rows.items():
            if len(made.values) >= _FEW:
                table[topic, made.data[:_KEY_BYTES]] = made
