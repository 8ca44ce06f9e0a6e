"""The metrics gateway serves what actors publish."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from actors.gateway.metrics import CONNECTIONS, QUANTILES, RESERVOIR, MetricsGateway, RequestMetrics
from actors.runtime import LocalBase
from messages.apis.api_versions import ApiVersionsRequest
from messages.apis.fetch import FetchRequest
from messages.metrics import Count, Counts, DropMetric, DropMetrics, Gauge, Gauges, Sample, Samples
from messages.network import ClientRequest

HOST = "127.0.0.1"


@pytest.fixture
def base() -> LocalBase:
    return LocalBase()


@pytest.fixture
def gateway(base: LocalBase) -> Iterator[MetricsGateway]:
    made = MetricsGateway(base)
    yield made
    made.stop()


def scrape(port: int) -> list[str]:
    """Return the served samples, without comments."""
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=10) as answer:
        return [line for line in answer.read().decode().splitlines() if not line.startswith("#")]


def test_gauges_are_served_as_published(base: LocalBase, gateway: MetricsGateway) -> None:
    port = gateway.serve(HOST, 0)
    queue = "kafka_controller_controllerchannelmanager_queuesize"
    gateway.watch("kafka_actors_mailbox_size", lambda: 7)
    base.inject(gateway.address, Gauges((Gauge("active", 1), Gauge(queue, 3, (("broker_id", "0"),)))))
    base.inject(gateway.address, Gauges((Gauge(queue, 4, (("broker_id", "1"),)), Gauge("active", 0))))
    base.run()
    assert scrape(port) == [
        "kafka_actors_mailbox_size 7.0",
        "active 0.0",
        f'{queue}{{broker_id="0"}} 3.0',
        f'{queue}{{broker_id="1"}} 4.0',
    ]
    base.inject(gateway.address, DropMetric(queue, (("broker_id", "0"),)))
    base.inject(gateway.address, DropMetric("never heard of", (("broker_id", "0"),)))
    base.run()
    assert f'{queue}{{broker_id="0"}} 3.0' not in scrape(port)


def test_a_reason_is_a_label_of_the_figure_that_it_explains(gateway: MetricsGateway) -> None:
    port = gateway.serve(HOST, 0)
    reasons = [""]
    gateway.watch_reason("trace_failed", lambda: reasons[-1])
    assert scrape(port) == ['trace_failed{reason=""} 0.0']
    reasons.append('"a b": no space')
    assert scrape(port) == ['trace_failed{reason="\\"a b\\": no space"} 1.0']


def test_timers_are_counted_and_summed_and_totals_span_labels(base: LocalBase, gateway: MetricsGateway) -> None:
    port = gateway.serve(HOST, 0)
    gateway.watch("total", lambda: gateway.total("size"))
    for broker, size in (("0", 3), ("1", 4)):
        labels = (("broker_id", broker),)
        base.inject(gateway.address, Gauges((Gauge("size", size, labels),)))
        base.inject(gateway.address, Samples((Sample("waited", 2.5, labels), Sample("waited", 1.5, labels))))
    base.run()
    samples = scrape(port)
    assert "total 7.0" in samples
    assert {
        'waited_count{broker_id="1"} 2.0',
        'waited_sum{broker_id="1"} 4.0',
        'waited{broker_id="1",quantile="0.5"} 2.0',
    } <= set(samples)
    base.inject(gateway.address, DropMetric("waited", (("broker_id", "1"),)))
    base.run()
    assert not [sample for sample in scrape(port) if sample.startswith('waited_count{broker_id="1"')]


def test_a_silent_connection_does_not_block_others(gateway: MetricsGateway) -> None:
    """With one thread per connection, clients could exhaust the node's threads."""
    port = gateway.serve(HOST, 0)
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        idle = []
        for n in range(4 * CONNECTIONS):
            idle.append(stack.enter_context(socket.create_connection((HOST, port), 10)))
            idle[-1].sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: " if n % 2 else b"")
        assert scrape(port) == []
        assert threading.active_count() <= before + CONNECTIONS
        assert idle[0].recv(1) == b"", "the oldest had to go"


def test_a_busy_port_is_an_os_error_and_a_stopped_gateway_frees_its_own(gateway: MetricsGateway) -> None:
    port = gateway.serve(HOST, 0)
    other = MetricsGateway(LocalBase())
    with pytest.raises(OSError, match=rf"metrics.port={port} cannot be bound on {HOST} \(metrics.host\): it is in use"):
        other.serve(HOST, port)
    gateway.stop()
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind((HOST, port))


