"""Produce and fetch through a whole broker on virtual time: rows of broker.md 9.3 and 9.4 for a single broker."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from actors.broker.partition import PartitionActor
from actors.runtime import VirtualClock
from actors.runtime.trace.recorder import Recorder
from actors.storage.log import Checkpoint
from actors.storage.log_directories import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, unlock_directories
from messages import errors
from messages.apis.delete_records import DeletedRecords, DeleteRecordsRequest, TrimmedPartition
from messages.apis.fetch import FetchedPartition, FetchPartition, FetchRequest
from messages.apis.list_offsets import (
    EARLIEST_LOCAL,
    LATEST_TIERED,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetQuery,
)
from messages.apis.offset_for_leader_epoch import EpochEnd, EpochQuery, OffsetForLeaderEpochRequest
from messages.apis.produce import ProducedPartition, ProducePartition, ProduceRequest, RecordError
from messages.broker import LogFileFailed, TopicsConfigured
from messages.cluster import ConfigEntry, TopicPartition
from messages.flow.conversation import all_at_once
from messages.network import CloseClient
from messages.partition import LogRead, ReadLog
from messages.records import EARLIEST, LARGEST_TIMESTAMP, LATEST, Region
from messages.trace.files.runs import RunRecords, find_runs
from messages.wire.batch_records import checking_produce, recompress
from messages.wire.compression import compress
from messages.wire.record_batch import read_records, whole_batches
from messages.zookeeper import NotifyLogDirFailure, TopicConfig, UpdatePartitionStates
from tests.broker.harness import IO_ERROR, NO_SPACE, Broker, alive, codes, known, order
from tests.storage import bad_batches
from tests.storage.batches import batch, header_of, with_header

CHECKPOINTS = (LOG_STARTS, RECOVERY_POINTS, HIGH_WATERMARKS)
T0 = TopicPartition("t", 0)
U0 = TopicPartition("u", 0)


def produce(broker: Broker, data: bytes, acks: int = 1, version: int = 8, partition: TopicPartition = T0) -> Any:
    """Produce to one partition and return its result."""
    part = ProducePartition(partition, read_records(data))
    request = all_at_once(checking_produce(ProduceRequest(version, None, acks, 30_000, (part,))))
    [result] = broker.ask(request).partitions
    return result


def wait_for_produce(broker: Broker, data: bytes, timeout_ms: int = 30_000) -> int:
    """Send a produce with acks=all to t-0 and return its correlation id without waiting for the response."""
    id = broker.post(ProduceRequest(8, None, -1, timeout_ms, (ProducePartition(T0, read_records(data)),)))
    broker.run()
    return id


def fetch_request(*parts: FetchPartition, replica: int = -1, version: int = 11, **fields: Any) -> FetchRequest:
    defaults = {"max_wait_ms": 0, "min_bytes": 1}
    return FetchRequest(version, replica, partitions=parts, **{**defaults, **fields})


def fetch(broker: Broker, offset: int, epoch: int = -1, **fields: Any) -> FetchedPartition:
    """Fetch t-0 without waiting for records and return its result."""
    [result] = broker.ask(fetch_request(FetchPartition(T0, offset, 1 << 20, epoch), **fields)).partitions
    return result


def offsets_of(fetched: FetchedPartition) -> list[int]:
    return [header.base_offset for _, header in whole_batches(fetched.body.data)] if fetched.body.size else []


def answered(broker: Broker, id: int) -> Any:
    """Return the response to a posted request, or None while the request waits."""
    return next((answer.response for answer in broker.answers if answer.correlation_id == id), None)


def lead(broker: Broker, *others: int, epoch: int = 0, **fields: Any) -> None:
    """Lead t-0 with these other replicas, by default all in sync."""
    replicas = (0, *others)
    broker.update(known("t", epoch=epoch), live=(alive(0), *(alive(other, 1) for other in others)))
    broker.lead(order("t", epoch=epoch, **{"replicas": replicas, "isr": replicas, "zk_version": epoch, **fields}))


def skip(broker: Broker, seconds: float) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    broker.base.simulate(clock.now() + seconds)


# ------------------------------------------------------------------------------------------------ producers


def test_what_is_produced_is_fetched(broker: Broker) -> None:
    lead(broker)
    for number, acks in enumerate((1, -1, 1)):
        assert produce(broker, batch(b"a", b"b"), acks) == ProducedPartition(T0, errors.NONE, 2 * number, -1, 0)
    result = fetch(broker, 0)
    assert (offsets_of(result), result.high_watermark, result.log_start_offset) == ([0, 2, 4], 6, 0)
    assert offsets_of(fetch(broker, 3)) == [2, 4]
    assert offsets_of(fetch(broker, 6)) == []


@pytest.mark.parametrize(
    ("data", "version", "code"),
    [
        (batch(b"a", base_offset=5), 8, errors.INVALID_RECORD),
        (batch(b"a") + batch(b"b"), 8, errors.INVALID_RECORD),
        (b"", 8, errors.INVALID_RECORD),
        (batch(b"a")[:16] + b"\x01" + batch(b"a")[17:], 8, errors.INVALID_RECORD),
        *(
            (batch(b"a")[:16] + bytes((magic,)) + batch(b"a")[17:], 8, errors.CORRUPT_MESSAGE)
            for magic in (3, 127, 255)
        ),
        (batch(b"a")[:16] + b"\x03", 8, errors.CORRUPT_MESSAGE),
        *((with_header(batch(b"a"), length=length), 8, errors.CORRUPT_MESSAGE) for length in (-1, 0, 48)),
        (batch(b"a")[:30], 8, errors.INVALID_RECORD),
        (with_header(batch(b"a"), length=1000), 8, errors.INVALID_RECORD),
        (batch(b"a") + batch(b"a")[:16] + b"\x03" + batch(b"a")[17:], 8, errors.CORRUPT_MESSAGE),
        (with_header(batch(b"a"), attributes=32, producer_id=1, producer_epoch=0), 8, errors.INVALID_RECORD),
        (with_header(batch(b"a", b"b"), last_offset_delta=5), 8, errors.INVALID_RECORD),
        (batch(b"a")[:-1] + b"\x07", 8, errors.CORRUPT_MESSAGE),
        (batch(b"a" * 600), 8, errors.MESSAGE_TOO_LARGE),
        (with_header(batch(b"a"), attributes=4), 6, errors.UNSUPPORTED_COMPRESSION_TYPE),
        (with_header(batch(b"a"), attributes=4), 7, errors.UNKNOWN_SERVER_ERROR),
        pytest.param(bad_batches.batch(compress(bad_batches.TWO, 4), 2, 4), 7, errors.NONE, id="zstd"),
    ],
)
def test_row_35_a_bad_batch_is_refused_and_nothing_appended(
    broker: Broker, data: bytes, version: int, code: int
) -> None:
    broker.configs["t"] = (ConfigEntry("max.message.bytes", "500"),)
    lead(broker)
    assert produce(broker, data, version=version).error_code == code
    assert fetch(broker, 0).high_watermark == (2 if code == errors.NONE else 0)


def test_row_36_a_compacted_topic_wants_keys(broker: Broker) -> None:
    broker.configs["t"] = (ConfigEntry("cleanup.policy", "compact"),)
    lead(broker)
    result = produce(broker, batch(b"a", b"b"))
    assert result.error_code == errors.INVALID_RECORD
    text = "Compacted topic cannot accept message without key"
    assert result.record_errors == (RecordError(0, text), RecordError(1, text)), "each of them is named"


def test_row_31_acks_are_0_1_or_all(broker: Broker) -> None:
    lead(broker)
    assert produce(broker, batch(b"a"), acks=2).error_code == errors.INVALID_REQUIRED_ACKS


def test_row_32_too_few_in_sync_replicas_refuse_acks_all_only(broker: Broker) -> None:
    broker.configs["t"] = (ConfigEntry("min.insync.replicas", "2"),)
    lead(broker, 1, isr=(0,))
    assert produce(broker, batch(b"a"), acks=-1).error_code == errors.NOT_ENOUGH_REPLICAS
    assert produce(broker, batch(b"a"), acks=1) == ProducedPartition(T0, errors.NONE, 0, -1, 0)


def test_row_34_acks_all_waits_for_the_isr_or_its_time(broker: Broker) -> None:
    lead(broker, 1)
    late = wait_for_produce(broker, batch(b"a"), timeout_ms=1_000)
    good = wait_for_produce(broker, batch(b"b"), timeout_ms=9_000)
    assert answered(broker, late) is None
    assert fetch(broker, 0).high_watermark == 0
    skip(broker, 1.0)
    [result] = answered(broker, late).partitions
    assert (result.error_code, answered(broker, good)) == (errors.REQUEST_TIMED_OUT, None)
    assert fetch(broker, 2, replica=1).high_watermark == 0, "what was before this fetch"
    [result] = answered(broker, good).partitions
    assert (result.error_code, result.base_offset) == (errors.NONE, 1)
    assert offsets_of(fetch(broker, 0)) == [0, 1]


def test_row_15_waiting_requests_fail_when_the_leader_changes(broker: Broker) -> None:
    lead(broker, 1)
    waiting = wait_for_produce(broker, batch(b"a"))
    broker.lead(order("t", leader=1, epoch=1, isr=(1, 0), replicas=(0, 1), zk_version=1))
    assert answered(broker, waiting).partitions[0].error_code == errors.NOT_LEADER_OR_FOLLOWER


def test_row_42_a_follower_and_a_broker_without_the_partition_refuse(broker: Broker) -> None:
    broker.update(known("t", leader=1), live=(alive(1),))
    assert produce(broker, batch(b"a")).error_code == errors.NOT_LEADER_OR_FOLLOWER
    other = TopicPartition("nowhere", 0)
    assert produce(broker, batch(b"a"), partition=other).error_code == errors.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [8, 11])
def test_row_44_acks_0_is_never_answered_and_a_failure_closes(broker: Broker, version: int) -> None:
    lead(broker)
    id = broker.post(ProduceRequest(version, None, 0, 1_000, (ProducePartition(T0, read_records(batch(b"a"))),)))
    broker.run()
    assert broker.raw[-1].correlation_id == id
    assert broker.raw[-1].response is None
    broker.post(ProduceRequest(version, None, 0, 1_000, (ProducePartition(T0, read_records(b"")),)))
    broker.run()
    assert isinstance(broker.raw[-1], CloseClient)


# ------------------------------------------------------------------------------------------------ readers


def test_row_45_leader_epochs_are_compared_first(broker: Broker) -> None:
    lead(broker, epoch=5)
    produce(broker, batch(b"a"))
    for epoch, code in (
        (4, errors.FENCED_LEADER_EPOCH),
        (6, errors.UNKNOWN_LEADER_EPOCH),
        (5, errors.NONE),
        (-1, errors.NONE),
    ):
        assert fetch(broker, 0, epoch).error_code == code
        [ended] = broker.ask(OffsetForLeaderEpochRequest(3, -1, (EpochQuery(T0, 5, epoch),))).partitions
        assert ended == (EpochEnd(T0, code, 5, 1) if code == errors.NONE else EpochEnd(T0, code))
        [listed] = broker.ask(ListOffsetsRequest(5, -1, (OffsetQuery(T0, LATEST, epoch),))).partitions
        assert listed.error_code == code


def test_a_fetch_finds_where_the_logs_diverge(broker: Broker) -> None:
    for epoch in (1, 3):
        lead(broker, 1, epoch=epoch)
        produce(broker, batch(b"a", b"b"))  # offsets 0 and 1 in epoch 1, 2 and 3 in epoch 3

    def compared(offset: int, last: int) -> tuple[int, Any, list[int]]:
        part = FetchPartition(T0, offset, 1 << 20, last_fetched_epoch=last)
        [result] = broker.ask(fetch_request(part, version=12, replica=1, max_wait_ms=60_000)).partitions
        return result.error_code, result.diverging_epoch, offsets_of(result)

    for agreed in ((2, 1), (2, 3), (2, -1)):
        assert compared(*agreed) == (errors.NONE, None, [2])
    for (offset, last), diverging in (((3, 1), (1, 2)), ((2, 2), (1, 2)), ((9, 3), (3, 4)), ((1, 0), (0, 0))):
        assert compared(offset, last) == (errors.NONE, diverging, []), "answered at once"
    assert compared(4, 4)[0] == errors.OFFSET_OUT_OF_RANGE


def test_special_times_of_list_offsets(broker: Broker) -> None:
    lead(broker)

    def listed(version: int, *times: int) -> list[tuple[int, int, int]]:
        queries = tuple([OffsetQuery(T0, time) for time in times])
        found = broker.ask(ListOffsetsRequest(version, -1, queries)).partitions
        return [(each.error_code, each.timestamp, each.offset) for each in found]

    assert listed(7, LARGEST_TIMESTAMP) == [(errors.NONE, -1, -1)], "the log is empty"
    for timestamp in (1_000, 5_000, 2_000, 5_001):
        produce(broker, batch(b"a", b"b", timestamp=timestamp))
    assert listed(7, LARGEST_TIMESTAMP) == [(errors.NONE, 5_002, 7)]
    produce(broker, batch(b"c", b"d", b"e", timestamp=5_000))
    assert listed(9, LARGEST_TIMESTAMP) == [(errors.NONE, 5_002, 7)], "the first of equals"
    assert listed(8, EARLIEST_LOCAL) == [(errors.NONE, -1, 0)]
    assert listed(9, LATEST_TIERED) == [(errors.NONE, -1, -1)]
    for version, time in ((6, LARGEST_TIMESTAMP), (7, EARLIEST_LOCAL), (8, LATEST_TIERED), (9, -6)):
        assert listed(version, time) == [(errors.UNSUPPORTED_VERSION, -1, -1)]
    assert listed(9, 0, 0) == [(errors.INVALID_REQUEST, -1, -1)] * 2


@pytest.mark.parametrize(
    ("time", "most", "offsets"),
    [
        *((LATEST, 1, (4,)), (LATEST, 9, (4, 3, 2, 1, 0)), (EARLIEST, 9, (0,)), (999, 9, ()), (10**15, 2, (4, 3))),
        *((2_200, 9, (2, 1, 0)), (2_200, 2, (2, 1))),
    ],
)
def test_version_0_of_list_offsets_returns_the_starts_of_segments(
    broker: Broker, tmp_path: Path, time: int, most: int, offsets: tuple[int, ...]
) -> None:
    """Kafka 3.9.1 returns the same. The time is that of the last modification of a segment."""
    broker.configs["t"] = (ConfigEntry("segment.bytes", "100"),)
    lead(broker)
    for number in range(4):
        produce(broker, batch(b"x" * 30))
        os.utime(tmp_path / "t-0" / f"{number:020d}.log", (1 + number / 2, 1 + number / 2))
    [listed] = broker.ask(ListOffsetsRequest(0, -1, (OffsetQuery(T0, time, max_num_offsets=most),))).partitions
    assert (listed.error_code, listed.old_style_offsets) == (errors.NONE, offsets)


def test_row_48_a_fetch_takes_no_more_than_it_may_but_always_something(broker: Broker) -> None:
    lead(broker)
    for _ in range(5):
        produce(broker, batch(b"x" * 100))
    size = header_of(batch(b"x" * 100)).size
    assert offsets_of(fetch(broker, 0, max_bytes=2 * size + 5)) == [0, 1]
    assert offsets_of(fetch(broker, 0, max_bytes=5)) == [0]


def test_rows_46_and_56_a_fetch_waits_for_bytes_that_come_or_for_its_time(broker: Broker) -> None:
    lead(broker, 1)
    part = FetchPartition(T0, 0, 1 << 20)
    consumer = broker.post(fetch_request(part, max_wait_ms=5_000))
    follower = broker.post(fetch_request(part, replica=1, max_wait_ms=5_000))
    broker.run()
    assert (answered(broker, consumer), answered(broker, follower)) == (None, None)
    produce(broker, batch(b"a"))
    assert offsets_of(answered(broker, follower).partitions[0]) == [0], "appended"
    assert answered(broker, consumer) is None, "not committed"
    fetch(broker, 1, replica=1)
    assert offsets_of(answered(broker, consumer).partitions[0]) == [0], "committed"
    idle = broker.post(fetch_request(FetchPartition(T0, 1, 1 << 20), max_wait_ms=5_000))
    skip(broker, 4.9)
    assert answered(broker, idle) is None
    skip(broker, 0.1)
    assert answered(broker, idle).partitions[0].body.size == 0


def test_a_delayed_fetch_ends_with_its_connection(broker: Broker) -> None:
    """A closed connection ends its delayed fetch: no timer is left, and no records are sent to it."""
    lead(broker)
    parked = broker.post(fetch_request(FetchPartition(T0, 0, 1 << 20), max_wait_ms=60_000))
    broker.run()
    broker.hang_up(2)
    assert len(broker.waiting_fetches) == 1, "another's connection"
    broker.hang_up()
    assert not broker.waiting_fetches
    produce(broker, batch(b"a"))
    skip(broker, 61)
    assert answered(broker, parked) is None


def test_min_bytes_is_a_total(broker: Broker) -> None:
    broker.update(known("t"), known("t", 1), live=(alive(0),))
    broker.lead(order("t"), order("t", 1))
    size = header_of(batch(b"a")).size
    parts = [FetchPartition(TopicPartition("t", number), 0, 1 << 20) for number in (0, 1)]
    waiting = broker.post(fetch_request(*parts, max_wait_ms=60_000, min_bytes=2 * size))
    broker.run()
    produce(broker, batch(b"a"))
    assert answered(broker, waiting) is None
    produce(broker, batch(b"a"), partition=TopicPartition("t", 1))
    assert [offsets_of(part) for part in answered(broker, waiting).partitions] == [[0], [0]]


def test_row_16_waiting_requests_fail_when_the_role_changes(broker: Broker) -> None:
    lead(broker, 1)
    parts = FetchPartition(T0, 0, 1 << 20), FetchPartition(T0, 0, 1 << 20, 0)
    old = broker.post(fetch_request(parts[0], version=10, max_wait_ms=60_000))
    new = broker.post(fetch_request(parts[1], max_wait_ms=60_000))
    broker.run()
    broker.lead(order("t", leader=1, epoch=1, isr=(1, 0), replicas=(0, 1), zk_version=1))
    assert answered(broker, old).partitions[0].error_code == errors.NOT_LEADER_OR_FOLLOWER
    assert answered(broker, new).partitions[0].error_code == errors.FENCED_LEADER_EPOCH


def test_polls_of_consumers_send_no_message_to_an_idle_partition(broker: Broker) -> None:
    """The first poll asks the partition. Each later poll takes only four deliveries, none of them to the partition."""
    lead(broker)
    counts = []
    for _ in range(4):
        before = broker.base.n
        broker.post(fetch_request(FetchPartition(T0, 0, 1 << 20), max_wait_ms=500))
        skip(broker, 0.5)
        counts.append(broker.base.n - before)
    assert counts == [6, 4, 4, 4]


# ------------------------------------------------------------------------------------------------ sessions

U = [TopicPartition("t", number) for number in range(3)]


def lead_three(broker: Broker, *others: int) -> None:
    replicas = (0, *others)
    live = (alive(0), *(alive(other, 1) for other in others))
    broker.update(*(known("t", number) for number in range(3)), live=live)
    broker.lead(*(order("t", number, replicas=replicas, isr=replicas) for number in range(3)))


class Reader:
    """A client with a fetch session: it sends requests and returns the partitions of the responses."""

    def __init__(self, broker: Broker, replica: int = -1) -> None:
        self.broker, self.replica = broker, replica
        self.id = self.epoch = 0

    def post(self, *parts: FetchPartition, **fields: Any) -> int:
        fields = {"session_id": self.id, "session_epoch": self.epoch, **fields}
        self.epoch += 1
        return self.broker.post(fetch_request(*parts, replica=self.replica, **fields))

    def fetch(self, *parts: FetchPartition, **fields: Any) -> dict[int, FetchedPartition]:
        id = self.post(*parts, **fields)
        skip(self.broker, fields.get("max_wait_ms", 0) / 1000)
        return self.answer(id)

    def answer(self, id: int) -> dict[int, FetchedPartition]:
        response = answered(self.broker, id)
        assert response.error_code == errors.NONE
        self.id = response.session_id
        return {part.partition.partition: part for part in response.partitions}


def at(*offsets: int) -> list[FetchPartition]:
    return [FetchPartition(partition, offset, 1 << 20) for partition, offset in zip(U, offsets, strict=False)]


@pytest.mark.parametrize("replica", [-1, 1])
def test_row_4_2_a_session_response_names_only_changed_partitions(broker: Broker, replica: int) -> None:
    lead_three(broker, *([1] if replica == 1 else []))
    reader = Reader(broker, replica)
    assert sorted(reader.fetch(*at(0, 0, 0))) == [0, 1, 2]
    assert reader.fetch(max_wait_ms=500) == {}
    produce(broker, batch(b"a"), partition=U[1])
    assert offsets_of(reader.fetch()[1]) == [0]
    assert offsets_of(reader.fetch()[1]) == [0], "the reader did not move on"
    reported = reader.fetch(FetchPartition(U[1], 1, 1 << 20))
    assert reported == {}
    reported = reader.fetch(FetchPartition(U[0], 5, 1 << 20))
    assert reported[0].error_code == errors.OFFSET_OUT_OF_RANGE
    assert reader.fetch()[0].error_code == errors.OFFSET_OUT_OF_RANGE
    reported = reader.fetch(FetchPartition(U[0], 0, 1 << 20))
    assert reported[0].error_code == errors.NONE, "that the error is gone is news"
    assert reader.fetch(forgotten=(U[0], U[1])) == {}
    produce(broker, batch(b"a"), partition=U[0])
    assert reader.fetch() == {}, "forgotten"


def test_a_partition_that_a_request_names_and_forgets_is_forgotten(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    lead_three(broker)
    reader, other = Reader(broker), Reader(broker)
    reader.fetch(*at(0, 0))
    other.fetch(*at(0, 0))
    assert reader.fetch(FetchPartition(U[0], 0, 1 << 20), forgotten=(U[0],)) == {}
    produce(broker, batch(b"a"), partition=U[0])
    assert (reader.fetch(), list(other.fetch())) == ({}, [0])
    assert not caplog.records, "no actor has failed"


def test_a_delayed_fetch_is_notified_only_of_the_partition_that_grew(broker: Broker) -> None:
    lead_three(broker)
    reader = Reader(broker)
    reader.fetch(*at(0, 0, 0))
    parked = reader.post(max_wait_ms=60_000)
    broker.run()
    before = broker.base.n
    produce(broker, batch(b"a"), partition=U[2])
    assert list(reader.answer(parked)) == [2]
    assert broker.base.n - before == 9, "five of the produce, and LogMoved, ReadLog, LogRead, the answer"


def test_an_idle_poll_within_a_session_costs_nothing_per_partition(broker: Broker) -> None:
    lead_three(broker, 1)
    for replica in (-1, 1):
        reader = Reader(broker, replica)
        reader.fetch(*at(0, 0, 0))
        before = broker.base.n
        assert reader.fetch(max_wait_ms=500) == {}
        assert broker.base.n - before == 5, "the request twice, its time's end, the answer, and that it does not rest"


def test_a_follower_that_polls_in_vain_was_caught_up_at_its_last_poll(broker: Broker) -> None:
    """An empty poll counts as caught up: the last one is at 40 s, the next records come at 50 s.

    The ISR is checked every 15 s with a lag limit of 30 s, so the follower leaves the ISR at 75 s, not at 60 s.
    """
    lead_three(broker, 1)
    follower = Reader(broker, 1)
    follower.fetch(*at(0, 0, 0))
    for _ in range(4):
        skip(broker, 9.5)
        assert follower.fetch(max_wait_ms=500) == {}
    skip(broker, 50 - broker.clock.now())
    produce(broker, batch(b"a"))
    skip(broker, 60 - broker.clock.now())
    assert not any(isinstance(question, UpdatePartitionStates) for question in broker.questions)
    skip(broker, 75 - broker.clock.now())
    assert any(isinstance(question, UpdatePartitionStates) for question in broker.questions)


def test_a_follower_learns_a_high_watermark_that_moved_while_it_waited(broker: Broker) -> None:
    lead_three(broker, 1, 2)
    one, other = Reader(broker, 1), Reader(broker, 2)
    one.fetch(*at(0, 0, 0))
    other.fetch(*at(0, 0, 0))
    produce(broker, batch(b"a"))
    for reader in (one, other):
        assert reader.fetch()[0].high_watermark == 0
    one.fetch(FetchPartition(U[0], 1, 1 << 20))
    parked = one.post(max_wait_ms=500)
    broker.run()
    other.fetch(FetchPartition(U[0], 1, 1 << 20))
    assert answered(broker, parked) is None, "no records: it waits for its time"
    skip(broker, 0.5)
    assert one.answer(parked)[0].high_watermark == 1
    assert other.fetch()[0].high_watermark == 1


def test_max_bytes_is_a_total(broker: Broker) -> None:
    lead_three(broker)
    size = header_of(batch(b"a" * 100)).size
    for partition in U * 2:
        produce(broker, batch(b"a" * 100), partition=partition)
    reader, seen, offsets = Reader(broker), [], dict.fromkeys(range(3), 0)
    reported = reader.fetch(*at(0, 0, 0), max_bytes=2 * size)
    read = sum(part.body.size for part in reported.values())
    assert read == 2 * size
    while len(seen) < 6:
        moved = []
        for number, part in reported.items():
            got = offsets_of(part)
            seen += [(number, offset) for offset in got]
            if got:
                offsets[number] = got[-1] + 1
                moved.append(FetchPartition(U[number], offsets[number], 1 << 20))
        reported = reader.fetch(*moved, max_bytes=2 * size)
    assert sorted(seen) == [(number, offset) for number in range(3) for offset in (0, 1)], "and no partition starves"


def test_a_negative_limit_of_a_partition_is_an_error_of_the_request_not_of_the_disk(broker: Broker) -> None:
    lead_three(broker)
    size = header_of(batch(b"a")).size
    for partition in U[:2]:
        produce(broker, batch(b"a"), partition=partition)
    parts = [FetchPartition(U[0], 0, 2 * size), FetchPartition(U[1], 0, -1), FetchPartition(U[2], 0, -1)]
    response = broker.ask(fetch_request(*parts, max_bytes=2 * size))
    assert [part.error_code for part in response.partitions] == [errors.NONE, errors.UNKNOWN_SERVER_ERROR, errors.NONE]
    assert [part.error_code for part in broker.ask(fetch_request(*at(0, 0, 0))).partitions] == [errors.NONE] * 3


def test_a_session_gets_an_error_after_a_leader_change(broker: Broker) -> None:
    lead_three(broker, 1)
    reader = Reader(broker)
    reader.fetch(*at(0, 0, 0))
    parked = reader.post(max_wait_ms=60_000, version=10)
    broker.run()
    broker.lead(order("t", 1, leader=1, epoch=1, isr=(1, 0), replicas=(0, 1), zk_version=1))
    assert {number: part.error_code for number, part in reader.answer(parked).items()} == {
        1: errors.NOT_LEADER_OR_FOLLOWER
    }


def test_sessions_that_are_not_there_or_at_another_epoch_are_refused(broker: Broker) -> None:
    lead_three(broker)
    reader = Reader(broker)
    reader.fetch(*at(0))
    for id, epoch, code in (
        (99, 1, errors.FETCH_SESSION_ID_NOT_FOUND),
        (reader.id, 5, errors.INVALID_FETCH_SESSION_EPOCH),
    ):
        response = broker.ask(fetch_request(session_id=id, session_epoch=epoch))
        assert (response.error_code, response.partitions, response.session_id) == (code, (), 0)


# ------------------------------------------------------------------------------------------------ trimming, disks


def test_row_95_records_are_deleted_up_to_the_high_watermark_and_stay_so(broker: Broker, tmp_path: Path) -> None:
    lead(broker)
    for _ in range(3):
        produce(broker, batch(b"a"))
    for offset, expected in (
        (4, DeletedRecords(T0, errors.OFFSET_OUT_OF_RANGE)),
        (2, DeletedRecords(T0, errors.NONE, 2)),
    ):
        [result] = broker.ask(DeleteRecordsRequest(2, (TrimmedPartition(T0, offset),), 1_000)).partitions
        assert result == expected
    assert fetch(broker, 1).error_code == errors.OFFSET_OUT_OF_RANGE
    assert fetch(broker, 2).log_start_offset == 2
    broker.end()
    again = Broker(tmp_path)
    again.run()
    lead(again)
    assert (fetch(again, 2).log_start_offset, fetch(again, 2).high_watermark) == (2, 3)
    again.end()


@pytest.mark.parametrize("error", [IO_ERROR, NO_SPACE])
def test_a_disk_that_fails_under_a_write_costs_its_directory(tmp_path: Path, error: int) -> None:
    """Acknowledged records survive: the next start, with a working disk, recovers the logs."""
    broker = Broker(tmp_path / "a", tmp_path / "b")
    broker.run()
    broker.update(known("t"), known("u"), live=(alive(0),))
    broker.lead(order("t"), order("u"))
    broken = next(path for path in (tmp_path / "a", tmp_path / "b") if (path / "t-0").exists())
    assert produce(broker, batch(b"a")).error_code == errors.NONE
    broker.logs.faults[str(broken)] = error
    assert produce(broker, batch(b"a")).error_code == errors.KAFKA_STORAGE_ERROR
    assert produce(broker, batch(b"a")).error_code == errors.KAFKA_STORAGE_ERROR
    assert produce(broker, batch(b"a"), partition=U0).error_code == errors.NONE
    assert broker.gauges["offlinereplicacount"] == 1
    assert broker.questions == [NotifyLogDirFailure(0)]
    broker.end()
    markers = {path.parent for path in tmp_path.glob("*/.kafka_cleanshutdown")}
    assert markers == {tmp_path / "a", tmp_path / "b"} - {broken}
    again = Broker(tmp_path / "a", tmp_path / "b")
    again.run()
    again.update(known("t"), known("u"), live=(alive(0),))
    again.lead(order("t"), order("u"))
    assert [fetch(again, 0).high_watermark, produce(again, batch(b"b"), partition=U0).base_offset] == [1, 1]
    again.end()


def test_a_process_without_a_free_descriptor_loses_no_directory(tmp_path: Path) -> None:
    """EMFILE once counted as a failed disk, so the node ended with its last log directory."""
    broker = Broker(tmp_path)
    broker.run()
    broker.update(known("t"), known("u"), live=(alive(0),))
    broker.lead(order("t"))
    broker.logs.faults[str(tmp_path)] = errno.EMFILE
    assert produce(broker, batch(b"a")).error_code == errors.KAFKA_STORAGE_ERROR
    broker.disk.faults[str(tmp_path / "u-0")] = errno.EMFILE
    assert codes(broker.lead(order("u"))) == {"u-0": errors.KAFKA_STORAGE_ERROR}
    broker.logs.faults.clear()
    broker.disk.faults.clear()
    assert produce(broker, batch(b"a")).base_offset == 0
    assert broker.gauges["offlinereplicacount"] == 1, "u alone"
    assert broker.questions == [] and broker.base.failures == 0
    broker.end()


def test_a_disk_that_fails_as_a_follower_asks_where_an_epoch_ends_costs_its_directory(tmp_path: Path) -> None:
    """An empty log writes its leader epoch to disk at the first OffsetForLeaderEpoch request."""
    broker = Broker(tmp_path / "a", tmp_path / "b")
    broker.run()
    broker.update(known("t"), known("u"), live=(alive(0),))
    broker.lead(order("t"), order("u"))
    broken = next(path for path in (tmp_path / "a", tmp_path / "b") if (path / "t-0").exists())
    broker.logs.faults[str(broken)] = IO_ERROR
    queries = (EpochQuery(T0, -1, 0), EpochQuery(U0, -1, 0))
    ends = broker.ask(OffsetForLeaderEpochRequest(3, -1, queries)).partitions
    assert {end.partition: end.error_code for end in ends} == {T0: errors.KAFKA_STORAGE_ERROR, U0: errors.NONE}
    assert broker.gauges["offlinereplicacount"] == 1
    assert broker.base.failures == 0
    broker.end()


def test_a_disk_that_fails_under_a_file_that_is_sent_costs_its_directory_once(tmp_path: Path) -> None:
    """The listener reports the failure, because it reads the file; the partition does not see it."""
    broker = Broker(tmp_path / "a", tmp_path / "b")
    broker.run()
    broker.update(known("t"), known("u"), live=(alive(0),))
    broker.lead(order("t"), order("u"))
    broken = next(path for path in (tmp_path / "a", tmp_path / "b") if (path / "t-0").exists())
    produce(broker, batch(b"a"))
    for _ in range(2):
        broker.base.inject(broker.manager, LogFileFailed(f"{broken}/t-0/{0:020d}.log", "Input/output error"))
    broker.run()
    assert broker.gauges["offlinereplicacount"] == 1
    assert broker.questions == [NotifyLogDirFailure(0)]
    assert fetch(broker, 0).error_code == errors.KAFKA_STORAGE_ERROR
    assert produce(broker, batch(b"a"), partition=U0).error_code == errors.NONE
    broker.end()


def test_the_broker_itself_reads_bytes_and_others_are_sent_files(broker: Broker) -> None:
    """The broker's coordinator parses the records it reads, so it gets bytes. A disk failure then fails the read."""
    lead(broker)
    produce(broker, batch(b"a"))
    broker.logs._region_from = 1
    seen: list[LogRead] = []
    reader = broker.base.external_endpoint("reader", lambda message, sender: seen.append(message))
    [partition] = broker.base.actors(PartitionActor)
    for replica in (0, -1):
        question = ReadLog(0, FetchPartition(T0, 0, 1 << 20), replica, 11, 0, 1 << 20, at_least_one=True)
        broker.base.inject(partition.myAddress, question, reader)
    broker.run()
    assert [isinstance(read.result.body.piece, Region) for read in seen] == [False, True]


