"""A situation that `why` recognises: a function that tests for it, the verdict, and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from messages.facts.trace_facts import TraceFacts


class Remedy(NamedTuple):
    """An advice to operators, and the condition under which it is still needed at the end of the recording.

    `needed` gets all facts, and the fact or the `Seen` that has the remedy.
    """

    words: str
    needed: Callable[[TraceFacts, Any], bool] = lambda facts, of: True


def first_needed(remedies: tuple[Remedy, ...], facts: TraceFacts, of: object, values: dict[str, Any]) -> str:
    """Return the text of the first remedy that is still needed; "" if there is none."""
    return next((each.words.format(**values) for each in remedies if each.needed(facts, of)), "")


class Seen(NamedTuple):
    """A situation that was found in the facts of a trace.

    `fact` is the visible effect, from which the chain of causes is followed back to the first cause. `values` has
    values for the placeholders in the text `Situation.verdict`, besides the fields of `fact`. `since` and `until` are
    in seconds since 1970, 0 if unknown.
    """

    fact: Any
    values: dict[str, Any] = {}  # noqa: RUF012  (never changed)
    since: float = 0.0
    until: float = 0.0


class Situation(NamedTuple):
    """A table row: `find` looks for a situation, such as an offline partition, and `verdict` is the text for it."""

    find: Callable[[TraceFacts, Any], Seen | None]
    verdict: str
    lasts: bool = False
    remedies: tuple[Remedy, ...] = ()
    """What to do if it lasts and the beginning of the chain has no remedy; `Remedy.needed` gets the `Seen`."""


def last_of(find: Callable[[TraceFacts, Any], Sequence[Any]]) -> Callable[[TraceFacts, Any], Seen | None]:
    """Return a function that finds the last of these facts."""

    def find_last(facts: TraceFacts, subject: object) -> Seen | None:
        found = find(facts, subject)
        return Seen(found[-1], since=found[-1].place.at) if found else None

    return find_last


def quiet(facts: TraceFacts, subject: object) -> Seen | None:
    """Return a situation without a fact, never None.

    A table can use this function in its last row, so that the last row always applies.
    """
    return Seen(None)
