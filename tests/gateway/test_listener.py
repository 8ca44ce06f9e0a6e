"""Listeners on real sockets: order, refusals, back-pressure, and bytes that are not a request (broker.md 6.3, 3.7)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from actors.gateway.listener import ListenerGateway
from actors.gateway.stream import FrameBuffer
from actors.runtime import LocalBase, RealClock
from messages.apis import ADVERTISED, API_BY_KEY
from messages.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from messages.apis.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from messages.apis.fetch import FetchRequest
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.metadata import MetadataRequest, MetadataResponse
from messages.apis.produce import ProduceRequest, ProduceResponse
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import Endpoint
from messages.errors import INVALID_REQUEST, NONE, STALE_CONTROLLER_EPOCH, UNSUPPORTED_VERSION
from messages.network import ClientGone, ClientRequest, ClientResponse, ClientResponses, CloseClient
from messages.node import NodeSettings, ServeClients
from messages.wire import encode_request
from tests.broker.harness import CONTROLLER, ServedBroker, alive, codes, known, order
from tests.gateway.gateways import eventually, run_with_gateway, turns
from tests.waiting import until
from tests.wire_client import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("listener") / "data", socket_request_max_bytes=1 << 20) as served:
        yield served


def client(broker: ServedBroker) -> WireClient:
    return WireClient("127.0.0.1", broker.port, timeout=10)


def test_a_controllers_requests_reach_the_replica_manager(broker: ServedBroker) -> None:
    with client(broker) as connection:
        live = (alive(0, broker.port),)
        update = UpdateMetadataRequest(6, CONTROLLER, 1, -1, (known("w"),), live)
        assert connection.call(update).error_code == NONE
        lead = LeaderAndIsrRequest(4, CONTROLLER, 1, -1, (order("w"),), ())
        assert codes(connection.call(lead)) == {"w-0": NONE}
        assert connection.call(StopReplicaRequest(3, CONTROLLER, 0, -1, ())).error_code == STALE_CONTROLLER_EPOCH
        response = connection.call(MetadataRequest(8, ("w",), False))
        assert isinstance(response, MetadataResponse)
        assert response.topics[0].partitions[0].leader == 0


def test_pipelined_requests_are_answered_in_order(broker: ServedBroker) -> None:
    with client(broker) as connection:
        requests = [MetadataRequest(8, (f"p{n}",), False) for n in range(200)]
        ids = [connection.send(request) for request in requests]
        names = [connection.receive(id, request).topics[0].name for id, request in zip(ids, requests, strict=True)]
        assert names == [f"p{n}" for n in range(200)]


def test_frames_may_come_in_any_pieces(broker: ServedBroker) -> None:
    request = MetadataRequest(8, ("piece",), False)
    with client(broker) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in encode_request(request, 7, "slow"):
            connection.socket.sendall(bytes([byte]))
        assert connection.receive(7, request).topics[0].name == "piece"


def test_api_versions_is_answered_in_every_version(broker: ServedBroker) -> None:
    with client(broker) as connection:
        for version in range(4):
            answer = connection.call(ApiVersionsRequest(version, "librdkafka", "2.16.0"))
            assert answer == ApiVersionsResponse(NONE, ADVERTISED)
        connection.send_frame(struct.pack(">hhih", 18, 99, 5, 1) + b"x\0\0")
        frame = connection.receive_frame()
        id, code, count, key, lowest, highest = struct.unpack(">ihihhh", frame)
        assert (id, code, count, key, lowest) == (5, UNSUPPORTED_VERSION, 1, 18, 0)
        assert highest >= 3
        assert connection.call(ApiVersionsRequest(0)).error_code == NONE


def test_an_invalid_client_name_is_refused(broker: ServedBroker) -> None:
    with client(broker) as connection:
        assert connection.call(ApiVersionsRequest(3, "-", "1.0")).error_code == INVALID_REQUEST


def test_controlled_shutdown_without_a_controller(broker: ServedBroker) -> None:
    with client(broker) as connection:
        answer = connection.call(ControlledShutdownRequest(3, 1, 5))
        assert answer == ControlledShutdownResponse(STALE_CONTROLLER_EPOCH)


@pytest.mark.parametrize(
    ("frame", "named"),
    [
        (struct.pack(">hhih", 999, 0, 1, -1), "API 999 v0"),
        (struct.pack(">hhih", 3, 77, 1, -1), "Metadata v77"),
        (struct.pack(">hhih", 3, 8, 1, -1) + b"\0\0", "Metadata v8"),
        (b"\0", "1 bytes"),
        (b"", "0 bytes"),
    ],
)
def test_what_is_no_request_closes_its_connection_alone(
    broker: ServedBroker, caplog: pytest.LogCaptureFixture, frame: bytes, named: str
) -> None:
    with client(broker) as good, client(broker) as bad, caplog.at_level(logging.WARNING):
        bad.send_frame(frame)
        assert bad.is_closed_by_peer()
        port = bad.socket.getsockname()[1]
        (line,) = [record.getMessage() for record in caplog.records if f":{port} " in record.getMessage()]
        assert named in line
        assert good.call(ApiVersionsRequest(0)).error_code == NONE


@pytest.mark.parametrize("size", [-1, (1 << 20) + 1, 2**31 - 1])
def test_a_size_that_cannot_be_closes_the_connection(broker: ServedBroker, size: int) -> None:
    with client(broker) as connection:
        connection.socket.sendall(struct.pack(">i", size))
        assert connection.is_closed_by_peer()


def test_what_came_before_the_bad_bytes_is_answered(broker: ServedBroker) -> None:
    with client(broker) as connection:
        request = ApiVersionsRequest(0)
        frames = encode_request(request, 1, "x") + encode_request(request, 2, "x") + b"\xff\xff\xff\xff"
        connection.socket.sendall(frames)
        for id in (1, 2):
            assert connection.receive(id, request).error_code == NONE
        assert connection.is_closed_by_peer()


frames = st.one_of(
    st.binary(max_size=200),
    st.builds(
        lambda key, version, tail: struct.pack(">hhih", key, version, 1, -1) + tail,
        st.sampled_from([*API_BY_KEY, 0, 1, 22]),
        st.integers(-1, 12),
        st.binary(max_size=200),
    ),
)


@hypothesis_settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(frames, min_size=1, max_size=3))
def test_no_bytes_break_the_broker(broker: ServedBroker, fuzz: list[bytes]) -> None:
    with client(broker) as connection:
        with contextlib.suppress(OSError):
            for frame in fuzz:
                connection.send_frame(frame)
            connection.socket.shutdown(socket.SHUT_WR)
            while connection.socket.recv(65536):
                pass
    with client(broker) as connection:
        assert connection.call(ApiVersionsRequest(0)).error_code == NONE


# ---------------------------------------------------------------------------------------------------- the gateway alone


def test_one_request_of_a_connection_is_under_way_at_a_time() -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: list) -> None:
        base.inject(gateway.address, ServeClients(handler))
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.ports["PLAINTEXT"])
        for id in (1, 2):
            writer.write(encode_request(ApiVersionsRequest(0), id, "x"))
        await eventually(lambda: seen)
        await turns()
        assert [request.correlation_id for request in seen] == [1]
        for stale in (2, 3):
            base.inject(gateway.address, ClientResponse(seen[0].connection, stale, ApiVersionsResponse(0, ())))
        await turns()
        assert len(seen) == 1, "an answer to another request is none"
        base.inject(gateway.address, ClientResponse(seen[0].connection, 1, ApiVersionsResponse(0, ())))
        await eventually(lambda: len(seen) == 2)
        writer.close()

    run_with_gateway(scenario)


def test_a_flood_without_an_answer_is_not_taken_in() -> None:
    """The first request is in flight. The gateway reads less than 1 MB of the others, so most stay with the client."""
    flood = 64 << 20

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: list) -> None:
        base.inject(gateway.address, ServeClients(handler))
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.ports["PLAINTEXT"])
        frame = encode_request(MetadataRequest(8, ("x" * 200,), False), 1, "flood")
        writer.write(frame * (flood // len(frame)))
        await eventually(lambda: seen)
        left = -1
        while writer.transport.get_write_buffer_size() != left:
            left = writer.transport.get_write_buffer_size()
            await turns()
        (connection,) = gateway._connections.values()
        assert connection._stream.frames.held < 1 << 20
        assert left > flood / 2
        assert len(seen) == 1
        writer.transport.abort()

    run_with_gateway(scenario)


def test_a_client_that_does_not_read_has_no_further_requests_taken() -> None:
    total, big = 600, MetadataResponse((), "x" * 30000, -1, ())

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: list) -> None:
        def answer(message: ClientRequest, sender: object) -> None:
            seen.append(message)
            base.inject(gateway.address, ClientResponse(message.connection, message.correlation_id, big))

        base.inject(gateway.address, ServeClients(base.external_endpoint("answering", answer)))
        deaf = socket.create_connection(("127.0.0.1", gateway.ports["PLAINTEXT"]))
        deaf.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=deaf, limit=4096)
        writer.transport.pause_reading()
        for id in range(total):
            writer.write(encode_request(MetadataRequest(8, (), False), id, "deaf"))
        known = -1
        while len(seen) != known:
            known = len(seen)
            await turns(200)
        assert 0 < known < total
        writer.transport.resume_reading()
        for _ in range(total):
            await reader.readexactly(*struct.unpack(">i", await reader.readexactly(4)))
        assert len(seen) == total
        writer.close()

    run_with_gateway(scenario)


def test_a_connection_is_closed_on_request() -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: list) -> None:
        base.inject(gateway.address, ServeClients(handler))
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.ports["PLAINTEXT"])
        writer.write(encode_request(ApiVersionsRequest(0), 1, "x"))
        await eventually(lambda: seen)
        base.inject(gateway.address, CloseClient(seen[0].connection, "because"))
        assert await reader.read() == b""
        writer.close()
        base.inject(gateway.address, ClientResponse(seen[0].connection, 1, ApiVersionsResponse(0, ())))
        _, other = await asyncio.open_connection("127.0.0.1", gateway.ports["PLAINTEXT"])
        other.write(encode_request(ApiVersionsRequest(0), 1, "other"))
        await eventually(lambda: len(seen) == 2)
        assert seen[1].client_id == "other", "an answer that comes too late does no harm"
        other.close()

    run_with_gateway(scenario)


def test_it_is_notified_when_a_fetch_has_no_client() -> None:
    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: list) -> None:
        base.inject(gateway.address, ServeClients(handler))
        for id, request in enumerate((FetchRequest(11, -1, 60_000, 1, ()), MetadataRequest(8, (), False)), 1):
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.ports["PLAINTEXT"])
            writer.write(encode_request(request, id, "x"))
            await eventually(lambda id=id: seen and seen[-1].correlation_id == id)
            writer.close()
            await eventually(lambda: not gateway._connections)
            await turns()
            if id == 1:
                assert seen.pop() == ClientGone(seen[0].connection)
        assert len(seen) == 2, "a closed connection without a waiting fetch is not reported"

    run_with_gateway(scenario)


def test_a_busy_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        here = Endpoint("INNER", "127.0.0.1", port)
        gateway = ListenerGateway(LocalBase(clock=RealClock()), NodeSettings(0, (here,), (here,), (), "none"))
        with pytest.raises(OSError, match=f"INNER://127.0.0.1:{port} cannot be bound: port {port} is in use"):
            asyncio.run(gateway.bind())


def test_a_host_without_address_is_named() -> None:
    where = (Endpoint("PLAINTEXT", "no.such.host.invalid", 9092),)
    gateway = ListenerGateway(LocalBase(), NodeSettings(0, where, where, (), "none"))
    with pytest.raises(OSError, match=r"listener PLAINTEXT://no\.such\.host\.invalid:9092 cannot be bound"):
        asyncio.run(gateway.bind())


@pytest.mark.parametrize(
    ("host", "reached"),
    [("", ["127.0.0.1", "::1"]), ("::", ["127.0.0.1", "::1"]), ("::1", ["::1"]), ("127.0.0.1", ["127.0.0.1"])],
)
def test_no_host_means_every_interface(host: str, reached: list[str]) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("needs IPv6")
    where = (Endpoint("PLAINTEXT", host, 0),)

    async def reachable() -> list[str]:
        gateway = ListenerGateway(LocalBase(), NodeSettings(0, where, where, (), "none"))
        await gateway.bind()
        found = []
        for address in ("127.0.0.1", "::1"):
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((address, gateway.ports["PLAINTEXT"]), 5).close()
                found.append(address)
        await gateway.stop()
        return found

    assert asyncio.run(reachable()) == reached


def test_a_client_that_came_by_ipv4_is_named_by_its_ipv4_address() -> None:
    """This also holds if the listening socket accepts both IPv4 and IPv6."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("needs IPv6")

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: list) -> None:
        base.inject(gateway.address, ServeClients(handler))
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.ports["PLAINTEXT"])
        writer.write(encode_request(ApiVersionsRequest(0), 1, "x"))
        await eventually(lambda: [request.client_host for request in seen] == ["/127.0.0.1"])
        writer.close()

    run_with_gateway(scenario, listeners=(Endpoint("PLAINTEXT", "", 0),))


