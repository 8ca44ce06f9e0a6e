"""Write measurements to docs/reference/mutation-score.md, and read the last measurements from this page."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.docs.markdown import wrap_paragraphs
from tests.simulation.mutants.catalogue import AREAS, BY_NAME, EQUIVALENT, MUTANTS
from tests.simulation.mutants.measure import DURATION, PARTS, SEEDS, Measured
from tests.simulation.mutants.mutant import Mutant

FILE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "mutation-score.md"

QUICK_PER_AREA = 4

_LATER = {
    "a high watermark that moved since the read is not sent",
    *(mutant.name for area in ("cleaning", "transactions", "fetch_sessions", "recovery") for mutant in AREAS[area]),
}
SAMPLE = frozenset(random.Random(20).sample(sorted({*BY_NAME, *EQUIVALENT} - _LATER), 80)) - EQUIVALENT.keys()
"""The mutants that are measured with the most runs: drawn at random (seed 20), not chosen by their results. Those of
later areas do not change the draw."""

FAMILIES = {
    "broker": "replication",
    "log": "recovery",
    "bridge": "sessions with ZooKeeper",
    "fetch_sessions": "fetch sessions",
}
"""Area -> family, if it has another name. Mutants of transactions and of producers are a family beside the areas."""

_HEAD = """\
# Mutation score of the simulator

How many protocol bugs does `kafka-actors simulate` find? Each row below is one realistic bug, a *mutant*: one changed
fragment of the product's source. `python -m tests.simulation.mutants` applies each to the running code, and runs
simulated clusters until an invariant breaks. It uses the first {seeds} seeds. Each run takes {duration:g} virtual
seconds, produces records, and uses `--faults {parts}`. A seed counts only if the unchanged code passes it. A seed is
run with the mutant only if the unchanged code reaches the fragment in its run of that seed; otherwise both runs would
be the same. The first few of these seeds are run in numerical order. The next seeds are those whose schedules match the
mutant's needs in the most lines; among equal seeds, those that reach the fragment most often are run first. Each need
(`needs`) of a mutant is a word or a seed. A schedule is likely to find the mutant if its lines have these words. A seed
is one that has found the mutant before. The column *seeds* has the number of seeds from 0 up to the seed that found the
mutant. A lower seed might find it too, because not every lower seed was run. If no run within {seeds} seeds finds a
mutant, the test in the mutant's declaration is run.

The column *sample* marks {sample} mutants that were drawn at random (random seed 20). These mutants are run with more
seeds than the others, because the same number of runs for all mutants would take a night. When the sample was drawn,
each mutant had been run twice, but the results had no influence on the choice.

`make soak` measures all mutants again and rewrites this page; until then each row shows the mutant's last measurement.
`python -m tests.simulation.mutants --quick` measures {quick} mutants that need few seeds. The mutants are in
`tests/simulation/mutants`; a test checks that each mutant can still be applied to the code.

## Result

"""

_ROW = re.compile(
    r"^\| (?P<name>[^|]+) \| [^|]+ \| [^|]+ \| (?P<reaching>\d*) \| (?P<more>> )?(?P<seeds>\d+) \| (?P<by>[^|]*) \|$",
    re.MULTILINE,
)

_TEST = re.compile(r"test: `(?P<test>[^`]+)`")
_SURVIVES, _UNTESTED = "**not found**", "not found; its tests were not run"


def document(found: Mapping[str, Measured]) -> str:
    """Return the page for these measurements by the mutant's name."""
    measured = [found[mutant.name] for mutant in MUTANTS if mutant.name in found]
    head = _HEAD.format(
        seeds=SEEDS, duration=DURATION, parts=",".join(PARTS), quick=QUICK_PER_AREA * len(AREAS), sample=len(SAMPLE)
    )
    return wrap_paragraphs(head) + "\n".join([*_summary(measured), "", *_table(found)])


_FOUND, _BY_TESTS = "found by the simulation", "found by the nearest tests only"


def _family(area: str, mutant: Mutant) -> str:
    """Return the family of a mutant."""
    of_producers = "transactions.md" in mutant.rule or "KIP-98" in mutant.rule
    return "transactions" if of_producers else FAMILIES.get(area, area)


def _summary(measured: list[Measured]) -> Iterator[str]:
    every = _counts(measured, len(MUTANTS))
    sample = _counts([each for each in measured if each.name in SAMPLE], len(SAMPLE))
    yield "| | sample | all mutants |"
    yield "| --- | --- | --- |"
    yield from (f"| {name} | {sample[name]} | {count} |" for name, count in every.items())
    yield ""
    yield "| family | measured | found by the simulation | by the nearest tests only |"
    yield "| --- | --- | --- | --- |"
    families: dict[str, list[str]] = {}
    for area, mutants in AREAS.items():
        for mutant in mutants:
            families.setdefault(_family(area, mutant), []).append(mutant.name)
    for family, names in families.items():
        rows = _counts([each for each in measured if each.name in names], len(names))
        yield f"| {family} | {rows['measured']} | {rows[_FOUND]} | {rows[_BY_TESTS]} |"
    yield ""
    yield "| removed, because it changes no behaviour | reason |"
    yield "| --- | --- |"
    yield from (f"| {name} | {reason} |" for name, reason in EQUIVALENT.items())


def _counts(measured: list[Measured], number: int) -> dict[str, str]:
    """Return the rows of the summary for these mutants."""
    counts = [each.tried for each in measured if each.invariant]
    missed = [each for each in measured if not each.invariant]
    share = 100 * len(counts) / len(measured) if measured else 0.0
    return {
        "measured": f"{len(measured)} of {number}",
        _FOUND: f"{len(counts)} ({share:.1f} %)",
        **{f"... within {most}": str(sum(count <= most for count in counts)) for most in (1, 10, 50)},
        "not found by the simulation yet": str(len(missed)),
        f"... with fewer than {SEEDS} seeds tried": str(sum(each.tried < SEEDS for each in missed)),
        _BY_TESTS: str(sum(bool(each.test) for each in measured)),
        "found by neither": str(sum(each.survives for each in measured)),
        "not found by the simulation, tests not run": str(sum(not each.tested for each in missed)),
    }


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
    """Return the measurements on the page by the mutant's name."""
    return parse(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def parse(text: str) -> dict[str, Measured]:
    """Return the measurements in the text of the page, without those of removed mutants."""
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
    """Replace the rows of these mutants; the other rows keep their last measurement."""
    FILE.write_text(document(read() | {each.name: each for each in measured}), encoding="utf-8")


def quick() -> tuple[str, ...]:
    """Return the mutants of each area that the simulation found with the fewest seeds in the last measurement."""
    found = read()
    chosen: list[str] = []
    for mutants in AREAS.values():
        simulated = [found[each.name] for each in mutants if each.name in found and found[each.name].invariant]
        chosen += [each.name for each in sorted(simulated, key=lambda each: each.tried)[:QUICK_PER_AREA]]
    return tuple(chosen)
