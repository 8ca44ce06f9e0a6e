"""Measure mutants and write docs/reference/mutation-score.md: `python -m tests.simulation.mutants`."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from functools import partial

from tests.simulation.mutants import score
from tests.simulation.mutants.catalogue import BY_NAME, MUTANTS
from tests.simulation.mutants.measure import DURATION, SEEDS, Measured, fails, measure

WORKERS = 2


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="mutants to measure; all by default")
    parser.add_argument("--quick", action="store_true", help="measure a few that need few seeds; writes nothing")
    parser.add_argument("--survivors", action="store_true", help="measure those that the simulation did not find last")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="maximum number of seeds (%(default)s)")
    parser.add_argument("--duration", type=float, default=DURATION, help="virtual seconds of each run (%(default)g)")
    parser.add_argument("--workers", type=int, default=WORKERS, help="number of processes (%(default)s)")
    parser.add_argument("--no-tests", action="store_true", help="leave out the tests of what the simulation misses")
    parser.add_argument("--no-write", action="store_true", help=f"leave {score.FILE.name} as it is")
    chosen = parser.parse_args(words)
    if unknown := [name for name in chosen.names if name not in BY_NAME]:
        parser.error(f"unknown mutants: {', '.join(unknown)}; the names are in {score.FILE.name}")
    return chosen


def _names(chosen: argparse.Namespace) -> tuple[str, ...]:
    if chosen.names:
        return tuple(chosen.names)
    if chosen.quick:
        return score.quick()
    found = score.read()
    every = (mutant.name for mutant in MUTANTS)
    return tuple(name for name in every if not (chosen.survivors and name in found and found[name].invariant))


def _measured(names: Sequence[str], chosen: argparse.Namespace) -> Iterator[Measured]:
    """The measurements as they come. Each mutant has a process of its own: a bug may leave broken caches behind."""
    work = partial(measure, seeds=chosen.seeds, duration=chosen.duration, tests=not chosen.no_tests)
    with multiprocessing.get_context("fork").Pool(chosen.workers, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(work, names)


def main(words: Sequence[str]) -> int:
    """Measure. Returns 1 if a mutant survives simulation and test, or if a test fails without any mutant."""
    chosen = _arguments(words)
    names, code = _names(chosen), 0
    for target in sorted({BY_NAME[name].test for name in names}) if not (chosen.quick or chosen.no_tests) else ():
        if fails(target):
            print(f"{target} fails without a mutant: it proves nothing", flush=True)
            code = 1
    for each in _measured(names, chosen):
        by = each.invariant or each.test or "not found"
        print(f"{each.name}: {each.tried}: {by}", flush=True)
        if not (chosen.quick or chosen.no_write):
            score.write((each,))
        code = max(code, int(each.survives or (chosen.quick and not each.invariant)))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
