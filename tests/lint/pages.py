"""Rules about pages: what the code generates is current, and what pages name, cite and promise exists."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import click

from actors.cli.app import COMMANDS
from actors.cli.local_cluster import LocalCluster
from actors.cli.status import NodeMetrics, PartitionStateCounts, Status
from actors.cli.topics import ACTIONS
from messages.cluster import Broker
from messages.zookeeper import NodeRegistration
from spark.results import Summary
from tests.docs import architecture, catalogue, columns, growth, paths, references, simulation, state_machines
from tests.docs.citations import citations, resolves
from tests.docs.vocabulary import Hit, all_hits, hits, unused_exceptions
from tests.layering import ROOT
from tests.lint.rules import Texts, everything, modules, page, pages, rule, tests


@rule(pages)
def generated_pages_are_current(_: Texts) -> Iterator[Path]:
    """Run `make docs`."""
    documents = {
        file.FILE: file.document for file in (state_machines, simulation, catalogue, columns, growth, architecture)
    }
    documents |= references.PAGES
    documents |= {path.file: lambda path=path: paths.document(path) for path in paths.PATHS}
    yield from (file for file, document in documents.items() if file.read_text(encoding="utf-8") != document())


@rule(pages)
def pages_have_names_of_their_own(texts: Texts) -> list[str]:
    """Citations name a page by its file name."""
    names = [Path(path).name for path in texts]
    return [name for name in names if names.count(name) > 1]


@rule(pages, example={"docs/a.md": "See `actors/nowhere.py`, and [this](gone.md#there)."})
def files_that_pages_name_exist(texts: Texts) -> Iterator[str]:
    """Name the file as it is called now."""
    for path, text in texts.items():
        named = re.findall(r"`((?:actors|messages|zk_bridge|spark|tests|docs|\.ci)/[\w/.-]*)`", text)
        folder = (ROOT / path).parent
        linked = [(folder / link).resolve() for link in re.findall(r"\]\(([\w/.-]+)(?:#[\w-]+)?\)", text)]
        yield from (f"{path}: {each}" for each in [*named, *linked] if not (ROOT / each).exists())


@rule(pages)
def drawings_and_tables_name_what_exists(_: Texts) -> Iterator[str]:
    """Drawings of actors.md name classes and APIs; each actor has a row there; the architecture names packages."""
    text = "\n".join(modules().values())
    classes = set(re.findall(r"(?m)^class (\w+)", text))
    drawings = page("actors.md").partition("\n## 2. ")[2].partition("\n## 3. ")[0]
    lines = re.findall(r"(?m)^    .*$", drawings)
    names = {name for line in lines for name in re.findall(r"\b[A-Z][A-Za-z]+\b", line)} - {"ZooKeeper"}
    yield from (name for name in names if not {name, f"{name}Request"} & classes)
    actors = set(re.findall(r"(?m)^class (\w+Actor)\(", text))
    rows = set(re.findall(r"(?m)^\| (\w+Actor) \|", page("actors.md")))
    yield from (actors - {"FlowActor"}) ^ rows
    yield from architecture.unknown_names()


@rule(
    lambda: {path: text for path, text in everything().items() if path != "tests/lint/pages.py"},
    example={"actors/a.py": "as controller.md 7.99 says"},
)
def what_is_cited_is_there(texts: Texts) -> Iterator[str]:
    """Cite a section of a page in docs/."""
    by_name = {Path(path).name: text for path, text in pages().items()}
    for path, text in texts.items():
        found = set(citations(text))
        yield from (f"{path}: {citation}" for citation in found if not resolves(citation, by_name))


@rule(tests, example={"tests/test_a.py": "def test_ps999_is_there(): ..."})
def ids_of_conformance_rows_are_in_the_notes(texts: Texts) -> Iterator[str]:
    """A test's name has an id (PS4, RS1, ...) that controller.md lacks."""
    notes = page("controller.md")
    for path, text in texts.items():
        named = re.findall(r"(?m)^def test_((?:(?:cm|cc|ev|ps|rs|td)\d+_(?:and_)?)+)", text)
        ids = {each.upper() for names in named for each in re.findall(r"[a-z]+\d+", names)}
        yield from (f"{path}: {each}" for each in ids if not re.search(rf"\b{each}\b", notes))


@rule(tests, example={"tests/test_a.py": ""})
def every_row_of_the_conformance_tables_has_a_test(texts: Texts) -> Iterator[object]:
    """Tests name each row of broker.md 9 by its number, and each row of controller.md 9 by its id."""
    text = "\n".join(texts.values())
    named: set[int] = set()
    for rows in re.findall(r"\bdef test_rows?_((?:\d+_(?:and_|to_)?)+)", text):
        numbers = [int(number) for number in re.findall(r"\d+", rows)]
        named.update(range(numbers[0], numbers[-1] + 1) if "_to_" in rows else numbers)
    table = page("broker.md").partition("\n## 9. ")[2]
    numbers = [int(number) for number in re.findall(r"(?:\. |\) |\n)(\d{1,3})\. (?=[A-Z0-9`a-z_])", table)]
    yield from (f"broker.md row {number}" for number in numbers if number not in named)
    ids = re.findall(r"\b(?:CM|CC|EV|PS|RS|LE|TD)\d+\b", page("controller.md").partition("\n## 9. ")[2])
    by_id = {each.upper() for each in re.findall(r"(?i)(?<![a-z])(?:cm|cc|ev|ps|rs|le|td)\d+", text)}
    for kind, first, last in re.findall(r"\b(PS)(\d+)-PS(\d+)\b", text):
        by_id.update(f"{kind}{number}" for number in range(int(first), int(last) + 1))
    yield from sorted(set(ids) - by_id)


