"""The messages by which actors publish metrics."""

from __future__ import annotations

from typing import NamedTuple

from messages.cluster import TopicPartition
from messages.vocabulary import Message, message

EVENT_TIME = "kafka_actors_controller_event_ms"
EVENT_WAIT = "kafka_actors_controller_event_queue_ms"
EVENT_REQUESTS = "kafka_actors_controller_event_zookeeper_requests"
"""Samples of the controller, labelled with the event: its duration, its time in the queue, and its number of requests
to ZooKeeper.
"""


class Gauge(NamedTuple):
    """The value of a gauge. Its name is the name that jmx_exporter gives to the same metric of Kafka.

    Labels are (name, value) pairs.
    """

    name: str
    value: int | float  # an int must stay an int in a trace, because `2` and `2.0` are different bytes in a snapshot
    labels: tuple[tuple[str, str], ...] = ()


@message
class Gauges(Message):
    """A message to the metrics gateway: new values of gauges."""

    values: tuple[Gauge, ...]


@message
class ReplicasCounts(Message):
    """A message to the metrics gateway: changed values of Kafka's gauge ReplicasCount of hosted partitions.

    An item is (partition, number of replicas): 0 if this broker does not lead the partition, None if this broker no
    longer hosts it or its log directory has failed.
    """

    counts: tuple[tuple[TopicPartition, int | None], ...]


class Sample(NamedTuple):
    """An observed value (a time or a size) for the summary metric with this name and these labels."""

    name: str
    value: int | float
    labels: tuple[tuple[str, str], ...] = ()


class Count(NamedTuple):
    """An increment of a counter metric; `by` is the amount, and the metric's name ends in _total."""

    name: str
    by: int
    labels: tuple[tuple[str, str], ...] = ()


@message
class Counts(Message):
    """A message to the metrics gateway: increments of counters since the last message."""

    values: tuple[Count, ...]


@message
class DropMetrics(Message):
    """A message to the metrics gateway: remove the metrics with a name in `names` and with labels in `labels`."""

    names: tuple[str, ...]
    labels: tuple[tuple[tuple[str, str], ...], ...]


@message
class PublishCounters(Message):
    """A timer message: publish the counters that have changed."""


@message
class Samples(Message):
    """A message to the metrics gateway: observed values for summary metrics."""

    values: tuple[Sample, ...]


@message
class DropMetric(Message):
    """A message to the metrics gateway: remove the metric with this name and these labels."""

    name: str
    labels: tuple[tuple[str, str], ...]