def test_a_directory_that_takes_no_checkpoint_is_lost_and_the_others_get_theirs(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "a", tmp_path / "b")
    broker.run()
    broker.update(known("t"), known("u"), live=(alive(0),))
    broker.lead(order("t"), order("u"))
    broken = next(path for path in (tmp_path / "a", tmp_path / "b") if (path / "t-0").exists())
    [sound] = {tmp_path / "a", tmp_path / "b"} - {broken}
    (broken / "replication-offset-checkpoint").mkdir()
    for partition in (T0, U0):
        produce(broker, batch(b"a"), partition=partition)
    skip(broker, 5.1)
    assert (sound / "replication-offset-checkpoint").read_text() == "0\n1\nu 0 1\n"
    assert broker.gauges["offlinereplicacount"] == 1
    assert produce(broker, batch(b"a")).error_code == errors.KAFKA_STORAGE_ERROR
    assert produce(broker, batch(b"a"), partition=U0).error_code == errors.NONE
    broker.end()


# ------------------------------------------------------------------------------------------------ config changes


def configure(broker: Broker, topic: str = "t", **overrides: object) -> None:
    """Replace the topic's config overrides."""
    entries = tuple(ConfigEntry(name.replace("_", "."), str(value)) for name, value in overrides.items())
    broker.base.inject(broker.manager, TopicsConfigured((TopicConfig(topic, entries),)))
    broker.run()


