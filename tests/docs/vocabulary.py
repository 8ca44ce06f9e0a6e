"""Find the habits that docs/contributing/style.md replaces; `make lint` prints them.

A line counts once per habit. Python names are split into words, so `last_told` and `LastTold` count like "told".
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]

HABITS: dict[str, str] = {
    "metaphor": r"house|rooms?|museum|deeds?|worn|on paper|astray|doom(?:ed)?|census|rouse[ds]?|outsiders?|inhabitants?"
    r"|heed(?:s|ed)?|is_dying",
    "person": r"whoever|nobody|somebody|everybody|(?:to|for|of|by) whom|(?:to|of|for|by) who",
    "telling": r"tells? (?:of|that|who|which|them|it|us|everybody)|told",
    "negation": r"is no(?:ne)? [a-z]+ (?:that|of)|so many [a-z]+|where nobody|none where",
    "stands": r"(?:stands?|stood) (?:back|for|in|by|still|ready)",
}
"""Habit -> regular expression over words; case is ignored."""

ACCEPTED = re.compile(
    r"(?i)\bwall clock\b"
    r"|\b(?:system|actor_system|asys)\.(?:tell|ask)\("  # Thespian's API
    r"|\b(?:Ask|Answer)\(|\bask\("  # questions between flows
)
"""Text that is removed before a line is searched."""

EXCEPTIONS: tuple[tuple[str, str], ...] = (("tests/lint/pages.py", "The controller is told nothing."),)
"""(file, part of a line) where a listed word is right, such as an example for the search itself."""

NOT_COUNTED = ("CHANGELOG.md", "docs/contributing/style.md", "tests/docs/vocabulary.py")
"""Files that are not searched: the history, the style page, and the lists of words."""

_PATTERNS = {habit: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for habit, words in HABITS.items()}
_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])|_")


@attrs.frozen
class Hit:
    """One habit in one line."""

    path: str
    line: int
    habit: str
    word: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r} ({self.habit})"


def hits(path: str, text: str) -> Iterator[Hit]:
    """Find the habits in a file's text, at most one hit per line and habit."""
    excepted = [part for name, part in EXCEPTIONS if name == path]
    for number, line in enumerate(text.splitlines(), 1):
        if any(part in line for part in excepted):
            continue
        searched = ACCEPTED.sub(" ", line)
        if path.endswith(".py"):
            searched = _WORD_START.sub(" ", searched)
        for habit, pattern in _PATTERNS.items():
            found = pattern.search(searched)
            if found:
                yield Hit(path, number, habit, found[0])


def files() -> list[str]:
    """List the counted files that git tracks, or all files of the source folders without git."""
    listed = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]
    else:
        found = (file for suffix in ("py", "md") for file in ROOT.rglob(f"*.{suffix}"))
        names = [str(file.relative_to(ROOT)) for file in found]
        names = [name for name in names if not name.startswith(".") and not name.startswith("build/")]
    return sorted(name for name in names if name not in NOT_COUNTED)


def all_hits() -> list[Hit]:
    """Find the habits in every counted file."""
    return [hit for name in files() for hit in hits(name, (ROOT / name).read_text("utf-8", errors="replace"))]


def unused_exceptions() -> list[tuple[str, str]]:
    """List the exceptions whose line is gone."""
    return [(path, part) for path, part in EXCEPTIONS if part not in (ROOT / path).read_text("utf-8")]
