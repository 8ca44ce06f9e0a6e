"""Each section's figures equal those counted by hand in working_day.py, transactional_day.py and failover.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messages.facts.trace_facts import gather
from messages.network import AuthenticationsFailed, FailedAuthentications
from messages.trace.files.runs import find_runs
from spark.questions import traffic
from spark.questions.housekeeping import authentications
from spark.results import Summary
from spark.section_names import TITLES
from spark.source import SCHEMA
from spark.summary import summarise
from tests.spark import failover, transactional_day, working_day


@pytest.fixture(scope="module")
def day(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Summary:
    folder = tmp_path_factory.mktemp("day")
    working_day.record(folder)
    return summarise(folder, session, only=TITLES)


def rows(summary: Summary, question: str, *columns: str) -> list[tuple[object, ...]]:
    """Return these columns of a section; floats (seconds and milliseconds) are rounded to integers."""
    found = [tuple(getattr(row, column) for column in columns) for row in summary[question]]
    return [tuple(round(value) if isinstance(value, float) else value for value in row) for row in found]


def test_requests_to_zookeeper_take_the_time_until_their_reply(day: Summary) -> None:
    """A request takes the seconds until its reply, less the half second that the reply waited."""
    assert rows(day, "zookeeper", "type", "count", "items", "longest_ms") == [
        ("StoreRead", 3, 4, 1500),
        ("StoreWrite", 1, 2, None),
    ]


def test_requests_of_clients_start_when_they_arrive(day: Summary) -> None:
    """The time starts at the arrival, half a second before the request is handled. Unanswered requests do not count."""
    assert rows(day, "clients", "request", "count", "longest_ms") == [("Metadata", 2, 1500), ("Produce", 1, 1500)]


def test_records_are_summed_by_partition(day: Summary) -> None:
    columns = ("topic", "partition", "batches", "records", "bytes", "read_bytes", "records_per_s")
    assert rows(day, "records", *columns) == [("t", 0, 2, 30, 3000, 500, 30), ("t", 1, 1, 1, 1000, 0, None)]
    assert [row.share for row in day["records"]] == [0.75, 0.25]


def test_records_that_are_only_read_have_no_share(session: SparkSession) -> None:
    """A cluster that continues with existing records, and has no producer, has such records."""
    state = ("t", 0, None, None, None, [], [], [])
    read = dict.fromkeys(SCHEMA.names) | {"type": "LogRead", "node": 1, "at": 1.0, "bytes": 500, "states": [state]}
    [row] = traffic.records(session.createDataFrame([read], SCHEMA)).collect()
    assert (row.bytes, row.read_bytes, row.share) == (0, 500, None)


def test_transactions_are_counted_by_their_outcome(session: SparkSession, tmp_path: Path) -> None:
    transactional_day.record(tmp_path)
    found = summarise(tmp_path, session, only=("transactions",))
    states = ("transactional_id", "committed", "aborted", "ongoing", "prepared", "resent")
    assert rows(found, "transactions", *states) == [("orders", 2, 1, 0, 1, 1), ("refunds", 0, 0, 1, 0, 0)]
    times = ("p50_ms", "longest_ms", "markers_p50_ms", "markers_p99_ms", "markers_longest_ms")
    assert rows(found, "transactions", *times) == [(2000, 4000, 3000, 4000, 4000), (None,) * 5]


def test_failed_authentications_are_summed_by_mechanism(tmp_path: Path) -> None:
    node = failover.Node(tmp_path, 3)
    for plain, others in ((2, 1), (5, 0)):
        failures = ("SASL", "PLAIN", plain), ("SSL", "TLS", others)
        counts = tuple(FailedAuthentications(*each) for each in failures if each[2])
        node.deliver(working_day.HANDLER, AuthenticationsFailed(counts), working_day.LISTENER)
    node.recorder.close()
    rows = authentications(gather(find_runs(tmp_path).runs)).rows
    assert [row[:4] for row in rows] == [(3, "SASL", "PLAIN", 7), (3, "SSL", "TLS", 1)]
    assert [row[5] - row[4] for row in rows] == [1.0, 0.0]


def test_isr_changes_are_counted_by_partition_and_cause(day: Summary) -> None:
    """The controller shrinks the ISR of t-0. For w-0 it elects a replica outside the ISR."""
    columns = ("topic", "partition", "shrunk", "shrunk_by_controller", "grown")
    assert rows(day, "isr_churn", *columns) == [("w", 0, 1, 1, 1), ("t", 0, 1, 1, 0)]


def test_deletions_last_from_the_request_until_the_topic_is_gone(day: Summary) -> None:
    """Topic u is gone four deliveries after the request; one of them is the StopReplica request.

    Topic v is never deleted.
    """
    assert rows(day, "deletions", "topic", "stops", "seconds") == [("u", 1, 4), ("v", 0, None)]


def test_a_reassignment_is_one_row_with_its_replicas_and_time(day: Summary) -> None:
    [moved] = rows(day, "reassignments", "topic", "partition", "adding", "removing", "seconds", "epochs")
    assert moved == ("t", 1, "3", "2", 4, 2)


def test_events_in_figures_and_in_order(day: Summary) -> None:
    assert rows(day, "handled", "event", "ms", "queue_ms", "zookeeper") == [
        ("ZkPartitionReassignment", 40, 1, 4),
        ("ZkPartitionReassignment", 20, 3, 2),
        ("TopicChange", 10, 0, 1),
        ("BrokerChange", 30, 2, 3),
    ]


def test_elections_of_leaders_are_counted_as_clean_or_unclean(day: Summary) -> None:
    """The election of t-0 was clean, that of w-0 unclean. A partition's first or unchanged leader does not count."""
    assert rows(day, "leader_elections", "event", "node", "count", "clean", "unclean") == [(None, 0, 2, 1, 1)]


def test_failed_handlers_are_counted_by_actor_and_error(day: Summary) -> None:
    assert rows(day, "failures", "actor", "type", "error", "count") == [
        ("outside:network", "MetadataRequest", "ValueError: what is this", 1)
    ]


def test_how_long_things_take(day: Summary) -> None:
    """The limits are powers of two. The events took 40, 20, 10 and 30 ms."""
    found = {(row.kind, row.upto_ms): row.count for row in day["latencies"]}
    assert {upto: count for (kind, upto), count in found.items() if kind == "controller events"} == {
        16: 1,
        32: 2,
        64: 1,
    }
    assert found["requests to ZooKeeper", 2048] == 2 and found["requests to ZooKeeper", 512] == 1


def test_queues_show_how_long_each_delivery_waited(day: Summary) -> None:
    """Each delivery waited half a second, and the next one arrived half a second after the handler started."""
    assert {row.depth for row in day["queue"]} == {1}
    assert {round(row.waited_ms) for row in day["queue"]} == {500}


def test_messages_are_counted_by_sender_and_receiver(day: Summary) -> None:
    counts = {(row.sender, row.receiver): row.count for row in day["actors"]}
    assert counts["ControllerActor", "outside:metrics"] == 4
    assert counts["ZkBridgeActor", "outside:store"] == 4


def test_round_trips_end_in_the_brokers_own_trace(session: SparkSession, tmp_path: Path) -> None:
    """On node 0's channel to broker 1, each response is handled a second after its request and waited half a second."""
    failover.record(tmp_path)
    found = summarise(tmp_path, session, only=("round_trips",))
    assert ("UpdateMetadataRequest", 1, 500, None) in rows(
        found, "round_trips", "type", "count", "flight_p50_ms", "handle_p50_ms"
    )