def test_a_stop_closes_everything(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        connection = client(broker)
        assert connection.call(ApiVersionsRequest(0)).error_code == NONE
        port = broker.port
    assert connection.is_closed_by_peer()
    connection.close()

    def refused() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    until(refused, what="the port is free", timeout=5)


def test_produces_of_a_connection_are_under_way_together_and_answered_in_their_order() -> None:
    """Any other request waits for the Produce requests before it, and the Produce requests after it wait for it."""

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: object, seen: list) -> None:
        base.inject(gateway.address, ServeClients(handler))
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.ports["PLAINTEXT"])
        produce, other = ProduceRequest(8, None, 1, 1000, ()), MetadataRequest(8, (), False)
        for id, request in enumerate((produce, produce, produce, other, produce)):
            writer.write(encode_request(request, id, "x"))
        await eventually(lambda: len(seen) == 3)
        for id in (2, 1, 0):
            await turns()
            assert [request.correlation_id for request in seen] == [0, 1, 2]
            response = ClientResponse(seen[0].connection, id, ProduceResponse(()))
            base.inject(gateway.address, ClientResponses((response,)) if id else response)
        answers = [await reader.readexactly(4 + 12) for _ in range(3)]
        assert [int.from_bytes(answer[4:8], "big") for answer in answers] == [0, 1, 2]
        await eventually(lambda: len(seen) == 4)
        await turns()
        assert len(seen) == 4, "nothing goes together with what is no Produce"
        base.inject(gateway.address, ClientResponse(seen[0].connection, 3, MetadataResponse((), None, -1, ())))
        await eventually(lambda: len(seen) == 5)
        writer.close()

    run_with_gateway(scenario)


