"""The metrics gateway receives the metrics of actors and serves them to Prometheus over HTTP.

Names are those of jmx_exporter's example for Kafka's metrics, so that dashboards for Kafka also work here. Summaries
(Kafka's timers and histograms) have a count, a sum, and Kafka's quantiles of the last RESERVOIR observations. Kafka's
reservoir has the same size, but is a random sample that prefers recent values.
"""

from __future__ import annotations

import errno
import functools
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client import Gauge as PrometheusGauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from thespian.actors import ActorAddress

from actors.gateway.http_server import HttpServer
from actors.gateway.metric_table import help_of
from actors.runtime import LocalBase
from messages import metrics
from messages.apis import API_BY_REQUEST
from messages.apis.fetch import CONSUMER, FetchRequest
from messages.metrics import Count, Sample
from messages.network import ClientRequest
from messages.vocabulary import AnyMessage, Message

REQUESTS = "kafka_network_requestmetrics_requests_total"
TOTAL_TIME = "kafka_network_requestmetrics_totaltimems"
REPLICAS_COUNT = "kafka_cluster_partition_replicascount"
CONNECTIONS = 8
"""Maximum number of connections to /metrics."""


class RequestMetrics:
    """The request metrics of one node: counts and times for each API, as in Kafka; `now` returns the time in seconds.

    A request's time begins when the request has been read completely and is sent to the actors. It ends when the
    response of the actors arrives. The time includes queueing in the node, processing, and waiting for followers or
    records, but no socket I/O.
    """

    def __init__(self, metrics: MetricsGateway, now: Callable[[], float]) -> None:
        self._metrics = metrics
        self._now = now
        self._under_way: dict[int, dict[int, tuple[AnyMessage, float]]] = {}
        """Connection -> correlation id -> request and its start time."""

    def start_times(self, requests: Iterable[ClientRequest]) -> None:
        """Store the start times of requests that are now sent to the actors."""
        now = self._now()
        for each in requests:
            under_way = self._under_way.setdefault(each.connection, {})
            under_way[each.correlation_id] = each.request, now

    def count_answers(self, connection: int, correlation_ids: Iterable[int]) -> None:
        """Count answered requests and observe their times. Responses without a request are ignored."""
        under_way, now = self._under_way.get(connection, {}), self._now()
        for each in correlation_ids:
            request, since = under_way.pop(each, (None, 0.0))
            if request is not None:
                fetcher = request.replica_id if request.__class__ is FetchRequest else CONSUMER
                count, labels = _counter_of(request.__class__, request.version, fetcher == CONSUMER)
                self._metrics.count(count)
                for its in labels:
                    self._metrics.observe(Sample(TOTAL_TIME, 1000 * (now - since), its))

    def drop_requests(self, connection: int) -> None:
        """Drop the requests of a closed connection."""
        self._under_way.pop(connection, None)


@functools.lru_cache(maxsize=256)
def _counter_of(request: type[AnyMessage], version: int, of_consumer: bool) -> tuple[Count, tuple[Labels, ...]]:
    """Return the counter increment for one request, and the labels under which its time is published.

    For a fetch these are two sets of labels: one for all fetches, and one for consumer fetches or for follower fetches.
    """
    name = API_BY_REQUEST[request].name
    names = (name, f"{name}{'Consumer' if of_consumer else 'Follower'}") if request is FetchRequest else (name,)
    count = Count(REQUESTS, 1, (("request", name), ("version", str(version))))
    return count, tuple([(("request", each),) for each in names])


SUFFIX = "_total"


class Counters(Collector):
    """A collector of counters for prometheus_client, whose own counters have only one set of label names.

    The event loop increments them, and the HTTP thread reads them.
    """

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, int]] = {}

    def count(self, count: Count) -> None:
        """Add `count` to its counter."""
        name, by, labels = count
        values = self._counters.get(name)
        if values is None:
            values = {}
            self._counters = {**self._counters, name: values}
        values[labels] = values.get(labels, 0) + by

    def drop(self, names: Collection[str], labels: Collection[Labels]) -> None:
        """Drop the values of these counters under these labels."""
        for name in names:
            values = self._counters.get(name, {})
            for each in labels:
                values.pop(each, None)

    def collect(self) -> Iterator[Metric]:
        """Yield a metric for each counter, with a sample for each set of labels."""
        for name, values in self._counters.items():
            family = Metric(name.removesuffix(SUFFIX), help_of(name), "counter")
            for labels, value in list(values.items()):
                family.add_sample(name, dict(labels), value)
            yield family


