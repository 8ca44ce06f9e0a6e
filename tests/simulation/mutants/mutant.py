"""A mutant: one realistic protocol bug as changes of source text."""

from __future__ import annotations

import itertools
from pathlib import Path

import attrs
import pytest

from tests.simulation.patches import Change, apply


@attrs.frozen
class Mutant:
    """One protocol bug.

    Attributes:
        rule: The source of the rule that the bug breaks.
        test: The pytest target nearest to the rule. Run alone and in one process, it must fail with the bug.
        needs: Words of the schedule lines that are likely to find the bug, such as `kill inf`, one string per line.
            `seed 7` is a line of the schedule of seed 7 only, which has found the bug before.
    """

    name: str
    rule: str
    changes: tuple[Change, ...]
    test: str
    needs: tuple[str, ...] = ()

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Apply the bug to the running code until `patch` is undone. Raises DoesNotApply."""
        apply(patch, *self.changes)


def read_mutants(area: str) -> tuple[Mutant, ...]:
    """Return the mutants in an area's text file.

    A paragraph is one mutant: its name and rule, its test, perhaps what it needs, and its changes as in a diff, each
    below a line with the changed function. A paragraph that begins with # is a heading.
    """
    text = Path(__file__).with_name(f"{area}.txt").read_text(encoding="utf-8").removesuffix("\n")
    return tuple(_mutant(each.split("\n")) for each in text.split("\n\n") if not each.startswith("#"))


def _mutant(lines: list[str]) -> Mutant:
    name, rule = lines[0].split(" | ")
    fields = dict(line.split(" ", 1) for line in itertools.takewhile(lambda line: line[0] != "@", lines[1:]))
    needs = tuple(fields["needs"].split(" | ")) if "needs" in fields else ()
    starts = [number for number, line in enumerate(lines) if line.startswith("@ ")]
    hunks = (lines[start:end] for start, end in itertools.pairwise([*starts, len(lines)]))
    return Mutant(
        name, rule, tuple(Change(each[0][2:], *_fragments(each[1:])) for each in hunks), fields["test"], needs
    )


def _fragments(lines: list[str]) -> list[str]:
    """Return the removed and the added text of a hunk."""
    return ["\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+"]
