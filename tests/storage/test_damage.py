"""LogManager with damaged files and failed directories (broker.md 5.1, 5.6)."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.storage.directory_checkpoints import CLEAN_MARKER, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from actors.storage.log_manager import NONE, OUT_OF_ORDER_SEQUENCE, LogManager
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
    survive_damage(tmp_path, kind, clean, places=24)


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
