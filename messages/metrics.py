"""Metrics that actors publish to the metrics gateway."""

from __future__ import annotations

from typing import NamedTuple

from messages.vocabulary import message


class Gauge(NamedTuple):
    """One figure. `name` is the Prometheus name that jmx_exporter gives Kafka's metric; labels are (name, value)."""

    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


@message
class Gauges:
    """To the metrics gateway: the new values of these gauges; sent when one of them changed."""

    values: tuple[Gauge, ...]


class Sample(NamedTuple):
    """An observation (a time or a size) for the summary with this name and these labels."""

    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


class Count(NamedTuple):
    """Add `by` to the counter of this name and these labels. Names end in _total."""

    name: str
    by: int
    labels: tuple[tuple[str, str], ...] = ()


@message
class Counts:
    """To the metrics gateway: counts since the last message."""

    values: tuple[Count, ...]


@message
class DropMetrics:
    """To the metrics gateway: drop the metrics of these names for any of these labels."""

    names: tuple[str, ...]
    labels: tuple[tuple[tuple[str, str], ...], ...]


@message
class TellFigures:
    """Timer payload: publish the counts."""


@message
class Samples:
    """To the metrics gateway: observations."""

    values: tuple[Sample, ...]


@message
class DropMetric:
    """To the metrics gateway: drop the metric of this name with these labels (for example of a broker that left)."""

    name: str
    labels: tuple[tuple[str, str], ...]
