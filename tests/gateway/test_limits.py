"""Limits on connections, open files, memory, trace bytes and log lines, and the listeners for controller requests."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import struct
import tracemalloc
from typing import Any

import pytest

from actors.gateway import limits
from actors.gateway import listener as listening
from actors.gateway.connection import Connection, Hold
from actors.gateway.listener import ListenerGateway
from actors.gateway.stream import USUAL
from actors.runtime import LocalBase
from messages.apis import APIS, BINDINGS
from messages.apis.alter_partition import AlterPartitionRequest, AlterPartitionResponse, IsrOfPartition
from messages.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from messages.apis.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from messages.apis.declaration import Api, PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.metadata import MetadataRequest
from messages.apis.produce import ProduceRequest, ProduceResponse
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from messages.cluster import Endpoint, TopicPartition
from messages.errors import CLUSTER_AUTHORIZATION_FAILED
from messages.flow.conversation import SLICE, all_at_once
from messages.network import ClientResponse
from messages.node import NodeSettings, ServeClients
from messages.parts import MAX_ENTRIES, all_entries
from messages.wire import decode_response, encode_request
from messages.wire.codec import decoding_request
from messages.wire.compiler import compile_reader
from messages.wire.layout import Schema
from messages.wire.primitives import varint
from tests.broker.harness import order
from tests.gateway.gateways import eventually, run_with_gateway, turns

TWO = (Endpoint("INTERNAL", "127.0.0.1", 0), Endpoint("CLIENTS", "127.0.0.1", 0))
PARTITION = TopicPartition("t", 0)

Seen = list[Any]


class Client:
    """One connection to a gateway under test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def of(cls, gateway: ListenerGateway, listener: str = "PLAINTEXT") -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", gateway.ports[listener]))

    async def frame(self) -> bytes:
        return await self.reader.readexactly(*struct.unpack(">i", await self.reader.readexactly(4)))

    async def ask(self) -> None:
        self.writer.write(encode_request(ApiVersionsRequest(0), 1, "x"))
        await self.frame()

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


def serve(gateway: ListenerGateway, base: LocalBase, seen: Seen) -> None:
    """Respond to each request at once, and collect the requests in `seen`."""

    def answer(message: Any, sender: Any) -> None:
        seen.append(message.request)
        base.inject(gateway.address, ClientResponse(message.connection, message.correlation_id, ANSWER))

    base.inject(gateway.address, ServeClients(base.external_endpoint("answering", answer)))


ANSWER = ApiVersionsResponse(0, ())


def test_a_node_that_has_enough_connections_lets_others_wait() -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        clients = [await Client.of(gateway) for _ in range(3)]
        await clients[0].ask()
        await clients[1].ask()
        waiting = asyncio.ensure_future(clients[2].ask())
        await eventually(lambda: gateway._full)
        assert len(gateway._connections) == 2 and not waiting.done()
        clients[0].writer.close()
        await waiting
        assert len(gateway._connections) == 2

    run_with_gateway(scenario, max_connections=2)