def test_open_logs_apply_a_changed_configuration(broker: Broker, tmp_path: Path) -> None:
    lead(broker)
    assert produce(broker, batch(bytes(2000))).error_code == errors.NONE
    configure(broker, max_message_bytes=1000)
    assert produce(broker, batch(bytes(2000))).error_code == errors.MESSAGE_TOO_LARGE
    configure(broker, segment_bytes=1000, message_timestamp_type="LogAppendTime")
    assert produce(broker, batch(b"a")).log_append_time_ms > 0
    assert sorted(each.name for each in (tmp_path / "t-0").glob("*.log")) == [f"{0:020d}.log", f"{1:020d}.log"]
    configure(broker, cleanup_policy="compact")
    assert produce(broker, batch(b"without a key")).error_code == errors.INVALID_RECORD
    configure(broker, "u", max_message_bytes=1)
    configure(broker)
    assert produce(broker, batch(bytes(2000))).error_code == errors.NONE


def test_more_or_fewer_in_sync_replicas_may_be_asked_for_at_any_time(broker: Broker) -> None:
    lead(broker, 1, 2, isr=(0, 1))
    configure(broker, min_insync_replicas=3)
    assert produce(broker, batch(b"a"), acks=-1).error_code == errors.NOT_ENOUGH_REPLICAS
    configure(broker, min_insync_replicas=2)
    waiting = wait_for_produce(broker, batch(b"a"))
    fetch(broker, 1, replica=1)
    [result] = answered(broker, waiting).partitions
    assert result.error_code == errors.NONE


