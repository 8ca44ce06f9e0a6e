"""A mutant: one realistic protocol bug as changes of source text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
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


@attrs.frozen
class Paragraph:
    """A bug as text: its name and rule, the lines of each field, and its changes as in a diff."""

    name: str
    rule: str
    fields: Mapping[str, str]
    changes: tuple[Change, ...]


def paragraphs(file: Path) -> Iterator[Paragraph]:
    """Yield the paragraphs of a file, except those that begin with #."""
    for paragraph in file.read_text(encoding="utf-8").removesuffix("\n").split("\n\n"):
        if not paragraph.startswith("#"):
            first, *lines = paragraph.split("\n")
            name, rule = first.split(" | ")
            starts = [number for number, line in enumerate(lines) if line.startswith("@ ")]
            fields: dict[str, str] = {}
            for field, text in (line.split(" ", 1) for line in lines[: starts[0] if starts else None]):
                fields[field] = f"{fields[field]}\n{text}" if field in fields else text
            hunks = (lines[start:end] for start, end in itertools.pairwise([*starts, len(lines)]))
            changes = tuple(Change(target[2:], *_fragments(hunk)) for target, *hunk in hunks)
            yield Paragraph(name, rule, fields, changes)


def _fragments(lines: list[str]) -> list[str]:
    """Return the removed and the added text of a hunk."""
    return ["\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+"]


def read_mutants(area: str) -> tuple[Mutant, ...]:
    """Return the mutants in an area's text file."""
    return tuple(
        Mutant(each.name, each.rule, each.changes, each.fields["test"], tuple(filter(None, needs.split(" | "))))
        for each in paragraphs(Path(__file__).with_name(f"{area}.txt"))
        for needs in [each.fields.get("needs", "")]
    )
