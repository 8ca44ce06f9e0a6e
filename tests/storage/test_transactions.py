"""Transactions in a log: producer state, first unstable offset, transaction index (transactions.md 3.1, 3.3, 3.6)."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.storage import log_manager
from actors.storage.log import LogConfig
from actors.storage.log.producers import read_snapshot
from messages.records import CONTROL_BIT, LOG_APPEND_TIME_BIT, TRANSACTION_BIT
from messages.wire.batch_records import Record, records
from messages.wire.control_batch import EndTransactionMarker, marker_batch, read_marker
from messages.wire.message_set import as_batch
from messages.wire.record_batch import body_of, whole_batches, with_records
from tests.storage.batches import batch, end_marker, header_of

NOW = 5_000
CONFIG = attrs.astuple(LogConfig())
SMALL = attrs.astuple(LogConfig(segment_bytes=300, index_interval_bytes=60))
ALL = 1 << 20


class Partition:
    """A partition with one replica, whose log is accessed through LogManager."""

    def __init__(self, folder: Path, config: tuple[int, ...] = CONFIG, is_open: bool = True) -> None:
        self.path, self.config = f"{folder}/t-0", config
        self.logs = log_manager.LogManager(lambda: NOW)
        self.end, self.unstable = 0, -1
        self.sequences: dict[tuple[int, int], int] = {}
        if is_open:
            self.open()

    def open(self) -> None:
        """Open the log; create it if it does not exist."""
        self.logs.open(self.path, not Path(self.path).exists(), self.config)

    def send(self, producer: int, *values: bytes, epoch: int = 0, transactional: bool = True, **fields: int) -> int:
        """Append a producer's batch, by default with its next sequence, and return the error code."""
        sequence = fields.pop("sequence", self.sequences.get((producer, epoch), 0))
        data = batch(*values, producer=producer, epoch=epoch, sequence=sequence, transactional=transactional, **fields)
        code = self._done(self.logs.append(self.path, 0, False, True, body_of(data)))
        if code == log_manager.NONE:
            self.sequences[producer, epoch] = sequence + len(values)
        return code

    def mark(self, producer: int, committed: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
        """Append a marker that ends the producer's transaction, and return the error code."""
        return self._done(
            self.logs.append_marker(self.path, 0, False, True, producer, epoch, committed, coordinator_epoch)
        )

    def plain(self, *values: bytes) -> None:
        assert self._done(self.logs.append(self.path, 0, False, True, body_of(batch(*values)))) == log_manager.NONE

    def _done(self, said: Any) -> int:
        self.end, self.unstable, (code, *_) = said
        return code

    def reopen(self, clean: bool) -> Partition:
        """Close the log, cleanly or as in a kill, and open it as the next process does."""
        if clean:
            self.logs.close_all()
        else:
            self.logs.abandon()
        self.logs = log_manager.LogManager(lambda: NOW)
        self.end = self.logs.open(self.path, False, self.config)[1]
        self.unstable = self.logs.note_high_watermark(self.path, self.end)
        return self

    def committed(self, offset: int = 0, max_bytes: int = ALL) -> list[bytes]:
        """Return the values that a read_committed consumer gets."""
        return [record.value for record in self.records_committed(offset, max_bytes) if record.value is not None]

    def records_committed(self, offset: int = 0, max_bytes: int = ALL) -> list[Record]:
        """Return the records for a read_committed consumer, which skips aborted transactions as Java's does."""
        kept = []
        limit = self.unstable if self.unstable >= 0 else self.end
        while offset < limit:
            code, body, aborted = self.logs.read_committed(self.path, offset, max_bytes, limit, True)
            assert code == log_manager.NONE
            left, skipped = sorted(aborted, key=lambda each: each[1]), set()
            for position, header in whole_batches(body.data):
                while left and left[0][1] <= header.last_offset:
                    skipped.add(left.pop(0)[0])
                if header.is_control:
                    marker = read_marker(body.data[position:], header)
                    if marker is not None and not marker.committed:
                        skipped.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in skipped):
                    found = records(*as_batch(body.data[position:], header))
                    kept += [record for record in found if record.offset >= offset]
                offset = max(offset, header.next_offset)
        return kept

    def index(self) -> bytes:
        """Return the contents of all transaction indexes of the log, in order."""
        return b"".join(path.read_bytes() for path in sorted(Path(self.path).glob("*.txnindex")))


