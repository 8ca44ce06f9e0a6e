"""Each invariant of transactions is violated with a change that breaks its rule, and holds without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.simulation.log_transactions import LogTransactions
from actors.simulation.run import run
from actors.simulation.schedule import parse
from messages.apis.fetch import AbortedTransaction
from messages.wire.control_batch import EndTransactionMarker, marker_batch, visible_records
from messages.wire.record_batch import HEADER, batch_of, with_records
from tests.simulation.patches import Change

SCHEDULE = """
brokers 3
duration 24
steady yes
records yes
2 create x 0,1,2 1,2,0 2,0,1 0,2,1
4 produce x 0 for 20
4 transact id0 for 20
4 transact id1 for 20
4 transact worker for 20
8 transact worker for 16
10 transact id0 for 14
12 transact worker for 12
14 transact worker for 10
"""
"""Two transactional producers and a worker; later incarnations replace one producer and the worker."""

CASES: dict[str, Change] = {
    "last stable offsets never decrease": Change(
        "actors.storage.log.transactions:Transactions.first_unstable",
        "return min(first, self._unreplicated[0][0]) if self._unreplicated else first",
        "break",
    ),
    "zombie producers are fenced": Change(
        "actors.core.transaction.decisions:_producer_verdict",
        "if txn.producer_epoch != request.producer_epoch:",
        "if False:",
    ),
    "groups are what their log says": Change(
        "actors.coordinator.group_coordinator:GroupCoordinatorActor._end_transaction",
        "ended.producer_id in hosted.producer_ids",
        "False",
    ),
    "transactions end": Change(
        "actors.coordinator.transaction_markers:TransactionMarkersActor._dispatch",
        "for partition in marker.partitions:",
        "for partition in [each for each in marker.partitions if each.topic != '__consumer_offsets']:",
    ),
    "states of transactions follow each other": Change(
        "actors.core.transaction.transaction:add_partitions",
        "start = txn.start_ms if txn.state is transaction_states.ONGOING else now",
        "start = now",
    ),
    "coordinators answer what their log has": Change(
        "actors.core.transaction.decisions:add_partitions",
        "if txn.state is transaction_states.ONGOING and set(partitions) <= set(txn.partitions):",
        "if txn.state is transaction_states.ONGOING:",
    ),
    "input is processed once": Change(
        "actors.core.coordinator.offsets:Offsets.end_transaction", "elif ended.committed:", "else:"
    ),
}
"""An invariant -> a change that breaks it. The known bugs have one for "readers see whole transactions"."""


def test_the_schedule_holds_without_a_bug() -> None:
    without = run(parse(SCHEDULE))
    assert without.violation is None, without.violation


@pytest.mark.parametrize("invariant", CASES)
def test_an_invariant_is_violated_with_its_bug(invariant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CASES[invariant].apply(monkeypatch)
    violation = run(parse(SCHEDULE), only={invariant}).violation
    assert violation is not None and violation.invariant == invariant, violation


def test_what_a_reader_of_committed_data_sees() -> None:
    """A transaction's own marker ends its entry in the list of aborted transactions. So the next one is visible."""

    def placed(batch: bytes, offset: int) -> bytes:
        return offset.to_bytes(8, "big") + batch[8:]

    def data(value: bytes, producer: int) -> bytes:
        batch = batch_of([(b"key", value)], 0, producer, 0, 0, producer >= 0)
        return with_records(batch.batches[0], bytes(batch.body.data)[HEADER.size :])

    def marker(producer: int, commit: bool) -> bytes:
        return marker_batch(producer, 0, EndTransactionMarker(commit, 0), 0)

    batches = [
        *(data(b"aborted", 1), data(b"plain", -1), data(b"other", 2), marker(1, False)),
        *(data(b"committed", 1), marker(1, True), marker(2, True)),
    ]
    log = b"".join(placed(batch, offset) for offset, batch in enumerate(batches))
    seen = [(each.offset, each.value) for each in visible_records(log, (AbortedTransaction(1, 0),))]
    assert seen == [(1, b"plain"), (2, b"other"), (4, b"committed")]


def test_what_lies_behind_the_log_end_is_not_read(tmp_path: Path) -> None:
    """A bit was flipped in the first batch of the last segment, which the broker does not read."""
    (tmp_path / "00000000000000000007.log").write_bytes(b"\xff" * HEADER.size)
    assert LogTransactions(tmp_path, 7).producers == {}
