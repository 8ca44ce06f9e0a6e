"""Find the delivery that changed a part of a state, and the differences between two moments."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from actors.runtime.thespian.base import LocalBase
from actors.runtime.trace.replayer import NotReplayable, Replay
from actors.trace.moment import ACTORS, shown_state
from actors.trace.state_path import ABSENT, StatePartReader, StatePath, addresses_of
from messages.trace.files.runs import Run, first_delivery, snapshots
from messages.trace.files.snapshots import Snapshot
from messages.trace.schema import DELIVERIES, TraceRecord

LONGEST = 300
"""Characters of a value's text; the rest of a longer one is left out."""


class StateChange(NamedTuple):
    """A delivery that changed a part of a state, and the values before and after."""

    record: TraceRecord
    before: Any
    after: Any


class StateDifference(NamedTuple):
    """A part of a state and its values at two moments; a value is ABSENT if the part did not exist then."""

    path: str
    before: Any
    after: Any


def last_change(run: Run, path: StatePath, until: int, kept: Collection[Snapshot] = ()) -> StateChange | None:
    """Return the last delivery, up to `until`, that changed the part of the state at `path`; None without one.

    The run is replayed from its last snapshot, then from the second-last snapshot, and so on, until a change is found.

    Raises:
        NotReplayable: The run cannot be replayed.
    """
    starts: list[int | None] = [*sorted(resting_snapshots(run, until, kept))]
    if not first_delivery(run):
        starts.insert(0, None)
    end = until
    for start in reversed(starts):
        watching = _Watching(path)
        replay = Replay(run, ACTORS, begin=0 if start is None else start + 1, until=end, listener=watching, kept=kept)
        watching.base = replay.base
        result = replay.result()
        if not result.ok:
            raise NotReplayable(result.problem or str(result.divergence and result.divergence.text()))
        if replay.base.n < end:
            raise NotReplayable(f"run {run.header.run} ends after delivery {replay.base.n}; there is no delivery {end}")
        if watching.last is not None:
            return watching.last
        if start is not None:
            end = start
    return None


def resting_snapshots(run: Run, until: int, kept: Collection[Snapshot]) -> set[int]:
    """Return the numbers (less than `until`) of the deliveries after which a replay can begin."""
    first = first_delivery(run)
    return {each.after for each in (*snapshots(run), *kept) if each.end.resting and first <= each.after < until}


class _Watching:
    """A replay observer that compares one part of an actor's state before and after each delivery to the actor."""

    def __init__(self, path: StatePath) -> None:
        self.base: LocalBase | None = None
        self.last: StateChange | None = None
        self._actor = path.actor
        self._part = StatePartReader(path)
        self._value: Any = ABSENT
        self._created = 0

    def begins(self, base: LocalBase) -> None:
        """See ReplayListener.begins."""
        self._created = base.register.created
        self._value = self._part.value(base)

    def take_record(self, record: TraceRecord) -> None:
        """See ReplayListener.take_record."""
        base = self.base
        if base is None:
            return
        created = base.register.created
        if self._actor in (record.receiver, record.actor) or created != self._created:
            self._created = created
            value = self._part.value(base)
            if value != self._value and record.kind in DELIVERIES:
                self.last = StateChange(record, self._value, value)
            self._value = value

    def holds(self, base: LocalBase) -> None:
        """See ReplayListener.holds."""


def differences(before: LocalBase, after: LocalBase, actor: str | None = None) -> Iterator[StateDifference]:
    """Yield the differences between the states of a node's actors at two moments.

    Args:
        before: A system at one moment.
        after: A system at another.
        actor: An address or class; only this actor is compared.
    """
    here, there = _names(before, actor), _names(after, actor)
    for address in [*here, *(each for each in there if each not in here)]:
        one = shown_state(before, address) if address in here else ABSENT
        other = shown_state(after, address) if address in there else ABSENT
        if ABSENT in (one, other):
            yield StateDifference(address, *("(an actor)" if each is not ABSENT else each for each in (one, other)))
        else:
            yield from compare(f"{address}:", one, other)


def compare(path: str, before: object, after: object) -> Iterator[StateDifference]:
    """Yield the smallest parts in which two plain values differ."""
    match before, after:
        case dict(), dict() if before.get("class") == after.get("class"):
            for name in [*before, *(each for each in after if each not in before)]:
                step = f".{name}" if name.isidentifier() else f"[{name}]"
                step = step.removeprefix(".") if path.endswith(":") else step
                yield from compare(path + step, before.get(name, ABSENT), after.get(name, ABSENT))
        case list(), list() if len(before) == len(after):
            for index, pair in enumerate(zip(before, after, strict=True)):
                yield from compare(f"{path}[{index}]", *pair)
        case _ if before != after:
            yield StateDifference(path, before, after)


def _names(base: LocalBase, actor: str | None) -> list[str]:
    return [str(ref) for ref in base.living()] if actor is None else addresses_of(base, actor)


def value_text(value: object) -> str:
    """Return a plain value in one line."""
    if value is ABSENT or value == "(an actor)":
        return str(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters)"
