"""The summary's figures are those that one counts by hand in tests/spark/failover.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import messages.events
from messages.trace.codec import vocabulary
from messages.trace.frames import SUFFIX, NotATrace, SegmentWriter, find_runs
from spark.records import deliveries, read_all
from spark.summary import CONTROLLER_EVENTS, Summary, summarise
from tests.spark import failover


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both traces, the killed one with a torn tail, one malformed line, and a file that is no trace."""
    folder = tmp_path_factory.mktemp("cluster")
    assert failover.record(folder) == (25, 10)
    [killed] = (folder / "a" / "kafka.trace").iterdir()
    killed.write_bytes(killed.read_bytes() + b"\x28\xb5\x2f\xfd torn")
    header = find_runs(folder / "b").runs[0].header
    extra = SegmentWriter(folder / "c", header)
    extra.write(b'{"n": 1, "kind": "sent", "took": "long"}\n')
    extra.close()
    (folder / f"stranger{SUFFIX}").write_bytes(b"no trace")
    return folder


@pytest.fixture(scope="module")
def summary(session: SparkSession, folder: Path) -> Summary:
    return summarise(folder, session)


def test_runs(summary: Summary) -> None:
    assert [(run.node, run.deliveries, run.complete) for run in summary.runs] == [(0, 25, False), (1, 10, True)]
    assert [round(run.last_at - run.first_at) for run in summary.runs] == [24, 9]


def test_what_cannot_be_read_is_counted_and_nothing_else(summary: Summary, session: SparkSession, folder: Path) -> None:
    assert summary.malformed == 1
    assert len(summary.unreadable) == 1 and "stranger" in summary.unreadable[0]
    assert deliveries(read_all(session, folder)).count() == 35 == sum(row.count for row in summary.messages)


def test_messages_by_actor_and_type(summary: Summary) -> None:
    found = {(row.actor, row.type): row for row in summary.messages}
    assert {key: row.count for key, row in found.items()} == {
        ("BrokerChannelActor", "Received"): 8,
        ("BrokerChannelActor", "StartChannel"): 4,
        ("BrokerChannelActor", "TransmitFailed"): 2,
        ("ControllerActor", "Answer"): 4,
        ("ControllerActor", "BrokerChange"): 1,
        ("ControllerActor", "Forwarded"): 1,
        ("ControllerActor", "Reelect"): 1,
        ("ControllerActor", "Startup"): 2,
        ("ControllerActor", "TopicChange"): 1,
        ("ControllerActor", "UpdateMetadataResponseReceived"): 1,
        ("outside:network", "Transmit"): 10,
    }
    transmit = found["outside:network", "Transmit"]
    assert (transmit.seconds, transmit.longest, transmit.waited, transmit.failed) == (2.5, 0.25, 5.0, 0)
    assert found["ControllerActor", "TopicChange"].failed == 1


def test_controller_events(summary: Summary) -> None:
    assert [(row.node, row.type, row.count) for row in summary.events] == [
        (0, "BrokerChange", 1),
        (0, "Startup", 1),
        (0, "TopicChange", 1),
        (0, "UpdateMetadataResponseReceived", 1),
        (1, "ControlledShutdown", 1),
        (1, "Reelect", 1),
        (1, "Startup", 1),
    ]


def test_the_events_are_those_of_the_vocabulary() -> None:
    events = {name for name, cls in vocabulary().items() if cls.__module__ == messages.events.__name__}
    assert set(CONTROLLER_EVENTS) == events
    assert list(CONTROLLER_EVENTS) == sorted(CONTROLLER_EVENTS)


def test_requests_per_broker(summary: Summary) -> None:
    assert [(r.node, r.broker, r.type, r.count, r.partitions, r.retransmissions) for r in summary.requests] == [
        (0, 0, "LeaderAndIsrRequest", 1, 2, 0),
        (0, 1, "LeaderAndIsrRequest", 2, 3, 0),
        (0, 1, "StopReplicaRequest", 1, 1, 0),
        (0, 1, "UpdateMetadataRequest", 1, 2, 2),
        (0, 2, "LeaderAndIsrRequest", 1, 2, 0),
        (1, 1, "LeaderAndIsrRequest", 1, 2, 0),
        (1, 1, "UpdateMetadataRequest", 1, 1, 0),
    ]


def test_elections(summary: Summary) -> None:
    assert [(row.node, row.epoch) for row in summary.elections] == [(0, 1), (1, 2)]


def test_leadership_over_time(summary: Summary) -> None:
    rows = [(r.topic, r.partition, r.node, r.leader, r.leader_epoch, r.controller_epoch) for r in summary.leadership]
    assert rows == [
        ("t", 0, 0, 2, 0, 1),
        ("t", 0, 0, 1, 1, 1),
        ("t", 1, 0, 0, 0, 1),
        ("t", 1, 1, 1, 1, 2),
        ("u", 0, 1, -1, 4, 2),
    ]
    first, second = (row.at for row in summary.leadership[:2])
    # t-0 was told first in delivery 4 of node 0, and again in delivery 21: one second apart each
    assert round(second - first) == 17


def test_it_is_json(summary: Summary) -> None:
    assert json.loads(json.dumps(summary.as_dict()))["elections"][1]["epoch"] == 2


def test_an_empty_folder_has_an_empty_summary(session: SparkSession, tmp_path: Path) -> None:
    empty = summarise(tmp_path, session)
    assert empty == Summary((), (), (), (), (), (), 0, ())


def test_a_folder_that_is_not_there_is_named(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NotATrace, match="nowhere"):
        summarise(tmp_path / "nowhere", session)
