"""Measure mutants: find a seed that violates an invariant with the mutant, or else run the mutant's test.

Rule 1: all mutants get the same seeds, with the same actions, faults and durations.
Rule 2: a seed counts only if the unchanged code passes it. A seed that does not reach the mutant's code is not run
        (`reach`), because its run would be the same as with the unchanged code.
Rule 3: the first IN_ORDER seeds that reach a mutant are run in numerical order. The next seeds are those whose
        schedules contain most of `Mutant.needs`; among equal seeds, those that reach the mutant most often are first.
Rule 4: mutants are measured in rounds with an increasing number of runs, so that easily found mutants are reported
        first.
Rule 5: a run that takes RUN_SECONDS of CPU time counts as a violation, because it loops.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from types import FrameType

import attrs
import pytest

from actors.simulation.actions import FAULTS, NAMED, invent
from actors.simulation.run import run
from actors.simulation.schedule import Schedule
from tests.simulation.mutants import plugin
from tests.simulation.mutants.catalogue import BY_NAME, MUTANTS
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.mutants.reach import reached

ROOT = Path(__file__).resolve().parents[3]

PARTS = (*FAULTS, *NAMED)
SEEDS = 200
DURATION = 30.0
"""Virtual seconds of a run."""

IN_ORDER = 5

ROUNDS = (2, 5, 15, 50, SEEDS)
"""Maximum number of runs of a mutant after each round (rule 4)."""

RUN_SECONDS = 90
LOOPS = "a run ends (no endless loop)"
TESTS_FAILED = 1
"""Pytest's exit code if tests fail."""


class RunLoops(BaseException):
    """A run has used RUN_SECONDS of CPU time."""


@attrs.frozen
class Measured:
    """The invariant that a run with the mutant violates, or the test that fails; both are empty if nothing finds it.

    Attributes:
        tried: Number of seeds up to the one that finds the mutant; otherwise the number of seeds that do not find it.
        tested: False if the simulation found nothing and the test was not run.
        reaching: Number of seeds that reach the mutant; None if they were not counted.
    """

    name: str
    tried: int
    invariant: str = ""
    test: str = ""
    tested: bool = True
    reaching: int | None = None

    @property
    def survives(self) -> bool:
        """Return whether the test was run, and neither the simulation nor the test finds the mutant."""
        return self.tested and not (self.invariant or self.test)


def schedule(seed: int, duration: float) -> Schedule:
    """Return the schedule of a seed, which is the same for all mutants."""
    return invent(seed, duration=duration, faults=PARTS, records=True)


def order(mutant: Mutant, reaching: Mapping[int, int], duration: float) -> list[int]:
    """Return the seeds in the order of rule 3; `reaching` is how often each seed reaches the mutant."""
    seeds = sorted(reaching)
    later = sorted(seeds[IN_ORDER:], key=lambda seed: (-_fit(seed, duration, mutant.needs), -reaching[seed]))
    return seeds[:IN_ORDER] + later


@cache
def _fit(seed: int, duration: float, needs: tuple[str, ...]) -> int:
    """Count the lines of a seed's schedule that have all words of a need; return the product over all needs."""
    text = schedule(seed, duration).text().replace(",", " ") if needs else ""
    lines = [set(line.split()) for line in text.splitlines()]
    return prod(sum(set(need.split()) <= line for line in lines) for need in needs)


def find(task: tuple[str, Sequence[int], float, bool]) -> tuple[str, int | None, str]:
    """Run seeds with a mutant until a run violates an invariant; return the mutant, the seed and the invariant.

    The task names the mutant, the seeds, their duration, and whether the unchanged code is known to pass them. If no
    run violates an invariant, the seed is None and the invariant is empty.
    """
    name, seeds, duration, passes = task
    for seed in seeds:
        invariant = broken_invariant(schedule(seed, duration), BY_NAME[name])
        if invariant and (passes or not broken_invariant(schedule(seed, duration))):
            return name, seed, invariant
    return name, None, ""


def reach(task: tuple[int, float]) -> tuple[int, str, dict[str, int]]:
    """Run a seed without a mutant; return the seed, the violated invariant, and how often it reaches each mutant."""
    seed, duration = task
    return seed, *reached(schedule(seed, duration), MUTANTS)


def test(name: str) -> bool:
    """Return whether the mutant's test finds it."""
    return fails(BY_NAME[name].test, name)


def broken_invariant(planned: Schedule, mutant: Mutant | None = None) -> str:
    """Return the invariant that a run violates, with the mutant if one is given; empty if none.

    A run that loops violates LOOPS (rule 5).
    """
    with pytest.MonkeyPatch.context() as patch:
        if mutant is not None:
            mutant.apply(patch)
        before = signal.signal(signal.SIGPROF, _stop)
        signal.setitimer(signal.ITIMER_PROF, RUN_SECONDS)
        try:
            violation = run(planned).violation
        except RunLoops:
            return LOOPS
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
    return "" if violation is None else violation.invariant


def _stop(number: int, frame: FrameType | None) -> None:
    raise RunLoops


def fails(target: str, name: str | None = None) -> bool:
    """Return whether a pytest target fails, with the mutant of that name if one is given.

    Raises RuntimeError if pytest could not run it.
    """
    environment = {key: value for key, value in os.environ.items() if key != plugin.VARIABLE}
    if name is not None:
        environment[plugin.VARIABLE] = name
    command = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", plugin.__name__, target)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, TESTS_FAILED):
        raise RuntimeError(f"pytest cannot run {target} with mutant {name!r}:\n{done.stdout}{done.stderr}")
    return done.returncode == TESTS_FAILED
