"""The base class of monitors, and the declaration of their invariants.

Rule 1: a monitor is one family of invariants with its own state, which nothing else changes. It receives facts
        (`actors.simulation.observed_facts`) in methods with `@observes` and `@invariant`; the type of the method's
        parameter `fact` says which.
Rule 2: where no fact can say it, a monitor looks at the state of a simulated node in a method with `@looks`, which
        names the actors after whose deliveries it is called.
Rule 3: an invariant without a bound in time is violated at once. Other states are wrong only if they last, on nodes
        that were healthy for the whole time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar, get_type_hints

import attrs

from actors.runtime import Delivery
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import NEEDS, START, WITH_REQUESTS
from actors.simulation.reachability import Reachability
from actors.simulation.simulated_cluster import Cluster

M = TypeVar("M", bound=Callable[..., Any])


@attrs.frozen
class Violation:
    """A violated invariant: its name, what was observed, and the time in seconds since the start of the run."""

    invariant: str
    text: str
    at: float

    def __str__(self) -> str:
        return f"{self.at:.3f} s: {self.invariant}: {self.text}"


@attrs.frozen
class Invariant:
    """An invariant.

    Attributes:
        name: Its name.
        rule: The source of its rule.
        on: The class of the facts that are checked.
        requests: The classes of the requests, if only facts about these requests are checked; otherwise empty.
        needs: What a recorded trace lacks for the check; empty if it lacks nothing.
        check: Yields the violations that a fact shows.
    """

    name: str
    rule: str
    on: type
    requests: tuple[type, ...]
    needs: str
    check: Callable[..., Iterator[str]]


_INVARIANTS: dict[Callable[..., Any], Invariant] = {}
_OBSERVERS: dict[Callable[..., Any], type] = {}
_LOOKS: dict[Callable[..., Any], tuple[str, ...]] = {}


def invariant(name: str, rule: str, *requests: type, lacks: str = "") -> Callable[[M], M]:
    """Declare a method that yields the violations of an invariant; `lacks` is what a trace lacks beside its facts."""

    def declare(check: M) -> M:
        on = get_type_hints(check)["fact"]
        _INVARIANTS[check] = Invariant(name, rule, on, requests, lacks or NEEDS.get(on, ""), check)
        return check

    return declare


def observes(method: M) -> M:
    """Declare a method that updates the state of its monitor, before invariants are checked."""
    _OBSERVERS[method] = get_type_hints(method)["fact"]
    return method


def looks(*actors: type) -> Callable[[M], M]:
    """Declare a method that receives each delivery to actors of these classes, and returns facts."""

    def declare(look: M) -> M:
        _LOOKS[look] = tuple(actor.__name__ for actor in actors)
        return look

    return declare


class Monitor:
    """A family of invariants of an observed cluster."""

    def __init__(self, observed: ObservedCluster) -> None:
        self.observed = observed
        self.znodes = observed.znodes
        self.replicas = observed.replicas
        self.exchanges = observed.exchanges
        self.history = observed.history
        self.states = observed.znodes.states
        self.assigned = observed.znodes.assigned
        self.deleting = observed.znodes.deleting
        self.registered = observed.znodes.registered

    @property
    def now(self) -> float:
        """The time in seconds."""
        return self.observed.now()

    @property
    def nodes(self) -> Reachability:
        """The faults of the simulated cluster."""
        return self.observed.nodes

    @property
    def cluster(self) -> Cluster:
        """The simulated cluster, for a look at its nodes."""
        return self.observed.cluster


def invariants_of(families: Iterable[type[Monitor]]) -> Iterator[Invariant]:
    """Yield the invariants of these families in their order."""
    for family in families:
        yield from (_INVARIANTS[method] for method in vars(family).values() if method in _INVARIANTS)


class Monitors:
    """Passes the facts of an observed cluster to the monitors, and collects the violations.

    Args:
        observed: The cluster.
        families: The classes of the monitors.
        only: The names of the checked invariants; None for all.
        first_only: Whether the first violation ends the checks, because later ones are often its consequences.
            Otherwise the first violation of each invariant is kept.
    """

    def __init__(
        self,
        observed: ObservedCluster,
        families: Iterable[type[Monitor]],
        only: Collection[str] | None = None,
        first_only: bool = True,
    ) -> None:
        self.violations: list[Violation] = []
        self.observed = observed
        self._first_only = first_only
        self._checks: list[tuple[Invariant, Callable[[Any], Iterator[str]]]] = []
        self._checks_of: dict[object, list[tuple[Invariant, Callable[[Any], Iterator[str]]]]] = {}
        """The checks by the class of a fact or, if it has a request, by this class and that of the request."""
        self._taken: Counter[object] = Counter()
        """How many facts there were, by the keys of `_checks_of`."""
        self._observers: dict[type, list[Callable[[Any], None]]] = {}
        self._looks: dict[str, list[Callable[[int, Delivery], Iterable[object]]]] = {}
        for monitor in [family(observed) for family in families]:
            for method in filter(callable, vars(type(monitor)).values()):
                bound: Callable[..., Any] = partial(method, monitor)
                row = _INVARIANTS.get(method)
                if row is not None and (only is None or row.name in only) and not self.lacks(row):
                    self._checks.append((row, bound))
                if method in _OBSERVERS and (observed.is_simulated or _OBSERVERS[method] not in NEEDS):
                    self.observe(_OBSERVERS[method], bound)
                for actor in _LOOKS.get(method, ()):
                    self._looks.setdefault(actor, []).append(bound)
        self._places = {row.name: place for place, (row, _) in enumerate(self._checks)}
        observed.emit = self.take

    def observe(self, kind: type, observer: Callable[[Any], None]) -> None:
        """Pass the facts of a class to an observer."""
        self._observers.setdefault(kind, []).append(observer)

    def lacks(self, row: Invariant) -> str:
        """Return what is missing for the check of an invariant; empty for a simulated cluster."""
        if self.observed.is_simulated or (row.needs == START and self.observed.is_whole):
            return ""
        return row.needs

    def take(self, fact: object) -> None:
        """Process a fact, and keep the first violation of each invariant."""
        if not (self.violations and self._first_only):
            for violation in self.found(fact):
                if all(violation.invariant != each.invariant for each in self.violations):
                    self.violations.append(violation)

    def found(self, fact: Any) -> list[Violation]:
        """Process a fact, and return the violations that it shows."""
        kind: type = fact.__class__
        for observe in self._observers.get(kind, ()):
            observe(fact)
        request = fact.request.__class__ if kind in WITH_REQUESTS else None
        key = kind if request is None else (kind, request)
        checks = self._checks_of.get(key)
        if checks is None:
            checks = self._checks_of[key] = [
                (row, check)
                for row, check in self._checks
                if row.on is kind and (request in row.requests or not row.requests)
            ]
        self._taken[key] += 1
        return [Violation(row.name, text, self.observed.now()) for row, check in checks for text in check(fact)]

    def check_counts(self) -> dict[str, int]:
        """Return how often each invariant was checked, without those that never were."""
        found = Counter[str]()
        for key, times in self._taken.items():
            found.update({row.name: times for row, _ in self._checks_of[key]})
        return found

    def look(self, node: int, delivery: Delivery) -> None:
        """Look at the state of an actor that has handled a message."""
        if node in self.observed.pending:
            for fact in self.observed.pending[node]():
                self.take(fact)
        for look in self._looks.get(delivery.actor_class, ()):
            for fact in look(node, delivery):
                self.take(fact)

    def in_order(self, violations: Iterable[Violation]) -> list[Violation]:
        """Return violations in the order of their invariants."""
        return sorted(violations, key=lambda violation: self._places[violation.invariant])
