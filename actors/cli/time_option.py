"""The type of command-line options whose value is a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click


class Time(click.ParamType):
    """A time, given in ISO 8601 or in seconds since 1970.

    A time without a zone is in UTC. The parsed value is in seconds since 1970.
    """

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert a time to seconds since 1970 (see click).

        Raises:
            click.BadParameter: The text is not a time.
        """
        if isinstance(value, float):
            return value
        try:
            return float(value)
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"'{value}' is not a time such as 2026-01-31T12:00:00 or 1769860800.5", param, ctx)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
