"""A load of numbered records from librdkafka, with a list of the acknowledged ones, and kcat to read them."""

from __future__ import annotations

import subprocess

from confluent_kafka import Message, Producer

from tests.waiting import until


class Load:
    """A producer of records that no other client writes. It is idempotent if `acks` is all."""

    def __init__(
        self, bootstrap: str, topic: str, partition: int | None = None, acks: str = "all", name: str = ""
    ) -> None:
        self.acknowledged: list[bytes] = []
        self._topic, self._name, self._sent = topic, name or f"{acks} {id(self)}", 0
        self._place = {} if partition is None else {"partition": partition}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": acks,
                "enable.idempotence": acks == "all",
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 500,
            }
        )

    def until_acknowledged(self, count: int) -> None:
        """Produce until this number of records are acknowledged, counted from the first one."""
        until(lambda: self._more(count), what=f"{count} records acknowledged", timeout=90)

    def _more(self, count: int) -> bool:
        for _ in range(20):
            value = f"{self._name} {self._sent}".encode()
            self._sent += 1
            self._producer.produce(self._topic, value, key=value, on_delivery=self._delivered, **self._place)
        self._producer.poll(0.05)
        return len(self.acknowledged) >= count

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            self.acknowledged.append(message.value())

    def settle(self) -> None:
        """Wait until all sent records are acknowledged or have failed."""
        assert self._producer.flush(90) == 0


def records(bootstrap: str, topic: str) -> list[tuple[int, int, bytes]]:
    """Read all records with kcat; return (partition, offset, value), sorted by partition and offset."""
    command = ["kcat", "-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%p %o %s\n"]
    said = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout.splitlines()
    rows = [line.split(b" ", 2) for line in said]
    return sorted(((int(p), int(o), value) for p, o, value in rows), key=lambda row: row[:2])
