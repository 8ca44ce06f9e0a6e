"""The request metrics of a node: counts and times for each API (Kafka's RequestMetrics).

Rule 1: a request's time begins when the request has been read completely and is sent to the actors. It ends when the
        response of the actors arrives. The time includes queueing in the node, processing, and waiting for followers or
        records, but no socket I/O.
Rule 2: fetches are published in total, and separately for consumers and followers, as in Kafka.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from actors.gateway.metrics import MetricsGateway
from messages.apis import API_BY_REQUEST
from messages.apis.fetch import CONSUMER, FetchRequest
from messages.metrics import Count, Sample
from messages.network import ClientRequest
from messages.vocabulary import AnyMessage

REQUESTS = "kafka_network_requestmetrics_requests_total"
TOTAL_TIME = "kafka_network_requestmetrics_totaltimems"

Labels = tuple[tuple[str, str], ...]


class RequestMetrics:
    """The request metrics of one node; `now` returns the time in seconds."""

    def __init__(self, metrics: MetricsGateway, now: Callable[[], float]) -> None:
        self._metrics = metrics
        self._now = now
        self._under_way: dict[int, dict[int, tuple[AnyMessage, float]]] = {}
        """Connection -> correlation id -> request and its start time."""

    def sent(self, requests: Iterable[ClientRequest]) -> None:
        """Store the start times of requests that are now sent to the actors."""
        now = self._now()
        for each in requests:
            under_way = self._under_way.setdefault(each.connection, {})
            under_way[each.correlation_id] = each.request, now

    def answered(self, connection: int, correlation_ids: Iterable[int]) -> None:
        """Count answered requests and observe their times. Responses without a request are ignored."""
        under_way, now = self._under_way.get(connection, {}), self._now()
        for each in correlation_ids:
            request, since = under_way.pop(each, (None, 0.0))
            if request is not None:
                fetcher = request.replica_id if request.__class__ is FetchRequest else CONSUMER
                count, labels = _reported(request.__class__, request.version, fetcher == CONSUMER)
                self._metrics.count(count)
                for its in labels:
                    self._metrics.observe(Sample(TOTAL_TIME, 1000 * (now - since), its))

    def closed(self, connection: int) -> None:
        """Drop the requests of a closed connection."""
        self._under_way.pop(connection, None)


@functools.lru_cache(maxsize=256)
def _reported(request: type[AnyMessage], version: int, of_consumer: bool) -> tuple[Count, tuple[Labels, ...]]:
    """Return the counter increment for one request, and the labels under which its time is published.

    For a fetch these are two sets of labels: one for all fetches, and one for consumer fetches or for follower fetches
    (rule 2).
    """
    name = API_BY_REQUEST[request].name
    names = (name, f"{name}{'Consumer' if of_consumer else 'Follower'}") if request is FetchRequest else (name,)
    count = Count(REQUESTS, 1, (("request", name), ("version", str(version))))
    return count, tuple([(("request", each),) for each in names])
