"""LogManager over several runs of a broker: checkpoints, the clean shutdown marker, recovery and file removal."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from actors.storage.disk import DiskAdapter
from actors.storage.log import Log, LogConfig
from actors.storage.log.producers import EXPIRATION_MS, KEPT_BATCHES, Producers
from actors.storage.log.segment import Segment
from actors.storage.log_directories import CLEAN_MARKER, HIGH_WATERMARKS, LOCK_FILE, RECOVERY_POINTS, CheckpointFile
from actors.storage.log_manager import NONE, OUT_OF_ORDER_SEQUENCE, PRODUCER_CHECK_MS, LogManager, recover
from messages.wire.control_batch import EndTransactionMarker
from messages.wire.record_batch import body_of
from tests.storage.batches import batch, end_marker, header_of, message
from tests.waiting import until

SMALL = attrs.astuple(LogConfig(segment_bytes=200, retention_ms=-1, retention_bytes=0))
NEVER = attrs.astuple(LogConfig(retention_ms=-1))


@pytest.fixture
def port() -> LogManager:
    return LogManager(lambda: 1_000)


def append(port: LogManager, path: str, value: bytes = b"x" * 60) -> None:
    data = batch(value)
    assert port.append(path, 0, False, False, body_of(data))[2][0] == 0


def test_what_was_not_closed_in_order_is_recovered_before_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`recover` skips directories that are in use or have a clean shutdown marker. The next start recovers nothing."""
    for name in ("doubtful", "used", "clean"):
        (tmp_path / name).mkdir()
        port = LogManager(lambda: 1_000)
        filled(port, str(tmp_path / name / "t-0"))
        if name == "clean":
            port.close_all()
        else:
            port.abandon()
            with max((tmp_path / name / "t-0").glob("*.log")).open("ab") as file:
                file.write(b"torn")
    disk = DiskAdapter()
    disk.lock(str(tmp_path / "used" / LOCK_FILE))
    before = {path: path.stat().st_mtime_ns for name in ("used", "clean") for path in (tmp_path / name).rglob("*")}
    recover([str(tmp_path / name) for name in ("doubtful", "used", "clean", "missing")], lambda: 1_000)
    disk.unlock(str(tmp_path / "used" / LOCK_FILE))
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert disk.lock(str(tmp_path / "doubtful" / LOCK_FILE)), "it is free again"
    disk.unlock(str(tmp_path / "doubtful" / LOCK_FILE))
    assert (tmp_path / "doubtful" / CLEAN_MARKER).exists()
    monkeypatch.setattr(Segment, "recover", None)
    assert LogManager(lambda: 1_000).open(str(tmp_path / "doubtful" / "t-0"), False, SMALL)[:2] == (0, 3)


@pytest.mark.parametrize("ends", [LogManager.close_all, LogManager.abandon])
def test_duplicates_are_recognised_after_a_restart(tmp_path: Path, ends: Callable[[LogManager], None]) -> None:
    """The log recognises all five kept batches as duplicates; Apache's snapshots have only each producer's last one."""
    path, count = str(tmp_path / "t-0"), KEPT_BATCHES + 1
    batches = [batch(b"a", b"b", producer=7, epoch=0, sequence=2 * number) for number in range(count)]

    def tried(port: LogManager, is_new: bool = False) -> list[int]:
        port.open(path, is_new, SMALL)
        return [port.append(path, 1, False, False, body_of(each))[2][0] for each in batches]

    first = LogManager(lambda: 1_000)
    assert tried(first, True) == [NONE] * count
    assert tried(first) == [OUT_OF_ORDER_SEQUENCE] + [NONE] * KEPT_BATCHES
    ends(first)
    recover([str(tmp_path)], lambda: 1_000)
    again = LogManager(lambda: 1_000)
    assert tried(again) == [OUT_OF_ORDER_SEQUENCE] + [NONE] * KEPT_BATCHES
    assert again.open(path, False, SMALL)[1] == 2 * count, "nothing is there twice"


