"""The metrics gateway: what actors publish, served to Prometheus over HTTP.

Names are those that jmx_exporter's example gives Kafka's own metrics, so that Kafka's dashboards read ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client import Gauge as PrometheusGauge
from thespian.actors import ActorAddress

from actors.runtime import LocalBase
from messages.metrics import DropGauges, Gauges
from messages.vocabulary import Message

_log = logging.getLogger("kafka_actors.metrics")


class MetricsGateway:
    """Gauges of one node. `serve` opens the port; before that, figures are only kept."""

    def __init__(self, base: LocalBase) -> None:
        self._registry = CollectorRegistry()
        self._gauges: dict[str, PrometheusGauge] = {}
        self._stop_server: Callable[[], None] | None = None
        self.address: ActorAddress = base.outsider("metrics", self.receive)

    def watch(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """A gauge whose value is read when it is asked for (from the server's thread)."""
        PrometheusGauge(name, documentation, registry=self._registry).set_function(read)

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Take figures from an actor."""
        match message:
            case Gauges(values):
                for gauge in values:
                    self._gauge(gauge.name, gauge.labels).set(gauge.value)
            case DropGauges(name, labels):
                if name in self._gauges:
                    self._gauges[name].remove(*(value for _, value in labels))
            case _:
                _log.error("metrics know no %s (from %s)", type(message).__name__, sender)

    def _gauge(self, name: str, labels: tuple[tuple[str, str], ...]) -> PrometheusGauge:
        gauge = self._gauges.get(name)
        if gauge is None:
            gauge = PrometheusGauge(name, name, [label for label, _ in labels], registry=self._registry)
            self._gauges[name] = gauge
        return gauge.labels(*(value for _, value in labels)) if labels else gauge

    def serve(self, host: str, port: int) -> int:
        """Serve /metrics on host:port (0: any free one); the port. OSError if it is taken."""
        server, thread = start_http_server(port, host, self._registry)

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        self._stop_server = stop
        return int(server.server_port)

    def stop(self) -> None:
        """Close the port."""
        if self._stop_server is not None:
            self._stop_server()
            self._stop_server = None