def test_old_segments_go_by_the_retention_that_is_configured_now(broker: Broker, tmp_path: Path) -> None:
    broker.configs["t"] = (ConfigEntry("segment.bytes", "200"), ConfigEntry("retention.ms", "-1"))
    lead(broker)
    for _ in range(3):
        produce(broker, batch(bytes(100)))
    skip(broker, 600.0)
    assert fetch(broker, 0).log_start_offset == 0
    configure(broker, segment_bytes=200, retention_ms=-1, retention_bytes=1)
    skip(broker, 600.0)
    assert fetch(broker, 3).log_start_offset == 2


# ------------------------------------------------------------------------------------------------ retention


def test_only_partitions_with_expired_segments_get_the_message(tmp_path: Path) -> None:
    clock = VirtualClock()
    recorder = Recorder(tmp_path / "trace", 0, now=clock.now)
    broker = Broker(tmp_path / "data", clock=clock, observer=recorder)
    small = {"segment.bytes": "200", "retention.bytes": "0", "retention.ms": "-1"}
    broker.configs["t"] = tuple(ConfigEntry(*entry) for entry in small.items())
    broker.run()
    lead_three(broker)
    for partition, count in enumerate((3, 1)):
        for _ in range(count):
            produce(broker, batch(b"x" * 100), partition=U[partition])
    skip(broker, 700.0)
    assert [log_start_offset(broker, partition) for partition in U] == [3, 1, 0]
    broker.end()
    recorder.close()
    [run] = find_runs(tmp_path / "trace").runs
    reported = [record.payload for record in RunRecords(run) if record.type == "ExpireLog"]
    assert len(reported) == 4, "two partitions, once to drop, once for the files"


