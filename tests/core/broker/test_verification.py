"""Which transactional batches a leader appends (transactions.md 3.2 rule 4)."""

from __future__ import annotations

import pytest

from actors.core.broker.verification import MOST_REFUSED, RefusedBatches, TransactionVerification
from messages.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NETWORK_EXCEPTION,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    OUT_OF_ORDER_SEQUENCE,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
)

PID = 7


@pytest.fixture
def verification() -> TransactionVerification[str]:
    return TransactionVerification()


def test_a_verified_producer_needs_no_other_question_until_its_marker(
    verification: TransactionVerification[str],
) -> None:
    assert verification.wait(PID, 0, 0, "first") == (1, None)
    assert verification.wait(PID, 0, 1, "second") == (0, None), "one question for both"
    assert verification.answered(1, PID, NONE) == (["first", "second"], None)
    assert verification.append_verdict(PID, 0, 0) == NONE
    verification.opened(PID, 0)
    assert verification.append_verdict(PID, 0, 1) == NONE
    assert verification.is_open(PID, 0)
    assert not verification.is_open(PID, 1)
    assert verification.ended(PID) is None
    assert not verification.is_open(PID, 0)


def test_a_marker_refuses_what_waits_and_its_answer_counts_for_nothing(
    verification: TransactionVerification[str],
) -> None:
    verification.wait(PID, 0, 0, "late")
    assert verification.ended(PID) == RefusedBatches(["late"], INVALID_TXN_STATE)
    assert verification.wait(PID, 0, 1, "next") == (2, None)
    assert verification.answered(1, PID, NONE) == ((), None), "the question of before the marker"
    assert verification.answered(2, PID, NONE) == (["next"], None)
    verification.ended(PID)
    assert verification.append_verdict(PID, 0, 1) == INVALID_TXN_STATE


def test_a_higher_epoch_replaces_a_lower_one(verification: TransactionVerification[str]) -> None:
    verification.wait(PID, 1, 0, "old")
    assert verification.wait(PID, 2, 0, "new") == (2, RefusedBatches(["old"], INVALID_PRODUCER_EPOCH))
    assert verification.wait(PID, 1, 1, "zombie") == (0, RefusedBatches(("zombie",), INVALID_PRODUCER_EPOCH))
    assert verification.leadership_ended() == ["new"]


def test_an_answer_to_a_former_leadership_counts_for_nothing(verification: TransactionVerification[str]) -> None:
    """The transaction may have ended at another leader in the meantime."""
    assert verification.wait(PID, 0, 0, "before") == (1, None)
    assert verification.leadership_ended() == ["before"]
    assert verification.wait(PID, 0, 0, "late") == (2, None)
    assert verification.answered(1, PID, NONE) == ((), None)
    assert verification.answered(2, PID, INVALID_TXN_STATE) == ((), RefusedBatches(["late"], INVALID_TXN_STATE))


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (CONCURRENT_TRANSACTIONS, NOT_ENOUGH_REPLICAS),
        (COORDINATOR_LOAD_IN_PROGRESS, NOT_ENOUGH_REPLICAS),
        (COORDINATOR_NOT_AVAILABLE, NOT_ENOUGH_REPLICAS),
        (NOT_COORDINATOR, NOT_ENOUGH_REPLICAS),
        (NETWORK_EXCEPTION, NOT_ENOUGH_REPLICAS),
        (PRODUCER_FENCED, INVALID_PRODUCER_EPOCH),
        (TRANSACTION_ABORTABLE, INVALID_TXN_STATE),
        (INVALID_TXN_STATE, INVALID_TXN_STATE),
        (INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_codes(verification: TransactionVerification[str], answer: int, code: int) -> None:
    verification.wait(PID, 0, 0, "batch")
    assert verification.answered(1, PID, answer) == ((), RefusedBatches(["batch"], code))
    assert verification.wait(PID, 0, 0, "again")[0] == 2, "the producer's next batch asks again"


def test_a_later_batch_does_not_begin_a_transaction(verification: TransactionVerification[str]) -> None:
    """KAFKA-14920: the first batch gets a retriable error, and the verification of the second succeeds."""
    verification.wait(PID, 0, 0, "first")
    verification.answered(1, PID, CONCURRENT_TRANSACTIONS)
    verification.wait(PID, 0, 3, "second")
    assert verification.answered(2, PID, NONE) == (["second"], None)
    assert verification.append_verdict(PID, 0, 3) == OUT_OF_ORDER_SEQUENCE
    assert verification.append_verdict(PID, 0, 0) == NONE


def test_what_is_kept_of_refused_producers_is_bounded(verification: TransactionVerification[str]) -> None:
    for pid in range(MOST_REFUSED + 5):
        number, _ = verification.wait(pid, 0, 0, "first")
        verification.answered(number, pid, NOT_COORDINATOR)
    kept = [pid for pid in range(MOST_REFUSED + 5) if verification.append_verdict(pid, 0, 9) == OUT_OF_ORDER_SEQUENCE]
    assert kept == list(range(5, MOST_REFUSED + 5)), "the oldest went"
