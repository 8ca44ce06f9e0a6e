"""Transactions in partitions: markers, last stable offset, read_committed (transactions.md 1.6, 3.2 to 3.6)."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from messages import errors
from messages.apis.declaration import PartitionError
from messages.apis.delete_records import DeleteRecordsRequest, TrimmedPartition
from messages.apis.describe_producers import DescribedProducer, DescribedProducers, DescribeProducersRequest
from messages.apis.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from messages.apis.list_offsets import ListOffsetsRequest, OffsetQuery
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.apis.write_txn_markers import WritableTxnMarker, WritableTxnMarkerResult, WriteTxnMarkersRequest
from messages.cluster import TopicPartition
from messages.groups import TransactionEnded
from messages.network import CloseClient
from messages.records import EARLIEST, LATEST
from messages.wire.record_batch import body_of, read_records
from tests.broker.harness import IO_ERROR, Broker, alive, known, order
from tests.broker.test_following import reply, under_way
from tests.broker.test_records import T0, answered, fetch, fetch_request, lead, offsets_of, skip
from tests.storage.batches import batch as batch_at
from tests.storage.batches import end_marker

NOW = int(time.time() * 1000)
batch = partial(batch_at, timestamp=NOW)
"""A batch with the current time: after an older timestamp, a marker would roll a new segment."""
FENCED = 52
OLD_EPOCH = 47
OFFSETS = TopicPartition("__consumer_offsets", 3)


def produced(broker: Broker, *parts: tuple[TopicPartition, bytes], id: str | None = "app", acks: int = 1) -> list[int]:
    """Produce to these partitions and return their error codes."""
    partitions = tuple(ProducePartition(partition, read_records(data)) for partition, data in parts)
    return [part.error_code for part in broker.ask(ProduceRequest(8, id, acks, 30_000, partitions)).partitions]


def send(broker: Broker, producer: int, value: bytes, sequence: int, **fields: Any) -> None:
    data = batch(value, producer=producer, epoch=0, sequence=sequence, transactional=True, **fields)
    assert produced(broker, (T0, data)) == [errors.NONE]


def write_markers(
    *partitions: TopicPartition, producer: int = 6, epoch: int = 0, commit: bool = True, by: int = 0
) -> Any:
    marker = WritableTxnMarker(producer, epoch, commit, partitions or (T0,), by)
    return WriteTxnMarkersRequest(0, (marker,))


def end(broker: Broker, **fields: Any) -> int:
    """End the transaction in t-0 and return the error code."""
    [result] = broker.ask(write_markers(**fields)).markers
    [partition] = result.partitions
    return partition.error_code


def ends(broker: Broker, **fields: Any) -> tuple[int, int]:
    """Fetch from offset 0 and return (last stable offset, high watermark)."""
    result = fetch(broker, 0, **fields)
    return result.last_stable_offset, result.high_watermark


def committed(broker: Broker, offset: int = 0, **fields: Any) -> tuple[list[int], list[tuple[int, int]]]:
    """Fetch with read_committed and return the batches and the aborted transactions of the response."""
    result = fetch(broker, offset, isolation_level=1, **fields)
    assert result.aborted_transactions is not None
    return offsets_of(result), [(each.producer_id, each.first_offset) for each in result.aborted_transactions]


# ------------------------------------------------------------------------------------------------ reading


def test_a_reader_of_committed_data_waits_for_the_marker(broker: Broker) -> None:
    """Rows 13, 17: a read_committed fetch ends before the open transaction.

    After the abort, the response lists the aborted transaction.
    """
    lead(broker)
    produced(broker, (T0, batch(b"plain")))
    send(broker, 6, b"a", 0)
    produced(broker, (T0, batch(b"between")))
    assert (ends(broker), ends(broker, isolation_level=1)) == ((1, 3), (1, 3))
    assert committed(broker) == ([0], [])
    assert offsets_of(fetch(broker, 0)) == [0, 1, 2]
    assert end(broker, commit=False) == errors.NONE
    assert ends(broker) == (4, 4)
    assert committed(broker) == ([0, 1, 2, 3], [(6, 1)])
    assert committed(broker, 3) == ([3], [(6, 1)]), "inside"
    assert committed(broker, 4) == ([], [])
    assert fetch(broker, 0).aborted_transactions is None
    send(broker, 6, b"b", 1)
    assert end(broker) == errors.NONE
    assert committed(broker, 4) == ([4, 5], [])


def test_an_offset_of_committed_data_is_below_the_last_stable_one(broker: Broker) -> None:
    """Row 27: with read_committed, the last stable offset limits the latest offset and a search by time."""
    lead(broker)
    send(broker, 6, b"a", 0, timestamp=NOW + 9)

    def found(timestamp: int, level: int, version: int = 2) -> tuple[int, int]:
        asked = ListOffsetsRequest(version, -1, (OffsetQuery(T0, timestamp),), level)
        [result] = broker.ask(asked).partitions
        return result.timestamp, result.offset

    assert [found(LATEST, level) for level in (0, 1)] == [(-1, 1), (-1, 0)]
    assert [found(NOW + 5, level) for level in (0, 1)] == [(NOW + 9, 0), (-1, -1)]
    assert found(EARLIEST, 1) == (-1, 0)
    end(broker)
    assert [found(LATEST, 1), found(NOW + 5, 1)] == [(-1, 2), (NOW + 9, 0)]


def test_a_delayed_fetch_wakes_when_the_last_stable_offset_moves(broker: Broker) -> None:
    """Row 28, T15: the marker completes the delayed fetch, the produce does not.

    The list of aborted transactions is made at the time of the response.
    """
    lead(broker)
    waiting = broker.post(fetch_request(FetchPartition(T0, 0, 1 << 20), max_wait_ms=60_000, isolation_level=1))
    send(broker, 6, b"a", 0)
    broker.run()
    assert answered(broker, waiting) is None
    end(broker, commit=False)
    [result] = answered(broker, waiting).partitions
    assert (offsets_of(result), result.last_stable_offset) == ([0, 1], 2)
    assert [(each.producer_id, each.first_offset) for each in result.aborted_transactions] == [(6, 0)]


def test_a_marker_that_is_not_replicated_wakes_no_reader(broker: Broker) -> None:
    """The last stable offset passes the marker only with the high watermark."""
    lead(broker, 1)
    send(broker, 6, b"a", 0)
    fetch(broker, 1, replica=1)
    waiting = broker.post(fetch_request(FetchPartition(T0, 0, 1 << 20), max_wait_ms=60_000, isolation_level=1))
    marker = broker.post(write_markers(commit=False))
    broker.run()
    assert (answered(broker, waiting), answered(broker, marker)) == (None, None)
    assert ends(broker) == (0, 1)
    fetch(broker, 2, replica=1)
    assert answered(broker, marker) is not None
    [result] = answered(broker, waiting).partitions
    assert (offsets_of(result), result.last_stable_offset, result.high_watermark) == ([0, 1], 2, 2)


def test_within_a_session_a_moved_last_stable_offset_sends_the_partition(broker: Broker) -> None:
    """3.4.5: after the marker, a read_committed session gets the transaction's records and the marker.

    A read_uncommitted session, which has the records, gets only the marker.
    """
    lead(broker)
    ids = {}
    for level in (0, 1):
        first = fetch_request(FetchPartition(T0, 0, 1 << 20), isolation_level=level, session_epoch=0)
        ids[level] = broker.ask(first).session_id

    def poll(level: int, epoch: int) -> Any:
        return broker.ask(
            FetchRequest(11, -1, 0, 1, (), isolation_level=level, session_id=ids[level], session_epoch=epoch)
        )

    send(broker, 6, b"a", 0)
    assert [len(poll(level, 1).partitions) for level in (0, 1)] == [1, 1], "the high watermark has moved"
    moved = fetch_request(FetchPartition(T0, 1, 1 << 20), session_id=ids[0], session_epoch=2)
    assert broker.ask(moved).partitions == ()
    assert poll(1, 2).partitions == ()
    end(broker)
    [of_committed] = poll(1, 3).partitions
    assert offsets_of(of_committed) == [0, 1]
    [of_all] = poll(0, 3).partitions
    assert offsets_of(of_all) == [1]


def test_records_are_deleted_inside_an_open_transaction(broker: Broker) -> None:
    """Row 29: the last stable offset is never below the log start offset, and the transaction can still end."""
    lead(broker)
    for sequence in range(3):
        send(broker, 6, b"a", sequence)
    broker.ask(DeleteRecordsRequest(1, (TrimmedPartition(T0, 2),), 1_000))
    result = fetch(broker, 2, isolation_level=1)
    assert (result.last_stable_offset, result.high_watermark, result.log_start_offset) == (2, 3, 2)
    assert end(broker) == errors.NONE
    assert committed(broker, 2) == ([2, 3], [])


def test_a_follower_answers_with_its_own_last_stable_offset(broker: Broker) -> None:
    """3.4.4: markers are replicated with the records. A follower's last stable offset waits for its high watermark."""
    broker.update(known("t", leader=1), live=(alive(0), alive(1, 1)))
    broker.lead(order("t", leader=1, replicas=(0, 1), isr=(0, 1)))
    data = batch(b"a", producer=6, epoch=0, sequence=0, transactional=True, leader_epoch=0)
    data += end_marker(6, 0, committed=False, base_offset=1, leader_epoch=0)
    fetched = under_way(broker, 1).request
    assert isinstance(fetched, FetchRequest)

    def leader_sends(data: bytes, high_watermark: int) -> None:
        part = FetchedPartition(T0, errors.NONE, high_watermark, high_watermark, 0, body=body_of(data))
        reply(broker, 1, FetchResponse((part,)))

    leader_sends(data, 1)
    assert ends(broker, isolation_level=1) == (0, 1)
    leader_sends(b"", 2)
    assert ends(broker, isolation_level=1) == (2, 2)
    assert committed(broker) == ([0, 1], [(6, 0)])


