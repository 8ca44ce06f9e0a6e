"""`python -m tests.simulation.mutants`: measure mutants, print what finds each mutant, and write the score's page."""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.pool import Pool

from tests.simulation.mutants import measure, score
from tests.simulation.mutants.catalogue import BY_NAME, MUTANTS

WORKERS = 2

CACHE = measure.ROOT / ".cache" / "mutants.jsonl"
"""How often each seed reaches each mutant; the first line is the checksum of the measured sources."""

Reached = Mapping[int, Mapping[str, int]]
"""Seed that the unchanged code passes -> number of times that it reaches each mutant."""


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="mutants to measure; all by default")
    parser.add_argument("--quick", action="store_true", help="measure a few that need few seeds; writes nothing")
    parser.add_argument("--survivors", action="store_true", help="measure those that the simulation did not find last")
    parser.add_argument("--seeds", type=int, default=measure.SEEDS, help="maximum number of seeds (%(default)s)")
    parser.add_argument(
        "--runs", type=int, default=measure.SEEDS, help="maximum number of runs of a mutant (%(default)s)"
    )
    parser.add_argument(
        "--duration", type=float, default=measure.DURATION, help="virtual seconds of each run (%(default)g)"
    )
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


def _digest(duration: float) -> str:
    """Return the checksum of all sources and of the duration."""
    found = hashlib.sha256(str(duration).encode())
    for folder in ("actors", "messages", "zk_bridge", "tests/simulation/mutants"):
        for file in sorted((measure.ROOT / folder).rglob("*")):
            if file.suffix in (".py", ".txt"):
                found.update(file.read_bytes())
    return found.hexdigest()


def _reached(pool: Pool, seeds: int, duration: float) -> Reached:
    """Run each seed without a mutant unless it is cached; return the counts of the seeds without a violation."""
    digest, cached = _digest(duration), dict[int, tuple[str, dict[str, int]]]()
    lines = CACHE.read_text(encoding="utf-8").splitlines() if CACHE.exists() else []
    if lines[:1] == [digest]:
        cached = {seed: (violated, counts) for seed, violated, counts in map(json.loads, lines[1:])}
    CACHE.parent.mkdir(exist_ok=True)
    with CACHE.open("a" if cached else "w", encoding="utf-8") as file:
        if not cached:
            file.write(f"{digest}\n")
        wanted = [(seed, duration) for seed in range(seeds) if seed not in cached]
        for seed, violated, counts in pool.imap_unordered(measure.reach, wanted):
            cached[seed] = violated, dict(counts)
            file.write(json.dumps([seed, *cached[seed]]) + "\n")
            file.flush()
    for seed in sorted(seed for seed in cached if seed < seeds and cached[seed][0]):
        print(f"seed {seed} does not count: without a mutant it violates {cached[seed][0]!r}", flush=True)
    return {seed: counts for seed, (violated, counts) in sorted(cached.items()) if seed < seeds and not violated}


def _rounds(pool: Pool, names: Iterable[str], chosen: argparse.Namespace) -> Iterator[measure.Measured]:
    """Measure in rounds with an increasing number of runs; the last measurement of a mutant counts."""
    every = _reached(pool, chosen.seeds, chosen.duration)
    reaching = {name: {seed: counts[name] for seed, counts in every.items() if counts.get(name)} for name in names}
    orders = {name: measure.order(BY_NAME[name], reaching[name], chosen.duration) for name in names}
    left, done = dict.fromkeys(names), 0
    for most in [*(each for each in measure.ROUNDS if each < chosen.runs), chosen.runs]:
        tasks = [(name, orders[name][done:most], chosen.duration, True) for name in left]
        for name, seed, invariant in pool.imap_unordered(measure.find, tasks):
            runs = min(most, len(orders[name]))
            tried = chosen.seeds - len(orders[name]) + runs if seed is None else seed + 1
            yield measure.Measured(name, tried, invariant, tested=False, reaching=len(reaching[name]))
            if seed is not None:
                del left[name]
        done = most


def _measured(names: Sequence[str], chosen: argparse.Namespace) -> Iterator[measure.Measured]:
    """Yield the measurements. Each task runs in its own process, because a bug may leave broken caches."""
    last: dict[str, measure.Measured] = {}
    with multiprocessing.get_context("fork").Pool(chosen.workers, maxtasksperchild=1) as pool:
        if chosen.quick:
            quick = [(name, range(chosen.seeds), chosen.duration, False) for name in names]
            for name, seed, invariant in pool.imap_unordered(measure.find, quick):
                yield measure.Measured(name, chosen.seeds if seed is None else seed + 1, invariant, tested=False)
            return
        for each in _rounds(pool, names, chosen):
            last[each.name] = each
            yield each
        missed = [name for name, each in last.items() if not each.invariant and not chosen.no_tests]
        for name, fails_with_it in zip(missed, pool.imap(measure.test, missed), strict=True):
            each = last[name]
            by = BY_NAME[name].test if fails_with_it else ""
            yield measure.Measured(name, each.tried, "", by, True, each.reaching)


def main(words: Sequence[str]) -> int:
    """Measure. Return 1 if a mutant survives, if `--quick` does not find one, or if a test fails without a mutant."""
    chosen = _arguments(words)
    names, code = _names(chosen), 0
    for target in sorted({BY_NAME[name].test for name in names}) if not (chosen.quick or chosen.no_tests) else ():
        if measure.fails(target):
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
