"""The mutation score as docs/reference/mutation-score.md: written from measurements, and read back for `--quick`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.simulation.mutants.catalogue import AREAS, BY_NAME, MUTANTS
from tests.simulation.mutants.measure import DURATION, PARTS, SEEDS, Measured

FILE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "mutation-score.md"

QUICK_PER_AREA = 4

_HEAD = """\
# Mutation score of the simulator

How many protocol bugs does `kafka-actors simulate` find? Each row below is one realistic bug, a *mutant*: one changed
fragment of the product's source. `python -m tests.simulation.mutants` applies each to the running code, and runs
simulated clusters until an invariant breaks: of the first {seeds} seeds, each
{duration:g} virtual seconds long, with records, and with the parts `{parts}`.
A seed counts only if the unchanged code passes it, and is run only if it reaches the changed fragment: the run would
be the same otherwise. The first of these seeds are run in their order, then those that reach the fragment most often.
So *seeds* is an upper bound: a seed that is not run may find a bug earlier. What the simulation does not find within
{seeds} seeds is given to the nearest test file.

`make soak` measures all mutants again and rewrites this page; until then a row is as of its last measurement.
`python -m tests.simulation.mutants --quick` measures {quick} that need few seeds. The mutants are in
`tests/simulation/mutants`; a test checks that each still applies.

## Result

"""

_ROW = re.compile(
    r"^\| (?P<name>[^|]+) \| [^|]+ \| [^|]+ \| (?P<reaching>\d*) \| (?P<more>> )?(?P<seeds>\d+) \| (?P<by>[^|]*) \|$",
    re.MULTILINE,
)

_TEST = re.compile(r"test: `(?P<test>[^`]+)`")
_SURVIVES, _UNTESTED = "**not found**", "not found; its tests were not run"


def document(found: Mapping[str, Measured]) -> str:
    """The page for these measurements, by the mutant's name."""
    measured = [found[mutant.name] for mutant in MUTANTS if mutant.name in found]
    head = _HEAD.format(seeds=SEEDS, duration=DURATION, parts=",".join(PARTS), quick=QUICK_PER_AREA * len(AREAS))
    return head + "\n".join([*_summary(measured), "", *_table(found)])


def _summary(measured: list[Measured]) -> Iterator[str]:
    simulated = [each for each in measured if each.invariant]
    counts = sorted(each.tried for each in simulated)
    share = 100 * len(simulated) / len(measured) if measured else 0.0
    yield "| | mutants |"
    yield "| --- | --- |"
    yield f"| measured | {len(measured)} of {len(MUTANTS)} |"
    yield f"| found by the simulation | {len(simulated)} ({share:.1f} %) |"
    for most in (1, 10, 50):
        yield f"| ... within {most} | {sum(count <= most for count in counts)} |"
    missed = [each.tried for each in measured if not each.invariant]
    yield f"| not found by the simulation yet | {len(missed)} |"
    yield f"| ... with fewer than {SEEDS} seeds tried | {sum(tried < SEEDS for tried in missed)} |"
    yield f"| found by the nearest tests only | {sum(bool(each.test) for each in measured)} |"
    yield f"| found by neither | {sum(each.survives for each in measured)} |"
    yield f"| not found by the simulation, tests not run | {sum(not each.tested for each in measured)} |"


def _table(found: Mapping[str, Measured]) -> Iterator[str]:
    for area, mutants in AREAS.items():
        yield f"## Mutants: {area}"
        yield ""
        yield f"| bug | rule | changed | reached by, of {SEEDS} | seeds | found by |"
        yield "| --- | --- | --- | --- | --- | --- |"
        for mutant in mutants:
            each = found.get(mutant.name)
            if each is not None:
                where = ", ".join(f"`{change.target.rpartition(':')[2]}`" for change in mutant.changes)
                yield f"| {mutant.name} | {mutant.rule} | {where} | {_reaching(each)} | {_seeds(each)} | {_by(each)} |"
        yield ""


def _reaching(each: Measured) -> str:
    return "" if each.reaching is None else str(each.reaching)


def _seeds(each: Measured) -> str:
    return f"{each.tried}" if each.invariant else f"> {each.tried}"


def _by(each: Measured) -> str:
    if each.invariant or not each.tested:
        return each.invariant or _UNTESTED
    return f"test: `{each.test}`" if each.test else _SURVIVES


def read() -> dict[str, Measured]:
    """The measurements on the page, by the mutant's name."""
    return parse(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def parse(text: str) -> dict[str, Measured]:
    """The measurements in this text of the page; those of removed mutants are left out."""
    found = {}
    for row in _ROW.finditer(text):
        test = _TEST.fullmatch(row["by"])
        name, by = row["name"], row["by"]
        invariant = by if test is None and by not in (_SURVIVES, _UNTESTED) else ""
        if name in BY_NAME:
            reaching = int(row["reaching"]) if row["reaching"] else None
            seeds, target = int(row["seeds"]), test["test"] if test else ""
            found[name] = Measured(name, seeds, invariant, target, by != _UNTESTED, reaching)
    return found


def write(measured: Iterable[Measured]) -> None:
    """Replace the rows of these mutants; the others keep what was measured last."""
    FILE.write_text(document(read() | {each.name: each for each in measured}), encoding="utf-8")


def quick() -> tuple[str, ...]:
    """The mutants of each area that took the fewest seeds when measured last."""
    found = read()
    chosen: list[str] = []
    for mutants in AREAS.values():
        simulated = [found[each.name] for each in mutants if each.name in found and found[each.name].invariant]
        chosen += [each.name for each in sorted(simulated, key=lambda each: each.tried)[:QUICK_PER_AREA]]
    return tuple(chosen)
