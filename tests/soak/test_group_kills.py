"""Kill group coordinators one after the other, while groups of three kinds of clients read and commit.

A group's committed offset must be at least the acknowledged one, and at most the offset that the group has read to. The
test runs for a third of --soak-seconds with three nodes of ours, and as long with two of ours and one of Apache's.
`tests/cluster/test_apache_groups.py` and `test_java_groups.py` kill coordinators in `make interop`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import time
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka.errors import KafkaError

from actors.core.topic.topic_name import GROUP_METADATA
from messages.apis.find_coordinator import FindCoordinatorRequest
from tests.cluster.java_member import JavaMember
from tests.cluster.nodes import NODES, Nodes
from tests.waiting import until
from tests.wire_client import WireClient

TOPIC, PARTITIONS = "numbers", 3
A_ROUND = 200
SETTINGS = {
    "offsets__topic__num__partitions": 3,
    "offsets__topic__replication__factor": 3,
    "group__initial__rebalance__delay__ms": 0,
    "replica__lag__time__max__ms": 3000,
}

Offsets = dict[int, int]


class Reader(Protocol):
    """The members of one consumer group."""

    group: str

    @property
    def read_to(self) -> Offsets:
        """Partition -> offset after the last record that the group has read."""

    @property
    def reported(self) -> Offsets:
        """Partition -> acknowledged committed offset."""

    def go_on(self, count: int) -> None:
        """Read `count` more records, which must have been written, and commit them, with retries."""

    def close(self) -> None:
        """Leave the group."""


def _noted(read_to: Offsets, partition: int, offset: int) -> None:
    read_to[partition] = max(read_to.get(partition, 0), offset + 1)


class Librdkafka:
    def __init__(self, bootstrap: str) -> None:
        self.group = "librdkafka"
        self.read_to: Offsets = {}
        self.reported: Offsets = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([TOPIC])

    def go_on(self, count: int) -> None:
        goal = sum(self.read_to.values()) + count

        def more() -> bool:
            for message in self._consumer.consume(50, 0.1):
                if not message.error():
                    _noted(self.read_to, message.partition(), message.offset())
            return sum(self.read_to.values()) >= goal

        def committed() -> bool:
            with contextlib.suppress(KafkaException):
                for place in self._consumer.commit(asynchronous=False):
                    if place.error is None and place.offset >= 0:
                        self.reported[place.partition] = place.offset
                return True
            more()
            return False

        until(more, what="librdkafka reads", timeout=60)
        until(committed, what="librdkafka commits", timeout=60)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        self.group = "kafka-python"
        self.read_to: Offsets = {}
        self.reported: Offsets = {}
        self._consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap.split(","),
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=1000,
        )

    def go_on(self, count: int) -> None:
        goal = sum(self.read_to.values()) + count

        def more() -> bool:
            for records in self._consumer.poll(timeout_ms=100, max_records=50).values():
                for record in records:
                    _noted(self.read_to, record.partition, record.offset)
            return sum(self.read_to.values()) >= goal

        def committed() -> bool:
            with contextlib.suppress(KafkaError):
                places = {place: self._consumer.position(place) for place in self._consumer.assignment()}
                self._consumer.commit()
                self.reported.update((place.partition, offset) for place, offset in places.items())
                return True
            more()
            return False

        until(more, what="kafka-python reads", timeout=60)
        until(committed, what="kafka-python commits", timeout=60)

    def close(self) -> None:
        self._consumer.close()


class Java:
    """Two static members that read and commit on their own. The assignor may move partitions between them.

    A commit that fails in a rebalance is retried only with the next records (`JavaMember`). Nothing waits for it.
    """

    group = "java"

    def __init__(self, jars: Path, place: Path, bootstrap: str) -> None:
        self.members = [
            JavaMember(
                *(jars, place / name, bootstrap, self.group, TOPIC),
                assignor="CooperativeStickyAssignor",
                instance=name,
                max_poll_records=50,
            )
            for name in ("a", "b")
        ]
        self._goal = 0

    @property
    def read_to(self) -> Offsets:
        return _furthest([member.read_to for member in self.members])

    @property
    def reported(self) -> Offsets:
        return _furthest([member.reported for member in self.members])

    def go_on(self, count: int) -> None:
        self._goal += count
        until(lambda: sum(self.read_to.values()), lambda read: read >= self._goal, "Java reads", timeout=90)

    def close(self) -> None:
        for member in self.members:
            member.stop()


def _furthest(offsets: list[Offsets]) -> Offsets:
    found: Offsets = {}
    for each in offsets:
        for partition, offset in each.items():
            _noted(found, partition, offset - 1)
    return found


def committed(cluster: Nodes, group: str) -> Offsets:
    """Return the group's committed offset of each partition, as another client receives it."""
    asking = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    found: Offsets = {}

    def reported() -> bool:
        with contextlib.suppress(KafkaException):
            found.update((place.partition, max(place.offset, 0)) for place in asking.committed(places, timeout=5))
            return True
        return False

    until(reported, what=f"what {group} has committed", timeout=60)
    asking.close()
    return found


