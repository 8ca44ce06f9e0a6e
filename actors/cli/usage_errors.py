"""Exit codes of commands, and checks of options that cannot be combined; the errors are those of Kafka's tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import click

DAMAGED = "a missing or damaged trace"
"""The failure of commands that read a trace."""

DAMAGED_OR_DIFFERENT = "the trace is missing or damaged, or its replay differs"
"""The failure of commands that also replay the trace."""


def exit_codes(failure: str = "failure", success: str = "success") -> str:
    """Return the line of the help that states the exit codes of a command."""
    return f"Exit codes: 0 {success}; 1 {failure}; 2 usage error."


def wrong_use(text: str) -> click.UsageError:
    """Return the error of an invalid use of the command."""
    return click.UsageError(text, click.get_current_context(silent=True))


def given_options(options: Mapping[str, Any]) -> set[str]:
    """Return the names of the options that were given."""
    return {name for name, value in options.items() if value is not None and value is not False and value != ()}


def only_action(options: Mapping[str, Any], actions: Collection[str]) -> str:
    """Return the one action that was requested.

    Raises:
        click.UsageError: Not exactly one action was requested.
    """
    asked = [action for action in actions if options[action]]
    if len(asked) != 1:
        names = ", ".join(f"--{action}" for action in actions)
        raise wrong_use(f"Command must include exactly one action: {names}")
    return asked[0]


def check_options(
    options: Mapping[str, Any], action: str, needed: Iterable[str], allowed: Collection[str], others: Iterable[str]
) -> None:
    """Check the options of an action.

    Raises:
        click.UsageError: A needed option is missing, or an option in `others` was given but is not in `allowed`.
    """
    given = given_options(options)
    for name in needed:
        if name not in given:
            raise wrong_use(f'Missing required argument "[{name}]"')
    for name in others:
        if name in given and name not in allowed:
            raise wrong_use(f'Option "[{name}]" can\'t be used with action "[{action}]"')


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