# ------------------------------------------------------------------------------------------------ writing


def test_a_transactional_batch_needs_a_transactional_id(broker: Broker) -> None:
    """Row 20:

    without a transactional id, each partition of the request is refused. A plain batch may come with an id.
    """
    broker.update(known("t"), known("t", 1), live=(alive(0),))
    broker.lead(order("t"), order("t", 1))
    data = batch(b"a", producer=6, epoch=0, sequence=0, transactional=True)
    parts = (T0, data), (TopicPartition("t", 1), batch(b"b"))
    assert produced(broker, *parts, id=None) == [errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    assert produced(broker, *parts) == [errors.NONE, errors.NONE]
    assert ends(broker) == (0, 1)
    broker.post(ProduceRequest(8, None, 0, 1_000, (ProducePartition(T0, read_records(data)),)))
    broker.run()
    assert isinstance(broker.raw[-1], CloseClient), "acks=0 has no response"
    other = batch(b"b", producer=7, epoch=0, sequence=0, transactional=True)
    two = (T0, data), (TopicPartition("t", 1), other)
    assert produced(broker, *two) == [errors.INVALID_PRODUCER_ID_MAPPING] * 2, "batches of two producers"


def test_markers_are_refused_as_kafka_refuses_them(broker: Broker) -> None:
    """Row 34: each refused marker has Kafka's error code."""
    lead(broker)
    broker.update(known("f", leader=1), live=(alive(0), alive(1, 1)))
    broker.lead(order("f", leader=1))
    elsewhere, unknown = TopicPartition("f", 0), TopicPartition("nowhere", 0)
    [result] = broker.ask(write_markers(unknown, elsewhere, T0)).markers
    assert [part.error_code for part in result.partitions] == [
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.NOT_LEADER_OR_FOLLOWER,
        errors.NONE,
    ]
    assert end(broker, epoch=3, by=5) == errors.NONE
    assert end(broker, epoch=2, by=5) == OLD_EPOCH
    assert end(broker, epoch=3, by=4) == FENCED
    assert end(broker, epoch=-1) == errors.UNKNOWN_SERVER_ERROR
    assert ends(broker) == (2, 2), "two were appended"
    assert broker.ask(WriteTxnMarkersRequest(0, ())).markers == ()


def test_markers_of_one_producer_share_their_results(broker: Broker) -> None:
    """1.6.4: if two markers of a producer name the same partition, the last result counts."""
    lead(broker)
    markers = [WritableTxnMarker(6, epoch, True, (T0,), 0) for epoch in (1, 0)]
    response = broker.ask(WriteTxnMarkersRequest(1, (*markers, WritableTxnMarker(7, 0, True, (T0,), 0))))
    assert response.markers == (
        WritableTxnMarkerResult(6, (PartitionError(T0, OLD_EPOCH),)),
        WritableTxnMarkerResult(7, (PartitionError(T0, errors.NONE),)),
    )


def test_a_marker_waits_for_all_replicas_or_its_time(broker: Broker) -> None:
    lead(broker, 1)
    waiting = broker.post(write_markers())
    skip(broker, 29)
    assert answered(broker, waiting) is None
    skip(broker, 2)
    [[result]] = [each.partitions for each in answered(broker, waiting).markers]
    assert result.error_code == errors.REQUEST_TIMED_OUT
    waiting = broker.post(write_markers())
    broker.run()
    broker.update(known("t", leader=1, epoch=1), live=(alive(0), alive(1, 1)))
    broker.lead(order("t", leader=1, epoch=1, zk_version=1, replicas=(0, 1), isr=(0, 1)))
    [[result]] = [each.partitions for each in answered(broker, waiting).markers]
    assert result.error_code == errors.NOT_LEADER_OR_FOLLOWER


def test_a_marker_needs_min_insync_replicas_and_a_disk(broker: Broker, tmp_path: Path) -> None:
    lead(broker)
    broker.logs.faults[str(tmp_path)] = IO_ERROR
    assert end(broker) == errors.KAFKA_STORAGE_ERROR
    assert end(broker) == errors.UNKNOWN_TOPIC_OR_PARTITION, "the directory is offline"


def test_too_few_replicas_refuse_a_marker(tmp_path: Path) -> None:
    broker = Broker(tmp_path, min_insync_replicas=2)
    lead(broker, 1, isr=(0,))
    assert end(broker) == errors.NOT_ENOUGH_REPLICAS
    broker.end()


def test_the_group_coordinator_is_notified_of_a_committed_marker(broker: Broker) -> None:
    """1.6.5: the notification does not wait for the request's other partitions. A refused marker sends none."""
    broker.update(known(OFFSETS.topic, 3), known("t", isr=(0, 1)), live=(alive(0), alive(1, 1)))
    broker.lead(order(OFFSETS.topic, 3), order("t", replicas=(0, 1), isr=(0, 1)))
    waiting = broker.post(write_markers(OFFSETS, T0, epoch=2))
    broker.run()
    assert answered(broker, waiting) is None
    ended = [message for message in broker.coordinated if isinstance(message, TransactionEnded)]
    assert ended == [TransactionEnded(6, 3, True, 0)]
    broker.ask(write_markers(OFFSETS, epoch=1))
    assert [message for message in broker.coordinated if isinstance(message, TransactionEnded)] == ended


def test_producers_are_described_by_each_replica(broker: Broker) -> None:
    """1.8.1: a producer that is known only from a marker has sequence -1."""
    lead(broker)
    broker.update(known("f", leader=1), live=(alive(0), alive(1, 1)))
    broker.lead(order("f", leader=1))
    send(broker, 6, b"a", 0)
    end(broker, producer=7, epoch=3, by=5)
    asked = (T0, TopicPartition("f", 0), TopicPartition("nowhere", 0), TopicPartition("bad name", 0))
    of_leader, of_follower, *refused = broker.ask(DescribeProducersRequest(0, asked)).partitions
    first, second = of_leader.active_producers
    assert first == DescribedProducer(6, 0, 0, NOW, -1, 0)
    assert second == DescribedProducer(7, 3, -1, second.last_timestamp, 5, -1)
    assert of_follower == DescribedProducers(asked[1], errors.NONE)
    text = "Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, '.', '_'"
    assert refused == [
        DescribedProducers(asked[2], errors.UNKNOWN_TOPIC_OR_PARTITION),
        DescribedProducers(asked[3], errors.INVALID_TOPIC, f"{text} and '-'"),
    ]


def test_an_isolation_level_may_change_within_a_session(broker: Broker) -> None:
    lead(broker)
    send(broker, 6, b"a", 0)
    first = broker.ask(fetch_request(FetchPartition(T0, 0, 1 << 20), isolation_level=1, session_epoch=0))
    assert offsets_of(first.partitions[0]) == []
    asked = FetchRequest(11, -1, 0, 1, (), isolation_level=0, session_id=first.session_id, session_epoch=1)
    assert offsets_of(broker.ask(asked).partitions[0]) == [0]
