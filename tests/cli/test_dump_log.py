"""`dump-log`: its output, which is Kafka's (`tests/cluster/test_dump_log.py` compares all lines), and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.cli.app import run
from tests.cli import log_folder
from tests.cli.log_folder import BATCHES, TIME, file

BATCH = (
    "baseOffset: {} lastOffset: {} count: 2 baseSequence: {} lastSequence: {} producerId: {} producerEpoch: {}"
    " partitionLeaderEpoch: 3 isTransactional: {} isControl: false deleteHorizonMs: OptionalLong.empty position: {}"
    f" CreateTime: {TIME + 5} size: {{}} magic: 2 compresscodec: {{}} crc: {{}} isvalid: true"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return log_folder.write(tmp_path / "t-0")


def dumped(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[list[str], list[str]]:
    """Return the lines on standard output and on standard error."""
    assert run(["dump-log", *arguments]) == code
    said = capsys.readouterr()
    return said.out.splitlines(), said.err.splitlines()


def test_batches_and_records_of_a_segment(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, found = dumped(capsys, "--files", str(file(folder, "0.log")), "--print-data-log")
    assert lines[1] == "Log starting offset: 0"
    crc = int.from_bytes(BATCHES[0][17:21], "big")
    assert lines[2] == BATCH.format(0, 1, -1, -1, -1, -1, "false", 0, len(BATCHES[0]), "none", crc)
    assert (
        lines[3]
        == f"| offset: 0 CreateTime: {TIME} keySize: 1 valueSize: 5 sequence: -1 headerKeys: [] key: k payload: value"
    )
    assert (
        lines[4]
        == f"| offset: 1 CreateTime: {TIME + 3} keySize: -1 valueSize: 1 sequence: -1 headerKeys: [] payload: x"
    )
    assert lines[6].endswith("headerKeys: [h,abc] key: kk payload: vé")
    assert "\n".join(lines).count("sequence: 2147483647 headerKeys") == 1
    assert [line for line in lines if "endTxnMarker: COMMIT coordinatorEpoch: 4" in line]
    assert [line for line in lines if f"deleteHorizonMs: OptionalLong[{TIME}]" in line]
    assert [line for line in lines if f"| offset: 15 LogAppendTime: {TIME + 5} " in line]
    assert lines[-1] == "Found 11 invalid bytes at the end of 00000000000000000000.log"
    assert found == [f"Non-consecutive offsets in {file(folder, '0.log')}", "  10 is followed by 15"]


def test_indexes_are_compared_with_their_segment(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index, times = file(folder, "0.index"), file(folder, "0.timeindex")
    lines, found = dumped(capsys, "--files", f"{index},{times}")
    assert lines[1:4] == [
        f"offset: {offset} position: {log_folder.POSITIONS[at]}" for offset, at in ((2, 1), (6, 3), (9, 4))
    ]
    assert lines[5:] == [
        f"timestamp: {TIME + at} offset: {offset}" for at, offset in ((2, 2), (3, 6), (1, 8), (5, 12), (9, 99))
    ]
    assert found == [
        f"Mismatches in :{index}",
        "  Index offset: 9, log offset: 8",
        f"Found timestamp mismatch in :{times}",
        f"  Index timestamp: {TIME + 3}, log timestamp: {TIME}",
        f"  Index timestamp: {TIME + 1}, log timestamp: {TIME}",
        f"Found out of order timestamp in :{times}",
        f"  Index timestamp: {TIME + 1}, Previously indexed timestamp: {TIME + 3}",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 12, found log offset: 15",
        "Indexed offset: 99, found log offset: -1",
    ]
    quiet, again = dumped(capsys, "--files", f"{index},{times}", "--verify-index-only")
    assert (quiet, again) == ([f"Dumping {index}", f"Dumping {times}"], found)


def test_small_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["17.snapshot", "18.snapshot", "0.txnindex"]
    files = [*(str(file(folder, name)) for name in names), str(folder / "leader-epoch-checkpoint")]
    files += [str(folder / "replication-offset-checkpoint"), str(folder / "x.txt")]
    lines, found = dumped(capsys, "--files", ",".join(files))
    assert [line for line in lines if not line.startswith("Dumping ")] == [
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty"
        f" lastTimestamp: {TIME} firstSequence: 2147483647 lastSequence: 0 lastOffset: 6 offsetDelta: 1"
        f" timestamp: {TIME}",
        "producerId: 9 producerEpoch: 0 coordinatorEpoch: 4 currentTxnFirstOffset: OptionalLong[7]"
        f" lastTimestamp: {TIME} firstSequence: 3 lastSequence: 4 lastOffset: 8 offsetDelta: 1 timestamp: {TIME}",
        "producerId: 11 producerEpoch: 0 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong.empty"
        f" lastTimestamp: {TIME} ",
        "version: 0 producerId: 9 firstOffset: 7 lastOffset: 10 lastStableOffset: 7",
        "version: 0 producerId: 10 firstOffset: 11 lastOffset: 12 lastStableOffset: 8",
        "epoch: 0 startOffset: 0",
        "epoch: 3 startOffset: 5",
        "topic: t partition: 0 offset: 5",
        "topic: u partition: 1 offset: 7",
    ]
    assert found[0].startswith("Snapshot is corrupt (CRC is no longer valid). Stored crc: ")
    assert found[1:] == [f"Ignoring unknown file {folder / 'x.txt'}"]


def test_internal_topics(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, _ = dumped(capsys, "--files", str(file(folder, "800.log")), "--offsets-decoder")
    decoded = [line.partition("headerKeys: [] ")[2] for line in lines[3:]]
    assert decoded[0] == (
        'key: {"type":"1","data":{"group":"g","topic":"t","partition":2}} payload: {"version":"3","data":'
        f'{{"offset":77,"leaderEpoch":5,"metadata":"m\\"é","commitTimestamp":{TIME}}}}}'
    )
    assert decoded[3].endswith(" payload: <DELETE>")
    assert decoded[5] == "key: Unknown record type 55 at offset 5, skipping."
    assert '"assignment":{"assignedPartitions":[{"topic":"t","partitions":[0,1]}],"userData":"dQ=="}' in decoded[6]
    assert '"subscription":"AQI="' in decoded[7]
    lines, _ = dumped(capsys, "--files", str(file(folder, "700.log")), "--transaction-log-decoder")
    assert lines[3].endswith(
        "key: transaction_metadata::transactionalId=tx payload: producerId:5,producerEpoch:3,state=Ongoing,"
        f"partitions=[t-3],txnLastUpdateTimestamp={TIME + 1},txnTimeoutMs=60000"
    )
    lines, [failed] = dumped(capsys, "--files", str(file(folder, "0.log")), "--offsets-decoder", code=1)
    assert failed == (
        "Error: Failed to decode message at offset 1 using offset topic decoder (message had a missing key)"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "Missing option '--files'"),
        (("--files", "nowhere/00000000000000000000.log"), 1, "nowhere/00000000000000000000.log: No such file"),
        (("--files", "{folder}/x.log"), 1, "the name does not begin with an offset"),
        (("--files", "{300.log}"), 1, "Found record size 0 smaller than minimum record overhead (14) in file"),
        (("--files", "{500.index}", "--index-sanity-check"), 1, "found 11 bytes which is neither positive nor"),
        (("--files", "{400.index}", "--index-sanity-check"), 1, "the last offset is 395 which is less than"),
        (("--files", "{400.timeindex}", "--index-sanity-check"), 1, "which is less than the first timestamp"),
        (("--files", "{folder}/recovery-point-offset-checkpoint"), 1, "line 3 is no entry: 'one two'"),
        (("--files", "{0.log}", "--value-decoder-class", "x.Y"), 2, "'x.Y' is not one of"),
        (
            ("--files", "{0.log}", "--value-decoder-class", "org.apache.kafka.tools.api.LongDecoder"),
            1,
            "are not a number of 8 bytes: use another decoder class",
        ),
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
    index, times = file(folder, "200.index"), file(folder, "200.timeindex")
    index.write_bytes(bytes(800))
    assert dumped(capsys, "--files", str(index)) == ([f"Dumping {index}", f"{index} is empty."], [])
    index.unlink()
    assert dumped(capsys, "--files", str(times)) == ([f"Dumping {times}"], [])


@pytest.mark.parametrize("cut", range(5, 80, 5))
def test_a_damaged_batch_has_no_traceback(folder: Path, capsys: pytest.CaptureFixture[str], cut: int) -> None:
    """One byte of a compressed batch is altered. If the dump fails, its error has the position of the batch."""
    damaged = file(folder, "0.log")
    data = bytearray(BATCHES[1])
    data[61 + cut % (len(data) - 61)] ^= 0x55
    damaged.write_bytes(BATCHES[0] + bytes(data))
    code = run(["dump-log", "--files", str(damaged), "--deep-iteration"])
    said = capsys.readouterr()
    assert "Traceback" not in said.err and "This is a bug" not in said.err
    if code:
        assert f"{damaged}: the batch at position {len(BATCHES[0])}: " in said.err


def test_escape_sequences_of_a_value_do_not_reach_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = file(folder, "0.log")
    damaged.write_bytes(log_folder.records_of([(b"k", b"\x1b[2J")]))
    lines, _ = dumped(capsys, "--files", str(damaged), "--print-data-log")
    assert lines[-1].endswith("payload: \\x1b[2J")
