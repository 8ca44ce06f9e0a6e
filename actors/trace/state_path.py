"""A part of an actor's state, named as in `ControllerActor:_context.partitions[orders-0].leader`.

Rule 1: a path has attributes and keys as `replay --state` prints them: `.name` is an attribute of an object, and
        `[key]` is the value of a dictionary for the key with this text, or the item of a list with this index.
Rule 2: only the part is converted to plain values, so that reading it after each delivery costs little.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from actors.runtime.thespian.base import LocalBase
from actors.runtime.trace.state import UnstorableValue, shown_key, shown_value
from messages.trace.errors import TraceError

SUBJECTS = {
    "PartitionActor": "partition.role.partition",
    "BrokerChannelActor": "_start.broker_id",
    "GroupActor": "_group.name",
}
"""Class of actors -> the attributes that hold what one of them is for: `PartitionActor:pay-0` names it."""

ABSENT = "(absent)"
"""The value of a part that does not exist, or whose actor does not exist."""

_STEP = re.compile(r"\.?([A-Za-z_]\w*)|\[(.*?)\](?=$|\.|\[)", re.DOTALL)
_NOTHING: Any = object()


class BadPath(TraceError):
    """The text is not a path to a part of an actor's state."""


class StatePath(NamedTuple):
    """The path to a part of an actor's state: the actor, by class or address, then attribute names and keys."""

    actor: str
    steps: tuple[tuple[bool, str], ...]

    def __str__(self) -> str:
        return f"{self.actor}:" + "".join(f"[{text}]" if key else f".{text}" for key, text in self.steps).removeprefix(
            "."
        )


def parse_path(text: str) -> StatePath:
    """Parse a path.

    Raises:
        BadPath: The text is not a path.
    """
    actor, colon, rest = text.partition(":")
    steps: list[tuple[bool, str]] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None or (found[1] is not None and at and rest[at] != "."):
            break
        steps.append((found[1] is None, found[1] if found[1] is not None else found[2]))
        at = found.end()
    if not actor or not colon or at < len(rest) or (steps and steps[0][0]):
        raise BadPath(f"'{text}' is not a path such as ControllerActor:_context.partitions[orders-0]")
    return StatePath(actor, tuple(steps))


def addresses_of(base: LocalBase, actor: str) -> list[str]:
    """Return the addresses of the existing actors with this address or class name."""
    here = [str(ref) for ref in base.living()]
    return [each for each in here if each == actor] or [each for each in here if each.rpartition(".")[0] == actor]


def addresses_for(base: LocalBase, actor: str) -> list[str]:
    """Return the addresses of the existing actors with this class and subject.

    Args:
        base: The actor system.
        actor: The class and the subject, for example `PartitionActor:pay-0`.
    """
    name, _, subject = actor.partition(":")
    path = SUBJECTS.get(name)
    if path is None:
        return []
    return [each for each in addresses_of(base, name) if str(_attribute(base, each, path)) == subject]


def _attribute(base: LocalBase, address: str, path: str) -> Any:
    """Return an attribute of an actor; None before the actor's first message, which sets the attribute."""
    thing: Any = base.address_of(address).actor
    for name in path.split("."):
        thing = getattr(thing, name, None)
    return thing


class StatePartReader:
    """A reader of one part of one actor's state.

    `value` raises BadPath if several actors have the class that the path names, or if the part cannot be printed.
    """

    def __init__(self, path: StatePath) -> None:
        self._path = path
        self._keys: dict[int, Any] = {}
        self._ref: Any = None

    def value(self, base: LocalBase) -> Any:
        """Return the part as plain values; ABSENT if it does not exist."""
        if self._ref is None or self._ref.actor is None:
            found = addresses_of(base, self._path.actor)
            if len(found) > 1:
                raise BadPath(
                    f"{len(found)} actors have the class {self._path.actor}. Name one of {', '.join(found[:5])}"
                )
            if not found:
                return ABSENT
            self._ref = base.address_of(found[0])
        try:
            return self._read(self._ref.actor)
        except UnstorableValue as error:
            raise BadPath(f"the state {self._path} after delivery {base.n} cannot be printed: {error}") from error

    def _read(self, actor: object) -> Any:
        thing: Any = actor
        for place, (is_key, text) in enumerate(self._path.steps):
            thing = self._entry(actor, thing, place, text) if is_key else getattr(thing, text, _NOTHING)
            if thing is _NOTHING:
                return ABSENT
        if thing is actor:
            return {name: shown_value(actor, value) for name, value in sorted(vars(actor).items()) if name != "_myRef"}
        return shown_value(actor, thing)

    def _entry(self, actor: object, thing: object, place: int, text: str) -> Any:
        if isinstance(thing, Mapping):
            key = self._keys.get(place, _NOTHING)
            if key is _NOTHING or key not in thing:
                key = next((each for each in thing if shown_key(actor, each) == text), _NOTHING)
                if key is _NOTHING:
                    return _NOTHING
                self._keys[place] = key
            return thing[key]
        if isinstance(thing, list | tuple | deque) and text.isdigit() and int(text) < len(thing):
            return thing[int(text)]
        return _NOTHING
