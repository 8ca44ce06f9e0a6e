"""The results of a summary as plain values, which can be printed without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class QueryResult:
    """The result of one section of a summary: its rows in order, with a value for each column."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    def __iter__(self) -> Iterator[SimpleNamespace]:
        """Yield the rows, with each column's value as an attribute."""
        return (SimpleNamespace(**row) for row in self.as_dicts())

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> SimpleNamespace:
        return SimpleNamespace(**dict(zip(self.columns, self.rows[index], strict=True)))

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as plain values."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def table(columns: str, rows: Iterable[tuple[Any, ...]]) -> QueryResult:
    """Return a result with these columns (names separated by spaces) and rows."""
    return QueryResult(tuple(columns.split()), tuple(rows))


@dataclass(frozen=True)
class Summary:
    """The results of all sections of a summary, and what could not be read.

    The sections leave out malformed lines, unreadable files and the rest of each damaged segment. `malformed` is the
    number of these lines, `unreadable` lists the files, and `damage` describes the damage. `unplaced` describes the
    lines of logs whose broker is unknown: only the section "failures" contains them.
    """

    answers: Mapping[str, QueryResult]
    malformed: int
    unreadable: tuple[str, ...]
    damage: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()

    def __getitem__(self, question: str) -> QueryResult:
        """Return the result of the section named `question`; it is empty if the summary lacks the section."""
        return self.answers.get(question, QueryResult())

    @property
    def begin(self) -> float:
        """When the first run began, in seconds since 1970; 0 without a run."""
        return min((run.first_at for run in self["runs"]), default=0.0)

    @property
    def end(self) -> float:
        """When the last run ended, in seconds since 1970; 0 without a run."""
        return max((run.last_at for run in self["runs"]), default=0.0)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        answers = {name: answer.as_dicts() for name, answer in self.answers.items()}
        beside = ("malformed", "unreadable", "damage", "unplaced")
        return {**answers, **{name: getattr(self, name) for name in beside}}
