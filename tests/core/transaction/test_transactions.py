"""The transactional ids of one partition: state table, failed appends, exhausted epochs, results of markers."""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.core.coordinator.membership import Reply
from actors.core.illegal_transition import IllegalTransition
from actors.core.transaction.decisions import verify
from actors.core.transaction.markers import MARKERS_AT_ONCE, outcomes, request_of, take
from actors.core.transaction.transaction import MAX_EPOCH, Transaction, complete, finish, prepare
from actors.core.transaction.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    COMPLETION,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREVIOUS,
    TABLES,
    TransactionState,
)
from actors.core.transaction.transactions import Append, Mark, TakeId, TransactionalIds
from messages import errors
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.declaration import PartitionError
from messages.apis.end_txn import EndTxnRequest
from messages.apis.init_producer_id import InitProducerIdRequest
from messages.apis.write_txn_markers import WritableTxnMarkerResult, WriteTxnMarkersResponse
from messages.cluster import TopicPartition
from messages.network import ClientRequest, Forwarded
from messages.transactions import Marker, ProducerIdTaken

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
ID, PRODUCER = "id", 7


class World:
    """Run the transactional ids with a log whose answers the test sets."""

    def __init__(self, *loaded: Transaction) -> None:
        self.ids = TransactionalIds({txn.transactional_id: txn for txn in loaded})
        self.now = 1000
        self.code = errors.NONE
        """Error code with which the log answers."""
        self.holds = False
        """Whether the log holds back its answers (`held`)."""
        self.held: list[int] = []
        self.appended: list[Transaction | None] = []
        self.marked: list[Transaction] = []
        self.codes: list[int] = []
        self.fresh = 100

    def run(self) -> None:
        while steps := self.ids.take():
            for step in steps:
                match step:
                    case Reply(_, response):
                        code = response.partitions[0].error_code if hasattr(response, "partitions") else None
                        self.codes.append(response.error_code if code is None else code)
                        self.response = response
                    case Append(number, entries):
                        self.appended += [txn for _, txn in entries]
                        if self.holds:
                            self.held.append(number)
                        else:
                            self.ids.handle_append(number, self.code, self.now)
                    case Mark(txn):
                        self.marked.append(txn)
                    case TakeId(number):
                        self.fresh += 1
                        self.ids.producer_id_received(ProducerIdTaken(number, self.fresh), self.now)

    def answered(self) -> int:
        self.run()
        return self.codes.pop()

    def init(self, pair: tuple[int, int] = (-1, -1)) -> int:
        self.ids.init_producer_id(_forwarded(InitProducerIdRequest(3, ID, 60_000, *pair)), self.now)
        return self.answered()

    def add(self, epoch: int, *partitions: TopicPartition) -> int:
        request = AddPartitionsToTxnRequest(1, ID, self.txn.producer_id, epoch, partitions)
        self.ids.add(_forwarded(request), partitions, self.now)
        return self.answered()

    def end(self, epoch: int, commit: bool = True) -> int:
        self.ids.end(_forwarded(EndTxnRequest(1, ID, self.txn.producer_id, epoch, commit)), self.now)
        return self.answered()

    def mark(self, *partitions: TopicPartition, epoch: int | None = None) -> None:
        txn = self.txn
        self.ids.note_markers(
            ID, (txn.producer_id, txn.producer_epoch if epoch is None else epoch), partitions, self.now
        )
        self.run()

    @property
    def txn(self) -> Transaction:
        txn = self.ids.get(ID)
        assert txn is not None
        return txn

    @property
    def stands(self) -> tuple[TransactionState, int]:
        return self.txn.state, self.txn.producer_epoch


def _forwarded(request: Any) -> Forwarded:
    return Forwarded(None, ClientRequest(1, 1, "client", "PLAINTEXT", request))


def open_one(epoch: int = 0, **fields: Any) -> Transaction:
    return Transaction(ID, PRODUCER, epoch, 60_000, ONGOING, (A, B), 900, 900, **fields)


# ---------------------------------------------------------------------------------------------------- the table


