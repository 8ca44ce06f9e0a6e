"""Each request in flight to a partition is answered, also if the partition is deleted or its disk fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from thespian.actors import ActorExitRequest

from actors.broker.partition import PartitionActor
from actors.storage.log_directories import CLEAN_MARKER
from messages import errors
from messages.apis.delete_records import DeleteRecordsRequest, TrimmedPartition
from messages.apis.fetch import FetchPartition
from messages.apis.list_offsets import ListOffsetsRequest, OffsetQuery
from messages.apis.offset_for_leader_epoch import EpochQuery, OffsetForLeaderEpochRequest
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.broker import LogFailed
from messages.partition import ExpireLog
from messages.records import EARLIEST
from messages.vocabulary import Message
from messages.wire.record_batch import read_records
from tests.broker.harness import CONTROLLER, Broker, alive, known
from tests.broker.test_records import T0, answered, fetch_request, lead, produce, skip
from tests.storage.batches import batch

MOST = 20
"""Maximum number of deliveries that removing a partition takes."""


def requests() -> list[Message]:
    """Return one request of each kind; those that wait have a timeout of 30 seconds."""
    part = ProducePartition(T0, read_records(batch(b"a")))
    return [
        ProduceRequest(8, None, 1, 30_000, (part,)),
        ProduceRequest(8, None, -1, 30_000, (part,)),
        fetch_request(FetchPartition(T0, 0, 1 << 20)),
        fetch_request(FetchPartition(T0, 1, 1 << 20), max_wait_ms=30_000),
        fetch_request(FetchPartition(T0, 1, 1 << 20), replica=1, max_wait_ms=30_000),
        ListOffsetsRequest(5, -1, (OffsetQuery(T0, EARLIEST),), 0),
        OffsetForLeaderEpochRequest(3, -1, (EpochQuery(T0, 0, -1),)),
        DeleteRecordsRequest(1, (TrimmedPartition(T0, 0),), 30_000),
    ]


def all_answered(broker: Broker, deliveries: int) -> list[int]:
    """Run this number of deliveries, post one request of each kind, run, and return the codes of the responses."""
    broker.base.run(limit=deliveries)
    ids = [broker.post(request) for request in requests()]
    broker.run()
    answers = [answered(broker, id) for id in ids]
    assert None not in answers, f"{[type(r).__name__ for r, a in zip(requests(), answers, strict=True) if a is None]}"
    return [answer.partitions[0].error_code for answer in answers]


@pytest.mark.parametrize(
    ("is_known", "code"), [(True, errors.NOT_LEADER_OR_FOLLOWER), (False, errors.UNKNOWN_TOPIC_OR_PARTITION)]
)
def test_requests_to_a_deleted_partition_are_answered(tmp_path: Path, is_known: bool, code: int) -> None:
    seen: set[int] = set()
    for deliveries in range(MOST):
        broker = Broker(tmp_path / str(deliveries))
        broker.run()
        lead(broker, 1)
        produce(broker, batch(b"a"))
        if not is_known:
            broker.update(known("t", leader=-2), live=(alive(0), alive(1, 1)))
        broker.post(StopReplicaRequest(3, CONTROLLER, 1, -1, (StopReplicaPartitionState(T0, -2, True),)))
        seen.update(all_answered(broker, deliveries))
        broker.end()
    assert seen == {errors.NOT_LEADER_OR_FOLLOWER, code}


@pytest.mark.parametrize("deliveries", range(MOST))
def test_a_stopping_node_keeps_its_logs_while_in_use(tmp_path: Path, deliveries: int) -> None:
    """Requests in flight when the actors are stopped, or sent while they stop, find open logs."""
    broker = Broker(tmp_path)
    broker.run()
    lead(broker, 1)
    produce(broker, batch(b"a"))
    for request in requests():
        broker.post(request)
    broker.base.inject(broker.manager, ActorExitRequest())
    [partition] = broker.base.actors(PartitionActor)
    broker.base.run(limit=deliveries)
    broker.base.inject(partition.myAddress, ExpireLog())
    broker.end()
    assert broker.base.failures == 0
    assert (tmp_path / CLEAN_MARKER).exists()


def test_requests_to_a_partition_on_a_failed_disk_are_answered(tmp_path: Path) -> None:
    seen: set[int] = set()
    for deliveries in range(MOST):
        broker = Broker(tmp_path / f"{deliveries}a", tmp_path / f"{deliveries}b")
        broker.run()
        lead(broker, 1)
        produce(broker, batch(b"a"))
        [partition] = broker.base.actors(PartitionActor)
        broker.base.inject(broker.manager, LogFailed(T0, "Input/output error"), partition.myAddress)
        seen.update(all_answered(broker, deliveries))
        broker.end()
    assert seen == {errors.KAFKA_STORAGE_ERROR}


def test_it_is_notified_at_once(broker: Broker) -> None:
    """The clock does not advance, so no request waits for its timeout."""
    lead(broker, 1)
    broker.post(StopReplicaRequest(3, CONTROLLER, 1, -1, (StopReplicaPartitionState(T0, -2, True),)))
    before = broker.clock.now()
    assert errors.REQUEST_TIMED_OUT not in all_answered(broker, 5)
    assert broker.clock.now() == before
    answers = len(broker.answers)
    skip(broker, 60)
    assert len(broker.answers) == answers, "and not a second time"
