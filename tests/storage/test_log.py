"""Compare a partition's log with a model, and its files with Kafka's format (broker.md 5, 9.7)."""

from __future__ import annotations

import itertools
import os
import shutil
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.storage.log import (
    Appended,
    Handles,
    InvalidProducerEpoch,
    Log,
    LogConfig,
    OffsetOutOfRange,
    OutOfOrderSequence,
)
from actors.storage.log.flushing import SynchronousFlusher
from actors.storage.log.producers import EXPIRATION_MS
from messages.wire.record_batch import whole_batches
from tests.cluster.java_tools import run_tool
from tests.storage.batches import batch, end_marker, header_of, message

NOW = 2_000
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "t-0")


def opened(folder: str, clean: bool = True, config: LogConfig = SMALL, **checkpoints: int) -> Log:
    log = Log(folder, Handles(), config)
    if not Path(folder).exists():
        Path(folder).mkdir()
        return log
    log.load(clean, **checkpoints)
    return log


def append(log: Log, *values: bytes, leader_epoch: int = 0, now: int = NOW, **fields: int) -> Appended:
    data = batch(*values, **fields)
    [became] = log.append_as_leader([memoryview(data)], leader_epoch, now)
    if isinstance(became, Exception):
        raise became
    return became


def filled(folder: str, count: int = 40, **fields: int) -> Log:
    log = opened(folder)
    for number in range(count):
        append(log, b"x" * 20, b"y%d" % number, timestamp=1000 + number * 10, **fields)
    return log


def offsets(log: Log, limit: int | None = None) -> list[int]:
    """Return the base offsets of all batches from the log start offset up to `limit`."""
    found, offset, end = [], log.start, log.end if limit is None else limit
    while offset < end:
        data = log.read(offset, 300, end, at_least_one=True).data
        if not data:
            break  # a truncation in the middle of a batch leaves a gap before the log end offset
        for _, header in whole_batches(data):
            found.append(header.base_offset)
            offset = header.next_offset
    return found


# ------------------------------------------------------------------------------------------------ reading and writing


def test_row_49_what_is_appended_is_read_back_from_every_offset(folder: str) -> None:
    log = filled(folder)
    assert (log.start, log.end) == (0, 80)
    assert len(log.segments) > 3
    for offset in range(80):
        header = header_of(log.read(offset, 1, 80, at_least_one=True).data)
        assert header.base_offset <= offset <= header.last_offset


def test_a_read_ends_at_the_limit_and_never_in_another_segment(folder: str) -> None:
    log = filled(folder)
    for limit in range(0, 81, 2):
        assert offsets(log, limit) == list(range(0, limit, 2))
    assert log.read(4, 1000, 4).data == b""
    with pytest.raises(OffsetOutOfRange):
        log.read(81, 1000, 81)


def test_a_batch_larger_than_the_limit_is_returned_only_if_required(folder: str) -> None:
    log = filled(folder, 2)
    size = header_of(log.read(0, 1 << 20, 4).data).size
    assert len(log.read(0, 10, 4).data) == 10
    assert log.read(0, 10, 4).first_is_cut
    assert len(log.read(0, 10, 4, at_least_one=True).data) == size


def test_row_37_a_leader_stamps_offset_and_epoch_and_nothing_else(folder: str) -> None:
    log = filled(folder, 3)
    data = batch(b"a", b"b")
    log.append_as_leader([memoryview(data)], 72, NOW)
    stored = log.read(6, 1 << 20, 8).data
    assert stored[16:] == data[16:]
    assert (header_of(stored).base_offset, header_of(stored).leader_epoch) == (6, 72)


SENT = st.tuples(st.integers(1, 3), st.integers(0, 90), st.integers(990, 1_400), st.sampled_from((-1, -1, -1, 5)))
"""A batch: (number of records, size of each in bytes, timestamp in ms, producer id or -1)."""
CONFIGS = (
    SMALL,
    LogConfig(index_interval_bytes=0, segment_index_bytes=80),
    LogConfig(segment_ms=300, index_interval_bytes=200),
)


