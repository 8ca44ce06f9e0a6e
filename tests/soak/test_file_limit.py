"""A node whose process may open few files, with 400 partitions of records and 2,000 idle connections.

`make soak` tries three limits, `make test` the smallest.
"""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.processes import OURS, Running, free_ports, properties
from tests.waiting import until
from zk_bridge.embedded import EmbeddedZooKeeper

PARTITIONS, CONNECTIONS = 400, 2_000
LIMITS = (64, 256, 1024)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Raise this process's limit of open files to the maximum, for 2,000 connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def produce(producer: Producer, value: str) -> None:
    """Write a record to every partition, and wait until each is acknowledged."""
    failed: list[object] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            failed.append((message.partition(), error))

    for partition in range(PARTITIONS):
        producer.produce("t", value, partition=partition, on_delivery=delivered)
    left = producer.flush(60)
    assert not failed and not left


def everything(consumer: Consumer) -> int:
    """Read the topic from its beginning, and return the number of records."""
    consumer.assign([TopicPartition("t", partition, 0) for partition in range(PARTITIONS)])
    count = 0
    while messages := consumer.consume(1000, 3):
        assert all(message.error() is None for message in messages)
        count += len(messages)
    return count


@pytest.mark.soak
@pytest.mark.long
@pytest.mark.usefixtures("many_files")
def test_a_node_serves_within_its_limit_of_files(tmp_path: Path) -> None:
    """Regression: a process without a free file descriptor treated its disk as failed, and ended."""
    for limit in LIMITS:
        place = tmp_path / str(limit)
        place.mkdir()
        with EmbeddedZooKeeper(place / "zookeeper", force_sync=False) as zookeeper:
            serve_within(limit, place, zookeeper)


def serve_within(limit: int, tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    """Start a node with this limit, write and read while connections exceed it, and stop the node."""
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    file = properties(
        tmp_path / "node" / "server.properties",
        broker__id=0,
        listeners=f"PLAINTEXT://{address}",
        log__dirs=tmp_path / "node" / "data",
        zookeeper__connect=zookeeper.connect_string,
        log__segment__bytes=20_000,
        metrics__port=0,
    )
    node = Running(["prlimit", f"--nofile={limit}:{limit}", *OURS, "broker", str(file)], tmp_path / "out.log")
    idle: list[socket.socket] = []
    try:
        until(lambda: "started (" in node.output, what="the node has started", timeout=60)
        client = {"bootstrap.servers": address, "socket.timeout.ms": 20_000, "reconnect.backoff.max.ms": 500}
        admin = AdminClient(client)
        until(lambda: admin.list_topics(timeout=5).controller_id == 0, what="the controller is known", timeout=30)
        made = admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"]
        made.result(60)
        producer = Producer({**client, "acks": "all", "message.timeout.ms": 60_000, "connections.max.idle.ms": 0})
        consumer = Consumer({**client, "group.id": "g", "fetch.wait.max.ms": 100, "enable.auto.commit": False})
        produce(producer, "a" * 5_000)
        assert everything(consumer) == PARTITIONS
        for _ in range(CONNECTIONS):
            idle.append(socket.create_connection(("127.0.0.1", port), 10))
            with contextlib.suppress(OSError):
                idle[-1].sendall(b"\0")
        for value in "bcdef":
            produce(producer, value * 5_000)
        assert everything(consumer) == 6 * PARTITIONS
        for connection in idle:
            connection.close()
        until(lambda: serves(client), what="a new client is served", timeout=30)
        assert node.stop() == 0
    finally:
        for connection in idle:
            connection.close()
        node.kill()
    assert f"the maximum for a limit of {limit} open files (ulimit -n)" in node.output
    for bad in ("Traceback", "Stopping serving replicas", "the trace has ended", "Too many open files"):
        assert bad not in node.output
    assert node.output.count("Rejected a connection") < 200


def serves(client: dict[str, object]) -> bool:
    """Return whether a new client receives a response."""
    with contextlib.suppress(KafkaException):
        return "t" in AdminClient(client).list_topics(timeout=5).topics
    return False
