"""Estimate the differences between the clocks of nodes from requests that one node sent to another.

Rule: no message arrives before it is sent. The least delay in each direction bounds the difference of two clocks. Half
        of the difference of these delays is the estimate, half of their sum its uncertainty. An estimate is subtracted
        only where it is certain that the clocks differ. Requests are paired by their ids, in whatever order they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from actors.trace import payloads
from actors.trace.links import nodes_by_endpoint
from actors.trace.reader import TraceDelivery, TraceRun
from messages.facts.open_requests import REQUESTS, RESPONSES
from messages.trace.schema import OUTSIDE


class ClockSkew(NamedTuple):
    """By how many seconds the clock of `other` is ahead of that of `node`, and how uncertain this is."""

    node: int
    other: int
    seconds: float
    uncertainty: float

    @property
    def is_certain(self) -> bool:
        """Whether the clocks certainly differ."""
        return abs(self.seconds) > self.uncertainty


class _Sent(NamedTuple):
    """A request that a node sent to another one."""

    run: TraceRun
    at: float
    channel: str


class _Arrived(NamedTuple):
    """A request that a node received."""

    run: TraceRun
    queued: float
    connection: int


_Request = tuple[str, int, str, int]
"""Client id, correlation id, API, and the node to which the request was sent."""


def skews_of(runs: list[TraceRun], deliveries: Iterable[TraceDelivery]) -> list[ClockSkew]:
    """Return an estimate for each pair of nodes that sent each other requests, from these deliveries of the runs."""
    node_at = nodes_by_endpoint(runs)
    sent: dict[_Request, _Sent | None] = {}
    arrived: dict[_Request, _Arrived | None] = {}
    answered: dict[tuple[str, int, int], float] = {}
    returned: dict[tuple[str, str, int], float] = {}
    for each in deliveries:
        record, run = each.record, each.run
        to_outside = record.actor == ""
        is_read = record.type in ("Transmit", *RESPONSES) if to_outside else record.type in ("Received", *REQUESTS)
        read = payloads.read(record.payload) if is_read else None
        if read is None:
            continue
        queued = record.queued_at + run.clock_offset
        for exchange in read.exchanges:
            api = exchange.request[0]
            if record.type == "Transmit":
                node = node_at.get((read.endpoint.host, read.endpoint.port), -1)
                request = exchange.client_id, exchange.correlation_id, api, node
                sent[request] = None if request in sent else _Sent(run, each.at, read.channel)
            elif record.type == "Received":
                returned[run.name, read.channel, exchange.correlation_id] = queued
            elif to_outside:
                answered[run.name, exchange.connection, exchange.correlation_id] = each.at
            elif record.kind == OUTSIDE:
                request = exchange.client_id, exchange.correlation_id, api, each.node
                arrived[request] = None if request in arrived else _Arrived(run, queued, exchange.connection)
    least: dict[tuple[int, int], float] = {}
    for request, out in sent.items():
        come = arrived.get(request)
        if out is None or come is None:
            continue
        _, correlation_id, _, node = request
        _keep(least, (out.run.node, node), come.queued - out.at)
        answer = answered.get((come.run.name, come.connection, correlation_id))
        back = returned.get((out.run.name, out.channel, correlation_id))
        if answer is not None and back is not None:
            _keep(least, (node, out.run.node), back - answer)
    return [
        ClockSkew(one, other, (there - least[other, one]) / 2, (there + least[other, one]) / 2)
        for (one, other), there in sorted(least.items())
        if one < other and (other, one) in least
    ]


def _keep(least: dict[tuple[int, int], float], pair: tuple[int, int], delay: float) -> None:
    least[pair] = min(delay, least.get(pair, delay))


def corrections(nodes: Iterable[int], skews: list[ClockSkew]) -> dict[int, float]:
    """Return the seconds to subtract from the times of each node, relative to the node with the least id."""
    found: dict[int, float] = {}
    for node in sorted(nodes):
        if node in found:
            continue
        found[node] = 0.0
        waiting = [node]
        while waiting:
            one = waiting.pop()
            for skew in skews:
                for here, other, sign in ((skew.node, skew.other, 1), (skew.other, skew.node, -1)):
                    if here == one and other not in found:
                        found[other] = found[one] + (sign * skew.seconds if skew.is_certain else 0.0)
                        waiting.append(other)
    return found
