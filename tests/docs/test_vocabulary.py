"""Text keeps to docs/contributing/style.md: counts of replaced habits only fall, and commit subjects are plain."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.docs import vocabulary
from tests.docs.vocabulary import Hit, counts, hits, lowered, risen

FIRST_COMMIT = "6b8a5c4"
"""Subjects of the commits after this one are checked."""

MAX_SUBJECT = 72


def test_no_folder_has_more_hits_than_permitted() -> None:
    above = risen(vocabulary.all_hits(), vocabulary.read_limits())
    named = [str(hit) for found in above.values() for hit in found]
    assert not above, "\n".join(["see docs/contributing/style.md; candidates:", *named])


def test_limits_name_no_hit_that_is_gone() -> None:
    """A file that was removed or renamed gives its hits to nothing else: `make vocabulary` drops it."""
    listed = set(vocabulary.files())
    limits = vocabulary.read_limits()
    assert {name for name in limits if name not in {vocabulary.scope(path) for path in listed}} == set()


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


def hit(path: str, line: int = 1) -> Hit:
    return Hit(path, line, "telling", "told")


def test_a_line_moves_freely_inside_a_folder() -> None:
    limits = {"actors": {"actors/a.py": 1, "actors/b.py": 1}}
    assert risen([hit("actors/c.py"), hit("actors/c.py", 2)], limits) == {}


def test_a_rise_names_the_files_with_more_hits() -> None:
    limits = {"actors": {"actors/a.py": 1}}
    found = [hit("actors/a.py"), hit("actors/b.py", 7), hit("spark/c.py")]
    assert risen(found, limits) == {"actors": [found[1]], "spark": [found[2]]}


def test_limits_fall_and_never_rise() -> None:
    limits = {"actors": {"actors/a.py": 2}, "spark": {"spark/a.py": 1}}
    found = [hit("actors/b.py"), hit("spark/a.py"), hit("spark/b.py")]
    assert lowered(found, limits) == {"actors": {"actors/b.py": 1}, "spark": {"spark/a.py": 1}}
    assert counts(found) == {"actors": 1, "spark": 2}


def test_first_pages_have_limits_of_their_own() -> None:
    assert vocabulary.scope("docs/how-to/operations.md") == "docs/how-to/operations.md"
    assert vocabulary.scope("docs/contributing/testing.md") == "docs"


def faults(subject: str) -> list[str]:
    """What is wrong with a commit's subject line."""
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
"""Imperatives that end like another form."""


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