class Pieces(socket.socket):
    """A socket in which `data` has arrived, and which returns at most `most` bytes at once."""

    def __init__(self, data: bytes, most: int) -> None:
        super().__init__()
        self.close()
        self._data, self._most = data, most

    def recv(self, size: int, flags: int = 0) -> bytes:
        return self._data[: min(size, self._most)]

    def recv_into(self, free_buffer: Any, size: int = 0, flags: int = 0) -> int:
        piece = self.recv(len(free_buffer))
        free_buffer[: len(piece)] = piece
        return len(piece)


def test_a_large_frame_has_a_buffer_of_its_own_and_is_not_copied() -> None:
    frames = FrameBuffer(1 << 30)
    small, large = struct.pack(">i", 5) + b"small", struct.pack(">i", 300_000) + bytes(range(250)) * 1200
    stream, position, taken = small + large + small, 0, []
    while position < len(stream):
        position += frames.receive(Pieces(stream[position:], 70_000))
        while (frame := frames.take()) is not None:
            taken.append(frame)
    assert [bytes(frame) for frame in taken] == [b"small", large[4:], b"small"]
    view = taken[1]
    assert isinstance(view, memoryview) and view.readonly


@given(st.lists(st.binary(max_size=200_000), max_size=8), st.integers(1, 100_000))
@hypothesis_settings(max_examples=25, deadline=None)
def test_frames_are_cut_the_same_whatever_the_pieces(contents: list[bytes], piece: int) -> None:
    stream = b"".join(struct.pack(">i", len(content)) + content for content in contents)
    frames, position, taken = FrameBuffer(1 << 20), 0, []
    while position < len(stream):
        count = frames.receive(Pieces(stream[position:], piece))
        assert count, "a connection is always accepted"
        position += count
        while (frame := frames.take()) is not None:
            taken.append(bytes(frame))
    assert taken == contents
