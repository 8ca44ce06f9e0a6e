"""LogManager with damaged files and failed directories (broker.md 5.1, 5.6)."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.storage.log_directories import CLEAN_MARKER, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from actors.storage.log_manager import NONE, OUT_OF_ORDER_SEQUENCE, LogManager, recover
from messages.records import Body
from messages.wire import MalformedFrame
from messages.wire.record_batch import body_of, whole_batches
from tests.storage.batches import batch

CONFIG = (600, 10**9, 1 << 20, 100, -1, -1)
"""Fields of LogConfig: small segments, with an index entry for each batch except the first."""
BATCHES = 12
CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)
KINDS = ("log", "index", "timeindex", "snapshot", "leader-epoch-checkpoint", *CHECKPOINTS)


def port() -> LogManager:
    return LogManager(lambda: 2_000)


def append(logs: LogManager, path: str, number: int) -> int:
    """Append batch `number`, which has two records, and return the error code."""
    data = batch(b"x" * 30, b"%d" % number, timestamp=1000 + number, producer=7, epoch=0, sequence=2 * number)
    *_, (error_code, *_) = logs.append(path, 1 + number // 5, False, False, body_of(data))
    return error_code


def filled(path: Path) -> LogManager:
    """Create a log of 24 records with three segments and three leader epochs, and return its LogManager.

    The log start offset is 2. The last checkpoint comes after 14 records.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    logs, name = port(), str(path)
    logs.open(name, True, CONFIG)
    for number in range(BATCHES):
        if number % 5 == 0:
            logs.begin_epoch(name, 1 + number // 5)
        assert append(logs, name, number) == NONE
        if number == BATCHES // 2:
            logs.advance_start(name, 2)
            logs.note_high_watermark(name, 2 * number)
            logs.checkpoint()
            logs.checkpoint_high_watermarks()
    return logs


def offsets(logs: LogManager, path: str, start: int, end: int) -> list[int]:
    """Return the base offsets of the batches that a consumer reads, up to the first damaged batch or error."""
    found: list[int] = []
    with contextlib.suppress(MalformedFrame):
        while start < end:
            code, body = logs.read(path, start, 200, end, True)
            if code != NONE or not body.size:
                break
            for _, header in whole_batches(_bytes(body)):
                found.append(header.base_offset)
                start = header.next_offset
    return found


def _bytes(body: Body) -> memoryview:
    return memoryview(body.data)


def damages(data: bytes, places: int) -> Iterator[bytes]:
    """Yield damaged files: truncated or with one changed byte, at `places` places; with a junk tail; all zeros."""
    step = max(1, len(data) // places)
    for place in range(0, len(data), step):
        yield data[:place]
        yield data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :]
    yield data + b"\xff" * 50
    yield b"\0" * len(data)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_costs_at_most_what_was_in_it(tmp_path: Path, kind: str, clean: bool) -> None:
    survive_damage(tmp_path, kind, clean, places=9)


def survive_damage(place: Path, kind: str, clean: bool, places: int) -> None:
    """Damage each file of a kind; check that the log opens, returns complete batches in order, and takes appends."""
    whole = place / "whole"
    logs = filled(whole / "t-0")
    if clean:
        logs.close_all()
    files = [whole / kind] if kind in CHECKPOINTS else sorted((whole / "t-0").glob(f"*{kind}"))
    assert files, "there is something to damage"
    everything = list(range(2, 2 * BATCHES, 2))
    for file in files:
        for number, damaged in enumerate(damages(file.read_bytes(), places)):
            copy = place / f"{number}"
            shutil.copytree(whole, copy)
            (copy / file.relative_to(whole)).write_bytes(damaged)
            again, name = port(), str(copy / "t-0")
            start, end, _, high_watermark, _ = again.open(name, False, CONFIG)
            found = offsets(again, name, start, end)
            what = f"{file.name} {'cut at' if len(damaged) < file.stat().st_size else 'changed'} ({number})"
            assert found == sorted(set(found)), what
            if kind == LOG_STARTS:  # a changed number cannot be detected
                assert (found or [end])[-1] in (2 * BATCHES - 2, end), what
            elif kind != "log":
                assert found == everything, what
                assert end == 2 * BATCHES, what
            elif len(damaged) < file.stat().st_size:
                assert set(found) <= set(everything), what
                if not clean and file is files[-1]:  # a crash leaves such a file
                    assert found == everything[: len(found)], what
            assert high_watermark >= 0, what
            if kind not in ("log", LOG_STARTS):
                assert append(again, name, BATCHES - 1) == NONE, what
                assert again.open(name, False, CONFIG)[1] == end, f"{what}: the producer's last batch exists already"
            assert append(again, name, BATCHES + 1) in (NONE, OUT_OF_ORDER_SEQUENCE), what
            again.find_time(name, 1000 + BATCHES, end)
            again.epoch_end(name, 2)
            again.close(name, False)
            shutil.rmtree(copy)


def flip(file: Path, number: int, at: int, bit: int = 1) -> int:
    """Flip a bit of batch `number` of a segment, at a position in the batch; return the batch's position."""
    data = bytearray(file.read_bytes())
    position = [position for position, _ in whole_batches(bytes(data))][number]
    data[position + at] ^= bit
    file.write_bytes(data)
    return position


def stopped(path: Path, clean: bool = True) -> Path:
    """Create a log of 12 batches in one segment, all committed, stop, and return the segment's file."""
    logs = port()
    logs.open(str(path), True, (1 << 20, *CONFIG[1:]))
    for number in range(BATCHES):
        append(logs, str(path), number)
    logs.note_high_watermark(str(path), 2 * BATCHES)
    logs.checkpoint_high_watermarks()
    if clean:
        logs.close_all()
    else:
        logs.abandon()
    return path / f"{0:020d}.log"


@pytest.mark.parametrize("number", [3, BATCHES - 1])
@pytest.mark.parametrize(("at", "bit"), [(16, 1), (16, 0x80), (17, 1), (70, 1), (22, 4), (33, 1)])
def test_after_a_clean_stop_a_damaged_batch_is_stepped_over(tmp_path: Path, number: int, at: int, bit: int) -> None:
    """Format, checksum, records, attributes, time: the length is right, and Kafka's brokers keep such a log too."""
    file = stopped(tmp_path / "t-0")
    flip(file, number, at, bit)
    damaged, logs = file.read_bytes(), port()
    start, end, *_ = logs.open(str(file.parent), False, CONFIG)
    assert (start, end) == (0, 2 * BATCHES)
    if number < BATCHES - 1:
        assert offsets(logs, str(file.parent), 2 * number + 2, end)[0] == 2 * number + 2
    logs.close_all()
    assert file.read_bytes() == damaged


@pytest.mark.parametrize(("number", "at"), [(0, 9), (3, 8), (BATCHES - 1, 9), (BATCHES - 1, 11), (BATCHES - 1, 23)])
def test_a_log_that_lost_committed_records_keeps_its_file_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int, at: int
) -> None:
    """The length is wrong, or the number of the last record. Only a change of the log changes the file."""
    file = stopped(tmp_path / "t-0")
    for index in file.parent.glob("*.index"):
        index.unlink()
    position = flip(file, number, at, 1 if at == 11 else 0x40)
    damaged, name = file.read_bytes(), str(file.parent)
    for _ in range(2):
        logs = port()
        _, end, _, high_watermark, _ = logs.open(name, False, CONFIG)
        assert (end, high_watermark) == (2 * number, 2 * BATCHES)
        assert logs.damaged_logs() == 1
        assert f"{file}: {len(damaged) - position} bytes from position {position} on cannot be read" in caplog.text
        logs.close_all()
        assert file.read_bytes() == damaged
    logs = port()
    logs.open(name, False, CONFIG)
    assert logs.replicate(name, body_of(batch(b"new", base_offset=2 * number, leader_epoch=7)))[:2] == (NONE, end + 1)
    assert Path(f"{file}.damaged").read_bytes() == damaged
    logs.close_all()
    again = port()
    assert again.open(name, False, CONFIG)[1] == end + 1
    assert again.damaged_logs() == 1, "until the kept file is removed"