def filled(port: LogManager, path: str, count: int = 3) -> None:
    port.open(path, True, SMALL)
    for _ in range(count):
        append(port, path)


def test_a_clean_stop_is_marked_and_the_mark_is_taken_away_at_the_start(port: LogManager, tmp_path: Path) -> None:
    filled(port, f"{tmp_path}/t-0")
    assert not (tmp_path / CLEAN_MARKER).exists()
    port.close_all()
    assert (tmp_path / CLEAN_MARKER).exists()
    again = LogManager(lambda: 1_000)
    assert again.open(f"{tmp_path}/t-0", False, SMALL)[:2] == (0, 3)
    assert not (tmp_path / CLEAN_MARKER).exists()


def test_a_directory_of_new_logs_is_unchanged_until_an_append(port: LogManager, tmp_path: Path) -> None:
    homes = {name: tmp_path / name for name in ("kept", "lost", "written")}
    for home in homes.values():
        home.mkdir()
        (home / CLEAN_MARKER).touch()
        port.open(f"{home}/t-0", True, NEVER)
    assert all((home / CLEAN_MARKER).exists() for home in homes.values()), "a kill would leave nothing to recover"
    append(port, f"{homes['written']}/t-0")
    assert not (homes["written"] / CLEAN_MARKER).exists(), "a kill would"
    (homes["lost"] / CLEAN_MARKER).unlink()
    port.lose(str(homes["lost"]))
    append(port, f"{homes['lost']}/t-0")  # in flight at the failure; nothing had been written there before
    port.close_all()
    assert {name for name, home in homes.items() if (home / CLEAN_MARKER).exists()} == {"kept", "written"}


def test_row_100_a_clean_stop_leaves_every_recovery_point_at_the_logs_end(port: LogManager, tmp_path: Path) -> None:
    filled(port, f"{tmp_path}/t-0")
    assert recovery_points(port, tmp_path) == "t 0 2", "a checkpoint came before the stop"
    port.close_all()
    assert (tmp_path / RECOVERY_POINTS).read_text().splitlines()[2:] == ["t 0 3"]


@pytest.mark.parametrize("was_clean", [True, False])
def test_an_unopened_log_is_as_sound_as_before(port: LogManager, tmp_path: Path, was_clean: bool) -> None:
    """After a kill, a run that opens only one of two logs writes no clean shutdown marker."""
    for name in ("t-0", "t-1", f"gone-0.{'0' * 32}-delete"):
        filled(port, f"{tmp_path}/{name}")
    if was_clean:
        port.close_all()
    with next((tmp_path / "t-1").glob("*2.log")).open("ab") as file:
        file.write(b"torn")
    short = LogManager(lambda: 1_000)
    short.open(f"{tmp_path}/t-0", False, SMALL)
    short.close_all()
    assert (tmp_path / CLEAN_MARKER).exists() is was_clean
    last = LogManager(lambda: 1_000)
    last.open(f"{tmp_path}/t-0", False, SMALL)
    assert last.open(f"{tmp_path}/t-1", False, SMALL)[1] == 3
    last.close_all()
    assert (tmp_path / CLEAN_MARKER).exists()


def test_files_of_old_segments_are_removed_at_the_next_look(port: LogManager, tmp_path: Path) -> None:
    path = f"{tmp_path}/t-0"
    filled(port, path)
    port.configure(path, attrs.astuple(attrs.evolve(LogConfig(*SMALL), file_delete_delay_ms=0)))
    assert port.expire(path, 3) == (3, 3, "retention.bytes")
    assert list((tmp_path / "t-0").glob("*.deleted"))
    assert port.expire(path, 3) == (3, 0, "")
    assert not list((tmp_path / "t-0").glob("*.deleted"))