def test_quantiles_are_those_of_the_newest(base: LocalBase, gateway: MetricsGateway) -> None:
    """A quantile between two values is interpolated, as in Kafka's snapshots."""
    port = gateway.serve(HOST, 0)
    base.inject(gateway.address, Samples(tuple(Sample("took", 5000.0) for _ in range(RESERVOIR))))
    base.inject(gateway.address, Samples(tuple(Sample("took", float(value)) for value in range(1, RESERVOIR + 1))))
    base.run()
    samples = dict(line.rsplit(" ", 1) for line in scrape(port))
    assert samples["took_count"] == str(2.0 * RESERVOIR)
    quantiles = {label: float(samples[f'took{{quantile="{label}"}}']) for label in map(str, QUANTILES)}
    expected = {str(of): min(of * (RESERVOIR + 1), RESERVOIR) for of in QUANTILES}
    assert quantiles == pytest.approx(expected)


def test_a_name_is_of_one_kind(base: LocalBase, gateway: MetricsGateway) -> None:
    gateway.receive(Gauges((Gauge("one", 1),)), gateway.address)
    with pytest.raises(TypeError, match="the metric one already exists with another type"):
        gateway.receive(Samples((Sample("one", 1),)), gateway.address)


# ------------------------------------------------------------------------------------------------ counters, requests


def scraped(gateway: MetricsGateway) -> dict[str, float]:
    """Return the value of each served sample."""
    if not gateway.served_at[1]:
        gateway.serve(HOST, 0)
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in scrape(gateway.served_at[1]))}


def test_counters_count_by_topic_and_of_all_until_they_are_dropped(base: LocalBase, gateway: MetricsGateway) -> None:
    name, topic = "kafka_server_brokertopicmetrics_bytesin_total", (("topic", "t"),)
    for _ in range(2):
        base.inject(gateway.address, Counts((Count(name, 3), Count(name, 2, topic))))
    base.run()
    assert scraped(gateway) == {name: 6, f'{name}{{topic="t"}}': 4}
    base.inject(gateway.address, DropMetrics((name, "never_counted_total"), (topic,)))
    base.run()
    assert scraped(gateway) == {name: 6}
    base.inject(gateway.address, Counts((Count(name, 1, topic),)))
    base.run()
    assert scraped(gateway) == {name: 6, f'{name}{{topic="t"}}': 1}, "as Kafka's, it begins anew"


def test_requests_are_counted_and_timed_by_kind(gateway: MetricsGateway) -> None:
    now = [10.0]
    figures = RequestMetrics(gateway, lambda: now[0])
    fetch = FetchRequest(11, 2, 500, 1, (), 1 << 20)
    for correlation_id, request in enumerate((ApiVersionsRequest(3), fetch)):
        figures.start_times((ClientRequest(1, correlation_id, "c", "PLAINTEXT", request),))
        now[0] += 0.25
        figures.count_answers(1, (correlation_id,))
        figures.count_answers(1, (correlation_id,))
    figures.start_times((ClientRequest(1, 9, "c", "PLAINTEXT", fetch),))
    figures.drop_requests(1)
    figures.count_answers(1, (9,))
    found = scraped(gateway)
    assert {name: value for name, value in found.items() if "requests_total" in name} == {
        'kafka_network_requestmetrics_requests_total{request="ApiVersions",version="3"}': 1,
        'kafka_network_requestmetrics_requests_total{request="Fetch",version="11"}': 1,
    }
    for name in ("ApiVersions", "Fetch", "FetchFollower"):
        took = "kafka_network_requestmetrics_totaltimems"
        assert found[f'{took}_count{{request="{name}"}}'] == 1
        assert found[f'{took}{{quantile="0.99",request="{name}"}}'] == 250


def test_a_table_is_read_when_it_is_asked_for(gateway: MetricsGateway) -> None:
    rows = [(("t", "0"), (7, 1))]
    gateway.watch_table(("kafka_log_log_size", "kafka_log_log_logendoffset"), ("topic", "partition"), lambda: rows)
    assert scraped(gateway) == {
        'kafka_log_log_size{partition="0",topic="t"}': 7,
        'kafka_log_log_logendoffset{partition="0",topic="t"}': 1,
    }
    rows.append((("u", "1"), (0, 0)))
    assert len(scraped(gateway)) == 4