@pytest.fixture
def log(tmp_path: Path) -> Partition:
    return Partition(tmp_path)


# ------------------------------------------------------------------------------------------------ markers


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_has_kafkas_bytes(committed: bool) -> None:
    made = marker_batch(6, 3, EndTransactionMarker(committed, 4), 1_000)
    assert made == end_marker(6, 3, committed, coordinator_epoch=4)
    assert len(made) == 78
    assert read_marker(made, header_of(made)) == (committed, 4)


def test_a_control_batch_that_ends_no_transaction_is_no_marker() -> None:
    """Compaction leaves empty control batches, and later Kafka controllers write type 2.

    A marker with a later version is valid, one with a negative version is not.
    """
    whole = end_marker(6, 3, committed=True)
    key_at, header = whole.rindex(b"\0\0\0\1"), header_of(whole)
    assert read_marker(with_records(header._replace(record_count=0), b""), header._replace(record_count=0)) is None
    for key, expected in ((b"\0\0\0\2", None), (b"\xff\xff\0\1", None), (b"\0\7\0\1", (True, 0))):
        changed = whole[:key_at] + key + whole[key_at + 4 :]
        assert read_marker(changed, header) == expected
    assert read_marker(whole[:-8], header) is None, "it is cut"


def test_a_marker_has_its_append_time_if_the_topic_is_configured_so(log: Partition) -> None:
    log.logs.append_marker(log.path, 7, True, True, 6, 0, True, 2)
    [(_, header)] = whole_batches(log.logs.read(log.path, 0, ALL, 1, True)[1].data)
    assert header.attributes == TRANSACTION_BIT | CONTROL_BIT | LOG_APPEND_TIME_BIT
    assert (header.max_timestamp, header.leader_epoch, header.base_sequence) == (NOW, 7, -1)


# ------------------------------------------------------------------------------------------------ producers


def test_the_first_unstable_offset_is_that_of_the_earliest_open_transaction(log: Partition) -> None:
    """Row 26: the second producer commits first. The offset moves only when the first producer's transaction ends."""
    log.plain(b"p")
    seen = []
    for step in (
        lambda: log.send(6, b"a", b"b"),
        lambda: log.send(7, b"c"),
        lambda: log.mark(7, committed=True),
        lambda: log.send(7, b"d"),
        lambda: log.mark(6, committed=False),
        lambda: log.mark(7, committed=True),
    ):
        assert step() == log_manager.NONE
        seen.append(log.unstable)
    assert seen == [1, 1, 1, 1, 5, -1]
    assert log.committed() == [b"p", b"c", b"d"]
    assert log.index() == struct.pack(">hqqqq", 0, 6, 1, 6, 5)


def test_an_ended_transaction_is_unstable_until_its_marker_is_replicated(log: Partition) -> None:
    """T15: readers see records below the high watermark only. The later of two transactions may end first."""
    path, logs = log.path, log.logs
    for producer in (6, 7):
        logs.append(
            path, 0, False, False, body_of(batch(b"a", producer=producer, epoch=0, sequence=0, transactional=True))
        )
    unstable = [logs.append_marker(path, 0, False, False, producer, 0, True, 0)[1] for producer in (7, 6)]
    assert unstable == [0, 0]
    assert [logs.note_high_watermark(path, offset) for offset in range(1, 5)] == [0, 0, 0, -1]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda log: log.send(6, b"x", transactional=False), log_manager.INVALID_TXN_STATE),
        (lambda log: log.send(6, b"x", epoch=1, sequence=0), log_manager.INVALID_PRODUCER_EPOCH),
        (lambda log: log.send(6, b"x", epoch=-2), log_manager.INVALID_PRODUCER_EPOCH),
        (lambda log: log.send(6, b"x", sequence=5), log_manager.OUT_OF_ORDER_SEQUENCE),
        (lambda log: log.mark(6, True, epoch=-1), log_manager.INVALID_PRODUCER_EPOCH),
        (lambda log: log.mark(6, True, coordinator_epoch=0) or log.mark(6, True, coordinator_epoch=-1), 52),
        (lambda log: log.mark(6, False, epoch=1) or log.send(6, b"x"), log_manager.INVALID_PRODUCER_EPOCH),
        (
            lambda log: log.mark(6, False, epoch=1) or log.send(6, b"x", epoch=1, sequence=1),
            log_manager.OUT_OF_ORDER_SEQUENCE,
        ),
        (lambda log: log.mark(6, False, epoch=1) or log.send(6, b"x", epoch=1), log_manager.NONE),
        (lambda log: log.mark(6, True) or log.send(6, b"x", transactional=False), log_manager.NONE),
        (lambda log: log.mark(9, True) or log.send(9, b"x", sequence=3), log_manager.OUT_OF_ORDER_SEQUENCE),
        (lambda log: log.mark(9, True) or log.send(9, b"x", sequence=0), log_manager.NONE),
        (lambda log: log.send(9, b"x", sequence=5), log_manager.NONE),
    ],
)
def test_what_a_producer_may_write_next(log: Partition, change: Callable[[Partition], int], code: int) -> None:
    """3.1.1 to 3.1.3, 3.2.5: epoch, sequence and transaction checks. Producer 6, epoch 0, has an open transaction."""
    assert log_manager.TRANSACTION_COORDINATOR_FENCED == 52
    assert log.send(6, b"a") == log_manager.NONE
    assert change(log) == code