@rule(lambda: {path: text for path, text in pages().items() if "/protocol/" in path}, example={"a.md": "## 1. A\ntext"})
def sections_of_the_protocol_name_their_code_and_tests(texts: Texts) -> Iterator[str]:
    """A section begins with a note in italics; "Obeyed" names tests, or says "not built yet", "for comparison only"."""
    for path, text in texts.items():
        for title, body in re.findall(r"(?m)^#{2,3} (.*)\n+((?:(?!#).*\n?)*)", text):
            note = " ".join(body.partition("\n\n")[0].split())
            tested = "; tested by `" in note or re.search(r"(?i)not built yet|for comparison only", body)
            if (body.strip() and not body.lstrip().startswith("*")) or (body.startswith("*Obeyed") and not tested):
                yield f"{path}: {title}"


@rule(pages)
def differences_from_kafka_link_their_tests(_: Texts) -> Iterator[str]:
    """Link the test; each trap T1 to T16 names a test that exists."""
    text = page("kafka-map.md")
    differences = re.split(r"(?m)^- ", text.partition("## Deliberate differences")[2])[1:]
    yield from (each.split("\n")[0] for each in differences if "](../../tests/" not in each)
    rows = re.findall(r"(?m)^\| (T\d+) (.*)\|$", text)
    yield from {trap for trap, _ in rows} ^ {f"T{number}" for number in range(1, 17)}
    for trap, line in rows:
        named = re.findall(r"\(\.\./\.\./(tests/[^)]*)\): `(test_\w+)`", line)
        missing = [name for file, name in named if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")]
        yield from (f"{trap}: {name}" for name in (missing if named else ["names no test"]))


SEARCHED = """
    AdminManager ControllerChannelManager ControllerContext ControllerEventManager DelayedFetch DelayedJoin
    DelayedProduce GroupCoordinator GroupMetadataManager KafkaApis KafkaController KafkaZkClient LeaderEpochFileCache
    LogManager LogSegment MetadataCache OffsetIndex Partition PartitionStateMachine ProducerStateManager
    ReplicaFetcherManager ReplicaFetcherThread ReplicaManager ReplicaStateMachine SocketServer TimeIndex
    TopicDeletionManager high_watermark isr LEO log_end_offset log_start_offset purgatory
""".split()
"""Words that an engineer who knows Kafka searches for in the code."""


def _words(place: Path) -> set[str]:
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return set(re.findall(r"\w+", " ".join(file.read_text(encoding="utf-8") for file in files)))


@rule(lambda: {"kafka-map.md": page("kafka-map.md")}, example={"a.md": "| `Nowhere.isr` | `actors/core/topic` |"})
def kafkas_names_are_in_the_files_that_the_map_names(texts: Texts) -> Iterator[str]:
    """A name of Kafka's is in a docstring of the file that plays its part."""
    for line in "\n".join(texts.values()).splitlines():
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 2:
            continue
        files: list[Path] = []
        for place in cells[1]:
            beside = [ROOT / place, *(file.parent / place for file in files[-1:])]
            files += [file for file in beside if file.exists()][:1]
        words = set[str]().union(*map(_words, files))
        yield from (name for name in cells[0] if files and name.rpartition(".")[2] not in words)


@rule()
def words_that_engineers_search_for_are_in_the_code(texts: Texts) -> set[str]:
    """A reader who knows Kafka searches for them."""
    return set(SEARCHED) - set(re.findall(r"\w+", " ".join(texts.values())))


@rule(pages)
def the_page_of_commands_has_every_option_and_key(_: Texts) -> Iterator[str]:
    """Describe it in docs/reference/commands.md."""
    text = page("commands.md")
    for name in COMMANDS:
        command: click.Command = importlib.import_module(f"actors.cli.{name.replace('-', '_')}").command
        options = {option for each in command.params if not getattr(each, "hidden", False) for option in each.opts}
        options = {f"--{action}" for action in ACTIONS} if name == "topics" else options
        long = (option for option in options if option.startswith("--"))
        yield from (f"{name} {option}" for option in long if not re.search(rf"`[^`\n]*{option}\b", text))
        yield from [] if re.search(rf"^\| `{name}\b", text, re.MULTILINE) else [name]
    node = NodeRegistration(1, (), "h", 1, 1)
    counts = PartitionStateCounts(0, (), (), ())
    status = Status(1, 1, (Broker(1, ()),), (node,), 1, 1, counts, (), {1: NodeMetrics()}).as_dict()
    up = LocalCluster(Path(), [1], "h:1").description(1)
    nested = (up, status, up["brokers"][0], status["partitions"], status["brokers"][0], status["nodes"][0])
    keys = {key for each in nested for key in each} | {
        *(
            {"runs", "messages", "events", "requests", "elections", "leadership", "episodes", "unavailable"}
            & set(Summary.__annotations__)
        )
    }
    yield from (key for key in keys if f"`{key}`" not in text and f'"{key}":' not in text)


@rule(pages)
def the_navigation_has_every_page(_: Texts) -> set[str]:
    """List it in mkdocs.yml."""
    listed = re.findall(
        r"(?m)- (?:.*: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    )
    inside = {str(file.relative_to(ROOT / "docs")) for file in (ROOT / "docs").rglob("*.md")}
    return set(listed) ^ (inside | {f"project/{name}" for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")})


@rule(everything)
def replaced_words_are_gone(_: Texts) -> Iterator[object]:
    """See docs/contributing/style.md."""
    assert list(hits("page.txt", "The controller is told nothing."))
    found: list[Hit] = all_hits()
    yield from found
    yield from unused_exceptions()