_log = logging.getLogger("kafka_actors.metrics")

QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
RESERVOIR = 1028

Labels = tuple[tuple[str, str], ...]

Row = tuple[tuple[str, ...], tuple[float, ...]]
"""(values of the labels, values of the gauges)"""


class _LabelGauge(Collector):
    """A gauge that is 1 while `read` returns a value for the label `reason`, and 0 while `read` returns ""."""

    def __init__(self, name: str, read: Callable[[], str]) -> None:
        self._name = name
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the sample of this gauge."""
        family = GaugeMetricFamily(self._name, help_of(self._name), labels=["reason"])
        reason = self._read()
        family.add_metric([reason], float(bool(reason)))
        yield family


class _Table(Collector):
    """Gauges that share their label names; each scrape calls `read`, which returns rows of label and gauge values."""

    def __init__(self, names: tuple[str, ...], labels: tuple[str, ...], read: Callable[[], Iterable[Row]]) -> None:
        self._names, self._labels, self._read = names, labels, read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the samples of all gauges."""
        families = [GaugeMetricFamily(name, help_of(name), labels=self._labels) for name in self._names]
        for labels, values in self._read():
            for family, value in zip(families, values, strict=True):
                family.add_metric(labels, value)
        yield from families


class _Observed:
    """The observed values of one metric for one combination of label values."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self.recent: deque[float] = deque(maxlen=RESERVOIR)

    def quantile(self, of: float) -> float:
        """Return the quantile of the recent values, interpolated linearly."""
        ordered = sorted(self.recent.copy())  # copied atomically, because the loop may add values meanwhile
        place = of * (len(ordered) + 1) - 1
        below = min(max(int(place), 0), len(ordered) - 1)
        above = min(below + 1, len(ordered) - 1)
        share = min(max(place - below, 0.0), 1.0)
        return ordered[below] + share * (ordered[above] - ordered[below])


class _Summary(Collector):
    """A Prometheus summary with quantiles, which prometheus_client does not provide."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._observed: dict[Labels, _Observed] = {}

    def observe(self, labels: Labels, value: float) -> None:
        """Add one observation."""
        observed = self._observed.get(labels) or _Observed()
        observed.count += 1
        observed.sum += value
        observed.recent.append(value)
        if labels not in self._observed:
            # Make a new table, because the server's thread may be reading the old one. Each entry of a table has at
            # least one observation.
            self._observed = {**self._observed, labels: observed}

    def drop(self, labels: Labels) -> None:
        """Drop the observations under these labels."""
        self._observed = {each: observed for each, observed in self._observed.items() if each != labels}

    def collect(self) -> Iterator[Metric]:
        """Yield all samples."""
        family = Metric(self._name, help_of(self._name), "summary")
        for labels, observed in self._observed.items():
            by_name = dict(labels)
            for quantile in QUANTILES:
                family.add_sample(self._name, {**by_name, "quantile": str(quantile)}, observed.quantile(quantile))
            family.add_sample(f"{self._name}_count", by_name, observed.count)
            family.add_sample(f"{self._name}_sum", by_name, observed.sum)
        yield family


