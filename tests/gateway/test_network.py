"""The network gateway on real sockets: each Transmit of an open channel has one outcome.

After a failure the connection is closed, and the next Transmit opens another.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from actors.gateway.network import MAX_RESPONSE_BYTES, NetworkGateway
from actors.runtime import LocalBase
from messages.apis.declaration import PartitionError
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from messages.cluster import Endpoint, TopicPartition
from messages.flow.conversation import SLICE
from messages.network import ChannelPart, Received, Transmit, TransmitFailed
from messages.parts import cut
from messages.wire import decode_request, encode_response

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

REQUEST = UpdateMetadataRequest(6, 1, 1, 1, (), ())


class Peer:
    """A listening socket that handles connections with `serve`, and counts them."""

    def __init__(self, serve: Serve) -> None:
        self.connections = 0
        self._serve = serve
        self._server: asyncio.Server
        self.endpoint: Endpoint

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.endpoint = Endpoint("PLAINTEXT", "127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._serve(reader, writer)
        writer.close()

    def close(self) -> None:
        self._server.close()


async def frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


async def obedient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond to each request with code 0."""
    while True:
        header, _ = decode_request(await frame(reader))
        writer.write(encode_response(header, UpdateMetadataResponse(0)))


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read requests, and never respond."""
    while True:
        await frame(reader)


async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read one request, and close the connection."""
    await frame(reader)


def answering(raw: bytes) -> Serve:
    """Return a peer that responds to each request with these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await frame(reader)
            writer.write(raw)

    return serve


class Desk:
    """The gateway with its base and loop, and a mailbox for the outcomes of Transmits."""

    def __init__(self) -> None:
        self.base = LocalBase()
        self.gateway = NetworkGateway(self.base)
        self.mail: asyncio.Queue[Any] = asyncio.Queue()
        self.address = self.base.external_endpoint("desk", lambda message, _: self.mail.put_nowait(message))

    def send(self, message: Any) -> None:
        self.gateway.receive(message, self.address)

    async def outcome(self) -> Any:
        return await asyncio.wait_for(self.mail.get(), 10)


@asynccontextmanager
async def desk_and(serve: Serve) -> AsyncIterator[tuple[Desk, Peer]]:
    desk, peer = Desk(), Peer(serve)
    await peer.open()
    desk.base.attach(asyncio.get_running_loop())
    try:
        yield desk, peer
    finally:
        await desk.gateway.stop()
        desk.base.detach()
        peer.close()


def transmit(peer: Peer, correlation_id: int = 1, timeout: float = 10.0, channel: str = "c") -> Transmit:
    return Transmit(channel, peer.endpoint, correlation_id, "1", REQUEST, timeout)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 30))  # type: ignore[arg-type]


def test_requests_of_a_channel_share_one_connection() -> None:
    async def scenario() -> None:
        async with desk_and(obedient) as (desk, peer):
            for number in (1, 2, 3):
                desk.send(transmit(peer, number))
                assert await desk.outcome() == Received("c", number, UpdateMetadataResponse(0))
            assert peer.connections == 1

    run(scenario)


def test_a_request_in_parts_is_one_frame_and_so_is_its_answer() -> None:
    errors = tuple(PartitionError(TopicPartition("t", number), number % 2) for number in range(2 * SLICE + 1))
    states = tuple(StopReplicaPartitionState(error.partition) for error in errors)
    whole = StopReplicaRequest(3, 1, 1, 1, states)
    received: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            header, request = decode_request(await frame(reader))
            received.append(request)
            writer.write(encode_response(header, StopReplicaResponse(0, errors)))

    async def scenario() -> None:
        async with desk_and(serve) as (desk, peer):
            parts, last = cut(whole)
            for number in (1, 2):
                for part in parts:
                    desk.send(ChannelPart("c", part))
                desk.send(attrs.evolve(transmit(peer, number), request=last))
                ahead, answer = cut(StopReplicaResponse(0, errors))
                for part in ahead:
                    assert await desk.outcome() == ChannelPart("c", part)
                assert await desk.outcome() == Received("c", number, answer)
            assert received == [whole, whole]

    run(scenario)


@pytest.mark.parametrize(
    "serve",
    [
        rude,
        answering(struct.pack(">i", -1)),
        answering(struct.pack(">i", MAX_RESPONSE_BYTES + 1)),
        answering(struct.pack(">ii", 4, 1)),
        answering(struct.pack(">iibhb", 8, 99, 0, 0, 0)),
    ],
    ids=["hangs up", "negative size", "giant", "cut", "another's answer"],
)
def test_an_invalid_response_fails_and_the_next_transmit_reconnects(serve: Serve) -> None:
    async def scenario() -> None:
        async with desk_and(serve) as (desk, peer):
            for number in (1, 2):
                desk.send(transmit(peer, number))
                failed = await desk.outcome()
                assert isinstance(failed, TransmitFailed)
                assert (failed.channel, failed.correlation_id) == ("c", number)
                assert failed.reason
                assert peer.connections == number

    run(scenario)


def test_a_closed_port_fails_with_the_reason() -> None:
    async def scenario() -> None:
        async with desk_and(obedient) as (desk, peer):
            peer.close()
            desk.send(transmit(peer))
            failed = await desk.outcome()
            assert isinstance(failed, TransmitFailed)
            assert str(peer.endpoint.port) in failed.reason

    run(scenario)


def test_connecting_and_the_answer_have_their_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(host: str, port: int) -> Any:
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with desk_and(silent) as (desk, peer):
            slow = attrs.evolve(transmit(peer, timeout=0.05), connect_timeout=20.0)
            desk.send(slow)
            assert (await desk.outcome()).reason == "no answer within 0.05 s"
            monkeypatch.setattr(asyncio, "open_connection", never)
            desk.send(attrs.evolve(transmit(peer, 2, timeout=20.0), connect_timeout=0.05))
            assert (await desk.outcome()).reason == "no connection within 0.05 s"

    run(scenario)


def test_another_endpoint_means_another_connection() -> None:
    async def scenario() -> None:
        async with desk_and(obedient) as (desk, first):
            second = Peer(obedient)
            await second.open()
            for number, peer in enumerate((first, second, first)):
                desk.send(transmit(peer, number))
                assert isinstance(await desk.outcome(), Received)
            assert (first.connections, second.connections) == (2, 1)
            second.close()

    run(scenario)
