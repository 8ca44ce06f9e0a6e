"""`dump-log`: its fields (`tests/cluster/test_dump_log.py` compares them with Kafka's), and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.cli.app import run
from tests.cli import log_folder
from tests.cli.log_folder import BATCHES, dumped_fields, file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return log_folder.write(tmp_path / "t-0")


def dumped(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[list[str], list[str]]:
    """Return the lines on standard output and on standard error."""
    assert run(["dump-log", *arguments]) == code
    said = capsys.readouterr()
    return said.out.splitlines(), said.err.splitlines()


def test_dump_log_prints_snapshots_indexes_and_checkpoints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [*(str(file(folder, name)) for name in ("18.snapshot", "0.txnindex")), str(folder / "x.txt")]
    files += [str(folder / f"{name}-checkpoint") for name in ("leader-epoch", "replication-offset")]
    lines, found = dumped(capsys, "--files", ",".join(files))
    assert [line for line in lines if not line.startswith("Dumping ")] == [
        "version: 0 producerId: 9 firstOffset: 7 lastOffset: 10 lastStableOffset: 7",
        "version: 0 producerId: 10 firstOffset: 11 lastOffset: 12 lastStableOffset: 8",
        "epoch: 0 startOffset: 0",
        "epoch: 3 startOffset: 5",
        "topic: t partition: 0 offset: 5",
        "topic: u partition: 1 offset: 7",
    ]
    assert "corrupt" in found[0] and found[1].endswith("x.txt")


def test_a_group_is_decoded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, _ = dumped(capsys, "--files", str(file(folder, "800.log")), "--offsets-decoder")
    consumers, others = (json.loads(dumped_fields(line)["payload"])["data"]["members"][0] for line in lines[9:11])
    assert (consumers["memberId"], consumers["assignment"]) == ("m", ["t-0", "t-1"])
    assert others["subscription"] == "AQI="


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "Missing option '--files'"),
        (("--files", "nowhere/00000000000000000000.log"), 1, "nowhere/00000000000000000000.log: No such file"),
        (("--files", "{folder}/x.log"), 1, "the name does not begin with an offset"),
        (("--files", "{300.log}"), 1, "00300.log: a message has the impossible length 0"),
        (("--files", "{500.index}", "--index-sanity-check"), 1, "11 bytes, entries of 8 bytes"),
        (("--files", "{400.index}", "--index-sanity-check"), 1, "from (-5, 0)"),
        (("--files", "{400.timeindex}", "--index-sanity-check"), 1, "00400.timeindex is corrupt"),
        (("--files", "{folder}/recovery-point-offset-checkpoint"), 1, "line 3 is no entry: 'one two'"),
        (("--files", "{0.log}", "--value-decoder-class", "x.Y"), 2, "'x.Y' is not one of"),
        (("--files", "{0.log}", "--value-decoder-class", "LongDecoder"), 1, "are not a number of 8 bytes"),
    ],
)
def test_what_cannot_be_dumped_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, words: str
) -> None:
    (folder / "x.log").touch()
    (folder / "recovery-point-offset-checkpoint").write_text("0\n1\none two\n")
    files = {each: file(folder, each) for each in ("0.log", "300.log", "400.index", "400.timeindex", "500.index")}
    named = [each.replace("{folder}", str(folder)) for each in arguments]
    named = [str(files[each[1:-1]]) if each[1:-1] in files else each for each in named]
    assert run(["dump-log", *named]) == code
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said


def test_an_index_entry_without_a_batch_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = file(folder, "0.index")
    index.write_bytes(log_folder.INDEX_ENTRY.pack(2, 100_000))
    _, [failed] = dumped(capsys, "--files", str(index), code=1)
    assert failed.startswith(f"Error: {index}: the entry of offset 2 has position 100000, where")
    assert "builds it again" in failed


def test_indexes_that_a_running_broker_preallocates_are_empty(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("200.index", "200.timeindex"):
        index = file(folder, name)
        index.write_bytes(bytes(240))
        assert dumped(capsys, "--files", str(index)) == ([f"Dumping {index}", f"{index} is empty."], [])


@pytest.mark.parametrize("cut", range(5, 80, 5))
def test_a_damaged_batch_has_no_traceback(folder: Path, capsys: pytest.CaptureFixture[str], cut: int) -> None:
    """One byte of a compressed batch is altered. If the dump fails, its error has the name of the file."""
    damaged = file(folder, "0.log")
    data = bytearray(BATCHES[1])
    data[61 + cut % (len(data) - 61)] ^= 0x55
    damaged.write_bytes(BATCHES[0] + bytes(data))
    code = run(["dump-log", "--files", str(damaged), "--deep-iteration"])
    said = capsys.readouterr()
    assert "Traceback" not in said.err and "This is a bug" not in said.err
    if code:
        assert f"Error: {damaged}: " in said.err


def test_escape_sequences_of_a_value_do_not_reach_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = file(folder, "0.log")
    damaged.write_bytes(log_folder.records_of([(b"k", b"\x1b[2J")]))
    lines, _ = dumped(capsys, "--files", str(damaged), "--print-data-log")
    assert lines[-1].endswith("payload: \\x1b[2J")
