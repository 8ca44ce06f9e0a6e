"""Figures that actors publish to the metrics gateway."""

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
    """One observation, of how long or of how many, for the summary of this name and these labels."""

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
    """To the metrics gateway: what was counted since the last."""

    values: tuple[Count, ...]


@message
class DropMetrics:
    """To the metrics gateway: forget what the metrics of these names have under any of these labels."""

    names: tuple[str, ...]
    labels: tuple[tuple[tuple[str, str], ...], ...]


@message
class TellFigures:
    """Payload of the wake-up that tells what has been counted meanwhile."""


@message
class Samples:
    """To the metrics gateway: things that were observed."""

    values: tuple[Sample, ...]


@message
class DropMetric:
    """To the metrics gateway: forget what the metric of this name has under these labels (a broker left)."""

    name: str
    labels: tuple[tuple[str, str], ...]
