"""A mutant: one realistic protocol bug as changes of source text."""

from __future__ import annotations

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


def mutant(
    name: str, rule: str, target: str, old: str, new: str, test: str, *more: Change, needs: tuple[str, ...] = ()
) -> Mutant:
    """Return a mutant of one change, and of `more` changes in other functions."""
    return Mutant(name, rule, (Change(target, old, new), *more), test, needs)