@given(
    config=st.sampled_from(CONFIGS),
    together=st.lists(st.lists(SENT, max_size=12), max_size=4),
    append_time=st.booleans(),
)
def test_batches_written_together_are_stored_as_single_ones(
    config: LogConfig, together: list[list[tuple[int, int, int, int]]], append_time: bool
) -> None:
    with TemporaryDirectory() as place:
        logs = [opened(f"{place}/{name}", config=config) for name in ("together", "alone")]
        sequence = 0
        for sent in together:
            batches = []
            for records, size, time, producer in sent:
                numbers = {} if producer < 0 else {"producer": producer, "epoch": 0, "sequence": sequence}
                sequence += 0 if producer < 0 else records
                batches.append(memoryview(batch(*[b"v" * size] * records, timestamp=time, **numbers)))
            said = logs[0].append_as_leader(batches, 3, NOW, append_time)
            assert said == [logs[1].append_as_leader([each], 3, NOW, append_time)[0] for each in batches]
        for log in logs:
            log.close()
        first, second = ({path.name: path.read_bytes() for path in Path(log.folder).iterdir()} for log in logs)
        assert first == second


def test_of_batches_that_do_not_fit_on_the_disk_together_none_is_there(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(folder, 3)
    size = log.active.size
    monkeypatch.setattr(os, "pwritev", lambda to, pieces, at: os.pwrite(to, b"".join(pieces)[:100], at))
    with pytest.raises(OSError, match="No space"):
        log.append_as_leader([memoryview(batch(b"z")), memoryview(batch(b"z" * 20))], 0, NOW)
    assert (log.end, log.active.size, Path(log.active.path).stat().st_size) == (6, size, size)


def test_the_time_of_the_append_is_stamped_with_a_checksum_that_fits(folder: str) -> None:
    log = opened(folder)
    data = batch(b"a", b"b")
    assert log.append_as_leader([memoryview(data)], 0, NOW, append_time=True) == [(0, 1, NOW, False)]
    [place] = log.active.batches(checked=True)
    assert place.header.max_timestamp == NOW
    assert place.header.attributes & 8


def test_row_37_a_follower_keeps_every_byte_and_drops_what_is_cut(folder: str) -> None:
    log = opened(folder)
    first = batch(b"a", b"b", base_offset=7, leader_epoch=3)
    second = batch(b"c", base_offset=12, leader_epoch=5)
    log.append_as_follower(memoryview(first + second + first[:30]), NOW)
    assert log.read(7, 1 << 20, 13).data == first + second
    assert (log.start, log.end) == (0, 13)
    assert log.epochs.entries == ((3, 7), (5, 12))
    with pytest.raises(ValueError, match="must not begin before the log end offset 13"):
        log.append_as_follower(memoryview(second), NOW)


def test_times_are_found_in_whichever_segment_they_are(folder: str) -> None:
    log = filled(folder)
    for number in range(40):
        found = log.batch_for_time(1000 + number * 10, log.start)
        assert found is not None
        assert found[0].base_offset == 2 * number
    assert log.batch_for_time(1000 + 40 * 10, log.start) is None


# ------------------------------------------------------------------------------------------------ producers


def test_rows_38_to_41_a_producer_repeats_skips_and_falls_behind(folder: str) -> None:
    """The log accepts, repeats or refuses a producer's batches as Kafka does (broker.md 9.3 rows 38 to 41)."""
    log = opened(folder)
    for sequence in range(6):
        append(log, b"a", producer=9, epoch=1, sequence=sequence)
    assert append(log, b"a", producer=9, epoch=1, sequence=5) == (5, 5, 1000, True)
    assert append(log, b"a", producer=9, epoch=1, sequence=1).first_offset == 1
    for wrong in (0, 7):
        with pytest.raises(OutOfOrderSequence):
            append(log, b"a", producer=9, epoch=1, sequence=wrong)
    with pytest.raises(InvalidProducerEpoch):
        append(log, b"a", producer=9, epoch=0, sequence=6)
    with pytest.raises(OutOfOrderSequence):
        append(log, b"a", producer=9, epoch=2, sequence=6)
    assert append(log, b"a", producer=9, epoch=2, sequence=0).first_offset == 6
    assert append(log, b"a", producer=17, epoch=0, sequence=17).first_offset == 7
    assert log.end == 8


@pytest.mark.parametrize("clean", [True, False])
def test_producers_survive_a_restart(folder: str, clean: bool) -> None:
    log = opened(folder)
    for sequence in range(40):
        append(log, b"a" * 30, producer=9, epoch=1, sequence=sequence)
    if clean:
        log.close()
    log = opened(folder, clean)
    assert append(log, b"a" * 30, producer=9, epoch=1, sequence=39) == (39, 39, 1000, True)
    assert append(log, b"a", producer=9, epoch=1, sequence=40).first_offset == 40


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("cut", ["restart", "truncate", "batch"])
def test_a_restarted_log_has_no_earlier_producers(folder: str, cut: str, killed: bool) -> None:
    """Kafka's truncateFullyAndStartAt clears the producers; otherwise, their next batches would be refused with 45."""
    log = opened(folder)
    for sequence in range(40):
        append(log, b"a" * 30, producer=9, epoch=1, sequence=sequence)
    log.producers.write_snapshot(log.end)
    if cut == "restart":
        log.restart(60)
    elif cut == "truncate":
        log.truncate_to(0)
    else:
        log.advance_start(log.end)
        log.append_as_follower(memoryview(batch(b"a", b"b", b"c", b"d", base_offset=38, leader_epoch=2)), NOW)
    assert (len(log.producers), log.producers.snapshots()) == (0, [])
    while log.end < 60:
        append(log, b"a" * 30)
    log = opened(folder, clean=False) if killed else log
    assert append(log, b"a", producer=9, epoch=1, sequence=77).first_offset == 60


def test_no_kill_in_a_cut_leaves_a_snapshot_of_what_is_gone(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(folder)
    for sequence in range(40):
        append(log, b"a" * 30, producer=9, epoch=1, sequence=sequence)
    log.producers.write_snapshot(log.end)
    monkeypatch.setattr(Log, "_drop", None)
    for target in (20, 0):
        with pytest.raises(TypeError):
            log.truncate_to(target)
        assert all(offset <= target for offset in log.producers.snapshots())


def test_a_snapshot_beyond_the_end_is_removed_at_the_start(folder: str) -> None:
    log = opened(folder)
    for sequence in range(10):
        append(log, b"a", producer=9, epoch=1, sequence=sequence)
    log.producers.write_snapshot(500)
    log.close()
    assert opened(folder).producers.snapshots() == [10]


@pytest.mark.parametrize("known_by", ["marker", "snapshot"])
def test_a_producer_known_by_a_marker_alone_begins_at_sequence_0(folder: str, known_by: str) -> None:
    """Kafka's checkSequence uses -1 as its last sequence: its batches were removed, but its epoch is known."""
    log = opened(folder)
    log.append_as_follower(memoryview(end_marker(9, 3, committed=True, leader_epoch=0)), NOW)
    if known_by == "snapshot":
        log.close()
        log = opened(folder)
    assert len(log.producers) == 1
    with pytest.raises(OutOfOrderSequence, match="sequence 5 where 0 is due"):
        append(log, b"a", producer=9, epoch=3, sequence=5)
    with pytest.raises(InvalidProducerEpoch):
        append(log, b"a", producer=9, epoch=2, sequence=0)
    log.producers.expire(1_000 + EXPIRATION_MS - 1)
    assert append(log, b"a", producer=9, epoch=3, sequence=0).first_offset == 1


def test_a_marker_of_the_same_epoch_leaves_a_producers_sequence(folder: str) -> None:
    log = opened(folder)
    append(log, b"a", b"b", producer=9, epoch=3, sequence=0)
    log.append_as_follower(memoryview(end_marker(9, 3, True, base_offset=2, leader_epoch=0)), NOW)
    with pytest.raises(OutOfOrderSequence):
        append(log, b"c", producer=9, epoch=3, sequence=0)
    assert append(log, b"c", producer=9, epoch=3, sequence=2).first_offset == 3
    log.append_as_follower(memoryview(end_marker(9, 4, False, base_offset=4, leader_epoch=0)), NOW)
    with pytest.raises(OutOfOrderSequence):
        append(log, b"d", producer=9, epoch=4, sequence=3)
    assert append(log, b"d", producer=9, epoch=4, sequence=0).first_offset == 5


# ------------------------------------------------------------------------------------------------ old formats


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("before", [0, 1, 40], ids=["alone", "after a batch", "after segments"])
def test_messages_of_an_old_format_are_loaded_and_followed_by_batches(
    folder: str, magic: int, before: int, clean: bool
) -> None:
    log = filled(folder, before)
    log.close()
    place = Path(folder) / f"{2 * before:020d}.log" if before != 1 else Path(log.active.path)
    with place.open("ab") as file:
        for offset in range(2 * before, 2 * before + 3):
            file.write(message(magic, offset, b"old", timestamp=2_000 + offset))
    again = opened(folder, clean)
    assert again.end == 2 * before + 3
    append(again, b"new", timestamp=3_000)
    last = again.end - 1
    assert offsets(again) == [*range(0, 2 * before, 2), *range(2 * before, last + 1)]
    found = again.batch_for_time(2_000 + last - 1, 0)
    assert found is not None and found[0].base_offset == (last - 1 if magic else last)
    again.truncate_to(last - 2)
    assert opened(folder, clean).end == last - 2


def test_a_damaged_message_of_an_old_format_ends_the_recovered_log(folder: str) -> None:
    opened(folder)
    first, second = message(1, 0, b"first"), message(1, 1, b"second")
    (Path(folder) / f"{0:020d}.log").write_bytes(first + second[:-1] + b"?")
    assert opened(folder, clean=False).end == 1


@pytest.mark.parametrize("tail", [b"\0" * 300, message(1, 80, b"torn")[:-1], batch(b"a" * 50)[:12] + b"\0" * 100])
def test_what_only_looks_like_an_old_message_is_cut_as_any_torn_write(folder: str, tail: bytes) -> None:
    log = filled(folder)
    log.flush()
    with Path(log.active.path).open("ab") as file:
        file.write(tail)
    assert opened(folder, clean=False).end == 80


def test_a_batch_of_the_leader_with_an_older_epoch_replaces_a_later_one(folder: str) -> None:
    """This broker led in epoch 2 without an append. The next leader has a record of epoch 0 at the same offset."""
    log = opened(folder)
    log.append_as_follower(memoryview(batch(b"a", b"b", leader_epoch=0)), NOW)
    log.epochs.assign(2, log.end)
    log.epochs.save()
    log.append_as_follower(memoryview(batch(b"c", base_offset=2, leader_epoch=0)), NOW)
    assert log.epochs.latest == 0
    assert log.epochs.end_offset_for(0, log.end) == (0, 3)
    log.flush()
    assert opened(folder, clean=False).epochs.latest == 0, "also after a crash"


# ------------------------------------------------------------------------------------------------ cutting


def test_row_91_a_truncation_removes_segments_indexes_and_epochs(folder: str) -> None:
    log = filled(folder)
    log.epochs.assign(1, 0)
    log.epochs.assign(4, 50)
    for target in (79, 60, 51, 30, 2):
        log.truncate_to(target)
        assert log.end == target
        assert offsets(log) == list(range(0, target - 1, 2))
        assert all(entry.start < target for entry in log.epochs.entries)
    log.truncate_to(5)
    assert log.end == 2
    log.restart(100)
    assert (log.start, log.end, log.segments) == (100, 100, (100,))
    assert append(log, b"a").first_offset == 100


@pytest.mark.parametrize("cut", ["truncated", "begun anew", "expired"])
def test_apaches_index_of_aborted_transactions_goes_with_its_segment(folder: str, cut: str) -> None:
    """Otherwise, a later segment with the same base offset would seem to contain those transactions."""
    filled(folder).close()
    bases = {int(path.stem) for path in Path(folder).glob("*.log")}
    for base in bases:
        (Path(folder) / f"{base:020d}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 7, base, base + 1, base + 2))
    log = opened(folder)
    if cut == "truncated":
        log.truncate_to(30)
    elif cut == "begun anew":
        log.restart(0)
        bases.clear()
    else:
        log.advance_start(50)
        log.expire(log.end, 0)
    left = {int(path.stem) for path in Path(folder).glob("*.txnindex")}
    assert left == bases & set(log.segments)


def test_row_93_segments_expire_by_time_but_not_above_the_high_watermark(folder: str) -> None:
    log = filled(folder)
    segments = log.segments
    log.config = LogConfig(segment_bytes=1000, retention_ms=1)
    assert log.expire(segments[2], 10**6) == 2
    assert (log.start, log.segments) == (segments[2], segments[2:])
    log.expire(log.end, 10**6)
    assert (log.start, log.end, log.segments) == (80, 80, (80,))
    assert log.expire(log.end, 10**9) == 0


def test_segments_are_removed_by_size_and_by_log_start(folder: str) -> None:
    log = filled(folder)
    segments = log.segments
    log.config = LogConfig(segment_bytes=1000, retention_ms=-1, retention_bytes=log.size - 1500)
    assert log.expire(log.end, 0) == 1
    log.config = LogConfig(retention_ms=-1)
    log.advance_start(segments[3] + 1)
    assert log.expire(log.end, 0) == 2
    assert (log.start, log.segments[0]) == (segments[3] + 1, segments[3])
    assert any(entry.name.endswith(".deleted") for entry in Path(folder).iterdir())
    for now_ms, left in ((0, True), (59_999, True), (60_000, False)):
        log.remove_deleted(now_ms)
        assert any(entry.name.endswith(".deleted") for entry in Path(folder).iterdir()) == left
    assert not any(entry.name.endswith(".deleted") for entry in Path(folder).iterdir())


# ------------------------------------------------------------------------------------------------ stopping, starting


def test_row_86_a_log_is_loaded_unchanged_after_a_clean_stop(folder: str) -> None:
    filled(folder).close()
    log = opened(folder)
    assert (log.start, log.end) == (0, 80)
    assert offsets(log) == list(range(0, 80, 2))
    assert append(log, b"z").first_offset == 80


def test_row_96_a_start_beyond_the_end_restarts_the_log(folder: str) -> None:
    filled(folder).close()
    log = opened(folder, start=500)
    assert (log.start, log.end) == (500, 500)


def test_row_87_every_cut_of_the_last_segment_recovers_what_was_whole(folder: str, tmp_path: Path) -> None:
    log = filled(folder, 9)
    log.flush()
    last = Path(log.active.path)
    data = last.read_bytes()
    ends = [place.position + place.header.size for place in log.active.batches()]
    base = log.active.base_offset
    for cut in range(len(data) + 1):
        copy = tmp_path / f"cut-{cut}" / "t-0"
        shutil.copytree(folder, copy)
        (copy / last.name).write_bytes(data[:cut])
        again = opened(str(copy), clean=False)
        whole = sum(end <= cut for end in ends)
        assert again.end == base + 2 * whole
        assert offsets(again) == list(range(0, again.end, 2))
        assert append(again, b"z").first_offset == again.end - 1
        shutil.rmtree(copy.parent)


@pytest.mark.parametrize("spoil", ["flip", "junk", "indexes", "no indexes", "orphan"])
def test_rows_87_to_89_a_recovery_trusts_only_checksums(folder: str, spoil: str) -> None:
    log = filled(folder)
    log.flush()
    files = sorted(Path(folder).glob("*.log"))
    indexes = {file: file.read_bytes() for file in Path(folder).glob("*.index")}
    expected = 80
    if spoil == "flip":
        data = bytearray(files[1].read_bytes())
        data[len(data) // 2] ^= 1
        files[1].write_bytes(data)
        expected = None
    elif spoil == "junk":
        with files[-1].open("ab") as file:
            file.write(b"\xff" * 500)
    elif spoil == "indexes":
        for file in Path(folder).glob("*index"):
            file.write_bytes(b"\x01" * 777)
    elif spoil == "no indexes":
        for file in Path(folder).glob("*index"):
            file.unlink()
    else:
        (Path(folder) / f"{900:020d}.index").write_bytes(b"12345678")
    again = opened(folder, clean=False)
    if expected is None:
        assert int(files[1].stem) <= again.end < int(files[2].stem)
        assert again.segments[-1] == int(files[1].stem)
    else:
        assert again.end == expected
        assert {file: file.read_bytes() for file in Path(folder).glob("*.index")} == indexes
    assert offsets(again) == list(range(0, again.end, 2))
    assert not (Path(folder) / f"{900:020d}.index").exists()


def test_a_recovered_log_has_the_leader_epochs_of_its_batches(folder: str) -> None:
    log = opened(folder)
    checkpoint, file = Path(folder) / "leader-epoch-checkpoint", Path(folder) / f"{0:020d}.log"
    for place, epoch in enumerate((1, 2, 4, 6)):
        log.begin_epoch(epoch)
        append(log, b"x", leader_epoch=epoch)
        assert checkpoint.read_text().splitlines()[-1] == f"{epoch} {place}"
    log.close_files()
    os.truncate(file, file.stat().st_size - 1)
    for lost in (False, True):
        if lost:
            checkpoint.unlink()
        again = opened(folder, clean=False)
        assert again.epochs.entries == ((1, 0), (2, 1), (4, 2))
        assert file.stat().st_size == again.size
        again.close_files()
    again.begin_epoch(7)
    again.begin_epoch(8)
    assert again.epochs.entries == ((1, 0), (2, 1), (4, 2), (8, 3)), "no epoch without records"


def test_producers_of_a_cut_log_are_those_of_its_batches(folder: str) -> None:
    """The newest snapshot is that of an earlier segment; the batches between it and the end count too."""
    log = opened(folder)
    for sequence in range(40):
        append(log, b"x" * 60, producer=9, epoch=1, sequence=sequence)
    log.truncate_to(log.segments[-1] - 1)
    assert log.producers.last_batches() == {9: (log.end - 1, 1)}


def test_segments_before_the_recovery_point_are_not_read_again(folder: str) -> None:
    log = filled(folder)
    log.flush()
    first = Path(sorted(Path(folder).glob("*.log"))[0])
    data = bytearray(first.read_bytes())
    data[80] ^= 1
    first.write_bytes(data)
    again = opened(folder, clean=False, recovery_point=log.segments[1])
    assert again.end == 80


def test_a_truncation_that_is_cut_short_leaves_no_gap(folder: str) -> None:
    log = filled(folder)
    log.flush()
    third = Path(f"{folder}/{log.segments[2]:020d}.log.deleted")
    third.mkdir()
    with pytest.raises(OSError, match="directory"):
        log.truncate_to(3)
    log.close_files()
    third.rmdir()
    again = opened(folder, clean=False)
    assert offsets(again) == list(range(0, again.end, 2))


class LogLife(RuleBasedStateMachine):
    """Append, truncate, expire and restart at random; the log has the offsets and batches of the model."""

    @initialize()
    def begin(self) -> None:
        self.place = TemporaryDirectory()
        self.log = opened(self.place.name + "/t-0")
        self.model: list[tuple[int, int]] = []  # (base offset, next offset) of each batch
        self.start = self.end = 0

    @rule(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4), time=st.integers(0, 5000))
    def appends(self, sizes: list[int], time: int) -> None:
        append(self.log, *(b"v" * size for size in sizes), timestamp=time)
        self.model.append((self.end, self.end + len(sizes)))
        self.end += len(sizes)

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def truncates(self, data: st.DataObject) -> None:
        self.end = data.draw(st.integers(self.start, self.end))
        self.log.truncate_to(self.end)
        self.model = [batch for batch in self.model if batch[1] <= self.end]

    @rule(data=st.data())
    def moves_its_start(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.end))
        self.log.advance_start(self.start)
        self.log.expire(self.end, 0)

    @rule(clean=st.booleans())
    def restarts(self, clean: bool) -> None:
        if clean:
            self.log.close()
        else:
            self.log.close_files()
        self.log = opened(self.place.name + "/t-0", clean, start=self.start)
        last = self.model[-1][1] if self.model else self.start
        self.end = max(last, self.start) if last < self.end else self.end

    @invariant()
    def is_as_the_model_says(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.start, self.log.end) == (self.start, self.end)
        expected = [base for base, following in self.model if following > self.start]
        found, offset = [], self.start
        while offset < self.end:
            data = self.log.read(offset, 200, self.end, at_least_one=True).data
            if not data:
                break
            for _, header in whole_batches(data):
                found.append(header.base_offset)
                offset = header.next_offset
        assert found == expected

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.cleanup()


TestLogLife = LogLife.TestCase


# ------------------------------------------------------------------------------------------------ Apache's own tool


@pytest.mark.apache
def test_row_101_kafkas_own_tool_reads_the_files_without_a_complaint(folder: str, apache_jars: Path) -> None:
    """DumpLogSegments reads all batches, index entries and producer snapshots (broker.md 9.7 row 101)."""
    log = opened(folder, config=LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    for number in range(200):
        append(log, b"x" * 90, b"y", timestamp=10**12 + number, producer=7, epoch=0, sequence=2 * number)
    log.close()
    logs = sorted(Path(folder).glob("*.log"))
    files = [str(file) for kind in ("log", "index", "timeindex", "snapshot") for file in Path(folder).glob(f"*.{kind}")]
    assert len(logs) == 2
    said = run_tool(apache_jars, "kafka.tools.DumpLogSegments", "--files", ",".join(files), "--deep-iteration")
    assert said.returncode == 0
    assert said.stdout.count("| offset: ") == 400
    assert "producerId: 7 producerEpoch: 0" in said.stdout
    assert "lastSequence: 399 lastOffset: 399 offsetDelta: 1" in said.stdout
    for complaint in ("mismatch", "non-consecutive", "not valid", "isvalid: false", "Exception"):
        assert complaint not in said.stdout + said.stderr


# ------------------------------------------------------------------------------------- rows of broker.md 9 and 9.7


def test_row_50_an_offset_in_a_gap_gives_the_next_batch(folder: str) -> None:
    log = opened(folder)
    for base in (0, 10):  # a leader sends such batches after compaction
        log.append_as_follower(memoryview(batch(b"a", b"b", base_offset=base, leader_epoch=1)), NOW)
    found = [header.base_offset for _, header in whole_batches(log.read(5, 1000, log.end).data)]
    assert (found, log.end) == ([10], 12)


def test_row_90_what_was_to_be_deleted_is_removed_at_the_start(folder: str) -> None:
    log = filled(folder)
    log.advance_start(log.segments[2])
    log.expire(log.end, 0)
    log.close()
    assert list(Path(folder).glob("*.deleted"))
    again = opened(folder, start=log.start)
    assert not list(Path(folder).glob("*.deleted"))
    assert offsets(again) == list(range(log.start, 80, 2))


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(segment_bytes=1000),
        LogConfig(segment_ms=100, index_interval_bytes=0),
        LogConfig(segment_index_bytes=36, index_interval_bytes=0),
    ],
    ids=["size", "time", "index"],
)
def test_row_92_a_segment_ends_by_size_by_time_and_with_a_full_index(folder: str, config: LogConfig) -> None:
    """`segment.ms` uses the batches' timestamps. A complete segment's time index ends with its largest timestamp."""
    log = opened(folder, config=config)
    for number in range(40):
        end = log.end
        append(log, b"x" * 20, timestamp=1000 + number * 10)
        assert log.segments[-1] <= end
    assert 3 < len(log.segments) < 40
    for base, following in itertools.pairwise(log.segments):
        assert offsets(log)[following] == following, "a new one begins where the log ended"
        entries = Path(f"{folder}/{base:020d}.timeindex").read_bytes()
        assert struct.unpack(">qi", entries[-12:]) == (1000 + (following - 1) * 10, following - 1 - base)


def test_a_segment_without_timestamps_ends_by_its_own_age(folder: str) -> None:
    log = opened(folder, config=LogConfig(segment_ms=100))
    for now_ms in (5_000, 5_100, 5_101, 5_201, 5_202):
        append(log, b"x", timestamp=-1, now=now_ms)
    assert log.segments == (0, 2, 4)
    append(log, b"x", timestamp=5_000, now=9_000)
    append(log, b"x", timestamp=-1, now=99_000)
    assert log.segments == (0, 2, 4, 5), "the age of a record without a timestamp is not known in a segment with times"


def test_the_jitter_shortens_the_age_differently_for_each_segment(tmp_path: Path) -> None:
    """With `segment.jitter.ms`, segments of partitions that are written together do not end together."""
    ages = set()
    for number in range(8):
        (tmp_path / f"t-{number}").mkdir()
        log = opened(f"{tmp_path}/t-{number}", config=LogConfig(segment_ms=100, segment_jitter_ms=60))
        for time in range(102):
            append(log, b"x", timestamp=1000 + time)
        assert 41 <= log.segments[1] <= 101
        ages.add(log.segments[1])
    assert len(ages) > 3


def test_records_without_timestamps_expire_by_the_time_of_the_file(folder: str) -> None:
    log = opened(folder, config=LogConfig(segment_bytes=100, retention_ms=1000))
    for _ in range(3):
        append(log, b"x" * 40, timestamp=-1)
    for base, seconds in zip(log.segments, (10, 12, 14), strict=True):
        os.utime(f"{folder}/{base:020d}.log", (seconds, seconds))
    assert log.expire(log.end, 11_000) == 0
    assert log.expire(log.end, 11_001) == 1
    assert log.expire(log.end, 20_000) == 2


def test_a_simulated_disk_gives_files_the_simulated_time(folder: str) -> None:
    Path(folder).mkdir()
    log = Log(folder, Handles(wall_ms=lambda: 10_000), LogConfig(segment_bytes=100, retention_ms=1000))
    for _ in range(2):
        append(log, b"x" * 40, timestamp=-1)
    assert [log.expire(1, now_ms) for now_ms in (11_000, 11_001)] == [0, 1]


def test_appends_are_flushed_by_number_and_by_time(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    log = opened(folder, config=LogConfig(flush_messages=3, flush_ms=50))
    for end, point in ((1, 0), (2, 0), (3, 3), (4, 3)):
        append(log, b"x")
        assert (log.end, log.recovery_point) == (end, point)
    assert len(flushed) == 1
    for now_ms, point in ((49, 3), (50, 4), (51, 4)):
        log.flush_old(SynchronousFlusher(), now_ms)
        assert log.recovery_point == point
    append(log, b"x")
    for now_ms, point in ((99, 4), (100, 5)):
        log.flush_old(SynchronousFlusher(), now_ms)
        assert log.recovery_point == point
    assert len(flushed) == 3


def test_row_94_epochs_are_removed_with_their_segments(folder: str) -> None:
    log = opened(folder, config=LogConfig(segment_bytes=1000, retention_ms=-1, retention_bytes=0))
    for epoch in range(1, 31):
        log.epochs.assign(epoch, log.end)
        append(log, b"x" * 20, b"y", leader_epoch=epoch)
    assert log.end_offset_for(1) == (1, 2)
    assert log.expire(40, NOW) > 0
    assert 0 < log.start <= 40
    first = log.start // 2 + 1
    assert log.end_offset_for(first) == (first, log.start + 2)
    assert log.end_offset_for(1) == (1, log.start), "before the first that is known: where that begins"