def test_a_repeated_batch_of_an_open_transaction_has_the_offset_of_the_first(log: Partition) -> None:
    for _ in range(2):
        assert log.send(6, b"a", b"b", sequence=0) == log_manager.NONE
        assert (log.end, log.unstable) == (2, 0)


def test_a_group_coordinators_batches_have_no_sequence(log: Partition) -> None:
    """Each offset commit has sequence 0, so sequences are not checked. An old epoch is refused."""
    codes = []
    for epoch in (1, 1, 0, 2):
        data = batch(b"offset", producer=6, epoch=epoch, sequence=0, transactional=True)
        *_, (code, *_) = log.logs.append_as_coordinator(log.path, 0, False, True, body_of(data))
        codes.append(code)
    assert codes == [log_manager.NONE, log_manager.NONE, log_manager.INVALID_PRODUCER_EPOCH, log_manager.NONE]


def test_a_marker_of_a_newer_epoch_ends_the_transaction_of_the_older_one(log: Partition) -> None:
    """The coordinator fences a producer: it increases the epoch, and aborts the transaction with the new epoch."""
    log.send(6, b"a")
    assert log.mark(6, committed=False, epoch=1) == log_manager.NONE
    assert (log.unstable, log.committed()) == (-1, [])
    assert log.logs.producers(log.path) == ((6, 1, -1, NOW, 0, -1),)


def test_a_marker_without_data_ends_nothing(log: Partition) -> None:
    """KAFKA-10702: the index gets no entry. The marker adds the producer, without a sequence (row 18)."""
    assert log.mark(6, committed=False, epoch=3) == log_manager.NONE
    assert (log.unstable, log.index()) == (-1, b"")
    assert not list(Path(log.path).glob("*.txnindex"))
    assert log.logs.producers(log.path) == ((6, 3, -1, NOW, 0, -1),)


def test_the_states_of_producers(log: Partition) -> None:
    log.send(6, b"a", b"b")
    log.send(7, b"c", transactional=False)
    log.mark(8, committed=True, coordinator_epoch=4)
    assert log.logs.producers(log.path) == ((6, 0, 1, 1_001, -1, 0), (7, 0, 0, 1_000, -1, -1), (8, 0, -1, NOW, 4, -1))


# ------------------------------------------------------------------------------------------------ the index, reads


def test_the_index_has_kafkas_bytes_and_no_file_before_an_abort(log: Partition) -> None:
    """Row 38: the entry of producer id 6, with data at offset 2 and the marker at offset 3."""
    log.plain(b"p", b"q")
    log.send(6, b"a")
    assert not list(Path(log.path).glob("*.txnindex"))
    log.mark(6, committed=False)
    wanted = "0000 0000000000000006 0000000000000002 0000000000000003 0000000000000004"
    assert log.index().hex() == wanted.replace(" ", "")


