"""Count lines with habits that docs/contributing/style.md replaces; `make vocabulary` lowers the permitted counts.

A line counts once per habit. Python names are split into words, so `last_told` and `LastTold` count like "told".
The limit is per top-level folder: moving a line inside a folder changes no count.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Path(__file__).with_name("vocabulary.json")

HABITS: dict[str, str] = {
    "metaphor": r"house|rooms?|museum|deeds?|worn|on paper|astray|doom(?:ed)?|census|rouse[ds]?|outsiders?|inhabitants?"
    r"|heed(?:s|ed)?|is_dying",
    "person": r"whoever|nobody|somebody|everybody|(?:to|for|of|by) whom|(?:to|of|for|by) who",
    "telling": r"tells? (?:of|that|who|which|them|it|us|everybody)|told",
    "negation": r"is no(?:ne)? [a-z]+ (?:that|of)|so many [a-z]+|where nobody|none where",
    "stands": r"(?:stands?|stood) (?:back|for|in|by|still|ready)",
}
"""Each habit as a regular expression over words, case ignored."""

ACCEPTED = re.compile(
    r"(?i)\bwall clock\b"
    r"|\b(?:system|actor_system|asys)\.(?:tell|ask)\("  # Thespian's API
    r"|\b(?:Ask|Answer)\(|\bask\("  # questions between flows
)
"""Text that is removed before a line is searched."""

NOT_COUNTED = (
    "CHANGELOG.md",
    "docs/contributing/style.md",
    "tests/docs/vocabulary.py",
    "tests/docs/test_vocabulary.py",
)
"""History, the style page, and the lists of words."""

ZERO = ("README.md", "docs/reference/commands.md", "docs/how-to/cluster-for-tests.md", "docs/how-to/operations.md")
"""Pages that new users read first; their limit is kept separately from their folder's."""

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
    for number, line in enumerate(text.splitlines(), 1):
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


def scope(path: str) -> str:
    """Return the name under which a file is limited: its top-level folder, or itself if it is a first page."""
    return path if path in ZERO else path.partition("/")[0]


def counts(found: Iterable[Hit]) -> dict[str, int]:
    """Count hits per scope."""
    totals: dict[str, int] = {}
    for hit in found:
        totals[scope(hit.path)] = totals.get(scope(hit.path), 0) + 1
    return totals


def risen(found: Iterable[Hit], limits: Mapping[str, Mapping[str, int]]) -> dict[str, list[Hit]]:
    """Return the hits to look at for each scope that exceeds its limit.

    Args:
        found: All hits.
        limits: For each scope the permitted number of hits per file. The sum is the limit of the scope; the
            files tell which hits are likely to be new.

    Returns:
        For each scope above its limit, the hits of the files that have more hits than permitted.
    """
    found = list(found)
    result: dict[str, list[Hit]] = {}
    for name, count in counts(found).items():
        permitted = limits.get(name, {})
        if count > sum(permitted.values()):
            of_file: dict[str, list[Hit]] = {}
            for hit in found:
                if scope(hit.path) == name:
                    of_file.setdefault(hit.path, []).append(hit)
            result[name] = [
                hit for path, of_path in of_file.items() if len(of_path) > permitted.get(path, 0) for hit in of_path
            ]
    return result


def read_limits() -> dict[str, dict[str, int]]:
    """Read the permitted counts."""
    limits: dict[str, dict[str, int]] = json.loads(LIMITS.read_text("utf-8"))
    return limits


def lowered(found: Iterable[Hit], limits: Mapping[str, Mapping[str, int]] | None) -> dict[str, dict[str, int]]:
    """Return the current counts as limits; a scope whose count has risen keeps its former limit."""
    found = list(found)
    new: dict[str, dict[str, int]] = {}
    for hit in found:
        of_file = new.setdefault(scope(hit.path), {})
        of_file[hit.path] = of_file.get(hit.path, 0) + 1
    for name in risen(found, limits) if limits is not None else ():
        new[name] = dict((limits or {}).get(name, {}))
    return {name: dict(sorted(new[name].items())) for name in sorted(new)}


def main() -> None:
    """Print the counts and lower the limits."""
    found = all_hits()
    limits = lowered(found, read_limits() if LIMITS.exists() else None)
    LIMITS.write_text(json.dumps(limits, indent=0) + "\n", encoding="utf-8")
    for name, count in sorted(counts(found).items()):
        print(f"{count:6} {name} (limit {sum(limits.get(name, {}).values())})")
    for habit in HABITS:
        print(f"{sum(hit.habit == habit for hit in found):6} {habit}")


if __name__ == "__main__":
    main()
