"""Check that no line has a habit that docs/contributing/style.md replaces, and that commit subjects are plain."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.docs import vocabulary
from tests.docs.vocabulary import EXCEPTIONS, MOST, ROOT, hits

FIRST_COMMIT = "6b8a5c4"
"""The test checks the subjects of the commits after this one."""

MAX_SUBJECT = 72


def test_no_line_has_a_replaced_habit() -> None:
    found = [str(hit) for hit in vocabulary.all_hits()]
    assert not found, "\n".join(["see docs/contributing/style.md:", *found])


def test_exceptions_are_few_and_needed() -> None:
    assert len(EXCEPTIONS) <= MOST
    unused = [(path, part) for path, part in EXCEPTIONS if part not in (ROOT / path).read_text("utf-8")]
    assert not unused


@pytest.mark.parametrize(
    ("path", "text", "habits"),
    [
        ("page.txt", "The controller is told nothing.", ["telling"]),
        ("page.txt", "It tells us that nobody stands for election.", ["person", "telling", "stands"]),
        ("a.py", "def last_told(): ...", ["telling"]),
        ("a.py", "class NobodyThere: ...", ["person"]),
        ("page.txt", "`last_told`", []),
        ("a.py", "system.tell(address, message)  # on the wall clock", []),
        ("a.py", "warehouse = bedroom = foretold", []),
        ("page.txt", "a house and a room", ["metaphor"]),
        ("page.txt", "None where nobody knows; it remembers so many classes", ["person", "negation"]),
    ],
)
def test_habits_are_found(path: str, text: str, habits: list[str]) -> None:
    assert [hit.habit for hit in hits(path, text)] == habits


def test_a_hit_is_named_by_file_line_and_word() -> None:
    (hit,) = hits("page.txt", "one\nThe bridge is told.\n")
    assert str(hit) == "page.txt:2: 'told' (telling)"


def faults(subject: str) -> list[str]:
    """Return the faults of a commit's subject line."""
    word = re.match(r"[A-Za-z]+", subject)
    found = []
    if len(subject) > MAX_SUBJECT:
        found.append(f"{len(subject)} characters, {MAX_SUBJECT} at most")
    if word is None or not word[0][0].isupper():
        found.append("begins without a capital letter")
    elif re.fullmatch(r"[A-Z][a-z]*(?:[^aeiou]ed|ted|ing|[^su]s)", word[0]) and word[0] not in IMPERATIVES:
        found.append(f"{word[0]!r} is not imperative")
    if subject.endswith("."):
        found.append("ends with a period")
    return found


IMPERATIVES = {"Bring", "Embed", "Ring", "Shed", "String", "Bus"}
"""Imperatives that end like another form of a verb."""


@pytest.mark.parametrize(
    ("subject", "count"),
    [
        ("Cache UpdateMetadata rows per broker", 0),
        ("Process shutdown requests first", 0),
        ("Bring up ZooKeeper", 0),
        ("Need one session per broker", 0),
        ("Cached rows per broker", 1),
        ("Caching rows per broker", 1),
        ("Caches rows per broker", 1),
        ("cache rows.", 2),
        ("Cache " + "x" * 70, 1),
    ],
)
def test_faults_of_subjects_are_found(subject: str, count: int) -> None:
    assert len(faults(subject)) == count


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=vocabulary.ROOT, capture_output=True, text=True, check=False, timeout=60
    )


def test_commit_subjects_are_short_and_imperative() -> None:
    try:
        known = git("merge-base", "--is-ancestor", FIRST_COMMIT, "HEAD").returncode == 0
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if not known:
        pytest.skip(f"no git checkout with the history since {FIRST_COMMIT}")
    subjects = git("log", "--no-merges", "--format=%s", f"{FIRST_COMMIT}..HEAD").stdout.splitlines()
    wrong = {subject: faults(subject) for subject in subjects}
    assert not {subject: found for subject, found in wrong.items() if found}