def test_what_is_cleaned_of_a_log_is_known_where_it_moves(port: LogManager, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for place in (old, new):
        place.mkdir()
    path = f"{old}/t-0"
    filled(port, path)
    port._directory(str(old)).cleaned.set(("t", 0), 2)
    port.begin_copy(path, f"{new}/t-0.{'0' * 32}-future")
    while port.copy(path, 1 << 20)[0]:
        pass
    assert port.swap(path) == f"{new}/t-0"
    assert [(place / "cleaner-offset-checkpoint").read_text() for place in (old, new)] == ["0\n0\n", "0\n1\nt 0 2\n"]


def test_logs_with_expired_segments_are_found_in_slices(port: LogManager, tmp_path: Path) -> None:
    for number in range(5):
        filled(port, f"{tmp_path}/t-{number}", count=(3, 1, 3, 0, 1)[number])
    port.configure(f"{tmp_path}/t-1", NEVER)
    assert port.expirable(0, 2) == (2, (("t", 0),))
    assert port.expirable(2, 2) == (4, (("t", 2),))
    assert port.expirable(4, 2) == (-1, (("t", 4),))
    for number, count in ((0, 3), (2, 3), (4, 1)):
        assert port.expire(f"{tmp_path}/t-{number}", 3)[:2] == (count, count)
    assert port.expirable(0, 5) == (5, (("t", 0), ("t", 2), ("t", 4))), "their files are to be removed"
    assert port.expirable(5, 5) == (-1, ())
    for number, count in ((0, 3), (2, 3), (4, 1)):
        assert port.expire(f"{tmp_path}/t-{number}", 3)[:2] == (count, 0)
    assert port.expirable(0, 9) == (-1, ())


@pytest.mark.parametrize("reopened", [False, True])
def test_a_producer_silent_for_a_day_is_forgotten_when_retention_looks(tmp_path: Path, reopened: bool) -> None:
    """Kafka's removeExpiredProducers removes the producer, so its next batch counts as its first.

    A log without expired producers does not need `expire`.
    """
    now, path = [1_000], f"{tmp_path}/t-0"

    def produce(producer: int, sequence: int) -> int:
        data = batch(b"a", timestamp=now[0], producer=producer, epoch=1, sequence=sequence)
        [(error_code, *_)] = port.append(path, 0, False, False, body_of(data))[2:]
        return error_code

    def opened() -> LogManager:
        port = LogManager(lambda: now[0])
        for name in ("t-0", "idle-0"):
            port.open(f"{tmp_path}/{name}", not (tmp_path / name).exists(), NEVER)
        return port

    port = opened()
    assert produce(9, 0) == produce(8, 0) == NONE
    now[0] += EXPIRATION_MS - 1
    assert produce(8, 1) == NONE
    assert port.expirable(0, 9) == (-1, ())
    if reopened:
        port.close_all()
        port = opened()
        assert produce(7, 0) == NONE, "so that the log is open"
    now[0] += 1
    assert port.expirable(0, 9) == (-1, ()), "the next check of producers is later"
    assert port.expire(path, 3)[:2] == (0, 0)
    now[0] += PRODUCER_CHECK_MS
    assert port.expirable(0, 9) == (-1, (("t", 0),))
    assert produce(9, 5) == OUT_OF_ORDER_SEQUENCE, "it is known until then"
    assert port.expire(path, 3)[:2] == (0, 0)
    assert produce(9, 5) == NONE
    assert produce(8, 5) == OUT_OF_ORDER_SEQUENCE, "it is not silent"
    assert port.expirable(0, 9) == (-1, ())


def test_a_producer_whose_transaction_is_open_does_not_expire(tmp_path: Path) -> None:
    """Apache's snapshots contain such producers, because the transaction's marker is still to come."""
    now = 1_000 + EXPIRATION_MS
    producers = Producers(str(tmp_path))
    producers.add(header_of(batch(b"a", producer=9, epoch=1, sequence=0, transactional=True)))
    producers.write_snapshot(1)
    assert producers.load_snapshot(1)
    producers.expire(now)
    assert (len(producers), producers.may_expire(now)) == (1, False)
    end = end_marker(producer=9, epoch=1, committed=True, base_offset=1)
    producers.end(header_of(end), EndTransactionMarker(committed=True, coordinator_epoch=0))
    producers.expire(now)
    assert len(producers) == 0


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(["set", "forget", "write"]), st.integers(0, 3), st.integers(0, 3))))
def test_a_checkpoint_has_the_last_values(calls: list[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as folder:
        points, expected = CheckpointFile(folder, "checkpoint"), {}
        for call, partition, offset in [*calls, ("write", 0, 0)]:
            if call == "set":
                points.set(("t", partition), offset)
                expected[partition] = offset
            elif call == "forget":
                points.forget(("t", partition))
                expected.pop(partition, None)
            else:
                points.write()
                again = CheckpointFile(folder, "checkpoint")
                assert [again.get(("t", number)) for number in range(4)] == [expected.get(n, 0) for n in range(4)]
                points = again if offset == 0 else points


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("how", ["all its records are old", "it begins anew"])
def test_an_empty_log_continues_at_its_offset_after_a_stop(
    port: LogManager, tmp_path: Path, how: str, clean: bool
) -> None:
    path = f"{tmp_path}/t-0"
    filled(port, path)
    end = port.expire(path, 3)[0] if how == "all its records are old" else port.restart(path, 500)[1]
    if clean:
        port.close_all()
    again = LogManager(lambda: 1_000)
    assert again.open(path, False, SMALL)[:2] == (end, end)
    again.close_all()
    assert LogManager(lambda: 1_000).open(path, False, SMALL)[:2] == (end, end)


def test_a_closed_segment_has_both_its_indexes(port: LogManager, tmp_path: Path) -> None:
    filled(port, f"{tmp_path}/t-0", 2)
    port.close_all()
    for log in (tmp_path / "t-0").glob("*.log"):
        assert log.with_suffix(".index").exists() and log.with_suffix(".timeindex").exists()


def test_a_follower_refuses_a_batch_with_a_wrong_checksum(port: LogManager, tmp_path: Path) -> None:
    path = f"{tmp_path}/t-0"
    port.open(path, True, SMALL)
    good, damaged = batch(b"a", leader_epoch=0), bytearray(batch(b"b", base_offset=1, leader_epoch=0))
    damaged[-1] ^= 1
    assert port.replicate(path, body_of(good + bytes(damaged))) == (2, 1, -1)


def test_a_follower_takes_messages_of_an_old_format_and_has_no_epochs_then(port: LogManager, tmp_path: Path) -> None:
    """A leader with `message.format.version` below 0.11 sends them. A damaged one gets CORRUPT_MESSAGE (2)."""
    path = f"{tmp_path}/t-0"
    port.open(path, True, SMALL)
    old = message(1, 1, b"x" * 60)
    assert port.replicate(path, body_of(batch(b"a", leader_epoch=0) + old)) == (0, 2, -1)
    assert port.latest_epoch(path) == -1
    assert port.replicate(path, body_of(message(0, 2, b"y")[:-1] + b"?")) == (2, 2, -1)


def test_an_empty_log_is_opened_by_the_first_append_or_read(port: LogManager, tmp_path: Path) -> None:
    """Rule 1: a broker may host 100,000 empty logs. Each returns the same values as an open log."""
    path, other = f"{tmp_path}/t-0", f"{tmp_path}/t-1"
    assert port.open(path, True, SMALL) == port.open(other, True, SMALL) == (0, 0, -1, 0, -1)
    roomy = attrs.astuple(LogConfig(segment_bytes=10_000, retention_ms=-1, retention_bytes=-1))
    port.configure(path, roomy)
    assert port.expire(path, 0)[:2] == (0, 0)
    assert all(isinstance(each, tuple) for each in port._logs.values())
    port.begin_epoch(path, 4)
    assert port.epoch_end(path, 4) == (4, 0)
    for _ in range(5):
        append(port, path)
    assert port._log(path).segments == (0,), "the new configuration counts"
    port.close_all()
    again = LogManager(lambda: 1_000)
    assert [again.open(each, False, SMALL)[:2] for each in (path, other)] == [(0, 5), (0, 0)]
    assert again._logs[other] == SMALL
    assert isinstance(again._logs[path], Log)
    again.close(other, True)
    assert other not in again._logs


def test_row_100_every_log_is_in_the_checkpoint_and_a_truncation_in_the_next(port: LogManager, tmp_path: Path) -> None:
    for number in range(3):
        filled(port, f"{tmp_path}/t-{number}")

    def points() -> dict[str, int]:
        lines = (tmp_path / "recovery-point-offset-checkpoint").read_text().splitlines()
        assert lines[:2] == ["0", "3"]
        return {f"{topic}-{number}": int(offset) for topic, number, offset in map(str.split, lines[2:])}

    assert port.checkpoint() == ()
    assert points() == {f"t-{number}": 2 for number in range(3)}, "the active segment is not flushed"
    port.truncate(f"{tmp_path}/t-1", 1)
    assert port.checkpoint() == ()
    assert points()["t-1"] == 1


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Block fsync on all threads but the main one until the returned event is set, for at most 10 s."""
    event, fsync = threading.Event(), os.fsync

    def waiting(descriptor: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            event.wait(10)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", waiting)
    yield event
    event.set()


def recovery_points(port: LogManager, folder: Path) -> str:
    """Write a checkpoint, and return the entries of its recovery point file; empty without a file."""
    assert port.checkpoint() == ()
    file = folder / RECOVERY_POINTS
    return file.read_text().split("\n", 2)[2].strip() if file.exists() else ""


def test_a_checkpoint_does_not_wait_for_the_disk(tmp_path: Path, held: threading.Event) -> None:
    """The recovery point moves only after the segments below it are durable, also those completed meanwhile."""
    port = LogManager(lambda: 1_000, None, ThreadPoolExecutor(1))
    filled(port, f"{tmp_path}/t-0", 3)
    assert [recovery_points(port, tmp_path) for _ in range(2)] == ["t 0 0"] * 2
    filled_up = port.open(f"{tmp_path}/t-0", False, SMALL)[1]
    for _ in range(2):
        append(port, f"{tmp_path}/t-0")
    held.set()
    until(lambda: recovery_points(port, tmp_path), lambda seen: seen == f"t 0 {filled_up + 1}", "all but the last")
    port.close_all()
    assert (tmp_path / CLEAN_MARKER).exists()


def test_records_truncated_during_a_flush_are_not_durable(tmp_path: Path, held: threading.Event) -> None:
    """Other records replace the truncated ones, so the earlier flush does not move the recovery point past them."""
    executor = ThreadPoolExecutor(1)
    port = LogManager(lambda: 1_000, None, executor)
    filled(port, f"{tmp_path}/t-0", 3)
    assert recovery_points(port, tmp_path) == "t 0 0"
    port.truncate(f"{tmp_path}/t-0", 1)
    for _ in range(3):
        append(port, f"{tmp_path}/t-0")
    held.set()
    executor.submit(lambda: None).result(10)
    held.clear()
    assert recovery_points(port, tmp_path) == "t 0 0"


def test_a_disk_that_fails_on_the_thread_costs_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = ThreadPoolExecutor(1)
    port = LogManager(lambda: 1_000, None, executor)
    filled(port, f"{tmp_path}/t-0", 3)

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    first = port.checkpoint()
    executor.submit(lambda: None).result(10)
    assert (*first, *port.checkpoint()) == ((str(tmp_path), "Input/output error"),)


def test_a_time_is_looked_for_from_the_logs_start_on(port: LogManager, tmp_path: Path) -> None:
    """The search ignores records below the log start offset, even if their batch extends beyond it."""
    path = f"{tmp_path}/t-0"
    port.open(path, True, SMALL)
    for times in ((1000, 9000, 2000), (3000,)):
        builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
        for offset, time in enumerate(times):
            builder.append(offset, time, None, b"a", [])
        data = bytes(builder.build())
        assert port.append(path, 0, False, False, body_of(data))[2][0] == 0
    assert port.find_time(path, 0, 4)[1:3] == (1000, 0)
    port.advance_start(path, 2)
    assert port.find_time(path, 0, 4)[1:3] == (2000, 2)
    assert port.find_time(path, 2500, 4)[1:3] == (3000, 3), "9000 lies before the start"
    assert port.find_time(path, 2500, 3)[1:3] == (-1, -1), "beyond the limit"
    assert port.find_time(path, 9000, 4)[1:3] == (-1, -1)


def test_what_follows_a_start_that_moved_back_survives_a_kill(port: LogManager, tmp_path: Path) -> None:
    """An unclean election can truncate a follower below its log start offset.

    After a kill, the old log start offset in the checkpoint must not remove the new records.
    """
    path = f"{tmp_path}/t-0"
    filled(port, path, 6)
    port.advance_start(path, 5)
    assert port.checkpoint() == ()
    port.note_high_watermark(path, 6)
    assert port.checkpoint_high_watermarks() == ()
    assert port.truncate(path, 3) == (3, 3, -1)
    assert CheckpointFile(str(tmp_path), HIGH_WATERMARKS).get(("t", 0)) == 3
    append(port, path)
    port.abandon()
    again = LogManager(lambda: 1_000)
    assert again.open(path, False, SMALL)[:2] == (3, 4)
    append(again, path)
    again.advance_start(path, 5)
    assert again.checkpoint() == ()
    assert again.restart(path, 2) == (2, 2, -1)
    append(again, path)
    again.abandon()
    assert LogManager(lambda: 1_000).open(path, False, SMALL)[:2] == (2, 3)


def test_lines_of_logs_without_a_folder_are_forgotten(port: LogManager, tmp_path: Path) -> None:
    """Such lines stay after a kill between a deletion and the next checkpoint. The lines of other logs are kept."""
    for number in range(3):
        filled(port, f"{tmp_path}/t-{number}")
        port.note_high_watermark(f"{tmp_path}/t-{number}", 3)
    port.close_all()
    (tmp_path / "t-1").rename(tmp_path / f"t-1.{'0' * 32}-delete")
    again = LogManager(lambda: 1_000)
    again.open(f"{tmp_path}/t-3", True, SMALL)
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        assert (tmp_path / name).read_text().splitlines()[2:] == ["t 0 3", "t 2 3"]
    assert (tmp_path / CLEAN_MARKER).exists(), "no log was read or written yet"


def test_a_checkpoint_that_does_not_fit_on_the_disk_leaves_the_old_one(
    port: LogManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(port, f"{tmp_path}/t-0")
    assert recovery_points(port, tmp_path) == "t 0 2"
    before, write = (tmp_path / RECOVERY_POINTS).read_bytes(), os.write
    append(port, f"{tmp_path}/t-0")
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:5]))
    assert port.checkpoint() == ((str(tmp_path), "No space left on device"),)
    assert (tmp_path / RECOVERY_POINTS).read_bytes() == before


def test_a_leader_epoch_without_records_is_in_the_file_where_the_log_has_some(port: LogManager, tmp_path: Path) -> None:
    """An Apache broker that takes over the directory needs it. An empty log has no file (partition.py, rule 5)."""
    port.open(f"{tmp_path}/t-0", True, SMALL)
    port.begin_epoch(f"{tmp_path}/t-0", 4)
    append(port, f"{tmp_path}/t-0")
    port.begin_epoch(f"{tmp_path}/t-0", 7)
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n4 0\n7 1\n"
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(b"damaged")
    again = LogManager(lambda: 1_000)
    assert again.open(f"{tmp_path}/t-0", False, SMALL)[1] == 0
    again.begin_epoch(f"{tmp_path}/t-0", 8)
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n8 0\n"
    port.open(f"{tmp_path}/u-0", True, SMALL)
    port.begin_epoch(f"{tmp_path}/u-0", 7)
    assert not list((tmp_path / "u-0").iterdir())
