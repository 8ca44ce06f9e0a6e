"""Encode rows as the bytes that traces store, and decode them. A row is one entry in a part of a large message."""

from __future__ import annotations

import operator
from functools import cache
from itertools import chain, groupby
from typing import Any, NamedTuple

from messages.apis import API_BY_REQUEST, APIS, BINDINGS
from messages.parts import KEEP_ROWS, Part
from messages.wire.codec import UNENCODABLE, UNREADABLE
from messages.wire.compiler import EntryCodec, compile_rows
from messages.wire.layout import Schema
from messages.wire.rows import keep_rows, kept_rows, kept_version, rows_table

_MESSAGES: dict[str, type] = {kept.message.__name__: kept.message for kept in KEEP_ROWS.values()}
_API_BY_RESPONSE = {api.response: api for api in APIS}
_TOPIC_OF = operator.attrgetter("partition.topic")


class PartRows(NamedTuple):
    """The encoded entries (rows) of one part of a large message, by topic.

    `message` is the name of the message's class, `version` the API version in which the rows are encoded.

    `runs` is set if the entries of a topic are not consecutive. It then has one pair for each run of consecutive
    entries of one topic: the index of the topic and the number of rows.
    """

    message: str
    version: int
    topics: tuple[tuple[str, bytes], ...]
    runs: tuple[tuple[int, int], ...] = ()


def rows_of(part: Part) -> PartRows | None:
    """Return the cached rows of a part; if there are none, encode the rows and cache them.

    Returns:
        The rows; None if the part has neither cached rows nor a default API version, or if the rows of its version
        cannot contain a value of an entry.
    """
    message, usual = KEEP_ROWS[type(part)]
    version = kept_version(part)
    try:
        if version is not None:
            code = _code(message, version)
        elif usual is not None:
            code, version = _code(message, usual), usual
            keep_rows(part, code.write(part.entries), version, None if code.lacks else rows_table(message, version))
        else:
            return None
    except UNENCODABLE:
        return None
    rows = kept_rows(part, version) or {}
    if any(set(map(operator.attrgetter(name), part.entries)) - {unsaid} for name, unsaid in code.lacks.items()):
        return None
    runs: tuple[tuple[int, int], ...] = ()
    if part.entries != tuple(chain.from_iterable([made.values for made in rows.values()])):
        places = {topic: place for place, topic in enumerate(rows)}
        runs = tuple([(places[topic], len(list(run))) for topic, run in groupby(part.entries, _TOPIC_OF)])
    topics = tuple([(topic, made.data) for topic, made in rows.items()])
    return PartRows(message.__name__, version, topics, runs)


def entries_of(rows: PartRows) -> list[Any]:
    """Decode the entries. Raises ValueError for invalid bytes."""
    try:
        read = _code(_MESSAGES[rows.message], rows.version).read
        entries = [read(topic, data) for topic, data in rows.topics]
        if not rows.runs:
            return list(chain.from_iterable(entries))
        rest = [iter(each) for each in entries]
        found = [next(rest[place]) for place, count in rows.runs for _ in range(count)]
        encoded = sum(map(len, entries))
        if len(found) != encoded:
            raise ValueError(f"the field `runs` declares {len(found)} entries, but {encoded} entries are encoded")
        return found
    except (KeyError, OSError, StopIteration, *UNREADABLE) as error:
        raise ValueError(
            f"the encoded entries of {rows.message}, version {rows.version}, are invalid: {error}"
        ) from error


@cache
def _code(message: type, version: int) -> EntryCodec:
    api = API_BY_REQUEST.get(message) or _API_BY_RESPONSE[message]
    if not api.min_version <= version <= api.max_version:
        raise ValueError(f"{api.name} has no version {version}")
    return compile_rows(message, Schema(message.__name__).layout(version), version, BINDINGS)
