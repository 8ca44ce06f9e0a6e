"""The till: writes orders to Kafka, and does not return before they are safe."""

from __future__ import annotations

from types import TracebackType

from kafka import KafkaProducer

from messages import Order

TOPIC = "orders"


class Till:
    """For a `with`: it flushes and closes at the end."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers.split(","), acks="all", retries=100, retry_backoff_ms=50
        )

    def take(self, order: Order) -> int:
        """Write an order; its offset, once all in-sync replicas have it."""
        sent = self._producer.send(TOPIC, order.encoded(), partition=0)
        offset: int = sent.get(30).offset
        return offset

    def __enter__(self) -> Till:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._producer.close()
