"""Check which options of a command may be combined; the usage errors are those of Kafka's tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import click


def wrong_use(text: str) -> click.UsageError:
    """The failure of a command that cannot be meant so."""
    return click.UsageError(text, click.get_current_context(silent=True))


def given(options: Mapping[str, Any]) -> set[str]:
    """The names of the options that were said."""
    return {name for name, value in options.items() if value is not None and value is not False and value != ()}


def only_action(options: Mapping[str, Any], actions: Collection[str]) -> str:
    """The one action that these options ask for. click.UsageError where there is none, or another."""
    asked = [action for action in actions if options[action]]
    if len(asked) != 1:
        names = ", ".join(f"--{action}" for action in actions)
        raise wrong_use(f"Command must include exactly one action: {names}")
    return asked[0]


def check_options(
    options: Mapping[str, Any], action: str, needed: Iterable[str], allowed: Collection[str], others: Iterable[str]
) -> None:
    """click.UsageError where a needed option is missing, or one of `others` is said that is not allowed."""
    said = given(options)
    for name in needed:
        if name not in said:
            raise wrong_use(f'Missing required argument "[{name}]"')
    for name in others:
        if name in said and name not in allowed:
            raise wrong_use(f'Option "[{name}]" can\'t be used with action "[{action}]"')
