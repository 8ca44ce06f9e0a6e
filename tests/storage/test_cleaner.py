"""Cleaning of compacted logs: what stays, what goes when, and which part of a log is cleaned."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors.storage import log_manager
from actors.storage.log import LogConfig, offset_map
from actors.storage.log.cleaner import measure
from actors.storage.log.offset_map import OffsetMap
from actors.storage.log_directories import CLEANED_OFFSETS
from messages.log_cleaner import ABORTED, CLEANED, UNCLEANABLE, WAITING
from messages.records import CODECS
from messages.wire.batch_records import InvalidRecords, recompress
from messages.wire.record_batch import batch_of, body_of, record, whole_batches
from tests.cluster.java_tools import run_tool
from tests.storage.test_transactions import ALL, Partition

BASE = LogConfig(segment_bytes=400, index_interval_bytes=60, compacted=1, delete_retention_ms=20)


class Compacted(Partition):
    """A compacted partition, whose records have keys and come in any codec."""

    def __init__(self, folder: Path, is_open: bool = True, **config: int) -> None:
        self.now = 1_000
        self.written: dict[bytes, bytes | None] = {}
        """The last acknowledged value of each key that was written outside transactions."""
        self.sent: dict[bytes, bytes | None] = {}
        """The batch that was sent last."""
        super().__init__(folder, attrs.astuple(attrs.evolve(BASE, **config)), is_open=False)
        self.logs = log_manager.LogManager(lambda: self.now)
        if is_open:
            self.open()

    def reopen(self, clean: bool) -> Partition:
        super().reopen(clean)
        self.logs._wall_ms = lambda: self.now
        return self

    def put(
        self,
        *pairs: tuple[bytes, bytes | None],
        producer: int = -1,
        transactional: bool = False,
        codec: str = "none",
    ) -> int:
        """Append a batch of (key, value), and return the offset of its first record."""
        sequence = self.sequences.get((producer, 0), 0) if producer >= 0 else -1
        made = batch_of(pairs, self.now, producer, 0 if producer >= 0 else -1, sequence, transactional)
        data = recompress(memoryview(made.body.data), CODECS.index(codec), ALL)
        first = self.end
        self.sent = dict(pairs)
        assert self._done(self.logs.append(self.path, 0, False, True, body_of(data))) == log_manager.NONE
        if producer >= 0:
            self.sequences[producer, 0] = sequence + len(pairs)
        self.written |= self.sent
        return first

    def roll(self) -> None:
        """Begin a new segment, so that what was written before can be cleaned."""
        self.put((b"filler", b"." * 330))

    def clean(self, slots: int = 1000, steps: int = 3) -> tuple[int, ...]:
        """Clean the log until nothing is dirty; return the figures of the last cleaning."""
        figures: tuple[int, ...] = ()
        while self.logs.dirt(0, 10)[1]:
            figures = self.clean_once(slots, steps)
        return figures

    def clean_once(self, slots: int = 1000, steps: int = 3) -> tuple[int, ...]:
        state, figures = WAITING, ()
        begins = True
        while state <= WAITING:
            state, _, _, figures, reason, _ = self.logs.clean(self.path, begins, slots, 900_000, 100, steps)
            begins = False
        assert state == CLEANED, reason
        return figures

    def rows(self) -> list[tuple[int, bytes | None, bytes | None, int]]:
        """Return (offset, key, value, time) of each record that a read_committed consumer gets."""
        return [(each.offset, each.key, each.value, each.timestamp) for each in self.records_committed()]

    def headers(self) -> list[Any]:
        """Return the headers of all batches."""
        data = b"".join(path.read_bytes() for path in sorted(Path(self.path).glob("*.log")))
        return [header for _, header in whole_batches(data)]


@pytest.fixture(params=["compiled", "plain"])
def walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the compiled loops, if they are available, and with the Python ones."""
    if request.param == "plain":
        for name in [name for name in vars(offset_map) if name.startswith("compiled_")]:
            monkeypatch.setattr(offset_map, name, None)
    elif offset_map.compiled_put is None:
        pytest.skip("messages/wire/_walk.c is not compiled")


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def last_of_each_key(rows: list[tuple[int, bytes | None, bytes | None, int]]) -> dict[bytes, tuple[Any, ...]]:
    return {row[1]: row for row in rows if row[1] is not None and row[2] is not None} | {
        row[1]: row for row in rows if row[1] is not None
    }


