"""Rows of broker.md 9 that a whole broker satisfies on virtual time, and that no other test covers."""

from __future__ import annotations

import pytest

from messages import errors
from messages.apis.fetch import READ_COMMITTED, FetchPartition
from messages.apis.list_offsets import ListOffsetsRequest, OffsetQuery
from messages.apis.offset_for_leader_epoch import EpochEnd, EpochQuery, OffsetForLeaderEpochRequest
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import ConfigEntry, TopicPartition
from messages.records import LATEST
from messages.wire.record_batch import read_records
from messages.zookeeper import UpdatePartitionStates
from tests.broker import test_records
from tests.broker.harness import Broker, alive, known, order
from tests.storage.batches import batch


def test_row_7_a_leader_begins_its_epoch_where_its_log_ends(broker: Broker) -> None:
    test_records.lead(broker, epoch=4)
    for _ in range(6):
        test_records.produce(broker, batch(b"a"))
    test_records.lead(broker, epoch=5)
    queries = tuple(EpochQuery(test_records.T0, epoch, 5) for epoch in (5, 4))
    ends = broker.ask(OffsetForLeaderEpochRequest(3, -1, queries)).partitions
    assert ends == (EpochEnd(test_records.T0, errors.NONE, 5, 6), EpochEnd(test_records.T0, errors.NONE, 4, 6))


