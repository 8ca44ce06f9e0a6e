"""Replication throttles at fixed times (`replication_quota`)."""

from __future__ import annotations

import pytest

from actors.core.broker.replication_quota import (
    FOLLOWER,
    LEADER,
    ReplicationQuota,
    rate_of,
    replication_quota,
    throttled_topic,
)
from messages.cluster import ConfigEntry, Endpoint, TopicPartition
from messages.node_settings import NodeSettings
from messages.partition import ThrottledTopic

KB = 1000


def quota(rate: int | None, *moved: tuple[float, int]) -> ReplicationQuota:
    made = ReplicationQuota(rate)
    for moment, size in moved:
        made.count(size, moment)
    return made


@pytest.mark.parametrize(
    ("text", "partitions"), [("*", None), ("", ()), ("0:1,1:2,5:1", (0, 5)), ("3:2", ()), (" 7:1, 8:1 ", (7, 8))]
)
def test_a_topics_setting_names_the_replicas_of_this_broker(text: str, partitions: tuple[int, ...] | None) -> None:
    entries = (ConfigEntry("leader.replication.throttled.replicas", text), ConfigEntry("retention.ms", "1"))
    assert throttled_topic("t", entries, LEADER, 1) == ThrottledTopic("t", partitions)
    assert throttled_topic("t", entries, FOLLOWER, 1) == ThrottledTopic("t", ())


def test_a_brokers_own_rate_goes_before_that_of_all() -> None:
    name = "follower.replication.throttled.rate"
    assert rate_of(FOLLOWER, {name: "5"}, {name: "7"}) == 5
    assert rate_of(FOLLOWER, {}, {name: "7"}) == 7
    assert rate_of(FOLLOWER, {"leader.replication.throttled.rate": "3"}, {}) is None


def test_the_last_update_sets_the_throttled_replicas() -> None:
    replicas = quota(None).replicas
    replicas.update((ThrottledTopic("t", (0, 2)), ThrottledTopic("u", None)))
    t, u = ([TopicPartition(topic, number) in replicas for number in range(3)] for topic in "tu")
    assert (t, u) == ([True, False, True], [True, True, True])
    replicas.update((ThrottledTopic("u", ()),))
    assert TopicPartition("u", 0) not in replicas and TopicPartition("t", 0) in replicas
    assert replicas.throttled_topics() == (ThrottledTopic("t", (0, 2)),)


@pytest.mark.parametrize(
    ("moved", "now", "rate"),
    [
        ((), 5.0, 0.0),
        (((0.0, 8 * KB),), 0.2, 8 * KB),  # divided by at least a second
        (((0.0, 8 * KB),), 4.0, 2 * KB),
        (((0.0, 8 * KB), (0.9, 2 * KB)), 5.0, 2 * KB),  # both are in one sample
        (((0.0, 8 * KB), (3.0, 2 * KB)), 5.0, 2 * KB),
        (((0.0, 8 * KB), (3.0, 2 * KB)), 11.0, 2 * KB / 8),  # the first sample has expired
        (((0.0, 8 * KB), (3.0, 2 * KB)), 14.0, 0.0),
    ],
)
def test_the_rate_is_what_the_last_eleven_samples_hold(
    moved: tuple[tuple[float, int], ...], now: float, rate: float
) -> None:
    assert quota(None, *moved).measured_rate(now) == rate


@pytest.mark.parametrize("rate", [0, 1, 700, KB, 3 * KB, None])
@pytest.mark.parametrize(
    "moved", [((0.0, 10 * KB),), ((0.0, KB), (1.0, 20 * KB)), tuple((float(second), KB) for second in range(30)), ()]
)
def test_the_quota_is_free_at_the_returned_time(rate: int | None, moved: tuple[tuple[float, int], ...]) -> None:
    made, now = quota(rate, *moved), moved[-1][0] if moved else 0.0
    free = made.free_at(now)
    assert free == now or quota(rate, *moved).is_exceeded(free - 0.001)
    assert not quota(rate, *moved).is_exceeded(free + 0.001)
    assert (free > now) == quota(rate, *moved).is_exceeded(now)


def test_the_settings_say_how_many_samples_of_which_length_count() -> None:
    listener = (Endpoint("PLAINTEXT", "h", 1),)
    windows = {"replication_quota_window_num": 3, "replication_quota_window_size_seconds": 2}
    made = replication_quota(NodeSettings(0, listener, listener, ("/d",), "zk", **windows))
    for second in range(9):
        made.count(KB, second)
    assert made.measured_rate(8.0) == 5 * KB / 4
    made.rate = KB
    assert made.is_exceeded(8.5) and made.free_at(8.5) == 9.0
    assert made.measured_rate(13.9) == KB / 5.9


def test_what_is_not_limited_is_never_too_much() -> None:
    assert not quota(None, (0.0, 10**12)).is_exceeded(0.0)
