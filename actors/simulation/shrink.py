"""Shrink a schedule that violates an invariant: remove all actions that the violation does not need.

Rule 1: a reduced schedule must violate the same invariant; a violation of another invariant is a different bug.
Rule 2: the steps, in this order, are: drop what follows the violation; reset the settings, clocks and network; drop
        actions, half of them at once, then a quarter at once, and so on down to single actions; simplify the remaining
        actions (fewer partitions, shorter faults); move the actions closer together.
Rule 3: shrinking ends when no step helps any more, or after a maximum number of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from actors.simulation.run import RunOutcome
from actors.simulation.schedule import REST, Action, Schedule

MOST_RUNS = 400

SURROUNDINGS = ("settings", "clocks", "distances", "latency", "racks")
"""The fields of a schedule that have defaults."""

CLOSER = (0.0, 0.1, 1.0, 8.0)
"""Shorter intervals between two actions to try."""


class Shrinker:
    """Shortens a schedule that violates an invariant; `play` runs a schedule."""

    def __init__(self, broken: RunOutcome, play: Callable[[Schedule], RunOutcome], most_runs: int = MOST_RUNS) -> None:
        if broken.violation is None:
            raise ValueError("The run violates no invariant, so its schedule cannot be shortened.")
        self.best = broken
        self.runs = 0
        self._invariant = broken.violation.invariant
        self._play = play
        self._most_runs = most_runs

    def shrink(self) -> RunOutcome:
        """Return the smallest run that violates the invariant."""
        self._end_early()
        before = None
        self._reset_surroundings()
        while before != self.best.schedule and self.runs < self._most_runs:
            before = self.best.schedule
            self._drop()
            self._simplify()
            self._move_closer()
            self._end_early()
        return self.best

    def _try(self, schedule: Schedule) -> bool:
        """Run a schedule; keep it as the best so far if it violates the same invariant, and return whether it does."""
        if self.runs >= self._most_runs or schedule == self.best.schedule:
            return False
        self.runs += 1
        outcome = self._play(schedule)
        if outcome.violation is None or outcome.violation.invariant != self._invariant:
            return False
        self.best = outcome
        return True

    def _end_early(self) -> None:
        """End the schedule at the violation."""
        best, at = self.best.schedule, self.best.broke_at or 0.0
        actions = tuple(action for action in best.actions if action.at <= at)
        last = max((action.at for action in actions), default=0.0)
        for duration in (last, round(at + 0.001, 3)):
            if duration < best.duration and self._try(attrs.evolve(best, actions=actions, duration=duration)):
                return

    def _reset_surroundings(self) -> None:
        """Reset clocks, network and settings to their defaults.

        If a reset of all at once removes the violation, try each reset alone.
        """
        default = Schedule()
        resets: list[dict[str, Any]] = [{name: getattr(default, name)} for name in SURROUNDINGS]
        if self._try(
            attrs.evolve(self.best.schedule, **{name: value for each in resets for name, value in each.items()})
        ):
            return
        for reset in resets:
            self._try(attrs.evolve(self.best.schedule, **reset))
        for setting in self.best.schedule.settings:
            settings = tuple(other for other in self.best.schedule.settings if other != setting)
            self._try(attrs.evolve(self.best.schedule, settings=settings))

    def _drop(self) -> None:
        """Remove actions, as many at once as possible."""
        size = max(len(self.best.schedule.actions) // 2, 1)
        while True:
            place = 0
            while place < len(self.best.schedule.actions):
                actions = self.best.schedule.actions
                if not self._try(attrs.evolve(self.best.schedule, actions=actions[:place] + actions[place + size :])):
                    place += size
            if size == 1:
                return
            size //= 2

    def _simplify(self) -> None:
        """Simplify each action."""
        for place in range(len(self.best.schedule.actions)):
            simpler = True
            while simpler:
                actions = self.best.schedule.actions
                simpler = any(
                    self._try(
                        attrs.evolve(self.best.schedule, actions=(*actions[:place], action, *actions[place + 1 :]))
                    )
                    for action in _simpler(actions[place])
                )

    def _move_closer(self) -> None:
        """Shorten the time between one action and the next."""
        for place in range(len(self.best.schedule.actions)):
            actions = self.best.schedule.actions
            before = actions[place - 1].at if place else 0.0
            for gap in CLOSER:
                shift = round(actions[place].at - before - gap, 3)
                if shift <= 0:
                    break
                moved = tuple(attrs.evolve(action, at=round(action.at - shift, 3)) for action in actions[place:])
                duration = max(round(self.best.schedule.duration - shift, 3), 0.0)
                if self._try(attrs.evolve(self.best.schedule, actions=actions[:place] + moved, duration=duration)):
                    break


def _simpler(action: Action) -> Iterator[Action]:
    """Yield simpler forms of an action."""
    if action.name == REST:
        return
    if action.name.endswith(("create", "grow")) and len(action.args) > 2:
        yield attrs.evolve(action, args=action.args[:-1])
        yield attrs.evolve(action, args=(action.args[0], *action.args[2:]))
    for place, arg in enumerate(action.args):
        if "," in arg:
            yield attrs.evolve(action, args=(*action.args[:place], arg.rpartition(",")[0], *action.args[place + 1 :]))
    if action.seconds is not None:
        for seconds in (0.5, 1.0, 8.0, round(action.seconds / 2, 3)):
            if seconds < action.seconds:
                yield attrs.evolve(action, seconds=seconds)
