"""Format values for reports; the name of a column ends with the unit of its values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import Any

from messages.trace.endings import ending_text
from spark.results import QueryResult

Shown = Callable[[Any], object]


def heads(answer: QueryResult) -> list[str]:
    """Return the titles of the columns."""
    return [column.removesuffix("_at").replace("_", " ") for column in answer.columns]


def rows(answer: QueryResult, most: int, zone: tzinfo | None = None) -> list[list[object]]:
    """Return the first `most` rows, each as a list of formatted values; the other rows are not read."""
    kinds = [formatter(column, zone) for column in answer.columns]
    return [[kind(value) for kind, value in zip(kinds, row, strict=True)] for row in answer.rows[:most]]


def formatter(column: str, zone: tzinfo | None = None) -> Shown:
    """Return a function that formats values of a column; times are in `zone`, by default local.

    The function formats the value None as an empty text.
    """
    if f"_{column}".endswith("_at"):
        return lambda at: "" if at is None else datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    how = next((how for ends, how in _SHOWN if f"_{column}".endswith(ends)), _plain)
    return lambda value: "" if value is None else how(value)


def moment(at: float, zone: tzinfo | None, begin: float, end: float) -> str:
    """Return a time as text, to the second, and with its day if `begin` and `end` are on different days."""
    first, last, then = (datetime.fromtimestamp(each, zone) for each in (begin, end, at))
    return f"{then:%H:%M:%S}" if first.date() == last.date() else f"{then:%Y-%m-%d %H:%M:%S}"


def duration(seconds: float) -> str:
    """Return a duration as text; a longer duration has less precision: 12 ms, 3.4 s, 2 min 5 s, 3 h 10 min."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"
    minutes, hours = round(seconds / 60), seconds / 3600
    if hours < 2:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if hours < 48 else f"{hours / 24:.1f} days"


def count_text(count: int, noun: str) -> str:
    """Return a number with its noun: 1 partition, 2,000 partitions."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _plain(value: object) -> object:
    return {True: "yes", False: ""}[value] if isinstance(value, bool) else value


_SHOWN: tuple[tuple[str, Shown], ...] = (
    ("seconds", lambda seconds: f"{seconds:.3f}"),
    ("_s", lambda seconds: f"{seconds:.3f}"),
    ("_ms", lambda ms: f"{ms:.1f}"),
    ("_share", lambda share: f"{share:.1%}"),
    ("_ending", ending_text),
)