@pytest.mark.usefixtures("walk")
@pytest.mark.parametrize("seed", range(3))
def test_a_cleaned_log_has_the_last_value_of_each_key_and_changes_nothing_else(tmp_path: Path, seed: int) -> None:
    """Batches of all codecs, idempotent producers, transactions, tombstones, and maps that are too small for the keys.

    Cleanings come at any moment, restarts too. The producers' next batches are accepted after each restart.
    """
    chance = random.Random(seed)
    log = Compacted(tmp_path, max_compaction_lag_ms=1)
    began: dict[int, int] = {}
    for _ in range(60):
        log.now += chance.randrange(10)
        producer = chance.choice((-1, -1, 3, 4, 5, 6))
        pairs = [
            (b"k%d" % chance.randrange(9), None if not chance.randrange(6) else b"%d" % chance.randrange(10**6))
            for _ in range(chance.randrange(1, 5))
        ]
        log.put(*pairs, producer=producer, transactional=producer > 4, codec=chance.choice(CODECS))
        if producer > 4:
            began.setdefault(producer, log.end)
        if began and not chance.randrange(3):
            producer = chance.choice(sorted(began))
            del began[producer]
            log.mark(producer, committed=chance.random() < 0.6)
        if chance.randrange(8):
            continue
        before, headers = log.rows(), log.headers()
        state = log.end, log.unstable, log.logs.open(log.path, False, log.config)[:2]
        found = log.logs.dirt(0, 10)[1]
        if found:
            first, end, *_ = log.clean_once(chance.choice((3, 8, 1000)), chance.choice((1, 2, 50)))
            assert end > first
            after = log.rows()
            assert [row for row in before if row in set(after)] == after
            kept = {row for row in after if row[0] < end}
            assert len({row[1] for row in kept}) == len(kept)
            assert [row for row in after if row[0] >= end] == [row for row in before if row[0] >= end]
            wanted = last_of_each_key(before)
            left = last_of_each_key(after)
            for key, row in wanted.items():
                assert left.get(key) == row or (row[2] is None and key not in left), key
            active = log.logs._logs[log.path].segments[-1]
            assert [each for each in log.headers() if each.base_offset >= active] == [
                each for each in headers if each.base_offset >= active
            ]
            assert state == (log.end, log.unstable, log.logs.open(log.path, False, log.config)[:2])
        for clean in chance.sample((True, False), chance.randrange(3)):
            rows = log.rows()
            log.reopen(clean)
            assert log.rows() == rows
            assert log.end == state[0]


def test_a_tombstone_stays_for_its_time_and_then_goes(tmp_path: Path) -> None:
    """KIP-534: the first cleaning sets the time, in the place of the batch's first timestamp."""
    log = Compacted(tmp_path)
    log.put((b"a", b"1"), (b"b", b"1"))
    log.put((b"a", None))
    log.roll()
    times = [row[3] for row in log.rows()]
    log.clean()
    first = log.headers()[1]
    assert [row[:3] for row in log.rows()][:2] == [(1, b"b", b"1"), (2, b"a", None)]
    assert (first.attributes, first.first_timestamp) == (0x40, log.now + 20)
    assert [row[3] for row in log.rows()] == times[1:]
    for later, left in ((19, True), (1, False)):
        log.now += later
        log.put((b"c", b"1"))
        log.roll()
        log.clean()
        assert ((2, b"a", None) in [row[:3] for row in log.rows()]) == left


