"""Measure one mutant: the first seed that the simulation breaks with it, or the test that fails with it.

Rule 1: all mutants get the same seeds, in the same order, with the same actions, faults and durations.
Rule 2: a seed counts only if the unchanged code passes it.
Rule 3: a run that takes RUN_SECONDS of CPU counts as broken: it loops.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

import attrs
import pytest

from actors.simulation.actions import ABSENT, ADMIN, FAULTS, GROUPS, invent
from actors.simulation.run import run
from actors.simulation.schedule import Schedule
from tests.simulation.mutants import plugin
from tests.simulation.mutants.catalogue import BY_NAME
from tests.simulation.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[3]

PARTS = (*FAULTS, ADMIN, GROUPS, ABSENT)
SEEDS = 200
DURATION = 30.0
"""Virtual seconds of a run."""

RUN_SECONDS = 90
LOOPS = "a run ends (no endless loop)"
TESTS_FAILED = 1
"""Pytest's exit code."""


class RunLoops(BaseException):
    """A run has used up its CPU time."""


@attrs.frozen
class Measured:
    """What finds a mutant: the number of seeds it took and the invariant, or the test; neither if it survives.

    `tried`: the number of seeds that were run. `tested`: whether the test was run where the simulation found nothing.
    """

    name: str
    tried: int
    invariant: str = ""
    test: str = ""
    tested: bool = True

    @property
    def survives(self) -> bool:
        """Whether neither the simulation nor the test finds it."""
        return self.tested and not (self.invariant or self.test)


def schedule(seed: int, duration: float) -> Schedule:
    """The schedule of a seed, the same for all mutants."""
    return invent(seed, duration=duration, faults=PARTS, records=True)


def measure(name: str, seeds: int = SEEDS, duration: float = DURATION, tests: bool = True) -> Measured:
    """Run seeds with the mutant until one breaks; after the last one, run its test if `tests`."""
    mutant = BY_NAME[name]
    for seed in range(seeds):
        invariant = broken_invariant(schedule(seed, duration), mutant)
        if invariant and not broken_invariant(schedule(seed, duration)):
            return Measured(name, seed + 1, invariant)
    if not tests:
        return Measured(name, seeds, tested=False)
    return Measured(name, seeds, test=mutant.test if fails(mutant.test, name) else "")


def broken_invariant(planned: Schedule, mutant: Mutant | None = None) -> str:
    """Which invariant a run violates, with the mutant if one is given; empty if none."""
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
    """Whether a pytest target fails, with the mutant of that name if one is given.

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
