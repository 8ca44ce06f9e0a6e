"""Check the documentation against the code: generated pages are current, and names, links and citations exist."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from actors.simulation.actions import KINDS
from tests.docs import (
    architecture,
    catalogue,
    columns,
    files_on_path,
    paths,
    prose,
    references,
    simulation,
    state_machines,
)
from tests.docs.citations import Citation, citations, resolves
from tests.docs.markdown import COLUMNS, without_code
from tests.layering import ROOT, sources

PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PROTOCOL = sorted((ROOT / "docs" / "protocol").glob("*.md"))
TEXTS = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
WRITTEN = [*PAGES, *sources(), *sorted((ROOT / "tests").rglob("*.py"))]

NOT_BUILT = re.compile(r"(?i)not built yet|for comparison only")


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_the_state_machines_are_those_of_the_code() -> None:
    assert state_machines.FILE.read_text(encoding="utf-8") == state_machines.document(), "run `make docs`"


def test_the_simulation_tables_match_the_code() -> None:
    assert simulation.FILE.read_text(encoding="utf-8") == simulation.document(), "run `make docs`"
    assert all(kind.do.__doc__ for kind in KINDS)


@pytest.mark.parametrize("file", references.PAGES, ids=name)
def test_reference_pages_match_the_code(file: Path) -> None:
    assert file.read_text(encoding="utf-8") == references.PAGES[file](), "run `make docs`"


def test_settings_without_a_description_are_kafkas() -> None:
    ours = [each for each in references.SETTINGS if each.name.startswith(("trace.", "metrics."))]
    assert all(each.doc for each in ours)


def test_the_catalogue_is_that_of_the_code() -> None:
    assert catalogue.FILE.read_text(encoding="utf-8") == catalogue.document(), "run `make docs`"


def test_the_columns_are_those_of_the_code() -> None:
    assert columns.FILE.read_text(encoding="utf-8") == columns.document(), "run `make docs`"


@pytest.mark.parametrize("path", [files_on_path.DEATH, files_on_path.PRODUCE], ids=["death", "produce"])
def test_the_present_files_on_a_path_exist(path: files_on_path.FilesOnPath) -> None:
    missing = [
        f"{package}/{name}"
        for package, names in path.now.items()
        for name in names.split()
        if not (ROOT / package / f"{name}.py").exists()
    ]
    assert missing == []


@pytest.mark.parametrize("path", paths.PATHS, ids=lambda path: str(path.file.name))
def test_paths_match_a_recorded_run(path: paths.RecordedPath) -> None:
    assert path.file.read_text(encoding="utf-8") == paths.document(path), "run `make docs`"


def test_the_architecture_matches_the_layers() -> None:
    assert architecture.FILE.read_text(encoding="utf-8") == architecture.document(), "run `make docs`"
    assert architecture.unknown_names() == []


RECORD = re.compile(r" {4,}\d+ <- ")
"""A line of a recorded path, which is indented as code."""


def long_lines(text: str) -> list[str]:
    """Return the lines that are too long, except tables, code, headings, and lines with one long word or link."""
    lines = [line for line in without_code(text).splitlines() if len(line) > COLUMNS]
    return [
        line
        for line in lines
        if not line.startswith(("|", "    ", "#"))
        and " " in re.sub(r"`[^`]*`|!?\[.*?\]\(.*?\)", "", line.strip("- ")).strip()
    ]


def test_pages_are_wrapped() -> None:
    unwrapped = {page.name for page in PAGES if long_lines(page.read_text(encoding="utf-8"))}
    assert unwrapped == set(), "wrap at 100 columns"


def stray_numbers(text: str) -> list[str]:
    """Return the lines inside a paragraph that begin with a number and a full stop, which Markdown takes for a list."""
    found, last, before = [], dict[int, int](), ""
    for line in without_code(text).splitlines():
        number = re.match(r"( *)(\d+)\. ", line)
        if line.startswith("#"):
            last = {}
        if number:
            indent, value = len(number[1]), int(number[2])
            if before.strip() and not before.startswith("#") and value != last.get(indent, value - 2) + 1:
                found.append(line)
            last = {column: n for column, n in last.items() if column < indent} | {indent: value}
        before = line
    return found


def test_no_line_of_a_paragraph_looks_like_a_numbered_item() -> None:
    assert stray_numbers("sends it to broker\n5. Then it\n") == ["5. Then it"]
    assert stray_numbers("1. One\n   more\n2. Two\n") == []
    assert {page.name: lines for page in PAGES if (lines := stray_numbers(page.read_text(encoding="utf-8")))} == {}


def outside_their_list(text: str) -> list[str]:
    """Return the lists and paragraphs that the site would put outside their list item.

    Python-Markdown, which builds the site, requires four columns of indentation for each level; others accept two.
    """
    lines = ["", *without_code(text).splitlines()]
    found = []
    for before, line in pairwise(lines):
        indent = len(line) - len(line.lstrip())
        begins = re.match(r" *(- |\d+\. )", line) or (line.strip() and not before.strip())
        if begins and indent % 4 and not RECORD.match(line):
            found.append(line)
    return found


def test_what_belongs_to_a_list_item_stays_inside_it() -> None:
    assert outside_their_list("1. One:\n   - a\n\n   More\n") == ["   - a", "   More"]
    assert outside_their_list("1. One:\n    - a\n\n    More\n   of it\n\n2. Two\n") == []
    found = {page.name: lines for page in PAGES if (lines := outside_their_list(page.read_text(encoding="utf-8")))}
    assert found == {}, "indent it by four columns"


def merged_rules(docstring: str) -> list[str]:
    """Return the lines with a rule that does not begin the line, and the lines of a rule that are not indented."""
    found, in_rule = [], False
    for line in docstring.splitlines():
        begins = re.match(r"Rule \d+( \([^)]*\))?: ", line)
        in_rule = bool(begins or (in_rule and line))
        if re.search(r"\S +Rule \d+( \([^)]*\))?: ", line) or (in_rule and not begins and not line.startswith("   ")):
            found.append(line)
    return found


def test_each_rule_of_a_docstring_begins_a_line() -> None:
    assert merged_rules("Rule 1: one\ntwo. Rule 2: three") == ["two. Rule 2: three"]
    assert merged_rules("Rule 1: one\ntwo\n\nKafka: `X`.") == ["two"]
    assert merged_rules("Rule 1 (order): one,\n        see rule 2.\nRule 2: three") == []
    docstrings = [text.text for text in prose.docstrings() if "Rule 1" in text.text]
    assert len(docstrings) > 100
    assert {text.splitlines()[0]: lines for text in docstrings if (lines := merged_rules(text))} == {}


def test_the_readme_has_fewer_than_120_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120


def drawn(text: str) -> set[str]:
    """Return the capitalised names in the drawings of actors.md 2."""
    drawings = text.partition("\n## 2. ")[2].partition("\n## 3. ")[0]
    return {name for line in re.findall(r"(?m)^    .*$", drawings) for name in re.findall(r"\b[A-Z][A-Za-z]+\b", line)}


def test_drawings_name_existing_actors_and_messages() -> None:
    """Drawings name actors and messages by their classes, and requests of clients by their APIs."""
    classes = {name for file in sources() for name in re.findall(r"(?m)^class (\w+)", file.read_text(encoding="utf-8"))}
    names = drawn(TEXTS["actors.md"])
    assert len(names) > 40
    assert {name for name in names if not {name, f"{name}Request"} & classes} == {"ZooKeeper"}
    assert drawn("\n## 2. X\n\n    PartitionActor <- WatchLog\n\n## 3. Y\n\n    Other") == {
        "PartitionActor",
        "WatchLog",
    }


def test_every_actor_has_a_row_in_the_table_of_actors() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in sources())
    actors = set(re.findall(r"(?m)^class (\w+Actor)\(", text)) - {"FlowActor"}
    rows = set(re.findall(r"(?m)^\| (\w+Actor) \|", TEXTS["actors.md"]))
    assert len(actors) > 15
    assert actors == rows


def test_pages_have_names_of_their_own() -> None:
    assert len(TEXTS) == len(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_pages_name_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:actors|messages|zk_bridge|spark|tests|docs|\.ci)/[\w/.-]*)`", text)
    linked = [name((page.parent / link).resolve()) for link in re.findall(r"\]\(([\w/.-]+)(?:#[\w-]+)?\)", text)]
    missing = [each for each in [*named, *linked] if not (ROOT / each).exists()]
    assert not missing


@pytest.mark.parametrize("file", [file for file in WRITTEN if file != Path(__file__)], ids=name)
def test_what_is_cited_is_there(file: Path) -> None:
    found = set(citations(file.read_text(encoding="utf-8")))
    missing = sorted(str(citation) for citation in found if not resolves(citation, TEXTS))
    assert not missing, "no such section (docs/protocol has what may be cited)"
    assert not re.search(r"(?i)\bdesign \d", file.read_text(encoding="utf-8")), "cite a page in docs/"


@pytest.mark.parametrize("file", sorted((ROOT / "tests").rglob("test_*.py")), ids=name)
def test_the_ids_of_conformance_rows_are_in_the_notes(file: Path) -> None:
    """If a test's name has an id of the conformance tables (PS4, RS1, ...), controller.md has this id."""
    named = re.findall(r"\bdef test_((?:(?:cm|cc|ev|ps|rs|td)\d+_(?:and_)?)+)", file.read_text(encoding="utf-8"))
    ids = {each.upper() for names in named for each in re.findall(r"[a-z]+\d+", names)}
    missing = sorted(each for each in ids if not re.search(rf"\b{each}\b", TEXTS["controller.md"]))
    assert not missing