def test_markers_stay_as_long_as_records_of_their_transactions(tmp_path: Path) -> None:
    """A commit's marker has no time while its records live; an abort's records go at once, its marker later."""
    log = Compacted(tmp_path)
    log.put((b"a", b"1"), producer=6, transactional=True)
    log.mark(6, committed=True)
    log.put((b"a", b"2"), (b"b", b"2"), producer=7, transactional=True)
    log.mark(7, committed=False)
    log.put((b"x", b"3"), producer=6)
    log.put((b"x", b"3"), producer=7)
    log.roll()
    log.clean()
    assert [(each.base_offset, each.attributes) for each in log.headers()][:3] == [(0, 0x10), (1, 0x30), (4, 0x30)]
    assert len(log.index()) > 0, "the marker's data was met"
    for attributes in (0x30, 0x70):  # a cleaning that removes the last record still meets it
        log.put((b"a", b"9"))
        log.roll()
        log.clean()
        assert [(each.base_offset, each.attributes) for each in log.headers()][:2] == [(1, attributes), (4, 0x70)]
        assert log.index() == b""
    log.now += 20
    log.put((b"y", b"9"))
    log.roll()
    log.clean()
    assert log.headers()[0].base_offset > 4
    assert [row[1] for row in log.rows() if row[1] != b"filler"] == [b"x", b"a", b"y"]