@given(st.sampled_from(TransactionState), st.sampled_from(TransactionState))
def test_a_move_is_one_of_the_table_or_none(state: TransactionState, target: TransactionState) -> None:
    txn = attrs.evolve(open_one(), state=state)
    if state in PREVIOUS[target]:
        assert prepare(txn, target).pending is target
    else:
        with pytest.raises(IllegalTransition):
            prepare(txn, target)
    assert all(set(table) == set(TransactionState) for table in TABLES.values())


def test_a_completion_that_does_not_follow_changes_nothing() -> None:
    txn = prepare(open_one(), PREPARE_COMMIT)
    right = attrs.evolve(open_one(), state=PREPARE_COMMIT)
    assert complete(txn, right) is right
    for wrong in ({"producer_epoch": 1}, {"partitions": (A,)}, {"start_ms": 1}, {"state": PREPARE_ABORT}):
        with pytest.raises(IllegalTransition):
            complete(txn, attrs.evolve(right, **wrong))


ACTS = st.sampled_from(("init", "add", "commit", "abort", "mark", "retry", "time", "store", "refuse", "expire"))


@settings(max_examples=80)
@given(st.lists(ACTS, max_size=40))
def test_a_decision_is_final_and_the_epoch_never_decreases(acts: list[str]) -> None:
    """Invariants 10.e and 10.h, and that each append follows from the last append that the log stored."""
    world, decision, last, stored = World(), None, (-1, -1), EMPTY
    for act in acts:
        world.holds, world.code, world.now = act in ("add", "commit"), errors.NONE, world.now + 500
        known = world.ids.get(ID)
        match act:
            case "init":
                world.init()
            case "add" | "commit" | "abort" if known is not None:
                request: Any = EndTxnRequest(1, ID, known.producer_id, known.producer_epoch, act == "commit")
                if act == "add":
                    request = AddPartitionsToTxnRequest(1, ID, known.producer_id, known.producer_epoch, (A,))
                    world.ids.add(_forwarded(request), (A,), world.now)
                else:
                    world.ids.end(_forwarded(request), world.now)
            case "mark" if known is not None:
                world.mark(A)
            case "retry":
                world.ids.retry(world.now)
            case "time":
                world.now += 61_000
                world.ids.abort_timed_out(world.now)
            case "store" | "refuse":
                for number in world.held:
                    world.ids.handle_append(
                        number, errors.NONE if act == "store" else errors.NOT_ENOUGH_REPLICAS, world.now
                    )
                world.held.clear()
            case "expire":
                world.ids.expire(world.now, 0)
        world.run()
        txn = world.ids.get(ID)
        if txn is None:
            decision, last = None, (-1, -1)
            continue
        if txn.producer_id == last[0]:
            assert txn.producer_epoch >= last[1]
        last = txn.producer_id, txn.producer_epoch
        if txn.state is not stored:
            assert stored in PREVIOUS[txn.state] or txn.state is EMPTY or decision in (None, txn.state)
        if decision is not None and txn.state in COMPLETION.values() and stored in COMPLETION:
            assert txn.state is COMPLETION[decision]
        decision = txn.state if txn.state in COMPLETION else None
        stored = txn.state


# ---------------------------------------------------------------------------------------------------- epochs


def test_an_exhausted_epoch_gives_another_producer_id() -> None:
    world = World(Transaction(ID, PRODUCER, MAX_EPOCH - 1, 60_000, COMPLETE_COMMIT, (), 1, 1))
    assert world.init((PRODUCER, MAX_EPOCH - 1)) == errors.NONE
    assert (world.txn.producer_id, world.txn.producer_epoch) == (101, 0)
    assert world.init((PRODUCER, MAX_EPOCH - 1)) == errors.NONE, "the answer was lost"
    assert (world.txn.producer_id, world.txn.producer_epoch) == (101, 0)
    assert world.init((PRODUCER, 5)) == errors.INVALID_PRODUCER_EPOCH


