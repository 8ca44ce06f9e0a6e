"""Test the transaction coordinator as actors, on virtual time and real logs: requests, markers, loading, timeouts."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.coordinator.transaction_coordinator import TransactionCoordinatorActor
from actors.coordinator.transactions import TransactionsActor
from actors.core.topic.topic_name import GROUP_METADATA, TRANSACTION_STATE
from actors.core.transaction.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from messages import errors
from messages.apis.find_coordinator import TRANSACTION_KEY, FindCoordinatorRequest
from messages.apis.list_transactions import ListTransactionsRequest
from messages.ask import Failure
from messages.broker import InternalTopicLeadership, LedPartition
from messages.cluster import TopicPartition
from messages.probes import collecting
from tests.broker.harness import alive
from tests.coordinator.transaction_world import A0, A1, B0, ID, TransactionWorld

GROUPS = TopicPartition(GROUP_METADATA, 3)
"""The partition of group g in __consumer_offsets, which has 5 partitions."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TransactionWorld]:
    world = TransactionWorld(
        tmp_path,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=1000,
        transaction_remove_expired_transaction_cleanup_interval_ms=10_000,
        transactional_id_expiration_ms=30_000,
        log_retention_ms=-1,
    )
    world.run()
    world.coordinate(0, 1, 2)
    yield world
    assert world.base.failures == 0
    world.base.shutdown()


def states(world: TransactionWorld, name: str = ID) -> list[object]:
    return [None if txn is None else txn.state for txn in world.logged(name)]


# ------------------------------------------------------------------------------------------- finding the coordinator


