"""The contract of clusters for tests, both in memory and as processes on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

T = TypeVar("T")
SECONDS = 20


class Cluster(Protocol):
    """The common methods of `KafkaCluster` and `ProcessCluster`."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def controller_id(self) -> int | None: ...
    def create_topic(self, topic: str, partitions: int = 1, replication_factor: int | None = None) -> None: ...
    def stop_broker(self, broker_id: int) -> None: ...
    def kill(self, broker_id: int) -> None: ...
    def start_broker(self, broker_id: int) -> None: ...
    def move_controller(self) -> int: ...
    def expire_session(self, broker_id: int) -> None: ...
    def leader_of(self, topic: str, partition: int = 0) -> int | None: ...
    def isr_of(self, topic: str, partition: int = 0) -> list[int]: ...
    def wait_for(self, condition: Callable[[], T], timeout: float = 30.0) -> T: ...


def send(cluster: Cluster, topic: str, values: list[str], **settings: Any) -> None:
    """Send the values, and check that all in-sync replicas acknowledge them. A `_` in a setting means a dot."""
    more = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0, **more})
    failed: list[Any] = []
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(SECONDS) == 0
    assert [error for error in failed if error] == []


def read(cluster: Cluster, topic: str, count: int) -> list[str]:
    """Return the first `count` values of partition 0."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, SECONDS)
    consumer.close()
    return [message.value().decode() for message in found]


class ClusterContract:
    """Tests for all kinds of clusters. Each leaves all brokers running and in sync, so they can share a cluster."""

    @pytest.fixture
    def cluster(self) -> Cluster:
        raise NotImplementedError

    def test_clients_find_the_brokers_and_the_topic(self, cluster: Cluster) -> None:
        cluster.create_topic("found", partitions=3)
        seen = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics("found", SECONDS)
        assert sorted(f"{b.host}:{b.port}" for b in seen.brokers.values()) == cluster.bootstrap_servers.split(",")
        reported = {p.id: (p.leader, sorted(p.isrs)) for p in seen.topics["found"].partitions.values()}
        assert reported == {n: (cluster.leader_of("found", n), sorted(cluster.isr_of("found", n))) for n in range(3)}
        assert {leader for leader, _ in reported.values()} == {0, 1, 2}

    def test_what_was_acknowledged_survives_the_death_of_its_leader(self, cluster: Cluster) -> None:
        cluster.create_topic("survives")
        dead = cluster.leader_of("survives")
        assert dead is not None
        send(cluster, "survives", ["before"])
        cluster.kill(dead)
        cluster.wait_for(lambda: cluster.leader_of("survives") not in (None, dead))
        cluster.wait_for(lambda: cluster.controller_id not in (None, dead))
        send(cluster, "survives", ["after"])
        assert read(cluster, "survives", 2) == ["before", "after"]
        assert sorted(cluster.isr_of("survives")) == sorted({0, 1, 2} - {dead})
        cluster.start_broker(dead)
        cluster.wait_for(lambda: len(cluster.isr_of("survives")) == 3)

    def test_a_clean_shutdown_moves_the_leaderships(self, cluster: Cluster) -> None:
        cluster.create_topic("handed-on", partitions=3)
        cluster.stop_broker(1)
        assert 1 not in [cluster.leader_of("handed-on", n) for n in range(3)]
        cluster.start_broker(1)
        cluster.wait_for(lambda: all(1 in cluster.isr_of("handed-on", n) for n in range(3)))

    def test_a_transaction_is_read_whole_or_not_at_all(self, cluster: Cluster) -> None:
        cluster.create_topic("whole")
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "id", "linger.ms": 0})
        producer.init_transactions(SECONDS)
        for value, commits in (("committed", True), ("aborted", False), ("last", True)):
            producer.begin_transaction()
            producer.produce("whole", value, partition=0)
            (producer.commit_transaction if commits else producer.abort_transaction)(SECONDS)
        assert read(cluster, "whole", 2) == ["committed", "last"]

    def test_the_controller_moves_to_another_broker(self, cluster: Cluster) -> None:
        before = cluster.controller_id
        after = cluster.move_controller()
        assert after != before
        assert cluster.controller_id == after
        cluster.create_topic("under-another")
        assert cluster.leader_of("under-another") is not None

    def test_a_broker_that_loses_its_session_registers_again(self, cluster: Cluster) -> None:
        cluster.create_topic("session", partitions=3)
        lost = cluster.leader_of("session", 0)
        assert lost is not None
        cluster.expire_session(lost)
        cluster.wait_for(lambda: all(len(cluster.isr_of("session", n)) == 3 for n in range(3)))
        send(cluster, "session", ["still"])
        assert read(cluster, "session", 1) == ["still"]