class MetricsGateway:
    """The metrics of a node; `serve` opens the HTTP port."""

    def __init__(self, base: LocalBase) -> None:
        self._registry = CollectorRegistry()
        self._counters = Counters()
        self._registry.register(self._counters)
        self._app = make_wsgi_app(self._registry, disable_compression=True)
        self._gauges: dict[str, PrometheusGauge] = {}
        self._summaries: dict[str, _Summary] = {}
        self._replicas: dict[str, dict[int, int]] = {}
        """Number of replicas by topic and partition."""
        self._server: HttpServer | None = None
        self.served_at = ("", 0)
        """Host and port of /metrics; port 0 if it is not served."""
        self.address: ActorAddress = base.external_endpoint("metrics", self.receive)

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is read at each scrape, from the server's thread."""
        PrometheusGauge(name, help_of(name), registry=self._registry).set_function(read)

    def watch_reason(self, name: str, read: Callable[[], str]) -> None:
        """Add a gauge that is 1, with label `reason`, if `read` returns a reason; else 0 with an empty label."""
        self._registry.register(_LabelGauge(name, read))

    def watch_table(self, names: tuple[str, ...], labels: tuple[str, ...], read: Callable[[], Iterable[Row]]) -> None:
        """Add gauges that are read together at each scrape, as rows of (values of the labels, values of the gauges)."""
        self._registry.register(_Table(names, labels, read))

    def watch_process(self) -> None:
        """Export CPU, memory and open files of this process, as prometheus_client names them."""
        ProcessCollector(registry=self._registry)

    def begin(self, names: Iterable[str]) -> None:
        """Export these counters with value 0 before the first count."""
        for name in names:
            self._counters.count(metrics.Count(name, 0))

    def count(self, count: metrics.Count) -> None:
        """Add to a counter (on the loop's thread)."""
        self._counters.count(count)

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Handle metrics of an actor."""
        match message:
            case metrics.Gauges(values):
                for gauge in values:
                    self._set(gauge)
            case metrics.Samples(values):
                for sample in values:
                    self.observe(sample)
            case metrics.Counts(counts):
                for count in counts:
                    self._counters.count(count)
            case metrics.ReplicasCounts(counts):
                for (topic, partition), replicas in counts:
                    of_topic = self._replicas.setdefault(topic, {})
                    if replicas is not None:
                        of_topic[partition] = replicas
                    else:
                        of_topic.pop(partition, None)
                    if not of_topic:
                        del self._replicas[topic]
            case metrics.DropMetrics(names, dropped):
                self._counters.drop(names, dropped)
            case metrics.DropMetric(name, labels):
                if name in self._gauges:
                    self._gauges[name].remove(*(value for _, value in labels))
                elif name in self._summaries:
                    self._summaries[name].drop(labels)
            case _:
                _log.error(
                    "The metrics endpoint ignores an unexpected %s message from actor %s",
                    type(message).__name__,
                    sender,
                )

    def _set(self, gauge: metrics.Gauge) -> None:
        name, value, labels = gauge
        metric = self._gauges.get(name)
        if metric is None:
            self._check_new(name, self._summaries)
            names = [label for label, _ in labels]
            metric = self._gauges[name] = PrometheusGauge(name, help_of(name), names, registry=self._registry)
        (metric.labels(*(value for _, value in labels)) if labels else metric).set(value)

    def observe(self, sample: metrics.Sample) -> None:
        """Add one observation to a summary (on the loop's thread)."""
        name, value, labels = sample
        summary = self._summaries.get(name)
        if summary is None:
            self._check_new(name, self._gauges)
            summary = self._summaries[name] = _Summary(name)
            self._registry.register(summary)
        summary.observe(labels, value)

    def page(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve /metrics: the number of replicas of each partition, then what prometheus_client serves.

        That library would make some objects of each partition, at one time: of 100,000 partitions in a second, in which
        the loop's garbage collector examines them again and again.
        """
        others = self._app(environ, start_response)
        return chain(self._replicas_counts(), others)

    def _replicas_counts(self) -> Iterator[bytes]:
        yield f"# HELP {REPLICAS_COUNT} {help_of(REPLICAS_COUNT)}\n# TYPE {REPLICAS_COUNT} gauge\n".encode()
        for topic, partitions in list(self._replicas.items()):  # the loop may change the tables meanwhile
            start = f'{REPLICAS_COUNT}{{topic="{topic}",partition="'
            yield "".join([f'{start}{each}"}} {replicas}.0\n' for each, replicas in list(partitions.items())]).encode()

    @staticmethod
    def _check_new(name: str, others: Collection[str]) -> None:
        if name in others:
            raise TypeError(f"the metric {name} already exists with another type")

    def total(self, name: str) -> float:
        """Return the sum of a gauge over all its labels."""
        metric = self._gauges.get(name)
        samples = [] if metric is None else [sample for family in metric.collect() for sample in family.samples]
        return sum(sample.value for sample in samples)

    def serve(self, host: str, port: int) -> int:
        """Serve /metrics on host:port (port 0: any free port), and return the port.

        Raises:
            OSError: The port cannot be bound. The error text names the port.
        """
        try:
            self._server = HttpServer(host, port, self.page, "metrics", CONNECTIONS)
        except OSError as error:
            why = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror
            raise OSError(
                error.errno, f"metrics.port={port} cannot be bound on {host} (metrics.host): {why}"
            ) from error
        self.served_at = (host, self._server.server_port)
        return self.served_at[1]

    def stop(self) -> None:
        """Close the port."""
        if self._server is not None:
            self._server.stop()
            self._server = None