def test_every_row_of_the_conformance_tables_is_named_by_a_test() -> None:
    """Tests name each row of broker.md 9 by its number in a test's name, and each row of controller.md 9 by its id."""
    tests = "\n".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "tests").rglob("test_*.py")))
    named: set[int] = set()
    for rows in re.findall(r"\bdef test_rows?_((?:\d+_(?:and_|to_)?)+)", tests):
        numbers = [int(number) for number in re.findall(r"\d+", rows)]
        named.update(range(numbers[0], numbers[-1] + 1) if "_to_" in rows else numbers)
    table = TEXTS["broker.md"].partition("\n## 9. ")[2]
    lines = [int(number) for number in re.findall(r"(?:\. |\) |\n)(\d{1,3})\. (?=[A-Z0-9`a-z_])", table)]
    assert len(lines) > 75
    assert [number for number in lines if number not in named] == []
    ids = re.findall(r"\b(?:CM|CC|EV|PS|RS|LE|TD)\d+\b", TEXTS["controller.md"].partition("\n## 9. ")[2])
    by_id = {each.upper() for each in re.findall(r"(?i)(?<![a-z])(?:cm|cc|ev|ps|rs|le|td)\d+", tests)}
    for kind, first, last in re.findall(r"\b(PS)(\d+)-PS(\d+)\b", tests):
        by_id.update(f"{kind}{number}" for number in range(int(first), int(last) + 1))
    assert len(set(ids)) == 76
    assert sorted(set(ids) - by_id) == []


