"""The results of a summary as plain values, which can be printed without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class QueryResult:
    """The result of one section of a summary: its rows in order, with a value for each column."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    def __iter__(self) -> Iterator[SimpleNamespace]:
        """The rows, with a column's value under its name."""
        return (SimpleNamespace(**row) for row in self.as_dicts())

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> SimpleNamespace:
        return SimpleNamespace(**dict(zip(self.columns, self.rows[index], strict=True)))

    def as_dicts(self) -> list[dict[str, Any]]:
        """As plain values."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class Summary:
    """The results of all sections of a summary, and the lines and files that could not be read.

    `malformed` lines and `unreadable` files are in no result, nor what follows `damage`.
    """

    answers: Mapping[str, QueryResult]
    malformed: int
    unreadable: tuple[str, ...]
    damage: tuple[str, ...] = ()

    def __getitem__(self, question: str) -> QueryResult:
        """The answer; an empty one where that was not asked."""
        return self.answers.get(question, QueryResult())

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        answers = {name: answer.as_dicts() for name, answer in self.answers.items()}
        beside = {"malformed": self.malformed, "unreadable": self.unreadable, "damage": self.damage}
        return {**answers, **beside}
