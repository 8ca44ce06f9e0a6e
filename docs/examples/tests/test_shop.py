"""Five recipes: what one wants of a cluster in a test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from actors.till import TOPIC, Till
from kafka_actors import KafkaCluster

from messages import Order
from spark import ordered


def test_1_records_go_through(kafka_cluster: KafkaCluster) -> None:
    """Recipe 1: the fixture is a cluster for this test alone."""
    kafka_cluster.create_topic(TOPIC)
    with Till(kafka_cluster.bootstrap_servers) as till:
        assert [till.take(Order("sparkler", n)) for n in (1, 2, 3)] == [0, 1, 2]
    assert ordered(kafka_cluster.bootstrap_servers, "sparkler", 3) == 6


@pytest.mark.kafka_cluster(settings={"min.insync.replicas": 2}, session_timeout=0.2)
def test_2_no_order_is_lost_with_a_broker(kafka_cluster: KafkaCluster) -> None:
    """Recipe 2: kill the leader in the middle; the marker says what cluster it is to be."""
    kafka_cluster.create_topic(TOPIC)
    with Till(kafka_cluster.bootstrap_servers) as till:
        till.take(Order("sparkler", 1))
        dead = kafka_cluster.leader_of(TOPIC)
        assert dead is not None
        kafka_cluster.kill(dead)
        till.take(Order("sparkler", 2))
    assert kafka_cluster.leader_of(TOPIC) not in (None, dead)
    kafka_cluster.start_broker(dead)
    kafka_cluster.wait_for(lambda: dead in kafka_cluster.isr_of(TOPIC))
    assert ordered(kafka_cluster.bootstrap_servers, "sparkler", 2) == 3


@pytest.fixture(scope="module")
def shared() -> Iterator[KafkaCluster]:
    """Recipe 3: one cluster for a whole module; each test takes a topic, or what it leaves behind."""
    with KafkaCluster(1) as cluster:
        cluster.create_topic(TOPIC)
        yield cluster


@pytest.mark.parametrize("pieces", [1, 2])
def test_3_a_cluster_for_many_tests(shared: KafkaCluster, pieces: int) -> None:
    with Till(shared.bootstrap_servers) as till:
        assert till.take(Order("fountain", pieces)) == pieces - 1


def test_4_the_till_outlives_what_happens_to_the_cluster(kafka_cluster: KafkaCluster) -> None:
    """Recipe 4: a parted network, a lost session, another controller."""
    kafka_cluster.create_topic(TOPIC)
    leader = kafka_cluster.leader_of(TOPIC)
    assert leader is not None
    with Till(kafka_cluster.bootstrap_servers) as till:
        with kafka_cluster.partition_network(leader, (leader + 1) % 3):
            kafka_cluster.move_controller()
        kafka_cluster.expire_session(leader)
        till.take(Order("sparkler", 4))
    assert ordered(kafka_cluster.bootstrap_servers, "sparkler", 1) == 4


def test_5_the_record_of_what_the_brokers_did(tmp_path: Path) -> None:
    """Recipe 5: the record is there, and replays; where a test fails it is kept, and the report says where."""
    with KafkaCluster(directory=tmp_path) as cluster:
        cluster.create_topic(TOPIC)
        trace = cluster.trace_dir
    replay = subprocess.run(["kafka-actors", "replay", trace], capture_output=True, text=True, check=False)
    assert replay.returncode == 0, replay.stdout + replay.stderr