def log_start_offset(broker: Broker, partition: TopicPartition) -> int:
    response: ListOffsetsResponse = broker.ask(ListOffsetsRequest(5, -1, (OffsetQuery(partition, EARLIEST, -1),)))
    return response.partitions[0].offset


# ------------------------------------------------------------------------------------------------ recreated topics


def trim(broker: Broker, offset: int) -> None:
    [result] = broker.ask(DeleteRecordsRequest(2, (TrimmedPartition(T0, offset),), 1_000)).partitions
    assert result == DeletedRecords(T0, errors.NONE, offset)


def kill(broker: Broker) -> None:
    """Kill the broker without a clean shutdown: nothing more is written."""
    broker.base.shutdown()
    broker.logs.abandon()
    unlock_directories(broker.disk, broker.settings.log_dirs)


def listed(directory: Path) -> dict[str, list[str]]:
    """Return the entries of each of the three checkpoint files that exists."""
    files = {name: directory / name for name in CHECKPOINTS}
    return {name: file.read_text().splitlines()[2:] for name, file in files.items() if file.exists()}


@pytest.mark.parametrize("stray", [False, True], ids=["hosted", "stray"])
def test_a_topic_that_is_made_again_keeps_its_records_over_a_kill(tmp_path: Path, stray: bool) -> None:
    """The deletion removes the old log's checkpoint entries before its response.

    Otherwise they would truncate the new log.
    """
    broker = Broker(tmp_path)
    broker.run()
    lead(broker)
    for _ in range(6):
        produce(broker, batch(b"old"))
    trim(broker, 3)
    skip(broker, 61)
    assert listed(tmp_path) == {LOG_STARTS: ["t 0 3"], RECOVERY_POINTS: ["t 0 0"], HIGH_WATERMARKS: ["t 0 6"]}
    if stray:
        broker.end()
        broker = Broker(tmp_path)
        broker.run()
    broker.stop(("t", 0, -2, True))
    assert listed(tmp_path) == {name: [] for name in CHECKPOINTS}
    lead(broker, is_new=True)
    assert produce(broker, batch(b"new"), acks=-1).base_offset == 0
    kill(broker)
    again = Broker(tmp_path)
    again.run()
    lead(again)
    read = fetch(again, 0)
    assert (offsets_of(read), read.log_start_offset, read.high_watermark) == ([0], 0, 1)
    again.end()


