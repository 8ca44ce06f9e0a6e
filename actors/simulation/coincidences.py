"""Actions that a schedule deliberately puts at the same moment: independent random times would rarely coincide.

Rule 1: a schedule has at most one coincidence, which is drawn after all its other actions and does not change them.
Rule 2: a row of `COINCIDENCES` names the kinds of actions that the row needs. It is drawn only if the run has all these
        kinds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from actors.simulation.schedule import Action

SHARE = 0.5
"""The share of seeds with a coincidence."""


class Occasion(NamedTuple):
    """The run for which simultaneous actions are planned, and the source of the random values for the plan.

    Attributes:
        chance: Draws all values.
        brokers: Number of brokers.
        topics: The topics that exist at the end of the schedule.
        new_topic: The arguments of an action that creates a topic; None if the run already has too many topics.
        session: The ZooKeeper session timeout in seconds.
        duration: Virtual seconds of the schedule.
    """

    chance: random.Random
    brokers: int
    topics: tuple[str, ...]
    new_topic: tuple[str, ...] | None
    session: float
    duration: float

    def node(self) -> str:
        """Return the id of a random node."""
        return str(self.chance.randrange(self.brokers))

    def draw_time(self, earliest: float, latest: float) -> float:
        """Draw a time."""
        return round(self.chance.uniform(earliest, max(earliest, latest)), 3)


class Coincidence(NamedTuple):
    """A row of `COINCIDENCES`: a function that plans simultaneous actions, and the kinds of these actions.

    The row is used in runs that permit all these kinds.
    """

    needs: tuple[str, ...]
    plan: Callable[[Occasion], Iterator[Action]]


def _late_start(occasion: Occasion) -> Iterator[Action]:
    """Start one node later than all others, while no topic exists.

    The others learn of this node only from UpdateMetadata.
    """
    yield Action(0.0, "kill", (occasion.node(),), occasion.draw_time(1.0, 3.0))


def _lost_election(occasion: Occasion) -> Iterator[Action]:
    """Move the controller while the responses to all candidates' writes may be lost."""
    at = occasion.draw_time(occasion.duration - 8.0, occasion.duration - 4.0)
    for node in range(occasion.brokers):
        yield Action(at, "lose-responses", (str(node),), 3.0)
    yield Action(round(at + 0.5, 3), "move-controller", ())


def _deletion_on_a_broken_disk(occasion: Occasion) -> Iterator[Action]:
    """Break a disk at the moment of a deletion, so that the deletion is the first operation to fail."""
    at = occasion.draw_time(occasion.duration - 6.0, occasion.duration - 2.0)
    yield Action(at, "break", (occasion.node(), str(occasion.chance.randrange(2))), 10.0)
    if occasion.topics:
        yield Action(round(at + 0.001, 3), "delete", (occasion.chance.choice(occasion.topics),))


def _creation_behind_a_cut(occasion: Occasion) -> Iterator[Action]:
    """Create a topic while a node has lost its connection to ZooKeeper, but not its session."""
    lasts = round(0.8 * occasion.session, 3)
    at = occasion.draw_time(occasion.duration - lasts - 2.0, occasion.duration - lasts - 0.5)
    yield Action(at, "cut", (occasion.node(), "zk"), lasts)
    if occasion.new_topic is not None:
        yield Action(round(at + 0.3, 3), "create", occasion.new_topic)


COINCIDENCES: tuple[Coincidence, ...] = (
    Coincidence(("kill",), _late_start),
    Coincidence(("lose-responses", "move-controller"), _lost_election),
    Coincidence(("break", "delete"), _deletion_on_a_broken_disk),
    Coincidence(("cut", "create"), _creation_behind_a_cut),
)
"""All coincidences."""


def draw_coincidence(occasion: Occasion, kinds: Collection[str]) -> list[Action]:
    """Draw a coincidence that needs only these `kinds` of actions, and return its actions.

    Half of the seeds (SHARE) have a coincidence; for the others the list is empty.
    """
    possible = [each for each in COINCIDENCES if set(each.needs) <= set(kinds)]
    if not possible or occasion.chance.random() >= SHARE:
        return []
    return list(occasion.chance.choice(possible).plan(occasion))