def test_records_that_a_recovery_cuts_below_the_high_watermark_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = stopped(tmp_path / "t-0", clean=False)
    position = flip(file, 3, 70)
    damaged = file.read_bytes()
    recover([str(tmp_path)], lambda: 2_000)
    assert Path(f"{file}.damaged").read_bytes() == damaged
    assert f"{file}: {len(damaged) - position} bytes from position {position} on cannot be read" in caplog.text
    logs = port()
    _, end, _, high_watermark, _ = logs.open(str(file.parent), False, CONFIG)
    assert (end, high_watermark, logs.damaged_logs()) == (6, 2 * BATCHES, 1)


def test_a_damaged_epoch_file_after_a_clean_stop_cuts_no_records(tmp_path: Path) -> None:
    file = stopped(tmp_path / "t-0")
    flip(file, 3, 70)
    (file.parent / "leader-epoch-checkpoint").write_text("junk")
    damaged, logs = file.read_bytes(), port()
    assert logs.open(str(file.parent), False, CONFIG)[1:3] == (2 * BATCHES, 1 + (BATCHES - 1) // 5)
    assert file.read_bytes() == damaged


def test_producers_are_found_in_the_batches_where_their_only_snapshot_is_damaged(tmp_path: Path) -> None:
    """Otherwise, a retried last batch of the producer would be appended again."""
    logs, name = port(), str(tmp_path / "t-0")
    logs.open(name, True, (1 << 20, *CONFIG[1:]))
    for number in range(3):
        assert append(logs, name, number) == NONE
    logs.close_all()
    [snapshot] = (tmp_path / "t-0").glob("*.snapshot")
    for damaged in damages(snapshot.read_bytes(), 24):
        snapshot.write_bytes(damaged)
        (tmp_path / CLEAN_MARKER).touch()
        again = port()
        again.open(name, False, CONFIG)
        assert append(again, name, 2) == NONE
        assert again.open(name, False, CONFIG)[1] == 6
        again.close(name, False)


def test_a_directory_that_failed_is_written_to_no_more_and_the_others_are(tmp_path: Path) -> None:
    """Kafka writes no clean shutdown marker to an offline directory, so the next start recovers its logs."""
    logs = filled(tmp_path / "a" / "t-0")
    for name in "bc":
        (tmp_path / name).mkdir()
        logs.open(str(tmp_path / name / "u-0"), True, CONFIG)
        assert append(logs, str(tmp_path / name / "u-0"), 0) == NONE
    logs.lose(str(tmp_path / "a"))
    logs.lose(str(tmp_path / "never opened"))
    (tmp_path / "b" / RECOVERY_POINTS).mkdir()
    assert logs.checkpoint() == ((str(tmp_path / "b"), "Is a directory"),)
    logs.lose(str(tmp_path / "b"))
    assert logs.checkpoint() == ()
    before = sorted((tmp_path / "a").iterdir())
    logs.close_all()
    assert sorted((tmp_path / "a").iterdir()) == before
    assert [(tmp_path / name / CLEAN_MARKER).exists() for name in "abc"] == [False, False, True]