def test_a_request_that_deletes_many_logs_writes_each_checkpoint_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(tmp_path)
    broker.run()
    count = 120
    broker.update(*(known("t", number) for number in range(count)), live=(alive(0),))
    broker.lead(*(order("t", number) for number in range(count)))
    for number in range(count):
        assert produce(broker, batch(b"a"), partition=TopicPartition("t", number)).error_code == errors.NONE
    skip(broker, 61)
    assert len(listed(tmp_path)[RECOVERY_POINTS]) == count
    written: list[str] = []
    write_lines = Checkpoint.write_lines

    def writing(self: Checkpoint, *args: Any) -> None:
        written.append(Path(self.path).name)
        write_lines(self, *args)

    monkeypatch.setattr(Checkpoint, "write_lines", writing)
    broker.stop(*(("t", number, -2, True) for number in range(1, count)))
    assert sorted(written) == [RECOVERY_POINTS, HIGH_WATERMARKS]
    assert listed(tmp_path)[RECOVERY_POINTS] == ["t 0 0"]
    broker.end()


def test_a_checkpoint_that_fails_at_a_deletion_costs_its_directory(tmp_path: Path) -> None:
    """The logs are already renamed by then, so the response has no error, as in Kafka."""
    broker = Broker(tmp_path / "a", tmp_path / "b")
    broker.run()
    broker.update(known("t"), known("u"), live=(alive(0),))
    broker.lead(order("t"), order("u"))
    broken = next(path for path in (tmp_path / "a", tmp_path / "b") if (path / "t-0").exists())
    produce(broker, batch(b"a"))
    skip(broker, 61)
    (broken / "recovery-point-offset-checkpoint.tmp").mkdir()
    [error] = broker.stop(("t", 0, -2, True)).partition_errors
    assert error.error_code == errors.NONE
    assert broker.questions == [NotifyLogDirFailure(0)]
    assert produce(broker, batch(b"a"), partition=U0).error_code == errors.NONE
    broker.end()


