"""Select the trace records to read, by node, run, actor and time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from spark.errors import BadOption

OPTIONS = {
    "node": "Broker ids, separated by commas: `0` or `0,2`.",
    "run": "Names of runs, separated by commas, as in the column `run`.",
    "actor": "Actor classes, separated by commas, as in the column `actor`: `ControllerActor`.",
    "from": "Records taken from the queue at this time or later: ISO 8601, in UTC unless it names a zone, or seconds"
    " since 1970.",
    "to": "Records taken from the queue before this time.",
    "table": "`records` (the default), or `facts`: what the records of full traces say about the cluster.",
}
"""The options of the data source with their meanings; all are optional."""


class Selection(NamedTuple):
    """The filter for the trace records to read; a field that is None matches all records.

    Times are seconds since 1970: `start` <= at < `end`.
    """

    nodes: frozenset[int] | None = None
    runs: frozenset[str] | None = None
    actors: frozenset[str] | None = None
    start: float = -math.inf
    end: float = math.inf

    def has_run(self, run: str, node: int) -> bool:
        """Return whether the selection can match any records of this run."""
        return (self.nodes is None or node in self.nodes) and (self.runs is None or run in self.runs)

    @property
    def has_all_records(self) -> bool:
        """Return whether the selection matches all records of each run that `has_run` accepts."""
        return self.actors is None and self.start == -math.inf and self.end == math.inf

    def has_record(self, actor: str, at: float) -> bool:
        """Return whether a record's actor class and time match; `has_run` checks the record's node and run."""
        return self.start <= at < self.end and (self.actors is None or actor in self.actors)

    def narrow(self, column: str, comparison: str, value: object) -> Selection | None:
        """Return the selection with one more condition on a column.

        Args:
            column: A column of `spark.columns`.
            comparison: One of "=", "in", ">", ">=", "<" and "<=".
            value: The compared value; a collection for "in".

        Returns:
            None if a selection cannot express the condition.
        """
        if column == "at" and isinstance(value, float | int) and not math.isnan(value):
            after = math.nextafter(value, math.inf)  # `at` is a float64: `at > value` means `at >= after`
            match comparison:
                case ">=" | ">":
                    return self._replace(start=max(self.start, value if comparison == ">=" else after))
                case "<" | "<=":
                    return self._replace(end=min(self.end, value if comparison == "<" else after))
            return None
        values: Any = (value,) if comparison == "=" else value if comparison == "in" else None
        field = {"node": "nodes", "run": "runs", "actor": "actors"}.get(column)
        if values is None or field is None:
            return None
        wanted: frozenset[Any] = frozenset(each for each in values if each is not None)
        before = getattr(self, field)
        narrowed: dict[str, Any] = {field: wanted if before is None else before & wanted}
        return self._replace(**narrowed)


ALL = Selection()


RECORDS_TABLE, FACTS_TABLE = "records", "facts"


def table_of(options: Mapping[str, str]) -> str:
    """Return the table that the options of a data source name.

    Raises:
        BadOption: There is no such table.
    """
    table = {name.lower(): value for name, value in options.items()}.get("table", RECORDS_TABLE)
    if table not in (RECORDS_TABLE, FACTS_TABLE):
        raise BadOption(f"table={table!r} is not a table: use {RECORDS_TABLE} or {FACTS_TABLE}.")
    return table


def selection_of(options: Mapping[str, str]) -> Selection:
    """Return the selection that the options of a data source describe.

    Raises:
        BadOption: An option has a bad value, or is unknown.
    """
    unknown = [name for name in options if name.lower() not in (*OPTIONS, "path")]
    if unknown:
        raise BadOption(f"Unknown option {unknown[0]!r}. The options are {', '.join(OPTIONS)}.")
    given = {name.lower(): value for name, value in options.items()}
    nodes = given.get("node")
    try:
        ids = None if nodes is None else frozenset(int(each) for each in nodes.split(","))
    except ValueError:
        raise BadOption(f"node={nodes!r} is not a list of broker ids such as 0 or 0,2.") from None
    return Selection(
        ids,
        _names(given.get("run")),
        _names(given.get("actor")),
        _time("from", given, -math.inf),
        _time("to", given, math.inf),
    )


def _names(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(each.strip() for each in text.split(","))


def _time(name: str, given: Mapping[str, str], default: float) -> float:
    if name not in given:
        return default
    text = given[name].strip()
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadOption(
            f"{name}={text!r} is not a time such as 2026-01-31T12:00:00, 2026-01-31T12:00:00+01:00 or 1769860800.5."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
