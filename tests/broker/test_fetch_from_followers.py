"""Consumers that send their rack are redirected to a replica in it (broker.md 3.7.1) if a replica selector is set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.core.broker.leader import Leader
from actors.core.broker.replica_log import ReplicaLog
from messages.apis.fetch import NO_REPLICA, FetchPartition
from messages.errors import NONE
from tests.broker.harness import Broker, alive, known, order
from tests.broker.test_records import T0, answered, fetch, fetch_request, offsets_of, produce
from tests.storage.batches import batch

RACKS = {0: "here", 1: "there", 2: "there", 3: "nowhere"}
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def broker_of(place: Path, **settings: Any) -> Broker:
    """Return broker 0, which leads t-0 with followers 1, 2 and 3; it has one record, and only 1 has fetched it."""
    broker = Broker(place, **settings)
    broker.run()
    replicas = tuple(RACKS)
    broker.update(known("t", isr=replicas), live=tuple(alive(id, 1, rack=rack) for id, rack in RACKS.items()))
    broker.lead(order("t", replicas=replicas, isr=replicas))
    produce(broker, batch(b"a"))
    for replica in (1, 2, 3):
        fetch(broker, 1 if replica == 1 else 0, replica=replica)
    return broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = broker_of(tmp_path, replica_selector_class=RACK_AWARE)
    yield broker
    broker.end()


@pytest.mark.parametrize(
    ("rack", "version", "replica"),
    [
        ("there", 11, 1),  # of 1 and 2, the one with the higher log end offset
        ("nowhere", 11, 3),
        ("here", 11, NO_REPLICA),  # the leader's own rack
        ("elsewhere", 11, NO_REPLICA),
        ("", 11, NO_REPLICA),
    ],
)
def test_a_leader_redirects_a_consumer_to_its_rack(broker: Broker, rack: str, version: int, replica: int) -> None:
    reported = fetch(broker, 0, rack_id=rack, version=version)
    assert (reported.error_code, reported.preferred_read_replica) == (NONE, replica)
    assert reported.body.size == 0, "nothing is committed yet"


def test_a_redirected_consumer_is_answered_at_once_without_records(broker: Broker) -> None:
    for replica in (2, 3):
        fetch(broker, 1, replica=replica)
    assert offsets_of(fetch(broker, 0, rack_id="here")) == [0]
    id = broker.post(fetch_request(FetchPartition(T0, 1, 1 << 20), max_wait_ms=30_000, rack_id="there"))
    broker.run()
    [reported] = answered(broker, id).partitions
    assert (reported.preferred_read_replica, reported.high_watermark, reported.body.size) == (2, 1, 0)


def test_no_consumer_is_redirected_by_default(tmp_path: Path) -> None:
    broker = broker_of(tmp_path)
    assert fetch(broker, 0, rack_id="there").preferred_read_replica == NO_REPLICA
    broker.end()


def test_only_a_replica_in_sync_that_has_the_offset_is_preferred() -> None:
    leader = Leader(0, 5, (0, 1, 2, 3), (0, 1, 2), 8, ReplicaLog(0, 10, 0), 30.0, 1, 0.0)
    for replica, end, at in ((1, 6, 1.0), (2, 6, 2.0), (3, 10, 3.0)):
        leader.handle_fetch(replica, end, 2, 10, at)
    assert leader.preferred_read_replica((1, 2, 3), 5) == 2, "3 is not in sync; 2 was here later than 1"
    assert leader.preferred_read_replica((1,), 5) == 1
    assert leader.preferred_read_replica((1, 2, 3), 7) == NO_REPLICA, "beyond their ends"
    assert leader.preferred_read_replica((1, 2, 3), 1) == NO_REPLICA, "before their starts"