def test_the_leader_of_the_ids_partition_coordinates(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    world.topic_exists = False
    find = FindCoordinatorRequest(3, ID, TRANSACTION_KEY)
    assert world.ask(find).error_code == errors.COORDINATOR_NOT_AVAILABLE
    assert [each.topics for each in world.created] == [(TRANSACTION_STATE,)]
    world.topic_exists = True
    world.coordinate(world.partition_of())
    found = world.ask(find)
    assert (found.error_code, found.node_id, found.port) == (errors.NONE, 0, 9092)
    other = next(name for name in "abcdef" if world.partition_of(name) != world.partition_of())
    assert world.init(other).error_code == errors.NOT_COORDINATOR
    assert world.init().error_code == errors.NONE
    world.base.shutdown()


# ---------------------------------------------------------------------------------------------------- InitProducerId


def test_each_initialization_raises_the_epoch(world: TransactionWorld) -> None:
    first = world.producer()
    assert [world.producer(), world.producer("other")] == [(first[0], 1), (first[0] + 1, 0)]
    assert [txn.producer_epoch for txn in world.logged() if txn is not None] == [0, 1]


def test_a_producer_without_an_id_gets_a_fresh_producer_id(world: TransactionWorld) -> None:
    responses = [world.init(None, timeout=0) for _ in range(2)]
    assert [(each.error_code, each.producer_epoch) for each in responses] == [(errors.NONE, 0)] * 2
    assert responses[0].producer_id != responses[1].producer_id


@pytest.mark.parametrize(
    ("failure", "code", "level"),
    [
        ("BadZnode", errors.UNKNOWN_SERVER_ERROR, logging.ERROR),
        ("ConnectionLoss", errors.COORDINATOR_NOT_AVAILABLE, logging.WARNING),
    ],
)
def test_without_producer_ids_the_reason_is_logged(
    world: TransactionWorld, caplog: pytest.LogCaptureFixture, failure: str, code: int, level: int
) -> None:
    """Kafka answers UNKNOWN_SERVER_ERROR too if the znode cannot be read: clients do not retry for ever."""
    world.no_block = Failure(failure, "/latest_producer_id_block: no valid JSON")
    for name in (None, ID):
        caplog.clear()
        assert world.init(name).error_code == code
        (line,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert line.levelno == level and "/latest_producer_id_block" in line.getMessage()
    world.no_block = None
    assert [world.init(each).error_code for each in (None, ID)] == [errors.NONE, errors.NONE]


def test_requests_that_every_coordinator_refuses(world: TransactionWorld) -> None:
    assert world.init("").error_code == errors.INVALID_REQUEST
    assert world.init("x" * 32768, version=2).error_code == errors.INVALID_REQUEST, "no record can hold it"
    assert [world.init(timeout=each).error_code for each in (0, -1, 900_001)] == [
        errors.INVALID_TRANSACTION_TIMEOUT
    ] * 3
    assert world.init(timeout=900_000).error_code == errors.NONE
    assert world.init(pair=(7, -1)).error_code == errors.INVALID_REQUEST
    assert world.init(pair=(-1, 7)).error_code == errors.INVALID_REQUEST
    pair = world.producer()
    assert world.add(pair, A0, name="") == [errors.INVALID_REQUEST]
    assert world.add_offsets(pair, name="") == errors.INVALID_REQUEST
    assert world.end(pair, name="") == errors.INVALID_REQUEST


def test_a_producer_continues_with_its_epoch(world: TransactionWorld) -> None:
    """KIP-360: the current id and epoch raise the epoch, a repeated request gets the same answer, others are fenced."""
    id, epoch = world.producer()
    again = [world.init(pair=(id, epoch)) for _ in range(2)]
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in again] == [(errors.NONE, id, 1)] * 2
    world.producer()
    assert world.init(pair=(id, epoch)).error_code == errors.INVALID_PRODUCER_EPOCH
    assert world.init(pair=(id + 5, epoch)).error_code == errors.INVALID_PRODUCER_EPOCH
    invented = world.init("new", pair=(77, 5))
    assert (invented.error_code, invented.producer_epoch) == (errors.NONE, 0)


# ---------------------------------------------------------------------------------------------------- transactions


def test_a_transaction_from_beginning_to_end(world: TransactionWorld) -> None:
    world.inform(*world.topics_with(GROUPS))
    pair = world.producer()
    assert world.add(pair, A0, A1) == [errors.NONE, errors.NONE]
    assert world.add(pair, A0) == [errors.NONE]
    assert world.add_offsets(pair) == errors.NONE
    assert world.end(pair) == errors.NONE
    assert states(world) == [EMPTY, ONGOING, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]
    last = world.logged()[-2]
    assert last is not None and last.partitions == (GROUPS, A0, A1)
    assert {(each.partitions, each.transaction_result, each.coordinator_epoch) for each in world.markers} == {
        ((GROUPS, A0), True, 1),
        ((A1,), True, 1),
    }
    assert world.stands() == ("CompleteCommit", 0)
    assert [world.end(pair), world.end(pair, commit=False)] == [errors.NONE, errors.INVALID_TXN_STATE]
    assert world.add(pair, B0) == [errors.NONE]
    assert world.end(pair, commit=False) == errors.NONE
    assert states(world)[-3:] == [ONGOING, PREPARE_ABORT, COMPLETE_ABORT]
    assert not world.markers[-1].transaction_result


def test_one_wrong_partition_refuses_the_request(world: TransactionWorld) -> None:
    pair, missing = world.producer(), TopicPartition("nowhere", 0)
    assert world.add(pair, A0, missing, GROUPS) == [
        *(errors.OPERATION_NOT_ATTEMPTED, errors.UNKNOWN_TOPIC_OR_PARTITION, errors.TOPIC_AUTHORIZATION_FAILED)
    ]
    assert world.stands() == ("Empty", 0)
    assert world.end(pair) == errors.INVALID_TXN_STATE


def test_the_producer_must_be_the_present_one(world: TransactionWorld) -> None:
    id, epoch = world.producer()
    for version, code in ((1, errors.INVALID_PRODUCER_EPOCH), (2, errors.PRODUCER_FENCED)):
        for wrong in (epoch - 1, epoch + 1):
            assert world.add((id, wrong), A0, version=version) == [code]
            assert world.end((id, wrong), version=version) == code
    assert world.add((id + 1, epoch), A0) == [errors.INVALID_PRODUCER_ID_MAPPING]
    assert world.end((id + 1, epoch)) == errors.INVALID_PRODUCER_ID_MAPPING
    assert world.add((id, epoch), A0, name="unknown") == [errors.INVALID_PRODUCER_ID_MAPPING]


def test_an_initialization_fences_an_open_transaction(world: TransactionWorld) -> None:
    id, _ = pair = world.producer()
    world.add(pair, A0)
    assert world.init().error_code == errors.CONCURRENT_TRANSACTIONS
    assert [(each.producer_epoch, each.transaction_result) for each in world.markers] == [(1, False)]
    assert world.producer() == (id, 2)
    assert world.end(pair) == errors.INVALID_PRODUCER_EPOCH


def test_a_stale_producer_does_not_abort_the_live_one(world: TransactionWorld) -> None:
    """T9: Kafka aborts the open transaction, whatever epoch the request contains."""
    id, stale = world.producer()
    live = world.producer()
    world.add(live, A0)
    assert world.init(pair=(id, stale)).error_code == errors.INVALID_PRODUCER_EPOCH
    assert world.stands() == ("Ongoing", 1)
    assert world.end(live) == errors.NONE


# ---------------------------------------------------------------------------------------------------- markers


def test_the_answer_does_not_wait_for_markers(world: TransactionWorld) -> None:
    pair = world.producer()
    world.add(pair, A0, A1)
    world.frozen.add(1)
    assert world.end(pair) == errors.NONE
    assert world.describe().partitions == (A1,), "broker 0 has written its marker"
    assert [world.end(pair), world.end(pair, commit=False)] == [errors.CONCURRENT_TRANSACTIONS] * 2
    assert world.add(pair, B0) == [errors.CONCURRENT_TRANSACTIONS]
    assert world.init().error_code == errors.CONCURRENT_TRANSACTIONS
    world.thaw()
    assert world.stands()[0] == "CompleteCommit"


@pytest.mark.parametrize("failed", [True, False])
def test_what_is_not_written_is_sent_again(world: TransactionWorld, failed: bool) -> None:
    pair = world.producer()
    world.add(pair, A0, A1)
    if failed:
        world.frozen.add(1)
    else:
        world.codes[A1] = errors.NOT_LEADER_OR_FOLLOWER
    world.end(pair)
    if failed:
        world.thaw(failed=True)
    sent = len(world.markers)
    world.codes.clear()
    assert world.stands()[0] == "PrepareCommit"
    world.pass_time(0.2)
    assert [each.partitions for each in world.markers[sent:]] == [(A1,)]
    assert world.stands()[0] == "CompleteCommit"


def test_markers_outlast_a_new_endpoint_of_their_broker(world: TransactionWorld) -> None:
    """The sender to the former endpoint exits while its request has no response."""
    pair, other = world.producer(), world.producer("other")
    world.add(pair, A1)
    world.add(other, A1, name="other")
    world.frozen.add(1)
    world.end(pair)
    moved = alive(0), alive(1, 9193)
    world.update(*world.topics_with(), live=moved)
    world.end(other, name="other")
    world.pass_time(0.2)
    assert (world.stands()[0], world.stands("other")[0]) == ("CompleteCommit", "CompleteCommit")


def test_a_marker_waits_for_a_leader(world: TransactionWorld) -> None:
    pair = world.producer()
    world.add(pair, A1)
    world.inform(live=(0,))
    world.end(pair)
    name = "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize"
    assert (world.markers, world.gauges[name]) == ([], 1)
    world.inform()
    world.pass_time(0.2)
    assert (world.stands()[0], world.gauges[name]) == ("CompleteCommit", 0)


def test_a_deleted_partition_needs_no_marker(world: TransactionWorld) -> None:
    """T22: the markers wait if only this broker's metadata lacks the topic, but not if ZooKeeper lacks it."""
    pair = world.producer()
    world.add(pair, A0, B0)
    world.forget(B0)
    world.end(pair)
    world.pass_time(1.0)
    assert world.describe().partitions == (B0,), "the topic exists: the metadata cache is behind"
    del world.existing["b"]
    world.pass_time(1.0)
    assert world.stands()[0] == "CompleteCommit"
    assert [each.partitions for each in world.markers] == [(A0,)]


def test_a_newer_coordinator_cancels_markers(world: TransactionWorld) -> None:
    pair = world.producer()
    world.add(pair, A0, A1)
    world.codes[A1] = errors.TRANSACTION_COORDINATOR_FENCED
    world.end(pair)
    sent = len(world.sent)
    world.pass_time(5.0)
    assert len(world.sent) == sent and world.describe().partitions == (A1,)


# ---------------------------------------------------------------------------------------------------- loading


def test_what_is_decided_is_completed_by_the_next_coordinator(world: TransactionWorld) -> None:
    """The new coordinator sends markers to all partitions again, with its own epoch. An open transaction stays open."""
    pair, other = world.producer(), next(n for n in "abcdef" if world.partition_of(n) == world.partition_of())
    open_pair = world.producer(other)
    world.add(open_pair, A0, name=other)
    world.add(pair, A0, A1)
    world.frozen.add(1)
    world.end(pair)
    world.coordinate(0, 1, 2, leader=1)
    assert world.init().error_code == errors.NOT_COORDINATOR
    world.thaw()
    world.sent.clear()
    world.coordinate(0, 1, 2)
    assert {each.partitions for each in world.markers} == {(A0,), (A1,)}
    assert {each.coordinator_epoch for each in world.markers} == {3}
    assert world.stands()[0] == "CompleteCommit"
    assert world.end(open_pair, name=other) == errors.NONE


def test_a_load_ends_when_another_broker_becomes_leader(world: TransactionWorld) -> None:
    world.producer()
    coordinator = world.base.actors(TransactionCoordinatorActor)[0]
    log = world.base.actors(TransactionsActor)[0]._log
    led = LedPartition(TopicPartition(TRANSACTION_STATE, world.partition_of()), 2, log)
    reached = Counter[str]()
    with collecting(lambda name: reached.update((name,))):
        for change in (InternalTopicLeadership((led,), ()), InternalTopicLeadership((), (led.partition,))):
            world.base.inject(coordinator.myAddress, change, coordinator.myAddress)
        world.run()
    assert reached["a coordinator gives up a partition of transactions that it loads"] == 1
    assert world.init().error_code == errors.NOT_COORDINATOR
    assert not coordinator.is_loading


def test_pending_requests_fail_when_the_partition_moves(world: TransactionWorld) -> None:
    pair = world.producer()
    world.add(pair, A0)
    world.coordinate(0, 1, 2, leader=1)
    assert world.add(pair, A1) == [errors.NOT_COORDINATOR]
    assert world.end(pair) == errors.NOT_COORDINATOR
    assert world.describe().error_code == errors.NOT_COORDINATOR


# ---------------------------------------------------------------------------------------------------- time


def test_a_transaction_times_out(world: TransactionWorld) -> None:
    id, _ = pair = world.producer(timeout=3000)
    world.add(pair, A0)
    world.pass_time(2.9)
    assert world.stands() == ("Ongoing", 0)
    world.pass_time(1.3)
    assert world.stands() == ("CompleteAbort", 1)
    assert [world.end(pair), world.end(pair, version=2)] == [errors.INVALID_PRODUCER_EPOCH, errors.PRODUCER_FENCED]
    assert world.add(pair, A0) == [errors.INVALID_PRODUCER_EPOCH]
    assert world.producer() == (id, 2)


def test_an_id_that_is_not_used_expires(world: TransactionWorld) -> None:
    pair = world.producer()
    world.add(pair, A0)
    world.end(pair)
    world.pass_time(41.0)
    assert world.logged()[-1] is None
    assert world.describe().error_code == errors.TRANSACTIONAL_ID_NOT_FOUND
    assert world.add(pair, A0) == [errors.INVALID_PRODUCER_ID_MAPPING]
    fresh = world.producer()
    assert fresh[0] != pair[0] and fresh[1] == 0


# ---------------------------------------------------------------------------------------------------- tools


def test_the_ids_are_described_and_listed(world: TransactionWorld) -> None:
    pair = world.producer()
    world.producer("other")
    world.add(pair, B0, A1)
    described = world.describe()
    assert (described.transaction_timeout_ms, described.partitions) == (60_000, (A1, B0))
    assert described.transaction_start_time_ms > 0 and world.describe("other").transaction_start_time_ms == -1

    def listed(*states: str, producers: tuple[int, ...] = (), longer: int = -1) -> list[tuple[str, str]]:
        response = world.ask(ListTransactionsRequest(1, states, producers, longer))
        assert response.unknown_state_filters == tuple(each for each in states if each == "nonsense")
        return sorted((each.transactional_id, each.transaction_state) for each in response.transaction_states)

    assert listed() == [(ID, "Ongoing"), ("other", "Empty")]
    assert listed("Ongoing", "nonsense") == [(ID, "Ongoing")]
    assert listed("nonsense") == []
    assert listed(producers=(pair[0],)) == [(ID, "Ongoing")]
    world.pass_time(2.0)
    assert listed("Ongoing", longer=3000) == [] and listed("Ongoing", longer=1000) == [(ID, "Ongoing")]