@pytest.mark.parametrize("page", PROTOCOL, ids=name)
def test_every_section_of_the_protocol_names_its_code_and_tests(page: Path) -> None:
    """Each section with text begins with a note in italics.

    A note that begins with "Obeyed" names its tests, or says that the section is not built yet or for comparison only.
    """
    sections = re.findall(r"(?m)^#{2,3} (.*)\n+((?:(?!#).*\n?)*)", page.read_text(encoding="utf-8"))
    silent = [title for title, body in sections if body.strip() and not body.lstrip().startswith("*")]
    untested = [
        title
        for title, body in sections
        if body.startswith("*Obeyed")
        and not ("; tested by `" in " ".join(body.partition("\n\n")[0].split()) or NOT_BUILT.search(body))
    ]
    assert sections
    assert not silent and not untested


def test_every_difference_from_kafka_links_its_tests() -> None:
    differences = re.split(r"(?m)^- ", TEXTS["kafka-map.md"].partition("## Deliberate differences")[2])[1:]
    assert differences
    assert not [each.split("\n")[0] for each in differences if "](../../tests/" not in each]


def test_every_trap_is_decided_and_its_test_is_there() -> None:
    rows = re.findall(r"(?m)^\| (T\d+) .*\|$", TEXTS["kafka-map.md"])
    assert rows == [f"T{number}" for number in range(1, 17)]
    for line in TEXTS["kafka-map.md"].splitlines():
        if re.match(r"\| T\d+ ", line):
            named = re.findall(r"\(\.\./\.\./(tests/[^)]*)\): `(test_\w+)`", line)
            assert named, line
            for file, test in named:
                assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), (file, test)


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("as controller.md 7.5 says", ["controller.md 7.5"]),
        ("(controller.md 1.4, 1.6).", ["controller.md 1.4", "controller.md 1.6"]),
        ("controller.md 7.1-7.3;", ["controller.md 7.1", "controller.md 7.3"]),
        ("(broker.md 9.1 row 20)", ["broker.md 9.1", "broker.md 9.1 row 20"]),
        ("(broker.md 6.2, row 18)", ["broker.md 6.2", "broker.md 6.2 row 18"]),
        ("broker.md 9.1 rows 3, 4 and 12.", ["broker.md 9.1", *(f"broker.md 9.1 row {row}" for row in (3, 4, 12))]),
        ("See zookeeper.md: there.", ["zookeeper.md"]),
        ("(trap T4) and Trap T7", ["controller.md T4", "controller.md T7"]),
        ("Kafka 2.6, row 3, T4, hashlib.md5", []),
    ],
)
def test_citations_are_found(text: str, cited: list[str]) -> None:
    assert [str(citation) for citation in citations(text)] == cited