# ------------------------------------------------------------------------------------------------ existing logs


@pytest.mark.parametrize(("version", "magic"), [("0.9.0", 0), ("0.10.2", 1), ("0.11.0", 2), ("2.7", 2)])
def test_a_topic_stores_the_format_of_its_version(broker: Broker, version: str, magic: int) -> None:
    """A version above `inter.broker.protocol.version` is ignored."""
    broker.configs["t"] = (ConfigEntry("message.format.version", version),)
    lead(broker)
    data = recompress(memoryview(batch(b"b", b"c")), 1, 1000)
    idempotent = with_header(batch(b"c"), producer_id=7, producer_epoch=0, base_sequence=0)
    assert [produce(broker, each).base_offset for each in (batch(b"a"), data, batch(b"b"))] == [0, 1, 3]
    refused = errors.NONE if magic == 2 else errors.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert produce(broker, idempotent).error_code == refused
    stored = [header for _, header in whole_batches(fetch(broker, 0).body.data)][:3]
    assert [(each.magic, each.codec, each.last_offset, each.leader_epoch) for each in stored] == [
        (magic, codec, offset, 0 if magic == 2 else -1) for codec, offset in ((0, 0), (1, 2), (0, 3))
    ]
    newest = {fetch(broker, 0, version=each).error_code for each in (0, 2)}
    configure(broker, **{"message.format.version": version, "message.downconversion.enable": "false"})
    codes = [fetch(broker, 0, version=each).error_code for each in (0, 2, 4)]
    assert (newest, codes) == ({errors.NONE}, [errors.UNSUPPORTED_VERSION * (magic > wanted) for wanted in (0, 1, 2)])
    end = fetch(broker, 0).high_watermark
    assert [fetch(broker, end, version=each).error_code for each in (4, 0, 2, 4)] == [0, *codes], "also without data"
    for time, code in ((0, errors.NONE if magic else errors.UNSUPPORTED_FOR_MESSAGE_FORMAT), (EARLIEST, errors.NONE)):
        [listed] = broker.ask(ListOffsetsRequest(5, -1, (OffsetQuery(T0, time),))).partitions
        assert (listed.error_code, listed.leader_epoch) == (code, 0 if magic == 2 else -1)
