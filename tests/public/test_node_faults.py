"""Each broker fault once on three real brokers: effects on clients and other brokers, hits, `why`, and replay."""

from __future__ import annotations

import subprocess
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from actors.public import ClusterError, KafkaCluster
from actors.public.console import command_line
from tests.public.replays import replayed

HOUR = 3600


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Return a cluster of three brokers; after all tests, its traces must replay."""
    with replayed(KafkaCluster(session_timeout=0.5)) as cluster:
        yield cluster


def send(cluster: KafkaCluster, topic: str, **settings: Any) -> None:
    """Send one record, with retries, and check that it is acknowledged."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "linger.ms": 0}
    producer = Producer({**servers, "acks": "all", "retry.backoff.ms": 20, "reconnect.backoff.max.ms": 100, **settings})
    errors: list[Any] = []
    producer.produce(topic, b"record", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]


def first(cluster: KafkaCluster, topic: str) -> Message:
    """Return the first record of a topic."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    (record,) = consumer.consume(1, 30)
    consumer.close()
    return record


def led(cluster: KafkaCluster, topic: str, **options: Any) -> int:
    """Create a topic with one partition, and return its leader."""
    cluster.create_topic(topic, **options)
    return cluster.wait_for_leader(topic)


def heal(cluster: KafkaCluster, topic: str) -> None:
    """Wait until all replicas are in sync again."""
    cluster.wait_for(lambda: len(cluster.isr_of(topic)) == 3)


def why(cluster: KafkaCluster) -> str:
    return subprocess.run(
        command_line("why", "cluster", str(cluster.trace_dir)), capture_output=True, text=True, check=True
    ).stdout


def test_a_paused_broker_loses_its_leadership_and_comes_back(cluster: KafkaCluster) -> None:
    leader = led(cluster, "paused")
    with cluster.faults.pause(leader) as fault:
        cluster.wait_for_leader("paused", other_than=leader)
        send(cluster, "paused")
        assert fault.hits == 1
        with pytest.raises(ClusterError, match=f"broker {leader} is paused; resume it first"):
            cluster.faults.pause(leader)
    heal(cluster, "paused")


def test_a_muted_leader_is_fetched_from_in_vain(cluster: KafkaCluster) -> None:
    leader = led(cluster, "muted")
    silenced, other = sorted({0, 1, 2} - {leader})
    with cluster.faults.mute(leader, to=silenced) as fault:
        cluster.wait_for(lambda: sorted(cluster.isr_of("muted")) == sorted((leader, other)))
        assert fault.hits >= 1
    heal(cluster, "muted")


def test_each_write_to_a_slow_disk_takes_its_time(cluster: KafkaCluster) -> None:
    leader = led(cluster, "slow", replication_factor=1)
    with cluster.faults.slow_disk(leader, 0.3) as fault:
        began = time.monotonic()
        send(cluster, "slow")
        assert time.monotonic() - began >= 0.3
        assert fault.hits == 1


@pytest.mark.parametrize("kind", ["full_disk", "broken_disk"])
def test_a_broker_ends_when_its_only_disk_fails(cluster: KafkaCluster, kind: str) -> None:
    topic = kind.replace("_", "-")
    leader = led(cluster, topic)
    with getattr(cluster.faults, kind)(leader) as fault:
        send(cluster, topic)
        assert fault.hits >= 1
        assert leader not in cluster.live_brokers
        assert cluster.leader_of(topic) != leader
        with pytest.raises(ClusterError, match=rf"broker {leader} is not running \(it failed: all log directories"):
            cluster.stop_broker(leader)
        with pytest.raises(ClusterError, match=f"broker {leader}: none of the log directories can be used"):
            cluster.start_broker(leader)
    cluster.start_broker(leader)
    heal(cluster, topic)
    assert first(cluster, topic).value() == b"record"


def test_a_clock_jumps_ahead(cluster: KafkaCluster) -> None:
    leader = led(cluster, "ahead", replication_factor=1, config={"message.timestamp.type": "LogAppendTime"})
    with cluster.faults.clock_jump(leader, HOUR) as fault:
        send(cluster, "ahead")
        assert fault.hits >= 1
    _, stamp = first(cluster, "ahead").timestamp()
    assert HOUR - 60 < stamp / 1000 - time.time() <= HOUR


def test_a_broker_whose_session_expires_registers_again(cluster: KafkaCluster) -> None:
    leader = led(cluster, "expired")
    fault = cluster.faults.session_expiry(leader)
    assert fault.hits == 1
    heal(cluster, "expired")
    send(cluster, "expired")


def test_what_cannot_be_injected_is_named(cluster: KafkaCluster) -> None:
    for call, words in (
        (lambda: cluster.faults.broken_disk(7), "broker 7 does not exist; brokers: 0, 1, 2"),
        (lambda: cluster.faults.slow_disk(0, 0), "slow_disk: seconds=0 must be a number of seconds above 0"),
        (lambda: cluster.faults.slow_disk(0, -1), "slow_disk: seconds=-1 must be a number"),
        (lambda: cluster.faults.mute(0, to=0), "mute fault of broker 0 cannot be limited to the messages for broker 0"),
        (lambda: cluster._ask("inject_fault", kind="melt", broker=0), "kind='melt' must be one of error, "),
        (lambda: cluster._ask("inject_fault", kind="pause"), "missing 1 required positional argument: 'broker'"),
    ):
        with pytest.raises(ClusterError, match=words):
            call()


def test_changes_are_in_why_and_what_was_never_met_is_reported() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cluster = KafkaCluster(1).start()
        cluster.keep = True
        led(cluster, "t", replication_factor=1)
        with cluster.faults.slow_disk(0, 0.01):
            send(cluster, "t")
        cluster.faults.mute(0)
        cluster.stop()
    assert "these injected faults were never met: mute of broker 0" in [str(each.message) for each in caught]
    said = why(cluster)
    for change in (
        "was injected: slow_disk (0.01) of broker 0",
        "was met: slow_disk (0.01) of broker 0",
        "was removed: slow_disk (0.01) of broker 0; hits: 1",
        "was injected: mute of broker 0",
    ):
        assert f"an injected fault {change}" in said, said