def test_a_citation_of_nothing_is_found_out() -> None:
    page = "# Notes\n## 1. A\n### 1.2 B\n- **1.2.1** one\n- **T4** trap\n| 7 Name | x |\n3. row\n## 2. C\n9. row"
    for section, row in (("1", ""), ("1.2", ""), ("1.2.1", ""), ("T4", ""), ("1.2", "7"), ("1.2", "3"), ("2", "9")):
        assert resolves(Citation("notes.md", section, row), {"notes.md": page}), (section, row)
    for section, row in (("3", ""), ("1.1", ""), ("1.2.2", ""), ("T5", ""), ("1.2", "9"), ("2", "3")):
        assert not resolves(Citation("notes.md", section, row), {"notes.md": page}), (section, row)
    assert not resolves(Citation("other.md"), {"notes.md": page})


def kafka_rows(page: str) -> list[tuple[list[str], list[Path]]]:
    """Return the Kafka names of each row of a table "Kafka | here", and the files and packages of the row."""
    rows = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 2:
            continue
        names, places = (re.findall(r"`([^`]+)`", cell) for cell in cells)
        files: list[Path] = []
        for place in places:
            beside = [ROOT / place, *(file.parent / place for file in files[-1:])]
            files += [file for file in beside if file.exists()][:1]
        if names and files:
            rows.append((names, files))
    return rows


def unnamed(rows: list[tuple[list[str], list[Path]]]) -> list[str]:
    """Return the names that occur in no file of their row."""
    missing = []
    for names, places in rows:
        files = [file for place in places for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]
        words = set(re.findall(r"\w+", " ".join(file.read_text(encoding="utf-8") for file in files)))
        missing += [name for name in names if name.rpartition(".")[2] not in words]
    return missing


SEARCHED = """
    AdminManager ControllerChannelManager ControllerContext ControllerEventManager DelayedFetch DelayedJoin
    DelayedProduce GroupCoordinator GroupMetadataManager KafkaApis KafkaController KafkaZkClient LeaderEpochFileCache
    LogManager LogSegment MetadataCache OffsetIndex Partition PartitionStateMachine ProducerStateManager
    ReplicaFetcherManager ReplicaFetcherThread ReplicaManager ReplicaStateMachine SocketServer TimeIndex
    TopicDeletionManager high_watermark isr LEO log_end_offset log_start_offset purgatory
""".split()
"""Words that an engineer who knows Kafka searches for in the code."""


def test_kafkas_names_are_found_in_the_files_that_the_map_names() -> None:
    rows = kafka_rows(TEXTS["kafka-map.md"])
    assert len(rows) > 50
    assert unnamed(rows) == []
    assert unnamed([(SEARCHED, [ROOT / name for name in ("actors", "messages", "zk_bridge")])]) == []
    named = {name.removeprefix("Zk") for names, _ in rows for name in names}
    classes = {name for name in SEARCHED if name[0].isupper() and name != "LEO"}
    assert classes <= named


def test_a_name_that_no_file_has_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class KafkaApis: ...")
    assert unnamed([(["KafkaApis", "Partition.isr"], [tmp_path])]) == ["Partition.isr"]