def test_the_last_batch_of_a_live_producer_stays_empty(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    log.put((b"a", b"1"), (b"a", b"2"), producer=5)
    log.put((b"a", b"3"))
    log.roll()
    log.clean()
    empty = log.headers()[0]
    assert (empty.base_offset, empty.last_offset, empty.last_sequence, empty.record_count) == (0, 1, 1, 0)
    log.reopen(clean=False)
    log.put((b"a", b"4"), producer=5)


@pytest.mark.parametrize(
    ("config", "high_watermark", "expected"),
    [
        ({}, 100, (0, 4)),
        ({}, 3, (0, 2)),
        ({"min_compaction_lag_ms": 995}, 100, (0, 2)),
        ({"min_compaction_lag_ms": 2000}, 100, (0, 0)),
    ],
)
def test_what_may_be_cleaned(
    tmp_path: Path, config: dict[str, int], high_watermark: int, expected: tuple[int, int]
) -> None:
    """Neither the active segment, nor what is not stable, nor what is younger than the lag."""
    log = Compacted(tmp_path, **config)
    for now in (1_000, 1_000, 1_010, 1_010, 2_000):
        log.now = now
        log.put((b"a", b"." * 100))
    opened = log.logs._logs[log.path]
    assert isinstance(opened, log_manager.Log)
    assert opened.segments == (0, 2, 4)
    dirt = measure(opened, 0, min(high_watermark, log.end), log.now)
    assert (dirt.first_dirty, dirt.end) == expected
    assert (dirt.cleanable_bytes > 0) == (expected[1] > 0)
    for checkpoint, first in ((2, 2), (1, 1), (6, 0)):
        assert measure(opened, checkpoint, log.end, log.now).first_dirty == first
    opened.config = attrs.evolve(opened.config, min_compaction_lag_ms=0, max_compaction_lag_ms=600)
    assert measure(opened, 0, log.end, log.now).overdue_ms == 400


def test_an_empty_log_has_nothing_to_clean(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    assert log.logs.read(log.path, 0, 100, 0, True)[0] == log_manager.NONE
    assert log.logs.dirt(0, 10) == (-1, ())
    assert log.clean_once()[:2] == (0, 0)


def test_a_truncation_ends_a_cleaning_and_lowers_its_checkpoint(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    for number in range(6):
        log.put((b"a", b"%d" % number))
        log.roll()
    log.clean()
    assert f"t 0 {log.logs._logs[log.path].segments[-1]}\n" in (tmp_path / CLEANED_OFFSETS).read_text()
    log.put((b"a", b"new"))
    log.roll()
    assert log.logs.clean(log.path, True, 100, 900_000, 100, 1)[0] <= WAITING
    log.logs.truncate(log.path, 3)
    assert log.logs.clean(log.path, False, 100, 900_000, 100, 1)[0] == ABORTED
    assert not list(Path(log.path).glob("*.cleaned"))
    checkpoint = int((tmp_path / CLEANED_OFFSETS).read_text().split()[-1])
    assert checkpoint <= 3


def test_a_damaged_batch_makes_the_log_uncleanable_and_stays(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    for _ in range(3):
        log.put((b"a", b"1"))
        log.roll()
    file = min(Path(log.path).glob("*.log"))
    data = bytearray(file.read_bytes())
    data[65] ^= 1
    file.write_bytes(data)
    state = log.logs.clean(log.path, True, 100, 900_000, 100, 50)
    assert state[0] == UNCLEANABLE
    assert file.name in state[4]
    assert file.read_bytes() == data
    assert not list(Path(log.path).glob("*.cleaned"))


def test_small_segments_become_one(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    for number in range(12):
        log.put((b"a", b"%d" % number))
        log.roll()
    assert len(list(Path(log.path).glob("*.log"))) == 24
    for _ in range(2):  # the sizes before a cleaning decide
        log.put((b"a", b"1"))
        log.roll()
        log.clean()
    assert len(list(Path(log.path).glob("*.log"))) <= 6


@pytest.mark.usefixtures("walk")
@pytest.mark.parametrize("slots", [2, 100, 5000])
def test_the_offset_map_holds_the_last_offsets_until_it_is_full(slots: int) -> None:
    """Records without a key are not stored, and do not stay."""
    keys = OffsetMap(slots, 0.9)
    stored: dict[bytes, int] = {}
    data, offset, done = b"", 0, 100
    while offset < 6000 and done == 100:
        wanted = [None if number % 50 == 7 else b"%d" % (number % 3000) for number in range(offset, offset + 100)]
        data = b"--" + b"".join(record(delta, key, b"v" * (delta % 3)) for delta, key in enumerate(wanted))
        for _ in keys.grow(100):
            pass
        done, position, last = keys.put(data, 2, 100, offset, 5)
        found = {key: offset + delta for delta, key in enumerate(wanted[:done]) if key and offset + delta >= 5}
        stored |= found
        assert last == max(found.values(), default=-1)
        assert position == len(data) or done < 100
        offset += done
    assert keys.size == len(stored) == (2940 if slots == 5000 else max(1, min(int(slots * 0.9), slots - 1)))
    for key, last in stored.items():
        for offset in (last - 1, last):
            assert bool(keys.find_kept(record(0, key, b""), 0, 1, offset, 10**6, False)[0].number) == (offset == last)
    assert keys.find_kept(record(0, b"none", b""), 0, 1, 0, 10**6, False)[0].number


def test_both_loops_find_the_keys_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python continues where the compiled loop stops, in one map: MD5 must be equal for keys of each length."""
    data = b"".join(record(delta, bytes(range(delta)), b"") for delta in range(200))
    offsets = OffsetMap(1000, 0.9)
    assert offsets.put(data, 0, 200, 1000, 0)[0] == 200
    for name in [name for name in vars(offset_map) if name.startswith("compiled_")]:
        monkeypatch.setattr(offset_map, name, None)
    assert not offsets.find_kept(data, 0, 200, 999, 2000, False)[0].number


@pytest.mark.usefixtures("walk")
def test_the_last_record_of_each_key_stays() -> None:
    """The last of each key, and all from the limit on; tombstones unless they are due."""
    rows = [(b"a", b"1"), (b"b", b"1"), (b"a", None), (None, b"1"), (b"c", None), (b"a", b"2")]
    written = [record(delta, key, value, delta % 3 - 1) for delta, (key, value) in enumerate(rows)]
    ends, data = list(itertools.accumulate(map(len, written), initial=0)), b"".join(written)
    keys = OffsetMap(100, 0.9)
    assert keys.put(data, 0, 5, 1000, 0) == (5, ends[5], 1004)
    for limit, is_due, runs in (
        (1005, False, ((1, 3), (4, 6))),
        (1005, True, ((1, 2), (5, 6))),
        (1002, False, ((1, 6),)),
        (1002, True, ((1, 6),)),
    ):
        kept, position = keys.find_kept(data, 0, 6, 1000, limit, is_due)
        assert (kept.places, position) == ([(ends[first], ends[end]) for first, end in runs], ends[6])
        assert kept.number == sum(end - first for first, end in runs)
        assert (kept.newest, kept.has_tombstone) == (1, limit == 1002 or not is_due)


@pytest.mark.usefixtures("walk")
def test_damaged_records_are_an_error() -> None:
    data = record(0, b"a", b"1") + record(1, b"b", b"1")
    for change in (data[:-2], data[:4] + b"\x7e" + data[5:], data[:9]):
        for operation in (OffsetMap.put, OffsetMap.find_kept):
            arguments = (change, 0, 2, 0, 0) if operation is OffsetMap.put else (change, 0, 2, 0, 9, False)
            with pytest.raises(InvalidRecords):
                operation(OffsetMap(10, 0.9), *arguments)


@pytest.mark.apache
def test_kafkas_tool_reads_a_cleaned_log(apache_jars: Path, tmp_path: Path) -> None:
    """Batches with holes, with a delete horizon, without records, and compressed ones; and the indexes."""
    log = Compacted(tmp_path)
    log.put((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), codec="zstd")
    log.put((b"a", None), (b"b", None), codec="gzip")
    log.put((b"d", b"1"), producer=5)
    log.put((b"t", b"1"), producer=6, transactional=True)
    log.mark(6, committed=False)
    log.put((b"d", b"2"))
    log.roll()
    log.clean()
    files = [str(file) for kind in ("log", "index", "timeindex") for file in sorted(Path(log.path).glob(f"*.{kind}"))]
    said = run_tool(apache_jars, "kafka.tools.DumpLogSegments", "--files", ",".join(files), "--deep-iteration")
    assert said.returncode == 0
    assert f"deleteHorizonMs: OptionalLong[{log.now + 20}]" in said.stdout
    offsets = [int(line.split()[2]) for line in said.stdout.splitlines() if line.startswith("| offset: ")]
    assert offsets[:4] == [2, 3, 4, 7]
    for complaint in ("mismatch", "not valid", "isvalid: false", "Exception"):
        assert complaint not in said.stdout + said.stderr


@pytest.mark.usefixtures("walk")
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_formats_0_and_1_are_cleaned(tmp_path: Path, magic: int) -> None:
    """A tombstone goes from a segment that is older than the last clean one, by `delete.retention.ms`."""
    log = Compacted(tmp_path, message_format=magic, delete_retention_ms=0)
    log.put((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), codec="gzip")
    log.put((b"b", b"2"), (b"c", None), codec="lz4")
    log.put((b"d", b"1"), (b"e", b"1"))
    log.put((b"d", b"2"))
    log.roll()
    log.clean()
    time = 1_000 if magic else -1
    wanted = [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", None), (6, b"e", b"1"), (7, b"d", b"2")]
    assert log.rows()[:-1] == [(*row, time) for row in wanted]
    headers = log.headers()
    assert [(each.magic, each.codec, each.last_offset) for each in headers[:4]] == [
        (magic, codec, offset) for codec, offset in ((1, 2), (3, 4), (0, 6), (0, 7))
    ]
    log.roll()
    log.clean()
    assert [row[:2] for row in log.rows()][:-2] == [(2, b"a"), (3, b"b"), (6, b"e"), (7, b"d")]
    log.reopen(clean=False)
    assert log.rows()[0] == (2, b"a", b"2", time)


def test_a_log_that_ends_between_two_cleaned_batches_moves(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    for key in (b"z", b"k", b"k", b"k"):
        log.put((key, b"."))
    log.roll()
    log.clean()
    assert [header.base_offset for header in log.headers()] == [0, 3, 4]
    assert log.logs.truncate(log.path, 2)[1] == 2
    log.logs.begin_copy(log.path, f"{tmp_path}/t-0.{'0' * 32}-future")
    assert [log.logs.copy(log.path, 1 << 20)[0] for _ in range(2)] == [1, 0]


def test_a_copy_is_truncated_with_its_log_and_takes_over_the_high_watermark(tmp_path: Path) -> None:
    log = Compacted(tmp_path, compacted=0)
    for _ in range(3):
        log.put((b"k", b"."))
    log.logs.begin_copy(log.path, f"{tmp_path}/t-0.{'0' * 32}-future")
    assert log.logs.copy(log.path, 1 << 20)[0] == 0
    log.logs.truncate(log.path, 2)
    assert log.logs.copy(log.path, 1 << 20)[0] == 0
    Path(log.path).rename(f"{log.path}.old")
    moved = log.logs.swap(log.path)
    assert log.logs.open(moved, False, attrs.astuple(BASE))[1:4:2] == (2, 2)


def test_retention_goes_by_the_newest_record_of_a_segment(tmp_path: Path) -> None:
    log = Compacted(tmp_path, compacted=0, retention_ms=10_000)
    for log.now in (1_000, 9_000):
        log.put((b"k", b"."))
    log.now = 12_000
    assert log.logs.expire(log.path, log.end)[1] == 0