def coordinator(cluster: Nodes, group: str) -> int:
    """Return the node that is the coordinator of the group."""

    def asked() -> int | None:
        for port in cluster.ports:
            with contextlib.suppress(OSError), WireClient("127.0.0.1", port, timeout=5) as client:
                found = client.call(FindCoordinatorRequest(2, group))
                return None if found.error_code else int(found.node_id) + 1
        return None

    node: int = until(asked, what=f"the coordinator of {group}", timeout=60)  # type: ignore[assignment]
    return node - 1


def write(producer: Producer, count: int) -> None:
    """Write `count` records, and wait until they are acknowledged."""
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def inject_faults(cluster: Nodes, readers: list[Reader], seconds: float) -> None:
    """Kill coordinators for this time, and check the committed offsets of each group after each kill."""
    ends, rounds = time.monotonic() + seconds, 0
    writing = {"bootstrap.servers": cluster.bootstrap, "linger.ms": 20, "enable.idempotence": True, "log_level": 0}
    producer = Producer(writing)
    before: dict[str, Offsets] = {reader.group: {} for reader in readers}
    while time.monotonic() < ends or not rounds:
        write(producer, A_ROUND)
        for reader in readers:
            reader.go_on(A_ROUND)
        until(lambda: cluster.in_sync(GROUP_METADATA), what="groups are in sync", timeout=60, ignore=(Exception,))
        victim = coordinator(cluster, readers[rounds % len(readers)].group)
        cluster.nodes[victim].kill()
        for reader in readers:
            reported = dict(reader.reported)
            found = committed(cluster, reader.group)
            for number in range(PARTITIONS):
                least = max(reported.get(number, 0), before[reader.group].get(number, 0))
                most = reader.read_to.get(number, 0)
                assert least <= found[number] <= most, f"round {rounds}, {reader.group}, partition {number}"
            before[reader.group] = found
        write(producer, A_ROUND)
        for reader in readers:
            reader.go_on(A_ROUND)
        cluster.start(victim)
        rounds += 1
    lasted = time.monotonic() - ends + seconds
    for reader in readers:
        reader.close()
    read = {reader.group: sum(reader.read_to.values()) for reader in readers}
    print(f"{rounds} kills in {lasted:.0f} s; records read: {read}")
    for node in NODES:
        assert "Traceback" not in cluster.nodes[node].output


@pytest.mark.soak
@pytest.mark.long
@pytest.mark.parametrize("apaches", [(), (2,)], ids=["ours", "mixed"])
def test_committed_offsets_survive_the_kills_of_their_coordinators(
    apaches: tuple[int, ...], tmp_path: Path, apache_jars: Path, pytestconfig: pytest.Config
) -> None:
    faulthandler.cancel_dump_traceback_later()  # the limit for other tests does not apply; each wait has a deadline
    with Nodes.running(tmp_path, dict.fromkeys(apaches, apache_jars), **SETTINGS) as cluster:
        cluster.create(TOPIC, PARTITIONS)
        java = Java(apache_jars, tmp_path / "java", cluster.bootstrap)
        readers: list[Reader] = [Librdkafka(cluster.bootstrap), KafkaPython(cluster.bootstrap), java]
        inject_faults(cluster, readers, pytestconfig.getoption("soak_seconds") / 3)
