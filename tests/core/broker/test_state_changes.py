"""Log lines of a broker about state changes and ISRs, word for word as in Kafka 3.9.1 and 2.6."""

from __future__ import annotations

import pytest

from actors.core.broker.leader import Leader
from actors.core.broker.replica_log import ReplicaLog
from actors.core.broker.state_changes import (
    Origin,
    changed_isr,
    changing_isr,
    ignored_line,
    refused_line,
    stopped_fetchers,
)
from messages import errors
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.cluster import TopicPartition

T0 = TopicPartition("t", 0)
REQUEST = LeaderAndIsrRequest(4, 7, 3, 100, (), ())
ORIGIN = Origin.of_request(REQUEST, 42)
START = "Ignoring LeaderAndIsr request from controller 7 with correlation id 42"


@pytest.mark.parametrize(
    ("code", "asked", "known", "reason"),
    [
        (
            *(errors.STALE_CONTROLLER_EPOCH, 4, 5),
            "since its associated leader epoch 4 is smaller than the current leader epoch 5",
        ),
        (errors.STALE_CONTROLLER_EPOCH, 5, 5, "since its associated leader epoch 5 matches the current leader epoch"),
        (errors.UNKNOWN_TOPIC_OR_PARTITION, 6, 5, "as itself is not in assigned replica list 1,2"),
        (errors.KAFKA_STORAGE_ERROR, 6, -1, "as the local replica for the partition is in an offline log directory"),
    ],
)
def test_an_order_that_is_not_obeyed_is_named_with_the_reason(code: int, asked: int, known: int, reason: str) -> None:
    assert ignored_line(ORIGIN, T0, code, asked, known, (1, 2)) == f"{START} epoch 3 for partition t-0 {reason}"


def test_an_ignored_stop_replica_logs_whether_it_deletes() -> None:
    stop = Origin("StopReplica", 7, 3, 42)
    assert ignored_line(stop, T0, errors.FENCED_LEADER_EPOCH, 1, 2, how="(delete=true) ") == (
        "Ignoring StopReplica request (delete=true) from controller 7 with correlation id 42 epoch 3 for partition t-0"
        " since its associated leader epoch 1 is smaller than the current leader epoch 2"
    )


def test_a_request_of_an_old_controller_or_session_is_refused_whole() -> None:
    assert refused_line(ORIGIN, errors.STALE_CONTROLLER_EPOCH, REQUEST, 9, 200) == (
        f"{START} since its controller epoch 3 is old. Latest known controller epoch is 9"
    )
    assert refused_line(ORIGIN, errors.STALE_BROKER_EPOCH, REQUEST, 9, 200) == (
        "Received LeaderAndIsr request with broker epoch 100 smaller than the current broker epoch 200"
    )


def test_stopped_fetchers_are_counted() -> None:
    assert stopped_fetchers(ORIGIN, 3, leading=True) == (
        "Stopped fetchers as part of LeaderAndIsr request correlationId 42 from controller 7 epoch 3 as part of the"
        " become-leader transition for 3 partitions"
    )
    assert stopped_fetchers(ORIGIN, 3, leading=False) == (
        "Stopped fetchers as part of become-follower request from controller 7 epoch 3 with correlation id 42 for 3"
        " partitions"
    )


def test_an_isr_line_has_the_out_of_sync_replicas_and_their_lag() -> None:
    leader = Leader(0, 5, (0, 1, 2), (0, 1, 2), 8, ReplicaLog(0, 10, 0), 30.0, 2, 100.0)
    leader.handle_fetch(1, 10, 0, 10, 101.0)
    leader.handle_fetch(2, 4, 0, 10, 101.0)
    assert changing_isr(leader, (0, 1), 131.0, 1_000_000) == (
        "Shrinking ISR from 0,1,2 to 0,1. Leader: (highWatermark: 4, endOffset: 10). Out of sync replicas: (brokerId:"
        " 2, endOffset: 4, lastCaughtUpTimeMs: 969000)."
    )
    leader.isr = (0,)
    assert changing_isr(leader, (0, 2), 131.0, 1_000_000) == "Expanding ISR from 0 to 0,2"
    assert changed_isr(leader, written=True) == "ISR updated to 0 (under-min-isr) and version updated to 8"
    leader.isr = (0, 2)
    assert changed_isr(leader, written=True) == "ISR updated to 0,2 and version updated to 8"
    assert changed_isr(leader, written=False) == (
        "Cached zkVersion 8 not equal to that in zookeeper, skip updating ISR"
    )
