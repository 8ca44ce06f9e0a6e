"""Which transactional batches a leader appends (transactions.md 3.2 rule 4)."""

from __future__ import annotations

import pytest

from actors.core.broker.verification import MOST_REFUSED, RefusedBatches, TransactionVerification
from messages import errors

PID = 7


@pytest.fixture
def verification() -> TransactionVerification[str]:
    return TransactionVerification()


def test_a_verified_producer_needs_no_other_question_until_its_marker(
    verification: TransactionVerification[str],
) -> None:
    assert verification.wait(PID, 0, 0, "first") == (1, None)
    assert verification.wait(PID, 0, 1, "second") == (0, None), "one question for both"
    assert verification.handle_reply(1, PID, errors.NONE) == (["first", "second"], None)
    assert verification.append_verdict(PID, 0, 0) == errors.NONE
    verification.note_open(PID, 0)
    assert verification.append_verdict(PID, 0, 1) == errors.NONE
    assert verification.is_open(PID, 0)
    assert not verification.is_open(PID, 1)
    assert verification.note_end(PID) is None
    assert not verification.is_open(PID, 0)


def test_a_marker_refuses_what_waits_and_its_answer_counts_for_nothing(
    verification: TransactionVerification[str],
) -> None:
    verification.wait(PID, 0, 0, "late")
    assert verification.note_end(PID) == RefusedBatches(["late"], errors.INVALID_TXN_STATE)
    assert verification.wait(PID, 0, 1, "next") == (2, None)
    assert verification.handle_reply(1, PID, errors.NONE) == ((), None), "the question of before the marker"
    assert verification.handle_reply(2, PID, errors.NONE) == (["next"], None)
    verification.note_end(PID)
    assert verification.append_verdict(PID, 0, 1) == errors.INVALID_TXN_STATE


def test_a_higher_epoch_replaces_a_lower_one(verification: TransactionVerification[str]) -> None:
    verification.wait(PID, 1, 0, "old")
    assert verification.wait(PID, 2, 0, "new") == (2, RefusedBatches(["old"], errors.INVALID_PRODUCER_EPOCH))
    assert verification.wait(PID, 1, 1, "zombie") == (0, RefusedBatches(("zombie",), errors.INVALID_PRODUCER_EPOCH))
    assert verification.leadership_ended() == ["new"]


def test_an_answer_to_a_former_leadership_counts_for_nothing(verification: TransactionVerification[str]) -> None:
    """The transaction may have ended at another leader in the meantime."""
    assert verification.wait(PID, 0, 0, "before") == (1, None)
    assert verification.leadership_ended() == ["before"]
    assert verification.wait(PID, 0, 0, "late") == (2, None)
    assert verification.handle_reply(1, PID, errors.NONE) == ((), None)
    assert verification.handle_reply(2, PID, errors.INVALID_TXN_STATE) == (
        (),
        RefusedBatches(["late"], errors.INVALID_TXN_STATE),
    )


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (errors.CONCURRENT_TRANSACTIONS, errors.NOT_ENOUGH_REPLICAS),
        (errors.COORDINATOR_LOAD_IN_PROGRESS, errors.NOT_ENOUGH_REPLICAS),
        (errors.COORDINATOR_NOT_AVAILABLE, errors.NOT_ENOUGH_REPLICAS),
        (errors.NOT_COORDINATOR, errors.NOT_ENOUGH_REPLICAS),
        (errors.NETWORK_EXCEPTION, errors.NOT_ENOUGH_REPLICAS),
        (errors.PRODUCER_FENCED, errors.INVALID_PRODUCER_EPOCH),
        (errors.TRANSACTION_ABORTABLE, errors.TRANSACTION_ABORTABLE),
        (errors.INVALID_TXN_STATE, errors.INVALID_TXN_STATE),
        (errors.INVALID_PRODUCER_ID_MAPPING, errors.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_each_failed_verification_refuses_the_batch_with_its_code(
    verification: TransactionVerification[str], answer: int, code: int
) -> None:
    verification.wait(PID, 0, 0, "batch")
    assert verification.handle_reply(1, PID, answer) == ((), RefusedBatches(["batch"], code))
    assert verification.wait(PID, 0, 0, "again")[0] == 2, "the producer's next batch asks again"


def test_a_later_batch_does_not_begin_a_transaction(verification: TransactionVerification[str]) -> None:
    """KAFKA-14920: the first batch gets a retriable error, and the verification of the second succeeds."""
    verification.wait(PID, 0, 0, "first")
    verification.handle_reply(1, PID, errors.CONCURRENT_TRANSACTIONS)
    verification.wait(PID, 0, 3, "second")
    assert verification.handle_reply(2, PID, errors.NONE) == (["second"], None)
    assert verification.append_verdict(PID, 0, 3) == errors.OUT_OF_ORDER_SEQUENCE
    assert verification.append_verdict(PID, 0, 0) == errors.NONE


def test_what_is_kept_of_refused_producers_is_bounded(verification: TransactionVerification[str]) -> None:
    for pid in range(MOST_REFUSED + 5):
        number, _ = verification.wait(pid, 0, 0, "first")
        verification.handle_reply(number, pid, errors.NOT_COORDINATOR)
    kept = [
        pid for pid in range(MOST_REFUSED + 5) if verification.append_verdict(pid, 0, 9) == errors.OUT_OF_ORDER_SEQUENCE
    ]
    assert kept == list(range(5, MOST_REFUSED + 5)), "the oldest went"
