"""kcat, confluent-kafka and kafka-python list brokers, topics, leaders and ISR from a broker of this project."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from tests.broker.harness import CLUSTER_ID, ServedBroker, alive, known


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a broker with metadata of two topics and of a second broker at the same address."""
    with ServedBroker(tmp_path_factory.mktemp("clients") / "data") as broker:
        live = (alive(0, broker.port), alive(9, broker.port))
        states = (known("t"), known("t", 1, leader=9, isr=(9, 0)), known("u", leader=8))
        assert broker.update(*states, live=live, controller=0).error_code == 0
        yield f"127.0.0.1:{broker.port}"


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_lists_the_leaders_and_isrs(bootstrap: str) -> None:
    done = subprocess.run(["kcat", "-L", "-b", bootstrap], capture_output=True, text=True, timeout=30, check=True)
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert f"broker 0 at {bootstrap} (controller)" in lines
    assert 'topic "t" with 2 partitions:' in lines
    assert "partition 0, leader 0, replicas: 0, isrs: 0" in lines
    assert "partition 1, leader 9, replicas: 9,0, isrs: 9,0" in lines
    assert any(line.startswith("partition 0, leader -1") and "Leader not available" in line for line in lines)


def test_confluent_kafka_lists_the_leaders_and_isrs(bootstrap: str) -> None:
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20)
    assert (metadata.cluster_id, metadata.controller_id) == (CLUSTER_ID, 0)
    assert sorted(metadata.brokers) == [0, 9]
    assert sorted(metadata.topics) == ["t", "u"]
    partition = metadata.topics["t"].partitions[1]
    assert (partition.leader, partition.replicas, partition.isrs) == (9, [9, 0], [9, 0])


def test_kafka_python_lists_the_leaders_and_isrs(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        assert sorted(admin.list_topics()) == ["t", "u"]
        cluster = admin.describe_cluster()
        assert (cluster["cluster_id"], cluster["controller_id"]) == (CLUSTER_ID, 0)
        (topic,) = admin.describe_topics(["t"])
        partitions = {partition["partition_index"]: partition for partition in topic["partitions"]}
        assert (partitions[1]["leader_id"], partitions[1]["isr_nodes"]) == (9, [9, 0])
        (reported,) = admin.describe_log_dirs(brokers=[0])
        assert [(each["error_code"], each["topics"]) for each in reported["log_dirs"]] == [(0, [])]
    finally:
        admin.close()
