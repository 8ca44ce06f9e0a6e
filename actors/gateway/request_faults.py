"""Fault injection for requests: faults that a listener applies to matching requests.

Rule 1: a request is checked against the faults in their order. The first matching fault whose trigger fires is applied
        and ends the check. Each matching fault that was checked increments its `calls`.
Rule 2: `lose_response` and `blackhole` leave the connection open. Responses keep the order of requests, so a client
        also receives no response to later requests on this connection.
Rule 3: each hit is a message to the node's actors (FaultInjected), so it is in the log and in the trace.
"""

from __future__ import annotations

import difflib
import math
import random
from collections.abc import Iterator
from typing import Any

import attrs

from messages.apis import API_BY_REQUEST
from messages.cluster import TopicPartition
from messages.error_names import CODES
from messages.vocabulary import Message, changed

ERROR, DELAY, DISCONNECT = "error", "delay", "disconnect"
LOSE_RESPONSE, BLACKHOLE, THROTTLE = "lose_response", "blackhole", "throttle"

KINDS = (ERROR, DELAY, DISCONNECT, LOSE_RESPONSE, BLACKHOLE, THROTTLE)

FILTERS = ("topic", "partition", "broker", "client_id")

OBSERVER = "kafka_actors.observer"
"""The client id of the requests by which a report reads the cluster. No fault affects them."""

APIS = {api.name for api in API_BY_REQUEST.values()}


class FaultError(ValueError):
    """A fault cannot be injected; the exception's message is the reason."""


@attrs.define(str=False, eq=False)
class RequestFault:
    """A fault with filters; the listener injects it into the requests that match all its filters.

    A filter that is None matches every request.

    The fault is injected into the matching requests `first` to `last` (counted from 1), each with `probability`.
    """

    kind: str
    api: str
    value: float = 0.0
    """The error code (or its name), the seconds or the milliseconds; 0 for a kind without a value."""
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    client_id: str | None = None
    first: int = 1
    last: float = math.inf
    probability: float = 1.0
    seed: int = 0
    calls: int = 0
    """Number of matching requests so far."""
    hits: int = 0
    """Number of requests into which the fault was injected."""
    _random: random.Random = attrs.field(init=False, factory=random.Random)

    def __attrs_post_init__(self) -> None:
        self._random.seed(self.seed)
        if self.api not in APIS:
            raise FaultError(f"unknown API {self.api!r}. Use one of {', '.join(sorted(APIS))}.")
        self.value = float(_code_of(self.value) if self.kind == ERROR else self.value)

    def fires(self, broker: int, client_id: str, request: Message) -> bool:
        """Return whether to inject the fault into this request. Counts the request."""
        if client_id == OBSERVER:
            return False
        if API_BY_REQUEST[type(request)].name != self.api or self.broker not in (None, broker):
            return False
        if self.client_id not in (None, client_id) or not self._names(request):
            return False
        self.calls += 1
        hit = self.first <= self.calls <= self.last and self._random.random() < self.probability
        self.hits += hit
        return hit

    @property
    def over(self) -> bool:
        """Whether the fault can affect no more requests."""
        return self.calls >= self.last

    def __str__(self) -> str:
        filters = [f"{name}={getattr(self, name)}" for name in FILTERS if getattr(self, name) is not None]
        return f"{self.kind} {self.api} ({', '.join([*filters, f'calls: {self.calls}'])})"

    def _names(self, request: Message) -> bool:
        """Return whether the request has the fault's topic and partition."""
        if self.topic is None and self.partition is None:
            return True
        return any(
            self.topic in (None, topic) and self.partition in (None, partition)
            for topic, partition in subjects(request)
        )


def _code_of(error: float | str) -> int:
    """Return the number of one of Kafka's errors."""
    if error in CODES.values():
        return int(error)
    if error in CODES:
        return CODES[str(error)]
    close = ", ".join(difflib.get_close_matches(str(error).upper(), CODES, 3))
    raise FaultError(f"unknown error code {error!r}" + (f"; did you mean {close}?" if close else ""))


class RequestFaults:
    """The active request faults of a cluster, for all its brokers, in the order of injection."""

    def __init__(self) -> None:
        self.active: list[RequestFault] = []

    def met(self, broker: int, client_id: str, request: Message) -> RequestFault | None:
        """Return the fault to apply to this request (rule 1); None if no fault applies."""
        return next((fault for fault in self.active if fault.fires(broker, client_id, request)), None)


def subjects(request: Any) -> Iterator[tuple[str, int | None]]:
    """Yield the topics and partitions of a request. The partition is None for a whole topic."""
    for field in ("partitions", "topics", "partition_states"):
        for each in getattr(request, field, None) or ():
            named = getattr(each, "partition", each)
            if isinstance(named, TopicPartition):
                yield named.topic, named.partition
            elif isinstance(named, str) or hasattr(each, "name"):
                yield named if isinstance(named, str) else each.name, None


def throttled(response: Message, milliseconds: float) -> Message:
    """Return the response with this throttle time, if its API has one."""
    return changed(response, throttle_time_ms=int(milliseconds)) if hasattr(response, "throttle_time_ms") else response