def test_a_fence_may_use_the_last_epoch() -> None:
    """T10: the epoch must not overflow."""
    world = World(open_one(MAX_EPOCH - 1))
    assert world.init() == errors.CONCURRENT_TRANSACTIONS
    assert world.stands == (PREPARE_ABORT, MAX_EPOCH)
    world.mark(A, B)
    assert world.init() == errors.NONE
    assert (world.txn.producer_id, world.txn.producer_epoch) == (101, 0)


# ---------------------------------------------------------------------------------------------------- the log


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (errors.NOT_ENOUGH_REPLICAS, errors.COORDINATOR_NOT_AVAILABLE),
        (errors.REQUEST_TIMED_OUT, errors.COORDINATOR_NOT_AVAILABLE),
        (errors.NOT_LEADER_OR_FOLLOWER, errors.NOT_COORDINATOR),
        (errors.UNKNOWN_SERVER_ERROR, errors.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_move_that_the_log_refuses_did_not_happen(error: int, answer: int) -> None:
    world = World(open_one())
    world.code = error
    assert world.end(0) == answer
    assert (world.txn, world.marked) == (open_one(), [])
    world.code = errors.NONE
    assert world.end(0) == errors.NONE


def test_a_fence_that_the_log_refuses_raises_the_epoch_once() -> None:
    """T11, KAFKA-9666: the epoch is raised only once, and the transition does not stay pending."""
    world = World(open_one())
    world.code = errors.NOT_ENOUGH_REPLICAS
    assert [world.init(), world.init()] == [errors.COORDINATOR_NOT_AVAILABLE] * 2
    assert (world.stands, world.txn.pending) == ((ONGOING, 1), None)
    assert world.end(0) == errors.INVALID_PRODUCER_EPOCH
    world.code = errors.NONE
    assert world.init() == errors.CONCURRENT_TRANSACTIONS
    assert world.stands == (PREPARE_ABORT, 1)
    world.mark(A, B)
    assert (world.stands, world.txn.failed_fence) == ((COMPLETE_ABORT, 1), False)


def test_while_a_move_is_appended_the_id_waits() -> None:
    world = World(open_one())
    world.holds = True
    world.ids.end(_forwarded(EndTxnRequest(1, ID, PRODUCER, 0, True)), world.now)
    world.run()
    assert [world.end(0), world.end(0, False), world.add(0, A), world.init()] == [errors.CONCURRENT_TRANSACTIONS] * 4
    world.ids.abort_timed_out(10**9)
    world.ids.unload()
    assert (world.answered(), len(world.appended)) == (errors.NOT_COORDINATOR, 1)


@pytest.mark.parametrize("error", [errors.NOT_ENOUGH_REPLICAS, errors.REQUEST_TIMED_OUT, errors.KAFKA_STORAGE_ERROR])
def test_a_completion_that_the_log_refuses_is_appended_again(error: int) -> None:
    """The decision is answered and kept: the id answers error 51 until the log has the completion.

    A storage error does not always take the partition offline: without free file descriptors, the leader stays.
    """
    world = World(open_one())
    world.end(0)
    world.code = error
    world.mark(A, B)
    assert (world.ids.to_retry, world.end(0), world.stands) == (1, errors.CONCURRENT_TRANSACTIONS, (PREPARE_COMMIT, 0))
    world.code = errors.NONE
    world.ids.retry(world.now)
    world.run()
    assert (world.ids.to_retry, world.stands) == (0, (COMPLETE_COMMIT, 0))


# ---------------------------------------------------------------------------------------------------- markers


def test_only_the_last_partition_completes_and_only_once() -> None:
    """T4, KAFKA-10080; T5, KAFKA-16352: results of an older transaction's markers are ignored."""
    world = World(open_one(3))
    world.end(3)
    world.mark(A, B, epoch=2)
    assert world.txn.partitions == (A, B)
    world.mark(A)
    world.mark(A)
    assert world.txn.partitions == (B,)
    world.holds = True
    world.mark(B)
    world.mark(B)
    world.mark(A, B)
    assert [txn.state for txn in world.appended if txn is not None] == [PREPARE_COMMIT, COMPLETE_COMMIT]


def test_a_decision_is_completed_after_loading() -> None:
    decided = attrs.evolve(open_one(2), state=PREPARE_ABORT)
    empty = attrs.evolve(decided, transactional_id="all deleted", partitions=())
    world = World(decided, empty)
    world.ids.begin(world.now)
    world.run()
    assert [(txn.transactional_id, txn.partitions) for txn in world.marked] == [(ID, (A, B))]
    assert world.appended == [attrs.evolve(finish(empty, world.now))]


def test_a_loaded_transaction_times_out_from_its_first_partition_on() -> None:
    world, other = World(open_one(2)), World(open_one(2))
    assert other.add(2, TopicPartition("c", 0)) == errors.NONE
    for each in (world, other):
        each.now = 900 + 60_000
        each.ids.abort_timed_out(each.now)
        each.run()
        assert each.stands == (ONGOING, 2) and each.ids.has_open
        each.now += 1
        each.ids.abort_timed_out(each.now)
        each.run()
        assert each.stands == (PREPARE_ABORT, 3)


def test_expired_ids_share_batches_that_are_not_too_large() -> None:
    """T13: the id stays if the log refuses its tombstone. An id whose first append was never stored expires too."""
    many = [Transaction(f"{number}-{'x' * 500}", number, -1) for number in range(700)]
    world = World(*many, open_one())
    world.code = errors.NOT_ENOUGH_REPLICAS
    world.ids.expire(world.now, 0)
    world.run()
    assert len(world.ids) == 701
    world.code, world.holds = errors.NONE, True
    world.ids.expire(world.now, 0)
    world.run()
    assert len(world.held) > 1
    for number in world.held:
        world.ids.handle_append(number, errors.NONE, world.now)
    assert len(world.ids) == 1


def test_verification_returns_the_error_of_each_partition() -> None:
    txn = open_one(3)
    ask = (A, TopicPartition("c", 0))
    assert list(verify(txn, PRODUCER, 3, ask).values()) == [errors.NONE, errors.TRANSACTION_ABORTABLE]
    assert set(verify(txn, PRODUCER, 2, ask).values()) == {errors.PRODUCER_FENCED}
    assert set(verify(None, PRODUCER, 3, ask).values()) == {errors.INVALID_PRODUCER_ID_MAPPING}
    pending = prepare(txn, PREPARE_COMMIT)
    assert verify(pending, PRODUCER, 3, (A,)) == {A: errors.NONE}, "KAFKA-14904"
    assert set(verify(attrs.evolve(txn, state=PREPARE_COMMIT), PRODUCER, 3, ask).values()) == {
        errors.CONCURRENT_TRANSACTIONS
    }


def test_requests_of_markers_and_their_results() -> None:
    markers = [Marker(f"{n}", n % 800, 0, 1, True, (A, B), 0, None) for n in range(802)]
    queue = deque(markers)
    assert [take(queue), take(queue)] == [markers[:800], markers[800:]], "one marker of a producer id in a request"
    many = deque(markers[0]._replace(producer_id=n) for n in range(MARKERS_AT_ONCE + 1))
    assert [len(take(many)), len(take(many))] == [MARKERS_AT_ONCE, 1]
    first, second, third = markers[:3]
    assert request_of([first]).markers[0].partitions == (A, B)
    codes = {
        0: (errors.NONE, errors.NOT_LEADER_OR_FOLLOWER),
        1: (errors.NONE, errors.TRANSACTION_COORDINATOR_FENCED),
        2: (2, errors.NONE),
    }
    results = [
        WritableTxnMarkerResult(n, tuple(PartitionError(*each) for each in zip((A, B), its, strict=True)))
        for n, its in codes.items()
    ]
    one, two, three = outcomes([first, second, third], WriteTxnMarkersResponse(tuple(results)))
    assert (one.done, one.again, one.cancelled) == ((A,), (B,), errors.NONE)
    assert two.cancelled == errors.TRANSACTION_COORDINATOR_FENCED
    assert (three.done, three.failed) == ((B,), ((A, 2),))
    (silent,) = outcomes([first], WriteTxnMarkersResponse(()))
    assert silent.again == (A, B)
