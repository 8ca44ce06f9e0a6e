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


@message
class Timing:
    """To the metrics gateway: how long one thing took, for the timer of this name and these labels."""

    name: str
    milliseconds: float
    labels: tuple[tuple[str, str], ...] = ()


@message
class DropMetric:
    """To the metrics gateway: forget what the metric of this name has under these labels (a broker left)."""

    name: str
    labels: tuple[tuple[str, str], ...]
