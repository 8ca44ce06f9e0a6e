"""A mutant: one realistic protocol bug as changes of source text."""

from __future__ import annotations

import attrs
import pytest

from tests.simulation.patches import Change, apply


@attrs.frozen
class Mutant:
    """One protocol bug.

    Attributes:
        rule: The source of the rule that it breaks.
        test: The pytest target that fails with it by itself, in the same process: the nearest to the rule.
        needs: What lines of a schedule are likely to find it: the words of each, such as `kill inf`. `seed 7` is a line
            of that seed only, which has found it before.
    """

    name: str
    rule: str
    changes: tuple[Change, ...]
    test: str
    needs: tuple[str, ...] = ()

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Put the bug into the running code until `patch` is undone. Raises DoesNotApply."""
        apply(patch, *self.changes)


def mutant(
    name: str, rule: str, target: str, old: str, new: str, test: str, *more: Change, needs: tuple[str, ...] = ()
) -> Mutant:
    """A mutant of one change, and of `more` where one function is not enough."""
    return Mutant(name, rule, (Change(target, old, new), *more), test, needs)