@pytest.mark.parametrize("max_bytes", [1, 200, ALL])
def test_each_fetch_inside_an_aborted_transaction_has_its_entry(tmp_path: Path, max_bytes: int) -> None:
    """Row 17: also if the marker is several segments later, and if the response has only one batch."""
    log = Partition(tmp_path, SMALL)
    for number in range(12):
        log.send(6, b"lost")
        log.plain(b"kept %d" % number)
    log.mark(6, committed=False)
    log.plain(b"after")
    assert len(list(Path(log.path).glob("*.log"))) > 3
    for offset in range(log.end):
        wanted = [b"kept %d" % number for number in range(offset // 2, 12)] + [b"after"]
        assert log.committed(offset, max_bytes) == wanted, offset


def test_a_list_is_no_longer_than_what_was_read_needs(tmp_path: Path) -> None:
    log = Partition(tmp_path, SMALL)
    for _ in range(200):
        log.send(6, b"lost")
        log.mark(6, committed=False)
    aborted = log.logs.read_committed(log.path, 0, 1, log.end, True)[2]
    assert 1 <= len(aborted) <= 4
    assert log.committed() == []


@pytest.mark.parametrize("how", ["clean", "killed"])
@pytest.mark.parametrize("damage", ["none", "lost", "cut", "foreign", "torn"])
def test_state_and_index_are_the_same_after_a_start(tmp_path: Path, how: str, damage: str) -> None:
    """3.6.3: an invalid index is rebuilt. After a kill, the index of every recovered segment is rebuilt."""
    log = Partition(tmp_path, SMALL)
    for number in range(30):
        producer = 6 + number % 3
        log.send(producer, b"%d" % number)
        if number % 4 == 0:
            log.mark(producer, committed=number % 8 == 0)
    before = (log.end, log.unstable, log.index(), log.committed(), sorted(log.logs.producers(log.path)))
    (log.logs.close_all if how == "clean" else log.logs.abandon)()
    files = sorted(Path(log.path).glob("*.txnindex"))
    assert len(files) > 2
    for file in files:
        match damage:
            case "cut":
                os.truncate(file, file.stat().st_size - 5)
            case "foreign":
                file.write_bytes(struct.pack(">hqqqq", 0, 6, 0, 1, 2) if file != files[0] else b"x")
            case "torn":
                file.write_bytes(file.read_bytes() + b"\0\0\0")
            case "lost" if how == "killed":
                file.unlink()
    log.reopen(clean=False)
    assert (log.end, log.unstable, log.index(), log.committed(), sorted(log.logs.producers(log.path))) == before


def test_a_failed_index_write_does_not_reuse_an_offset(log: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-7866: the marker is in the log, so the log end offset has moved although the index write failed."""
    log.send(6, b"a")
    with monkeypatch.context() as patch:
        patch.setattr("actors.storage.log.index.TransactionIndex.append", _failing)
        with pytest.raises(OSError, match="full"):
            log.mark(6, committed=False)
    assert log.send(7, b"b") == log_manager.NONE
    assert [header.base_offset for _, header in whole_batches(log.logs.read(log.path, 0, ALL, 9, True)[1].data)] == [
        *(0, 1, 2)
    ]


def _failing(*_: Any) -> None:
    raise OSError(28, "full")


def test_a_snapshot_has_coordinator_epoch_and_first_offset(log: Partition) -> None:
    """3.6.4: an entry has the first offset of the open transaction. A producer known only by a marker has no batch."""
    log.send(1002, b"a")
    log.mark(1002, committed=False, coordinator_epoch=2)
    log.send(1002, b"b", b"c")
    log.send(1002, b"d")
    log.mark(1003, committed=True, epoch=3)
    log.logs.close_all()
    [path] = Path(log.path).glob("*.snapshot")
    entries = read_snapshot(path.read_bytes())
    assert [
        (e.producer_id, e.last_sequence, e.last_offset, e.coordinator_epoch, e.first_of_transaction) for e in entries
    ] == [(1002, 2, 3, 2, 2), (1002, 3, 4, 2, 2), (1003, -1, -1, 0, -1)]
    assert entries[-1].epoch == 3
    assert log.reopen(clean=True).unstable == 2
    assert log.send(1002, b"b", b"c", sequence=1) == log_manager.NONE
    assert log.end == 6, "it is known"


def test_a_snapshot_has_one_entry_of_a_producer_whose_transactions_have_ended(log: Partition) -> None:
    for _ in range(3):
        log.send(6, b"a")
        log.mark(6, committed=True)
    log.logs.close_all()
    [path] = Path(log.path).glob("*.snapshot")
    assert [(entry.last_sequence, entry.first_of_transaction) for entry in read_snapshot(path.read_bytes())] == [
        (2, -1)
    ]


def test_the_figures_of_transactions(log: Partition) -> None:
    """The metrics use these values. A transaction is late if it had no batch for too long."""
    log.send(6, b"a")
    log.send(7, b"b", transactional=False)
    assert next(log.logs.log_metrics()) == (("t", "0"), (log.logs.sizes((log.path,))[0], 0, 2, 1, 2, 0))
    assert log.logs.producer_count() == 2
    assert [log.logs.late_transactions(NOW - 1_000 + later) for later in (-1, 0)] == [1, 0]
    log.mark(6, committed=True)
    assert (log.logs.late_transactions(0), next(log.logs.log_metrics())[1][-1]) == (0, -1)


def test_a_producer_expires_after_its_setting(log: Partition) -> None:
    """`producer.id.expiration.ms`: a marker counts as activity (KAFKA-9144); an open transaction prevents expiry."""
    log.logs = log_manager.LogManager(lambda: NOW, producer_expiration_ms=2_000)
    log.open()
    log.send(6, b"a", transactional=False)
    log.send(7, b"b")
    log.send(8, b"c")
    log.mark(8, committed=True)
    log.logs.expire(log.path, log.end)
    assert [state[0] for state in log.logs.producers(log.path)] == [7, 8]


# ------------------------------------------------------------------------------------------------ cutting, following


def test_a_truncated_log_opens_again_what_its_markers_had_ended(tmp_path: Path) -> None:
    log = Partition(tmp_path, SMALL)
    log.send(6, b"a")
    log.send(7, b"b")
    log.mark(6, committed=False)
    log.mark(7, committed=False)
    assert log.logs.truncate(log.path, 3) == (0, 3, 1), "the marker of the first is below the high watermark"
    assert log.index() == struct.pack(">hqqqq", 0, 6, 0, 2, 1)
    assert log.logs.truncate(log.path, 2) == (0, 2, 0)
    assert log.index() == b""
    assert log.logs.restart(log.path, 50) == (50, 50, -1)
    assert log.logs.producers(log.path) == ()
    assert not list(Path(log.path).glob("*.snapshot"))


def test_a_truncated_log_knows_which_markers_are_replicated(tmp_path: Path) -> None:
    """The high watermark does not move, so the truncation itself must update the first unstable offset."""
    log = Partition(tmp_path)
    for producer in (6, 7):
        log.send(producer, b"a")
        log.mark(producer, committed=True)
    log.plain(b"b")
    log.logs.note_high_watermark(log.path, 2)
    assert log.logs.truncate(log.path, 4) == (0, 4, 2), "the marker of the second is not replicated"
    assert log.logs.truncate(log.path, 2) == (0, 2, -1)


def test_a_truncated_log_keeps_no_snapshot_of_what_it_lost(tmp_path: Path) -> None:
    """KAFKA-12153: the producer state is that at the new log end offset, also after a restart."""
    log = Partition(tmp_path, SMALL)
    for number in range(20):
        log.send(6, b"%d" % number)
    log.mark(6, committed=True)
    assert log.logs.truncate(log.path, 5) == (0, 5, 0)
    assert log.logs.producers(log.path)[0][2] == 4
    assert log.reopen(clean=True).unstable == 0
    assert log.logs.producers(log.path)[0][2] == 4


def test_a_follower_has_the_same_files(tmp_path: Path) -> None:
    """The follower replicates markers unchanged. Its transaction state depends on its own high watermark."""
    for name in ("leader", "follower"):
        (tmp_path / name).mkdir()
    leader = Partition(tmp_path / "leader", SMALL)
    leader.logs.begin_epoch(leader.path, 0)
    for number in range(40):
        leader.send(6 + number % 3, b"%d" % number)
        if number % 5 == 4:
            leader.mark(6 + number % 3, committed=number % 2 == 0)
    follower, path, offset = log_manager.LogManager(lambda: NOW + 1), f"{tmp_path}/follower/t-0", 0
    follower.open(path, True, SMALL)
    while offset < leader.end:
        body = leader.logs.read(leader.path, offset, 200, leader.end, True)[1]
        code, offset, _ = follower.replicate(path, body_of(bytes(body.data)))
        assert code == log_manager.NONE
    assert follower.note_high_watermark(path, leader.end) == leader.unstable
    names = {file.name for file in Path(leader.path).iterdir()}
    assert any(name.endswith(".txnindex") for name in names)
    assert {file.name for file in Path(path).iterdir()} == names
    for name in names:
        assert Path(path, name).read_bytes() == Path(leader.path, name).read_bytes(), name


def test_a_partly_deleted_transaction_can_be_ended(log: Partition) -> None:
    """Row 29: the producer state keeps the transaction's original first offset."""
    log.send(6, b"a", b"b")
    log.send(6, b"c")
    assert log.logs.advance_start(log.path, 2) == 2
    assert log.logs.producers(log.path)[0][-1] == 0
    assert log.mark(6, committed=True) == log_manager.NONE
    assert (log.unstable, log.committed(2)) == (-1, [b"c"])


def test_old_segments_take_their_index_along(tmp_path: Path) -> None:
    config = attrs.astuple(LogConfig(segment_bytes=300, index_interval_bytes=60, retention_bytes=0))
    log = Partition(tmp_path, config)
    for _ in range(12):
        log.send(6, b"lost")
        log.mark(6, committed=False)
    log.send(6, b"open")
    _, gone, _ = log.logs.expire(log.path, log.end)
    assert gone > 1
    log.logs.expire(log.path, log.end)
    assert len(list(Path(log.path).glob("*.txnindex"))) <= 1
    assert log.logs.producers(log.path)[0][-1] == 24, "its data may be gone, the producer stays"
    assert log.reopen(clean=False).logs.producers(log.path)[0][-1] == 24


# ------------------------------------------------------------------------------------------------ a model


class Transactions(RuleBasedStateMachine):
    """Append, mark, restart and truncate at random; readers get the values that the model predicts."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int, bytes | bool]] = []
        """Offset -> producer id (-1 for none), and the value or how the transaction ended."""

    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory()
        self.log = Partition(Path(self.folder.name), SMALL)

    def teardown(self) -> None:
        self.log.logs.abandon()
        self.folder.cleanup()

    @rule(producer=st.integers(-1, 2), count=st.integers(1, 3))
    def write(self, producer: int, count: int) -> None:
        values = [b"%d" % (len(self.rows) + number) for number in range(count)]
        if producer < 0:
            self.log.plain(*values)
        else:
            self.log.sequences.setdefault((producer, 0), 0)
            assert self.log.send(producer, *values) == log_manager.NONE
        self.rows += [(producer, value) for value in values]

    @rule(producer=st.integers(0, 2), committed=st.booleans())
    def end(self, producer: int, committed: bool) -> None:
        assert self.log.mark(producer, committed) == log_manager.NONE
        self.rows.append((producer, committed))

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        if self.rows:
            self.log.reopen(clean)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Truncate at the start of a batch, as a follower does."""
        bodies = self._bodies()
        offset = data.draw(st.sampled_from([header.base_offset for header in bodies]))
        _, self.log.end, _ = self.log.logs.truncate(self.log.path, offset)
        self.log.unstable = self.log.logs.note_high_watermark(self.log.path, offset)
        del self.rows[offset:]
        for producer in range(3):
            written = [offset for offset, row in enumerate(self.rows) if row[0] == producer]
            data_rows = [offset for offset in written if not isinstance(self.rows[offset][1], bool)]
            self.log.sequences[producer, 0] = len(data_rows)

    def _bodies(self) -> list[Any]:
        found, offset = [], 0
        while offset < self.log.end:
            for _, header in whole_batches(self.log.logs.read(self.log.path, offset, ALL, self.log.end, True)[1].data):
                found.append(header)
                offset = header.next_offset
        return found

    def _first_unstable(self) -> int:
        opened: dict[int, int] = {}
        for offset, (producer, what) in enumerate(self.rows):
            if isinstance(what, bool):
                opened.pop(producer, None)
            elif producer >= 0:
                opened.setdefault(producer, offset)
        return min(opened.values(), default=-1)

    def _kept(self, offset: int, limit: int) -> list[bytes]:
        kept = []
        for at in range(offset, limit):
            producer, what = self.rows[at]
            if isinstance(what, bytes):
                ends = (row[1] for row in self.rows[at:] if row[0] == producer and isinstance(row[1], bool))
                if producer < 0 or next(ends, False):
                    kept.append(what)
        return kept

    @invariant()
    def readers_get_what_was_committed(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.end, self.log.unstable) == (len(self.rows), self._first_unstable())
        limit = self.log.unstable if self.log.unstable >= 0 else self.log.end
        for offset in {0, limit // 2, max(limit - 1, 0)}:
            assert self.log.committed(offset, 150) == self._kept(offset, limit)


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
