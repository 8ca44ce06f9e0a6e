"""Count the ordered pieces of an article. The name has nothing to do with Apache Spark."""

from __future__ import annotations

from actors.till import TOPIC
from kafka import KafkaConsumer, TopicPartition

from messages import Order


def ordered(bootstrap_servers: str, article: str, orders: int) -> int:
    """Return the number of pieces of an article in the first `orders` orders."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers.split(","), consumer_timeout_ms=20_000)
    partition = TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    pieces = 0
    for _, record in zip(range(orders), consumer, strict=False):
        order = Order.decoded(record.value)
        pieces += order.pieces if order.article == article else 0
    consumer.close()
    return pieces
