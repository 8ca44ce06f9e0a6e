"""`dump-log` prints the same fields, and finds the same differences, as Kafka's DumpLogSegments on the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.cli.app import run
from tests.cli import log_folder
from tests.cli.log_folder import dumped_fields
from tests.cluster.java_tools import run_tool
from tests.storage.test_transactions import Partition

DUMP = "kafka.tools.DumpLogSegments"
NAMES = "0.log 0.index 0.timeindex 0.txnindex 17.snapshot 18.snapshot 100.log 200.log 200.index 200.timeindex"
API = "org.apache.kafka.tools.api."


def dumped_by_kafka(jars: Path, *arguments: str) -> tuple[int, list[str], list[str]]:
    """Return exit code, output lines and error lines of Kafka's tool."""
    done = run_tool(jars, DUMP, *arguments)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def assert_same_fields(lines: list[str], kafkas: list[str]) -> None:
    """Check that each line with fields has all fields of Kafka's line, and that Kafka's has no further line."""
    ours, theirs = ([fields for line in each if (fields := dumped_fields(line))] for each in (lines, kafkas))
    assert len(ours) == len(theirs)
    for own, expected in zip(ours, theirs, strict=True):
        assert {**own, **expected} == own


def found_differences(errors: list[str]) -> list[str]:
    """Return the lines "Index offset: 9, log offset: 8" of both tools, without the file that ours begin with."""
    return sorted(line[line.index("Index") :] for line in errors if "Index" in line and " offset: " in line)


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (NAMES, ()),
        (NAMES, ("--deep-iteration",)),
        (NAMES, ("--print-data-log", "--verify-index-only")),
        ("0.log", ("--print-data-log", "--skip-record-metadata")),
        ("0.log 100.log", ("--max-bytes", "300")),
        ("0.index 200.index 200.timeindex", ("--index-sanity-check",)),
        ("700.log", ("--transaction-log-decoder",)),
        ("900.log", ("--key-decoder-class", f"{API}IntegerDecoder", "--value-decoder-class", f"{API}LongDecoder")),
    ],
)
def test_the_same_fields_and_differences(
    tmp_path: Path, apache_jars: Path, capsys: pytest.CaptureFixture[str], names: str, options: tuple[str, ...]
) -> None:
    folder = log_folder.write(tmp_path / "t-0")
    files = ",".join(str(log_folder.file(folder, name)) for name in names.split())
    code = run(["dump-log", "--files", files, *options])
    said = capsys.readouterr()
    their_code, their_lines, their_errors = dumped_by_kafka(apache_jars, "--files", files, *options)
    assert code == their_code
    assert_same_fields(said.out.splitlines(), their_lines)
    assert found_differences(said.err.splitlines()) == found_differences(their_errors)


def test_the_same_offsets_and_groups(tmp_path: Path, apache_jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--files", str(log_folder.file(log_folder.write(tmp_path / "t-0"), "800.log")), "--offsets-decoder")
    assert run(["dump-log", *arguments]) == 0
    ours = [dumped_fields(line) for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    _, lines, _ = dumped_by_kafka(apache_jars, *arguments)
    theirs = [dumped_fields(line) for line in lines if line.startswith("|")]
    for own, expected in zip(ours, theirs, strict=True):
        for part in ("key", "payload"):
            if expected.get(part, "").startswith("{"):
                own_part, expected_part = json.loads(own[part]), json.loads(expected[part])
                names = own_part["data"].keys() & expected_part["data"].keys() - {"members"}
                assert [own_part["data"][name] for name in names] == [expected_part["data"][name] for name in names]
                assert own_part.keys() == expected_part.keys() and names
            else:
                assert (part in own, own.get(part) == "<DELETE>") == (
                    part in expected,
                    expected.get(part) == "<DELETE>",
                )


def test_a_log_with_transactions_of_ours(tmp_path: Path, apache_jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both tools print our node's markers, transaction index and snapshot with an open transaction alike."""
    log = Partition(tmp_path)
    for producer, committed in ((6, True), (7, False)):
        log.send(producer, b"a", b"b")
        log.mark(producer, committed, coordinator_epoch=4)
    log.send(8, b"open")
    log.logs.close_all()
    found = [path for path in Path(log.path).iterdir() if path.suffix in (".log", ".txnindex", ".snapshot")]
    arguments = ("--files", ",".join(map(str, sorted(found))), "--print-data-log")
    assert len(found) == 3 and run(["dump-log", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert_same_fields(lines, dumped_by_kafka(apache_jars, *arguments)[1])
    text = "\n".join(lines)
    for part in (
        *("endTxnMarker: COMMIT coordinatorEpoch: 4", "endTxnMarker: ABORT coordinatorEpoch: 4"),
        *("producerId: 7 firstOffset: 3 lastOffset: 5 lastStableOffset: 6", "currentTxnFirstOffset: 6"),
    ):
        assert part in text


@pytest.mark.parametrize(
    ("name", "options"), [("300.log", ()), *((name, ("--index-sanity-check",)) for name in ("400.index", "500.index"))]
)
def test_a_damaged_file_fails_in_both(tmp_path: Path, apache_jars: Path, name: str, options: tuple[str, ...]) -> None:
    arguments = ("--files", str(log_folder.file(log_folder.write(tmp_path / "t-0"), name)), *options)
    assert run(["dump-log", *arguments]) == dumped_by_kafka(apache_jars, *arguments)[0] == 1
