"""`dump-log` prints the same lines, and finds the same differences, as Kafka's DumpLogSegments on the same files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from actors.cli.app import run
from tests.cli import log_folder
from tests.storage.test_transactions import Partition

DUMP = "kafka.tools.DumpLogSegments"
NAMES = "0.log 0.index 0.timeindex 0.txnindex 17.snapshot 18.snapshot 100.log 200.log 200.index 200.timeindex 600.log"
LOGGING = ("SLF4J", "log4j", "\tat ")
API = "org.apache.kafka.tools.api."


def theirs(jars: Path, *arguments: str) -> tuple[int, list[str], list[str]]:
    """Return exit code, output lines and error lines of Kafka's tool, without stack traces and notes on its logging."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", DUMP, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    complaints = [line for line in done.stderr.splitlines() if not line.startswith(LOGGING)]
    return done.returncode, done.stdout.splitlines(), complaints


def ours(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], list[str]]:
    """Return exit code, output lines and error lines of our command."""
    code = run(["dump-log", *arguments])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err.splitlines()


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (NAMES, ()),
        (NAMES, ("--deep-iteration",)),
        (NAMES, ("--print-data-log", "--verify-index-only")),
        ("0.log 600.log", ("--print-data-log", "--skip-record-metadata")),
        ("0.log 100.log", ("--max-bytes", "300")),
        ("0.index 200.index 200.timeindex", ("--index-sanity-check",)),
        ("700.log", ("--transaction-log-decoder",)),
        ("800.log", ("--offsets-decoder",)),
        ("900.log", ("--key-decoder-class", f"{API}IntegerDecoder", "--value-decoder-class", f"{API}LongDecoder")),
    ],
)
def test_the_same_lines_and_differences(
    tmp_path: Path, apache_jars: Path, capsys: pytest.CaptureFixture[str], names: str, options: tuple[str, ...]
) -> None:
    folder = log_folder.write(tmp_path / "t-0")
    files = ",".join(str(log_folder.file(folder, name)) for name in names.split())
    code, lines, found = ours(capsys, "--files", files, *options)
    their_code, their_lines, their_found = theirs(apache_jars, "--files", files, *options)
    assert (code, lines) == (their_code, their_lines)
    assert sorted(found) == sorted(their_found), "Kafka's come in the order of a hash map"


def test_a_log_with_transactions_of_ours(tmp_path: Path, apache_jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both tools print our node's markers, transaction index and snapshot with an open transaction alike."""
    log = Partition(tmp_path)
    for producer, committed in ((6, True), (7, False)):
        log.send(producer, b"a", b"b")
        log.mark(producer, committed, coordinator_epoch=4)
    log.send(8, b"open")
    log.logs.close_all()
    found = [path for path in Path(log.path).iterdir() if path.suffix in (".log", ".txnindex", ".snapshot")]
    files = ",".join(map(str, sorted(found)))
    assert len(found) == 3
    _, lines, _ = ours(capsys, "--files", files, "--print-data-log")
    assert (0, lines, []) == theirs(apache_jars, "--files", files, "--print-data-log")
    text = "\n".join(lines)
    for part in (
        *("endTxnMarker: COMMIT coordinatorEpoch: 4", "endTxnMarker: ABORT coordinatorEpoch: 4"),
        *("producerId: 7 firstOffset: 3 lastOffset: 5 lastStableOffset: 6", "currentTxnFirstOffset: OptionalLong[6]"),
    ):
        assert part in text


@pytest.mark.parametrize(
    ("name", "options"),
    [("300.log", ()), *((name, ("--index-sanity-check",)) for name in ("0.timeindex", "400.index", "500.index"))],
)
def test_the_same_reason_where_a_file_is_damaged(
    tmp_path: Path, apache_jars: Path, capsys: pytest.CaptureFixture[str], name: str, options: tuple[str, ...]
) -> None:
    """Kafka's tool ends with an exception; ours prints the exception's text as its error."""
    arguments = ("--files", str(log_folder.file(log_folder.write(tmp_path / "t-0"), name)), *options)
    code, lines, [complaint] = ours(capsys, *arguments)
    their_code, their_lines, [exception] = theirs(apache_jars, *arguments)
    assert (code, lines) == (their_code, their_lines)
    assert exception.partition("Exception: ")[2] == complaint.removeprefix("Error: ")
