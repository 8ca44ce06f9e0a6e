"""The metrics gateway: what actors publish, served to Prometheus over HTTP.

Names are those that jmx_exporter's example gives Kafka's own metrics, so that Kafka's dashboards read ours. Timers have
a count and a sum, no quantiles: Prometheus makes those of histograms, and they could not be Kafka's.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from prometheus_client import CollectorRegistry, Summary, make_wsgi_app
from prometheus_client import Gauge as PrometheusGauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from thespian.actors import ActorAddress

from actors.gateway.metrics_server import MetricsServer
from actors.runtime import LocalBase
from messages.metrics import DropMetric, Gauges, Timing
from messages.vocabulary import Message

_log = logging.getLogger("kafka_actors.metrics")
_Metric = TypeVar("_Metric", PrometheusGauge, Summary)


class _Reason(Collector):
    """One gauge whose label is known only when it is asked for."""

    def __init__(self, name: str, documentation: str, read: Callable[[], str]) -> None:
        self._name = name
        self._documentation = documentation
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Its one sample."""
        family = GaugeMetricFamily(self._name, self._documentation, labels=["reason"])
        reason = self._read()
        family.add_metric([reason], float(bool(reason)))
        yield family


class MetricsGateway:
    """Gauges and timers of one node. `serve` opens the port; before that, figures are only kept."""

    def __init__(self, base: LocalBase) -> None:
        self._registry = CollectorRegistry()
        self._metrics: dict[str, PrometheusGauge | Summary] = {}
        self._server: MetricsServer | None = None
        self.served_at = ("", 0)
        """Host and port of /metrics; port 0 where it is not served."""
        self.address: ActorAddress = base.outsider("metrics", self.receive)

    def watch(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """A gauge whose value is read when it is asked for (from the server's thread)."""
        PrometheusGauge(name, documentation, registry=self._registry).set_function(read)

    def watch_reason(self, name: str, documentation: str, read: Callable[[], str]) -> None:
        """A gauge that is 1, with why as its label `reason`, where `read` says something; else 0, without a reason."""
        self._registry.register(_Reason(name, documentation, read))

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Take figures from an actor."""
        match message:
            case Gauges(values):
                for gauge in values:
                    self._metric(PrometheusGauge, gauge.name, gauge.labels).set(gauge.value)
            case Timing(name, milliseconds, labels):
                self._metric(Summary, name, labels).observe(milliseconds)
            case DropMetric(name, labels):
                if name in self._metrics:
                    self._metrics[name].remove(*(value for _, value in labels))
            case _:
                _log.error("metrics know no %s (from %s)", type(message).__name__, sender)

    def _metric(self, kind: type[_Metric], name: str, labels: tuple[tuple[str, str], ...]) -> _Metric:
        """The metric of that name, made at its first figure, under these labels."""
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = kind(name, name, [label for label, _ in labels], registry=self._registry)
        if not isinstance(metric, kind):
            raise TypeError(f"{name} is a {type(metric).__name__} already, no {kind.__name__}")
        return metric.labels(*(value for _, value in labels)) if labels else metric

    def total(self, name: str) -> float:
        """The sum of a gauge over all its labels."""
        metric = self._metrics.get(name)
        samples = [] if metric is None else [sample for family in metric.collect() for sample in family.samples]
        return sum(sample.value for sample in samples)

    def serve(self, host: str, port: int) -> int:
        """Serve /metrics on host:port (0: any free one); the port. OSError, which names it, if it cannot be had."""
        try:
            self._server = MetricsServer(host, port, make_wsgi_app(self._registry))
        except OSError as error:
            why = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror
            raise OSError(error.errno, f"metrics.port={port} cannot be bound on {host}: {why}") from error
        self.served_at = (host, self._server.server_port)
        return self.served_at[1]

    def stop(self) -> None:
        """Close the port."""
        if self._server is not None:
            self._server.stop()
            self._server = None
