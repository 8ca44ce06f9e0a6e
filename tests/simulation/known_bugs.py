"""Known-bug regressions: bugs that Kafka had, each as a patch of this project's code and a schedule that shows it.

Rule: a patch belongs to a test, never to the product; known_bugs.txt has them. Each schedule is as short as one from
the shrinker. `python -m tests.simulation.known_bugs` prints the number of seeds until random schedules find each bug.
"""

from __future__ import annotations

import sys
from pathlib import Path

import attrs
import pytest

from actors.simulation.actions import FAULTS, invent
from actors.simulation.run import run
from actors.simulation.schedule import Schedule, parse
from tests.simulation.mutants.mutant import Paragraph, paragraphs
from tests.simulation.patches import Change, apply


@attrs.frozen
class KnownBug:
    """A bug that Kafka had.

    Attributes:
        jira: The report of the bug, or the rule that forbids it.
        patched: The patched-in behaviour.
        changes: The changes of source text that patch the bug in.
        breaks: The name of the violated invariant.
        seeds: The number of seeds, beginning with seed 0, until a random schedule finds the bug (measured once).
        schedule: The actions that show the bug.
    """

    name: str
    jira: str
    patched: str
    changes: tuple[Change, ...]
    breaks: str
    seeds: int
    schedule: str
    faults: tuple[str, ...] = ()
    """Additional faults to `PARTS` while the seeds are counted."""

    def put(self, patch: pytest.MonkeyPatch) -> None:
        """Patch the bug in until `patch` is undone. Raises DoesNotApply."""
        apply(patch, *self.changes)


UNCOUNTED = 1000
"""Value of `KnownBug.seeds` for a bug whose number of seeds was not measured."""


def _known_bug(said: Paragraph) -> KnownBug:
    fields = said.fields
    seeds, faults = fields["seeds"], tuple(fields.get("faults", "").split())
    count = UNCOUNTED if seeds == "-" else int(seeds)
    return KnownBug(said.name, said.rule, fields["patched"], said.changes, fields["breaks"], count, fields[">"], faults)


KNOWN_BUGS = tuple(map(_known_bug, paragraphs(Path(__file__).with_suffix(".txt"))))

PARTS = tuple(part for part in FAULTS if part != "disk")


def scenario(bug: KnownBug) -> Schedule:
    """Return the schedule that shows the bug."""
    return parse(f"brokers 3\nduration 30\nsteady yes\n{bug.schedule}")


def seeds_until_met(bug: KnownBug, most: int = 1000) -> int | None:
    """Return the number of seeds until the simulation finds the patched-in bug; None after `most` seeds."""
    records = "records yes" in bug.schedule
    with pytest.MonkeyPatch.context() as patch:
        bug.put(patch)
        for seed in range(most):
            if run(invent(seed, faults=(*PARTS, *bug.faults), records=records)).violation is not None:
                return seed + 1
    return None


def main(names: list[str]) -> None:
    """Print the number of seeds for these bugs, or for all."""
    for each in KNOWN_BUGS:
        if not names or each.name in names:
            print(f"{each.name}: {seeds_until_met(each)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
