"""Counts of produce and fetch requests, by topic and in total (conventions.md 7)."""

from __future__ import annotations

import pytest

from actors.core.broker.topic_stats import OF_LEADERS, PREFIX, TopicStats, metric, metrics_to_drop
from messages import errors
from messages.apis.fetch import FetchedPartition, FetchRequest
from messages.apis.produce import ProducedPartition, ProducePartition
from messages.cluster import TopicPartition
from messages.wire.record_batch import body_of, read_records
from tests.storage.batches import batch

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
DATA = batch(b"a", b"b", b"c")
SIZE = len(DATA)


def reported(figures: TopicStats) -> dict[tuple[str, str], int]:
    """Return the counts since the last call by (metric, topic); the topic of a total is ""."""
    return {
        (count.name.removeprefix(PREFIX).removesuffix("_total"), dict(count.labels).get("topic", "")): count.by
        for count in figures.take()
    }


@pytest.mark.parametrize(
    ("code", "figures"),
    [
        (errors.NONE, {"messagesin": 3, "bytesin": SIZE}),
        (errors.MESSAGE_TOO_LARGE, {"bytesrejected": SIZE}),
        (errors.NOT_LEADER_OR_FOLLOWER, {}),
        (errors.INVALID_TIMESTAMP, {"failedproducerequests": 1}),
    ],
)
def test_a_produce_counts_for_its_topic_and_for_all(code: int, figures: dict[str, int]) -> None:
    counted = TopicStats()
    part = ProducePartition(T0, read_records(DATA))
    counted.count_produce([(part, ProducedPartition(T0, code))])
    expected = {"totalproducerequests": 1, **figures}
    assert reported(counted) == {(figure, topic): by for figure, by in expected.items() for topic in ("t", "")}
    assert reported(counted) == {}, "published counts are not published again"
    assert not counted


@pytest.mark.parametrize(("replica", "out"), [(-1, "bytesout"), (2, "replicationbytesout")])
def test_bytes_go_out_to_consumers_by_topic_and_to_followers_of_all(replica: int, out: str) -> None:
    counted = TopicStats()
    results = (FetchedPartition(T0, errors.NONE, body=body_of(DATA)), FetchedPartition(U0, errors.NONE))
    counted.count_fetch(FetchRequest(11, replica, 500, 1, (), 1 << 20), results)
    by_topic = {("bytesout", "t"): SIZE} if replica < 0 else {}
    fetches = {("totalfetchrequests", topic): by for topic, by in (("t", 1), ("u", 1), ("", 2))}
    assert reported(counted) == {**fetches, (out, ""): SIZE, **by_topic}


def test_a_topic_that_is_nowhere_has_no_figures() -> None:
    counted = TopicStats()
    part = ProducePartition(T0, read_records(DATA))
    counted.count_produce([(part, ProducedPartition(T0, errors.UNKNOWN_TOPIC_OR_PARTITION))])
    counted.count_fetch(FetchRequest(11, -1, 500, 1, ()), (FetchedPartition(T0, errors.UNKNOWN_TOPIC_OR_PARTITION),))
    assert not counted


def test_a_topic_that_is_only_followed_loses_the_figures_of_leaders() -> None:
    dropped = metrics_to_drop(("t", "u", "t"), {"u": 1})
    assert dropped is not None
    assert dropped.names == tuple(map(metric, OF_LEADERS))
    assert dropped.labels == ((("topic", "t"),),)
    assert metrics_to_drop(("u",), {"u": 1}) is None