@pytest.mark.parametrize(
    ("delete", "is_known", "code"),
    [
        (False, True, errors.NOT_LEADER_OR_FOLLOWER),
        (True, True, errors.NOT_LEADER_OR_FOLLOWER),
        (True, False, errors.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_row_28_a_waiting_produce_fails_when_the_replica_is_stopped(
    broker: Broker, delete: bool, is_known: bool, code: int
) -> None:
    test_records.lead(broker, 1)
    waiting = test_records.wait_for_produce(broker, batch(b"a"))
    parked = broker.post(test_records.fetch_request(FetchPartition(test_records.T0, 0, 1 << 20), max_wait_ms=30_000))
    broker.run()
    assert test_records.answered(broker, waiting) is test_records.answered(broker, parked) is None
    if not is_known:
        broker.update(known("t", leader=-2), live=(alive(0), alive(1, 1)))
    broker.stop(("t", 0, -2, delete))
    [produced] = test_records.answered(broker, waiting).partitions
    assert produced.error_code == errors.NOT_LEADER_OR_FOLLOWER
    if delete:
        [fetched] = test_records.answered(broker, parked).partitions
        assert fetched.error_code == code


def test_row_43_internal_topics_are_written_by_admins_alone(broker: Broker) -> None:
    inside = TopicPartition("__consumer_offsets", 0)
    broker.update(known("__consumer_offsets"), live=(alive(0),))
    broker.lead(order("__consumer_offsets"))
    assert test_records.produce(broker, batch(b"a"), partition=inside).error_code == errors.INVALID_TOPIC
    part = ProducePartition(inside, read_records(batch(b"a")))
    id = broker.post(ProduceRequest(8, None, 1, 30_000, (part,)), client="__admin_client")
    broker.run()
    [result] = test_records.answered(broker, id).partitions
    assert (result.error_code, result.base_offset) == (errors.NONE, 0)


def test_row_51_a_follower_gets_what_it_is_assigned_and_learns_of_its_own_progress_later(broker: Broker) -> None:
    u0 = TopicPartition("u", 0)
    test_records.lead(broker, 1)
    broker.lead(order("u", replicas=(0, 2), isr=(0, 2)))
    for partition in (test_records.T0, u0):
        test_records.produce(broker, batch(b"a"), partition=partition)
    parts = (FetchPartition(test_records.T0, 0, 1 << 20), FetchPartition(u0, 0, 1 << 20))
    first = {each.partition: each for each in broker.ask(test_records.fetch_request(*parts, replica=1)).partitions}
    assert (test_records.offsets_of(first[test_records.T0]), first[test_records.T0].high_watermark) == ([0], 0)
    assert (first[u0].error_code, first[u0].body.size) == (errors.UNKNOWN_LEADER_EPOCH, 0)
    [again] = broker.ask(test_records.fetch_request(FetchPartition(test_records.T0, 1, 1 << 20), replica=1)).partitions
    assert again.high_watermark == 0, "from before this fetch"
    assert test_records.fetch(broker, 1).high_watermark == 1
    [other] = broker.ask(test_records.fetch_request(FetchPartition(u0, 0, 1 << 20), replica=2)).partitions
    assert other.high_watermark == 0


def test_row_52_a_fetch_of_another_epoch_does_not_update_the_follower(broker: Broker) -> None:
    test_records.lead(broker, 1, epoch=4)
    waiting = test_records.wait_for_produce(broker, batch(b"a"))
    assert test_records.fetch(broker, 1, epoch=3, replica=1).error_code == errors.FENCED_LEADER_EPOCH
    assert test_records.fetch(broker, 1, epoch=5, replica=1).error_code == errors.UNKNOWN_LEADER_EPOCH
    assert test_records.answered(broker, waiting) is None
    assert test_records.fetch(broker, 1, epoch=4, replica=1).error_code == errors.NONE
    assert test_records.answered(broker, waiting).partitions[0].error_code == errors.NONE


def test_row_55_the_latest_offset_depends_on_the_requester(broker: Broker) -> None:
    test_records.lead(broker, 1, epoch=4)
    for _ in range(3):
        test_records.produce(broker, batch(b"a"))
    test_records.fetch(broker, 0, replica=1)
    test_records.fetch(broker, 2, replica=1)

    def latest(replica: int, isolation: int = 0) -> tuple[int, int]:
        [found] = broker.ask(
            ListOffsetsRequest(5, replica, (OffsetQuery(test_records.T0, LATEST, 4),), isolation)
        ).partitions
        return found.offset, found.leader_epoch

    assert latest(1) == (3, 4), "a replica: the log's end, with the leader's epoch"
    assert latest(-1) == latest(-1, READ_COMMITTED) == (2, 4), "a consumer: the high watermark"


def test_row_66_the_znode_names_the_controller_that_made_us_leader(broker: Broker) -> None:
    broker.update(known("t"), live=(alive(0), alive(1, 1)), epoch=9)
    broker.lead(order("t", controller_epoch=7, replicas=(0, 1), isr=(0,)), epoch=9)
    test_records.fetch(broker, 0, replica=1)
    [write] = [each for each in broker.questions if isinstance(each, UpdatePartitionStates)]
    [(partition, state)] = write.states
    assert (partition, state.isr, state.controller_epoch, state.zk_version) == (test_records.T0, (0, 1), 7, 0)


def test_row_97_a_batch_larger_than_a_segment_is_refused(broker: Broker) -> None:
    broker.configs["t"] = (ConfigEntry("segment.bytes", "100"),)
    test_records.lead(broker)
    assert test_records.produce(broker, batch(bytes(100))).error_code == errors.RECORD_LIST_TOO_LARGE


# ---------------------------------------------------------------------------------- in-sync replicas at frozen time


@pytest.mark.parametrize(("caught_up_ms", "out_ms"), [(15_000, 60_000), (14_999, 45_000), (15_001, 60_000)])
def test_a_lagging_follower_leaves_the_isr_at_the_first_check_after_the_limit(
    broker: Broker, caught_up_ms: int, out_ms: int
) -> None:
    """The lag limit is 30,000 ms, and the ISR is checked every 15,000 ms.

    A follower caught up at 15,000 or 15,001 leaves the ISR at 60,000; one caught up at 14,999 leaves at 45,000.
    """
    test_records.skip(broker, caught_up_ms / 1000)
    test_records.lead(broker, 1)
    test_records.produce(broker, batch(b"a"))
    test_records.skip(broker, (out_ms - caught_up_ms) / 1000 - 0.001)
    assert not [each for each in broker.questions if isinstance(each, UpdatePartitionStates)]
    test_records.skip(broker, 0.001)
    [write] = [each for each in broker.questions if isinstance(each, UpdatePartitionStates)]
    [(_, state)] = write.states
    assert state.isr == (0,)
