"""The facts that several nodes recorded; each fact of a controller has its event, found by the event id."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Concatenate, ParamSpec, TypeVar

from messages.cluster import TopicPartition
from messages.facts import declarations
from messages.facts.indexed import facts_of
from messages.trace.endings import RUNNING
from messages.trace.files.runs import Run

_F = TypeVar("_F")
_P = ParamSpec("_P")
_OF_PLACE = ("node", "run", "event_id")


class TraceFacts:
    """The facts of the runs of a trace, by kind, sorted by time."""

    def __init__(self, facts: Iterable[declarations.Fact]) -> None:
        self._by_kind = group_by(sorted(facts, key=lambda fact: fact.place), type)
        self._by_value: dict[tuple[type, str], dict[object, list[declarations.Fact]]] = {}
        """The facts of a kind by their value of a field."""
        self.remembered: dict[object, object] = {}
        """The results of functions with `cache_with_facts`."""

    def select(self, kind: type[_F], **where: object) -> list[_F]:
        """Return the facts of a kind with these values; `node`, `run` and `event_id` are those of its place.

        Of controller events, those are returned that were handled to their end.
        """
        found: list[_F] = self._by_kind.get(kind, [])  # type: ignore[assignment]
        for number, (name, value) in enumerate(where.items()):
            read = attrgetter(f"place.{name}" if name in _OF_PLACE else name)
            if number:
                found = [each for each in found if read(each) == value]
                continue
            if (kind, name) not in self._by_value:
                self._by_value[kind, name] = group_by(self._by_kind.get(kind, []), read)
            found = self._by_value[kind, name].get(value, [])  # type: ignore[assignment]
        return found

    def last(self, kind: type[_F], until: declarations.TracePosition, **where: object) -> _F | None:
        """Return the last fact of a kind with these values up to a position; None if there is none."""
        return last_before(self.select(kind, **where), until)

    def all(self) -> Iterator[declarations.Fact]:
        """Yield all facts, kind after kind."""
        return chain.from_iterable(self._by_kind.values())

    @cached_property
    def terms(self) -> list[declarations.Term]:
        """The terms of controllers. The first end that a run records after its election ends its term."""
        found = []
        for begun in self.select(declarations.ControllerElected):
            place = begun.place
            over = next(
                (each for each in self.select(declarations.ControllerResigned, run=place.run) if each.place > place),
                None,
            )
            again = [each for each in self.select(declarations.ControllerElected, run=place.run) if each.place > place]
            ended = None if over is None or (again and again[0].place < over.place) else over
            found.append(declarations.Term(place, begun.broker, begun.epoch, ended))
        return found

    @cached_property
    def absences(self) -> dict[int, list[declarations.BrokerGone]]:
        """The times in which a broker was not registered, by broker; a registration with a new epoch ends one, too."""
        found: dict[int, list[declarations.BrokerGone]] = {}
        known: dict[int, int] = {}
        for seen in self.select(declarations.BrokersRead):
            noticed = seen.place if seen.event is None else seen.event.place
            for broker, epoch in known.items():
                of_broker = found.setdefault(broker, [])
                is_open = bool(of_broker) and of_broker[-1].back is None
                if not is_open and seen.brokers.get(broker) != epoch:
                    of_broker.append(declarations.BrokerGone(seen.place, broker, seen.by, seen.event, noticed, epoch))
                    is_open = True
                if is_open and broker in seen.brokers:
                    of_broker[-1] = of_broker[-1]._replace(back=seen.place)
            known |= seen.brokers
        return found

    @cached_property
    def states(self) -> dict[TopicPartition, list[declarations.StateWrite]]:
        """The states by partition; cached, because one explanation may read the states of many partitions."""
        return group_by(self.select(declarations.StateWrite), lambda state: state.partition)

    @cached_property
    def assignments_of_topics(self) -> dict[str, list[declarations.ReplicasAssigned]]:
        """The assignments by topic."""
        return group_by(self.select(declarations.ReplicasAssigned), lambda assigned: assigned.partition.topic)


def cache_with_facts(
    find: Callable[Concatenate[TraceFacts, _P], _F],
) -> Callable[Concatenate[TraceFacts, _P], _F]:
    """Let a function of facts and hashable arguments keep its results with the facts."""

    def look_up(facts: TraceFacts, /, *args: _P.args, **options: _P.kwargs) -> _F:
        key = (find, *args)
        if key not in facts.remembered:
            facts.remembered[key] = find(facts, *args, **options)
        return facts.remembered[key]  # type: ignore[return-value]

    return look_up


def last_before(found: Iterable[_F], place: declarations.TracePosition) -> _F | None:
    """Return the last of these facts (sorted by time) up to a position; None if there is none."""
    last = None
    for each in found:
        if each.place > place:  # type: ignore[attr-defined]
            break
        last = each
    return last


_K = TypeVar("_K")
_V = TypeVar("_V")


def group_by(values: Iterable[_V], key: Callable[[_V], _K]) -> dict[_K, list[_V]]:
    """Return the values by key, in their order."""
    groups: dict[_K, list[_V]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def gather(runs: Iterable[Run], until: float = math.inf) -> TraceFacts:
    """Return the facts of these runs; messages that were delivered later than `until` are not read.

    Raises:
        TraceError: A run is damaged.
    """
    return merge_runs(facts_of(run, until) for run in runs)


def merge_runs(of_runs: Iterable[Iterable[declarations.Fact]]) -> TraceFacts:
    """Return the facts of several runs, each fact with its event."""
    gathered: list[declarations.Fact] = []
    for of_run in of_runs:
        events: dict[int, declarations.ControllerEvent] = {}
        found: list[declarations.Fact] = []
        for fact in of_run:
            if isinstance(fact, declarations.ControllerEvent):
                events[fact.place.n] = fact
            else:
                found.append(fact)
        gathered += [event for event in events.values() if event.took is not None]
        gathered += [fill_event(fact, events) for fact in found]
    return TraceFacts(gathered)


def facts_before(facts: TraceFacts, at: float) -> TraceFacts:
    """Return the facts before a time, in seconds since 1970; a run that ended later counts as still running."""
    kept: list[declarations.Fact] = []
    for fact in facts.all():
        if fact.place.at < at:
            kept.append(fact)
        elif isinstance(fact, declarations.NodeRun) and fact.began < at:
            kept.append(fact._replace(ending=RUNNING))
    return TraceFacts(kept)


def fill_event(fact: declarations.Fact, events: dict[int, declarations.ControllerEvent]) -> declarations.Fact:
    """Return the fact with its empty field `event` filled, if it has this field and the event is recorded."""
    event = events.get(fact.place.event_id)
    return fact._replace(event=event) if event is not None and getattr(fact, "event", fact) is None else fact  # type: ignore[attr-defined]