def test_an_address_that_has_enough_connections_gets_no_more(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        first = await Client.of(gateway)
        await first.ask()
        assert await (await Client.of(gateway)).is_closed()
        first.writer.close()
        await eventually(lambda: not gateway._connections)
        await (await Client.of(gateway)).ask()

    run_with_gateway(scenario, max_connections_per_ip=1)
    assert "Rejected a connection from 127.0.0.1 on listener PLAINTEXT: it has 1 already" in caplog.text


def test_an_address_may_have_a_number_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        clients = [await Client.of(gateway) for _ in range(3)]
        await clients[0].ask()
        await clients[1].ask()
        assert await clients[2].is_closed()

    overrides = (("192.0.2.1", 7), ("localhost", 2))
    run_with_gateway(scenario, max_connections_per_ip=0, max_connections_per_ip_overrides=overrides)
    assert "it has 2 already" in caplog.text


def test_an_unknown_host_with_its_own_limit_is_named() -> None:
    async def scenario(*_: object) -> None:
        raise AssertionError("it was bound")

    with pytest.raises(OSError, match=r"Invalid host no host\. in max\.connections\.per\.ip\.overrides: "):
        run_with_gateway(scenario, max_connections_per_ip_overrides=(("no host.", 1),))


def test_another_broker_gets_its_own_capacity() -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        quiet, busy = [await Client.of(gateway, "CLIENTS") for _ in range(2)]
        await quiet.ask()
        await busy.ask()
        for _ in range(2):
            await (await Client.of(gateway, "INTERNAL")).ask()
        assert await quiet.is_closed()
        assert await busy.is_closed(), "the second of the brokers needed a connection too"
        await (await Client.of(gateway, "INTERNAL")).ask()

    run_with_gateway(scenario, max_connections=2, listeners=TWO, inter_broker_listener_name="INTERNAL")


def test_files_are_kept_in_reserve() -> None:
    one = (Endpoint("A", "h", 1),)
    for files, listeners, protected in (
        (limits.FileLimit(2, 3, 0, 4), one, 2),
        (limits.FileLimit(2, 3, 0, 4), (*one, Endpoint("B", "h", 2)), 3),
    ):
        settings = NodeSettings(0, listeners, listeners, (), "none", inter_broker_listener_name="A")
        count = limits.ConnectionCount(settings, files)
        taken = 0
        while not (refusal := count.begin("A", "h")):
            taken += 1
        assert taken == protected and count.has_capacity("A")
        assert refusal == f"{protected} connections are open, the maximum for a limit of 4 open files (ulimit -n)"


@pytest.mark.parametrize("limit", (64, 256, 1024, 1 << 20))
def test_logs_and_connections_share_what_the_reserve_leaves(limit: int) -> None:
    files = limits.FileLimit.divide(limit)
    reserve = limit - files.all - files.logs
    assert reserve == min(limits.RESERVED_FILES, limit // 2)
    assert limit // 4 <= files.all < files.protected < files.all + reserve / 3
    assert min(limit // 4, limits.MAX_LOG_FILES) <= files.logs <= limits.MAX_LOG_FILES
    assert limits.FileLimit.of_process().limit == os.sysconf("SC_OPEN_MAX")


def test_a_connection_beyond_the_limit_of_files_is_refused(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Formerly such connections waited in the socket, without a log line, until their clients gave up."""
    monkeypatch.setattr(limits.FileLimit, "of_process", lambda: limits.FileLimit(2, 3, 2, 8))

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        clients = [await Client.of(gateway) for _ in range(2)]
        for client in clients:
            await client.ask()
        assert await (await Client.of(gateway)).is_closed()
        clients[0].writer.close()
        await eventually(lambda: len(gateway._connections) == 1)
        await (await Client.of(gateway)).ask()

    run_with_gateway(scenario)
    reason = "2 connections are open, the maximum for a limit of 8 open files (ulimit -n)"
    assert f"Rejected a connection from 127.0.0.1 on listener PLAINTEXT: {reason}" in caplog.text


class Exhausted(socket.socket):
    """A listening socket that fails as in a process without free file descriptors, while `left` is 0."""

    tries = 0
    left = 0

    def accept(self) -> Any:
        Exhausted.tries += 1
        if Exhausted.left <= 0:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_a_system_without_files_is_asked_again_after_a_pause(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "PAUSE", 0.05)

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        ((endpoint, bound),) = gateway._sockets
        gateway._sockets[:] = [(endpoint, Exhausted(fileno=bound.detach()))]
        gateway._sockets[0][1].setblocking(False)
        serve(gateway, base, seen)
        asking = asyncio.ensure_future((await Client.of(gateway)).ask())
        await eventually(lambda: Exhausted.tries == 3)
        Exhausted.left = 1
        await asking

    run_with_gateway(scenario)
    assert [r.getMessage() for r in caplog.records] == [
        "Listener PLAINTEXT accepts no connections for the next 0.05 s: Too many open files"
    ] * 3


def test_a_silent_connection_is_closed_and_a_busy_one_is_not() -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        busy, silent, half = [await Client.of(gateway) for _ in range(3)]
        half.writer.write(encode_request(MetadataRequest(8, ("t",), False), 1, "x")[:-1])
        ends = asyncio.gather(silent.is_closed(), half.is_closed())
        while not ends.done():
            await busy.ask()
            await asyncio.sleep(0.01)
        assert await ends == [True, True]
        await busy.ask()
        assert len(gateway._connections) == 1

    run_with_gateway(scenario, connections_max_idle_ms=200)


@pytest.mark.parametrize(
    "sent", (b"", struct.pack(">ih", 100, 3), struct.pack(">ihh", 50 << 20, 0, 8)), ids=("nothing", "a head", "a large")
)
def test_a_silent_connection_takes_little_memory_and_gives_it_back(sent: bytes) -> None:
    """Formerly a connection had a buffer of 64 KB from its start, and one of 2 MB after it announced a large frame."""
    count = 100

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        first = await Client.of(gateway)
        await first.ask()
        begun = len(gateway._connections)
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        clients = []
        for _ in range(count):
            clients.append(socket.create_connection(("127.0.0.1", gateway.ports["PLAINTEXT"])))
            clients[-1].sendall(sent)
            await turns(5)
        await eventually(lambda: len(gateway._connections) == begun + count)
        others = list(gateway._connections.values())[begun:]
        await eventually(lambda: all(each._stream.frames.held == len(sent) for each in others))
        during, _ = tracemalloc.get_traced_memory()
        for client in clients:
            client.close()
        clients.clear()
        others.clear()
        await eventually(lambda: len(gateway._connections) == begun)
        await turns()
        after, _ = tracemalloc.get_traced_memory()
        assert (during - before) / count < 8_000
        assert (after - before) / count < 500

    try:
        run_with_gateway(scenario)
    finally:
        tracemalloc.stop()


def test_half_sent_requests_do_not_take_all_memory() -> None:
    pool, size, peers = 1 << 20, 1 << 20, 20
    begun = struct.pack(">ihhih", size, 3, 8, 1, -1) + bytes(size - 100)

    def held(gateway: ListenerGateway) -> int:
        return sum(connection._stream.frames.held for connection in gateway._connections.values())

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        clients = [await Client.of(gateway) for _ in range(peers)]
        for client in clients:
            client.writer.write(begun)
        await eventually(lambda: sum(Hold.MEMORY in c._holds for c in gateway._connections.values()) == peers - 1)
        await eventually(lambda: held(gateway) > size - 200)
        assert held(gateway) < pool + peers * (256 << 10), "what one read of the socket brings is there before we know"
        clients[0].writer.transport.abort()
        await eventually(lambda: sum(Hold.MEMORY in c._holds for c in gateway._connections.values()) == peers - 2)

    run_with_gateway(scenario, queued_max_request_bytes=pool)


def test_waiting_connections_get_memory_in_order() -> None:
    pool, retried = limits.MemoryPool(100), []
    assert pool.take(90, lambda: None) and pool.take(500, lambda: None), "as long as there is anything, as Kafka does"
    assert not pool.take(1, lambda: retried.append("a"))
    assert not pool.take(1, lambda: retried.append("b"))
    pool.give_back(90)
    assert retried == ["a", "b"]
    pool.give_back(500)
    assert pool.take(100, lambda: None) and not pool.take(1, lambda: None)
    assert limits.MemoryPool(-1).take(1 << 40, lambda: None)


def test_a_clients_large_request_is_refused_as_soon_as_it_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        client, controller = await Client.of(gateway), await Client.of(gateway)
        client.writer.write(struct.pack(">ih", 1001, 3))
        assert await client.is_closed()
        request = StopReplicaRequest(3, 1, 1, 1, tuple(StopReplicaPartitionState(PARTITION) for _ in range(200)))
        controller.writer.write(encode_request(request, 1, "x"))
        await eventually(lambda: seen == [request])

    run_with_gateway(scenario, trace_client_request_max_bytes=1000)
    assert "a request of 1001 bytes, 1000 are allowed (trace.client.request.max.bytes)" in caplog.text


def test_a_tls_client_on_a_plain_port_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        client, hello = await Client.of(gateway), ssl.MemoryBIO()
        tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="kafka")
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        client.writer.write(hello.read())
        assert await client.is_closed()

    run_with_gateway(scenario)
    (refused,) = [each for each in caplog.messages if each.startswith("Closing the connection from ")]
    assert "TLS" in refused and "PLAINTEXT" in refused


def test_an_allowance_grows_with_time() -> None:
    allowance = limits.TraceRateLimit(100)
    allowance.use(100, now=10.0)
    assert allowance.delay(10.0) == 0
    allowance.use(150, now=10.0)
    assert allowance.delay(10.0) == 1.5
    assert allowance.delay(11.0) == 0.5
    assert allowance.delay(20.0) == 0
    allowance.use(100, now=20.0)
    assert allowance.delay(20.0) == 0, "what was not used is not saved up"


def test_a_client_beyond_its_rate_is_read_later() -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        greedy, modest = await Client.of(gateway), await Client.of(gateway)
        for _ in range(2):
            greedy.writer.write(encode_request(ApiVersionsRequest(3, "t" * 30_000, "1"), 1, "x"))
        await eventually(lambda: any(Hold.THROTTLED in c._holds for c in gateway._connections.values()))
        (throttled,) = [c for c in gateway._connections.values() if Hold.THROTTLED in c._holds]
        assert len(seen) == 1
        await modest.ask()
        assert len(seen) == 2, "only the other one's"
        throttled._allowance = limits.TraceRateLimit(1 << 30)
        throttled._unthrottle()
        await eventually(lambda: len(seen) == 3)

    run_with_gateway(scenario, trace_client_bytes_per_second=1000)


def test_a_request_of_too_many_partitions_is_refused_before_it_is_read_to_the_end() -> None:
    most, count = 2 * SLICE, 0xFFFFFF
    head = bytes.fromhex("00000001 00000001 0000000000000001 02 02 74") + varint(count)
    read = compile_reader(StopReplicaRequest, Schema("StopReplicaRequest").layout(3), 3, BINDINGS, most)
    slices = 0
    with pytest.raises(ValueError, match=f"more than {most} elements"):
        for _ in read(head + bytes(10) * (3 * SLICE), 0):
            slices += 1
    assert slices == most / SLICE


def test_a_controllers_request_may_name_more_partitions_than_a_clients() -> None:
    count = MAX_ENTRIES + SLICE
    request = bytes.fromhex("00000001 00000001 0000000000000001 02 02 74") + varint(count + 1) + bytes(10) * count
    _, parts, last = all_at_once(decoding_request(struct.pack(">hhih", 5, 3, 1, 1) + b"x\0" + request + b"\0\0"))
    assert len(list(all_entries(parts, last))) == count


def test_a_frame_that_is_too_large_takes_no_memory_while_it_waits() -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        base.inject(gateway.address, ServeClients(handler))
        client = await Client.of(gateway)
        client.writer.write(encode_request(ProduceRequest(8, None, -1, 1000, ()), 1, "x"))
        await eventually(lambda: len(seen) == 1)
        client.writer.write(struct.pack(">ihh", 2**31 - 1, 0, 8))
        await turns()
        [connection] = gateway._connections.values()
        assert connection._stream.frames.held == 8 and gateway.memory._left == 100_000
        base.inject(gateway.address, ClientResponse(seen[0].connection, 1, ProduceResponse(())))
        await client.frame()
        assert await client.is_closed()

    run_with_gateway(scenario, queued_max_request_bytes=100_000)


def test_clients_that_pipeline_do_not_hold_up_one_that_waits_for_its_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "BUSY", 5)
    peers, pipelined = 60, b"".join(encode_request(ApiVersionsRequest(0), id, "x") for id in range(4))
    modest = MetadataRequest(8, ("t",), False)

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        clients = [await Client.of(gateway) for _ in range(peers + 1)]
        await eventually(lambda: len(gateway._connections) == peers + 1)
        gateway.pause()
        for client in clients[:peers]:
            client.writer.write(pipelined)
        clients[peers].writer.write(encode_request(modest, 1, "x"))
        await turns()
        gateway.resume()
        for client in clients[:peers]:
            for id in range(4):
                assert int.from_bytes((await client.frame())[:4], "big") == id
        assert seen.index(modest) <= 5, "the requests that were begun before"
        assert len(seen) == 4 * peers + 1 and not gateway._waiting

    run_with_gateway(scenario)


BAD = {
    "a size that cannot be": struct.pack(">ihh", 2**31 - 1, 0, 8),
    "a negative size": struct.pack(">ihh", -7, 0, 8),
    "no request": struct.pack(">ihhih", 10, 0, 8, 2, 5),
    "an unknown API": struct.pack(">ihhih", 10, 999, 0, 2, -1),
    "a request that is too large": struct.pack(">ihh", 60_000, 3, 8),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("behind", (b"", bytes(3 * USUAL)), ids=("alone", "with much behind it"))
def test_what_waits_is_answered_before_what_is_bad_behind_it_closes_the_connection(bad: bytes, behind: bytes) -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        base.inject(gateway.address, ServeClients(handler))
        client = await Client.of(gateway)
        client.writer.write(encode_request(ProduceRequest(8, None, -1, 1000, ()), 1, "x"))
        await eventually(lambda: len(seen) == 1)
        client.writer.write(bad + behind)
        await turns()
        base.inject(gateway.address, ClientResponse(seen[0].connection, 1, ProduceResponse(())))
        assert decode_response(ProduceRequest, 8, await client.frame()) == (1, ProduceResponse(()))
        assert await client.is_closed()
        assert len(seen) == 1

    run_with_gateway(scenario, trace_client_request_max_bytes=50_000)


# ---------------------------------------------------------------------------------------------------- the control plane

ORDERS = {
    "LeaderAndIsr": (
        LeaderAndIsrRequest(4, 1, 1, 1, (order("t"),), ()),
        LeaderAndIsrResponse(CLUSTER_AUTHORIZATION_FAILED, (PartitionError(PARTITION, CLUSTER_AUTHORIZATION_FAILED),)),
    ),
    "StopReplica": (
        StopReplicaRequest(3, 1, 1, 1, (StopReplicaPartitionState(PARTITION, 1, True),)),
        StopReplicaResponse(CLUSTER_AUTHORIZATION_FAILED, (PartitionError(PARTITION, CLUSTER_AUTHORIZATION_FAILED),)),
    ),
    "UpdateMetadata": (UpdateMetadataRequest(6, 1, 1, 1, (), ()), UpdateMetadataResponse(CLUSTER_AUTHORIZATION_FAILED)),
    "ControlledShutdown": (
        ControlledShutdownRequest(3, 1, 1),
        ControlledShutdownResponse(CLUSTER_AUTHORIZATION_FAILED),
    ),
    "AlterPartition": (
        AlterPartitionRequest(1, 1, 1, (IsrOfPartition(PARTITION, 1, (1,), 1),)),
        AlterPartitionResponse(CLUSTER_AUTHORIZATION_FAILED),
    ),
}


def test_a_listener_of_controllers_own_takes_orders_too() -> None:
    request, _ = ORDERS["UpdateMetadata"]

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        controller = await Client.of(gateway, "CLIENTS")
        controller.writer.write(encode_request(request, 8, "x"))
        await eventually(lambda: seen == [request])

    names = {"inter_broker_listener_name": "INTERNAL", "control_plane_listener_name": "CLIENTS"}
    run_with_gateway(scenario, listeners=TWO, **names)


@pytest.mark.parametrize("api", [api for api in APIS if api.control], ids=lambda api: api.name)
def test_orders_are_taken_from_the_listener_of_the_brokers_alone(api: Api) -> None:
    request, refusal = ORDERS[api.name]

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        stranger, broker = await Client.of(gateway, "CLIENTS"), await Client.of(gateway, "INTERNAL")
        stranger.writer.write(encode_request(request, 7, "x"))
        assert decode_response(type(request), request.version, await stranger.frame()) == (7, refusal)
        await stranger.ask()
        assert seen == [ApiVersionsRequest(0)], "no actor has seen it, and the connection is still good"
        broker.writer.write(encode_request(request, 8, "x"))
        await eventually(lambda: seen[1:] == [request])

    run_with_gateway(scenario, listeners=TWO, inter_broker_listener_name="INTERNAL")


def test_a_flood_of_orders_is_refused_one_after_the_other() -> None:
    """Refusals are not nested calls: the bytes that a connection reads at once would overflow the stack."""
    count = 500

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        stranger = await Client.of(gateway, "CLIENTS")
        request, _ = ORDERS["ControlledShutdown"]
        stranger.writer.write(b"".join(encode_request(request, id, "x") for id in range(count)))
        for id in range(count):
            assert int.from_bytes((await stranger.frame())[:4], "big") == id
        await stranger.ask()

    run_with_gateway(scenario, listeners=TWO, inter_broker_listener_name="INTERNAL")


def test_a_node_with_one_listener_accepts_every_controller() -> None:
    request, _ = ORDERS["StopReplica"]

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        (await Client.of(gateway)).writer.write(encode_request(request, 1, "x"))
        await eventually(lambda: seen == [request])

    run_with_gateway(scenario)


def test_connections_end_with_nothing_left() -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: Seen) -> None:
        serve(gateway, base, seen)
        clients = [await Client.of(gateway) for _ in range(10)]
        for client in clients:
            client.writer.write(struct.pack(">ihh", 5000, 3, 8))
        await eventually(lambda: sum(bool(c._taken) for c in gateway._connections.values()) == 10)
        for client in clients:
            client.writer.transport.abort()
        await eventually(lambda: not gateway._connections)
        assert gateway.memory._left == 100_000 and gateway._count._total == 0 and not gateway._count._by_address
        assert not any(isinstance(value, Connection) for value in gateway.__dict__.values())

    run_with_gateway(scenario, queued_max_request_bytes=100_000)
