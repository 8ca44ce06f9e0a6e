"""The metrics gateway receives the metrics of actors and serves them to Prometheus over HTTP.

Names are those of jmx_exporter's example for Kafka's metrics, so that dashboards for Kafka also work here. Summaries
(Kafka's timers and histograms) have a count, a sum, and Kafka's quantiles of the last RESERVOIR observations. Kafka's
reservoir has the same size, but is a random sample that prefers recent values. prometheus_client is imported at the
first scrape, so that a node starts without it.
"""

from __future__ import annotations

import errno
import functools
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from prometheus_client.core import Metric

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

Labels = tuple[tuple[str, str], ...]

Row = tuple[tuple[str, ...], tuple[float, ...]]
"""(values of the labels, values of the gauges)"""


def _family(name: str, kind: str, samples: Iterable[tuple[str, Labels, float]]) -> Metric:
    """Return a metric for prometheus_client with these samples: name, labels and value."""
    from prometheus_client.core import Metric

    family = Metric(name.removesuffix(SUFFIX) if kind == "counter" else name, help_of(name), kind)
    for sample, labels, value in samples:
        family.add_sample(sample, dict(labels), value)
    return family


class Counters:
    """The counters, which the event loop increments, and the HTTP thread reads."""

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
            yield _family(name, "counter", [(name, labels, value) for labels, value in list(values.items())])


_log = logging.getLogger("kafka_actors.metrics")

QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
RESERVOIR = 1028


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


class _Summary:
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
        """Yield the metric with all samples."""
        yield _family(self._name, "summary", self._samples())

    def _samples(self) -> Iterator[tuple[str, Labels, float]]:
        for labels, observed in self._observed.items():
            for quantile in QUANTILES:
                yield self._name, (*labels, ("quantile", str(quantile))), observed.quantile(quantile)
            yield f"{self._name}_count", labels, observed.count
            yield f"{self._name}_sum", labels, observed.sum


class MetricsGateway:
    """The metrics of a node; `serve` opens the HTTP port."""

    def __init__(self, base: LocalBase) -> None:
        self._counters = Counters()
        self._collectors: list[Callable[[], Iterable[Metric]]] = [self._counters.collect]
        self._gauges: dict[str, dict[Labels, float]] = {}
        self._summaries: dict[str, _Summary] = {}
        self._replicas: dict[str, dict[int, int]] = {}
        """Number of replicas by topic and partition."""
        self._server: HttpServer | None = None
        self.served_at = ("", 0)
        """Host and port of /metrics; port 0 if it is not served."""
        self.address: ActorAddress = base.external_endpoint("metrics", self.receive)

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is read at each scrape, from the server's thread."""
        self._collectors.append(lambda: [_family(name, "gauge", [(name, (), read())])])

    def watch_reason(self, name: str, read: Callable[[], str]) -> None:
        """Add a gauge that is 1, with label `reason`, if `read` returns a reason; else 0 with an empty label."""

        def collect() -> list[Metric]:
            reason = read()
            return [_family(name, "gauge", [(name, (("reason", reason),), bool(reason))])]

        self._collectors.append(collect)

    def watch_table(self, names: tuple[str, ...], labels: tuple[str, ...], read: Callable[[], Iterable[Row]]) -> None:
        """Add gauges that are read together at each scrape, as rows of (values of the labels, values of the gauges)."""

        def collect() -> list[Metric]:
            rows = [(tuple(zip(labels, its, strict=True)), values) for its, values in read()]
            return [
                _family(name, "gauge", [(name, its, values[place]) for its, values in rows])
                for place, name in enumerate(names)
            ]

        self._collectors.append(collect)

    def watch_process(self) -> None:
        """Export CPU, memory and open files of this process, as prometheus_client names them."""

        def collect() -> Iterable[Metric]:
            from prometheus_client import ProcessCollector

            return ProcessCollector(registry=None).collect()

        self._collectors.append(collect)

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
                    self._gauges[name].pop(labels, None)
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
        if name not in self._gauges:
            self._check_new(name, self._summaries)
            values = self._gauges[name] = {}
            self._collectors.append(
                lambda: [_family(name, "gauge", [(name, its, each) for its, each in list(values.items())])]
            )
        self._gauges[name][labels] = value

    def observe(self, sample: metrics.Sample) -> None:
        """Add one observation to a summary (on the loop's thread)."""
        name, value, labels = sample
        summary = self._summaries.get(name)
        if summary is None:
            self._check_new(name, self._gauges)
            summary = self._summaries[name] = _Summary(name)
            self._collectors.append(summary.collect)
        summary.observe(labels, value)

    def page(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve /metrics: the number of replicas of each partition, then what prometheus_client serves.

        That library would make some objects of each partition, at one time: of 100,000 partitions in a second, in which
        the loop's garbage collector examines them again and again.
        """
        from prometheus_client import CollectorRegistry, make_wsgi_app

        registry = CollectorRegistry(auto_describe="name" in environ.get("QUERY_STRING", ""))  # for a request of names
        registry.register(self)
        others = make_wsgi_app(registry, disable_compression=True)(environ, start_response)
        return chain(self._replicas_counts(), others)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics except the number of replicas."""
        for collect in self._collectors.copy():
            yield from collect()

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
        return sum(self._gauges.get(name, {}).values())

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
