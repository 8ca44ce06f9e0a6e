"""A listener throttles the clients that exceed a quota, and no others."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from actors.gateway.listener import ListenerGateway
from actors.gateway.throttling import RequestTimes
from actors.runtime import LocalBase
from actors.runtime.kernel.delivery import Delivery
from messages.apis.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from messages.apis.metadata import MetadataRequest, MetadataResponse
from messages.apis.produce import ProduceRequest, ProduceResponse
from messages.client_quotas import (
    FETCH,
    PRODUCE,
    ClientQuota,
    ClientQuotasConfigured,
    ClientsThrottled,
    FetchThrottled,
    QuotaEntity,
    ThrottledClient,
)
from messages.cluster import ConfigEntry, TopicPartition
from messages.errors import NONE
from messages.network import ClientRequest, ClientRequests, ClientResponse
from messages.node import ServeClients
from messages.wire import decode_response, encode_request
from tests.gateway.gateways import eventually, run_with_gateway, turns

PARTITION = TopicPartition("t", 0)


class Caller:
    """A connection of a client with this id."""

    def __init__(self, gateway: ListenerGateway, client_id: str) -> None:
        self._port, self._client_id, self._id = gateway.ports["PLAINTEXT"], client_id, 0

    async def __aenter__(self) -> Caller:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._writer.close()

    def send(self, request: Any) -> None:
        self._id += 1
        self._writer.write(encode_request(request, self._id, self._client_id))

    async def call(self, request: Any) -> Any:
        self.send(request)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return decode_response(type(request), request.version, await self._reader.readexactly(size))[1]


def answering(base: LocalBase, gateway: ListenerGateway, seen: list[Any]) -> None:
    """Answer each request at once: a fetch with a topic whose name has 1,000 bytes, others without content."""

    def answer(message: Any, sender: object) -> None:
        for each in message.requests if isinstance(message, ClientRequests) else (message,):
            seen.append(each.request if isinstance(each, ClientRequest) else each)
            if not isinstance(each, ClientRequest):
                continue
            response: Any = {
                ProduceRequest: ProduceResponse(()),
                FetchRequest: FetchResponse((FetchedPartition(TopicPartition("t" * 1000, 0), NONE),), NONE, 7),
                MetadataRequest: MetadataResponse((), "c", -1, ()),
            }[type(each.request)]
            base.inject(gateway.address, ClientResponse(each.connection, each.correlation_id, response))

    base.inject(gateway.address, ServeClients(base.external_endpoint("answering", answer)))


def configure(base: LocalBase, gateway: ListenerGateway, client_id: str, **quotas: float) -> None:
    entries = tuple(ConfigEntry(*map(str, each)) for each in quotas.items())
    quota = ClientQuota(QuotaEntity(None, client_id), entries)
    base.inject(gateway.address, ClientQuotasConfigured((quota,)))


def test_a_throttled_producer_is_answered_at_once_and_then_not_read() -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: list[Any]) -> None:
        answering(base, gateway, seen)
        request = ProduceRequest(8, None, 1, 1000, ())
        async with Caller(gateway, "slow") as slow, Caller(gateway, "fast") as fast, Caller(gateway, "slow") as other:
            assert (await slow.call(request)).throttle_time_ms == 0
            configure(base, gateway, "slow", **{PRODUCE: 0.001})
            await eventually(lambda: gateway.throttle is not None)
            delay = (await slow.call(request)).throttle_time_ms
            assert delay > 10_000
            await eventually(lambda: type(seen[-1]) is ClientsThrottled)
            whose = "ANONYMOUS", "slow", PRODUCE, "clients/slow", 0.001
            assert seen[-1].throttles == (ThrottledClient(*whose, 1, delay),)
            count = len(seen)
            slow.send(request)
            await turns()
            assert len(seen) == count, "the muted connection is not read"
            assert (await fast.call(request)).throttle_time_ms == 0
            assert (await other.call(MetadataRequest(8, ()))).throttle_time_ms == 0, "a quota of produced bytes only"
            configure(base, gateway, "slow")
            await eventually(lambda: gateway.throttle is None)
            assert (await other.call(request)).throttle_time_ms == 0

    run_with_gateway(scenario)


@pytest.mark.parametrize(("session", "epoch"), [(7, 3), (0, 0)])
def test_a_throttled_consumer_gets_an_empty_response_that_leaves_its_session_as_it_was(
    session: int, epoch: int
) -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: list[Any]) -> None:
        answering(base, gateway, seen)
        configure(base, gateway, "slow", **{FETCH: 10})
        fetch = FetchRequest(11, -1, 0, 1, (FetchPartition(PARTITION, 0, 99),), session_id=session, session_epoch=epoch)
        async with Caller(gateway, "slow") as slow, Caller(gateway, "broker") as follower:
            response = await slow.call(fetch)
            assert (response.partitions, response.session_id) == ((), session)
            assert 80_000 < response.throttle_time_ms < 120_000
            await eventually(lambda: isinstance(seen[-1], FetchThrottled))
            dropped = (TopicPartition("t" * 1000, 0),)
            assert seen[-1] == FetchThrottled(7, epoch == 0, dropped)
            assert (seen[0].max_bytes, seen[0].min_bytes) == (100, 1), "ten seconds of the quota"
            request = FetchRequest(11, 2, 0, 1, (FetchPartition(PARTITION, 0, 99),))
            assert (await follower.call(request)).throttle_time_ms == 0

    run_with_gateway(scenario)


def test_request_time_is_measured_and_throttles_every_api() -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: list[Any]) -> None:
        answering(base, gateway, seen)
        configure(base, gateway, "<default>", request_percentage=0.000001)
        async with Caller(gateway, "any") as caller:
            assert 0 < (await caller.call(MetadataRequest(8, ()))).throttle_time_ms <= 1000

    run_with_gateway(scenario)


def delivery(event_id: int, message: object, seconds: float) -> Delivery:
    return Delivery(9, "sent", 0, event_id, "a", "b", "C", message, 0.0, 1.0, 1.0 + seconds, (), None)  # type: ignore[arg-type]


def test_the_time_of_a_request_is_that_of_all_deliveries_that_it_causes() -> None:
    times = RequestTimes()
    first, second, third = (ClientRequest(1, id, "c", "L", ProduceRequest(8, None, 1, 1, ())) for id in range(3))
    times.count_delivery(delivery(5, first, 0.1))
    times.count_delivery(delivery(6, ClientRequests((second, third)), 0.2))
    for event_id, seconds in ((5, 0.3), (6, 0.4), (7, 9.0)):
        times.count_delivery(delivery(event_id, None, seconds))
    assert [times.take(1, id) for id in range(3)] == pytest.approx([0.4, 0.3, 0.3])
    times.count_delivery(delivery(8, first, 0.1))
    times.forget_connection(1)
    assert not times._events and not times._spent


@pytest.mark.parametrize(("has_quotas", "together"), [(False, [2]), (True, [1, 1])])
def test_produces_that_arrive_together_are_one_message_unless_clients_have_quotas(
    has_quotas: bool, together: list[int]
) -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: list[Any]) -> None:
        counts: list[int] = []
        records = base.external_endpoint("records", lambda said, _: counts.append(len(getattr(said, "requests", "1"))))
        base.inject(gateway.address, ServeClients(handler, records))  # type: ignore[arg-type]
        if has_quotas:
            configure(base, gateway, "<default>", request_percentage=100)
        async with Caller(gateway, "a") as one, Caller(gateway, "b") as other:
            await turns()
            for caller in (one, other):
                caller.send(ProduceRequest(8, None, 1, 1000, ()))
            await eventually(lambda: sum(counts) == 2)
        assert counts == together

    run_with_gateway(scenario)
