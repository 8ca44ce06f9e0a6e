"""A producer that writes records to a cluster under faults, and the checks of these records.

Rule 1: an acknowledged value stays at the acknowledged offset, once and permanently.
Rule 2: offsets have no gaps, and no value occurs twice, because the producer is idempotent.
Rule 3: an unacknowledged record may exist. In an idle cluster with enough replicas in sync, no record is pending.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

TOPIC = "load"
ASSIGNMENT = ([0, 1, 2], [1, 2, 3], [2, 3, 0], [3, 0, 1])
MIN_INSYNC = 2
CONFIG = {"min.insync.replicas": str(MIN_INSYNC), "segment.bytes": "300000"}
"""Segments are small, so that logs roll and write producer snapshots while nodes are killed."""

UNDECIDED = 200
"""Number of pending records at which the producer stops sending."""

Row = tuple[int, bytes]
"""A record: (offset, value)."""


def problems(acknowledged: Mapping[int, Mapping[int, bytes]], read: Mapping[int, Sequence[Row]]) -> list[str]:
    """Return the errors in the records read from each partition, compared with the acknowledged offsets and values."""
    found = []
    for partition, rows in read.items():
        values = dict(rows)
        for offset, value in acknowledged.get(partition, {}).items():
            if values.get(offset) != value:
                found.append(f"{partition}: {value[:10]!r} acknowledged at {offset}, where {values.get(offset)!r} is")
        if [offset for offset, _ in rows] != list(range(len(rows))):
            found.append(f"{partition}: offsets are not 0 to {len(rows) - 1}")
    seen: dict[bytes, tuple[int, int]] = {}
    for partition, rows in read.items():
        for offset, value in rows:
            if value in seen:
                found.append(f"{value[:10]!r} is at {seen[value]} and at {(partition, offset)}")
            seen[value] = partition, offset
    return found


class Load:
    """An idempotent librdkafka producer with acks=all, which writes in its own thread until `end`."""

    def __init__(self, bootstrap: str, partitions: int = len(ASSIGNMENT)) -> None:
        self.acknowledged: dict[int, dict[int, bytes]] = {partition: {} for partition in range(partitions)}
        self.failures: list[str] = []
        """Records that the producer failed to deliver; must stay empty."""
        self._bootstrap = bootstrap
        self._sent = 0
        self._writing = threading.Event()
        self._ended = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 900_000,
                "topic.metadata.propagation.max.ms": 900_000,
                "topic.metadata.refresh.interval.ms": 2000,
                "reconnect.backoff.max.ms": 1000,
                "socket.timeout.ms": 10_000,
                "request.timeout.ms": 10_000,
                "log_level": 0,
                "error_cb": self._troubled,
            }
        )
        self._thread = threading.Thread(target=self._write, name="load")
        self._thread.start()

    @property
    def undecided(self) -> int:
        """The number of pending records, neither acknowledged nor failed."""
        return len(self._producer)

    @property
    def count(self) -> int:
        """The number of acknowledged records."""
        return sum(map(len, self.acknowledged.values()))

    def go_on(self) -> None:
        """Start or resume writing."""
        self._writing.set()

    def pause(self) -> None:
        """Stop writing; pending records are still sent until they are acknowledged."""
        self._writing.clear()

    def end(self) -> None:
        """End the thread, and drop the pending records."""
        self._ended.set()
        self._thread.join(30)
        self._producer.purge()

    def read_back(self, seconds: float) -> dict[int, list[Row]]:
        """Return all records of each partition. Raises KafkaException if a partition cannot be read yet."""
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "missing", "enable.auto.commit": False}
        consumer = Consumer({**settings, "log_level": 0})
        found: dict[int, list[Row]] = {}
        try:
            for partition in self.acknowledged:
                _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=seconds)
                consumer.assign([TopicPartition(TOPIC, partition, 0)])
                rows = found[partition] = []
                deadline = time.monotonic() + seconds
                while (rows[-1][0] + 1 if rows else 0) < end and time.monotonic() < deadline:
                    rows += [_row(each) for each in consumer.consume(1000, 0.2) if not each.error()]
        finally:
            consumer.close()
        return found

    def _write(self) -> None:
        while not self._ended.is_set():
            if self._writing.is_set() and len(self._producer) < UNDECIDED:
                for _ in range(10):
                    value = b"%d " % self._sent + b"x" * (self._sent * 37 % 500)
                    self._producer.produce(TOPIC, value, key=b"%d" % self._sent, on_delivery=self._delivered)
                    self._sent += 1
            self._producer.poll(0.02)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            partition, (offset, value) = message.partition(), _row(message)
            assert partition is not None
            self.acknowledged[partition][offset] = value

    def _troubled(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(f"fatal: {error}")


def _row(message: Message) -> Row:
    offset, value = message.offset(), message.value()
    assert offset is not None
    assert isinstance(value, bytes)
    return offset, value
