"""Large responses are sent from file to socket: the same bytes as copied ones, or an incomplete frame on failure."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from actors.gateway.connection import Hold
from actors.gateway.listener import ListenerGateway
from actors.runtime import LocalBase
from actors.storage.log_manager import LogManager
from messages.apis.fetch import FetchedPartition, FetchRequest, FetchResponse
from messages.broker import LogFileFailed
from messages.cluster import TopicPartition
from messages.network import ClientResponse
from messages.node import ServeClients
from messages.records import Body, Region
from messages.wire import RequestHeader, encode_request, encode_response
from messages.wire.record_batch import batch_of
from tests.gateway.gateways import eventually, run_with_gateway
from tests.gateway.test_limits import Client

CONFIG = (1 << 30, 1 << 40, 10 << 20, 4096, -1, -1)
FETCH = FetchRequest(11, -1, 0, 1, ())
BATCHES = 40


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Write a log of 8 MB; return its directory."""
    writer, path = LogManager(lambda: 1_000), str(tmp_path / "t-0")
    writer.open(path, True, CONFIG)
    for number in range(BATCHES):
        records = batch_of([(bytes([number]), os.urandom(200_000))], 1_000)
        writer.append(path, 0, False, False, records.body)
    writer.close_all()
    return path


def opened(path: str, region_from: int | None) -> LogManager:
    port = LogManager(lambda: 1_000, region_from)
    port.open(path, False, CONFIG)
    return port


def response(*bodies: Body) -> FetchResponse:
    return FetchResponse(
        tuple([FetchedPartition(TopicPartition("t", n), 0, body=body) for n, body in enumerate(bodies)])
    )


def test_a_region_is_what_would_have_been_read(path: str) -> None:
    copying, sending = opened(path, None), opened(path, 300_000)
    for offset, most, limit, at_least_one in (
        *((0, 1 << 30, BATCHES, True), (3, 1_000_000, BATCHES, True), (5, 1 << 30, 9, False)),
        *((7, 10, BATCHES, True), (7, 10, BATCHES, False), (BATCHES, 1 << 30, BATCHES, True)),
    ):
        copied, sent = (port.read(path, offset, most, limit, at_least_one) for port in (copying, sending))
        assert (sent[0], sent[1].size, bytes(sent[1].data)) == (copied[0], copied[1].size, bytes(copied[1].data))
        assert isinstance(sent[1].piece, Region) == (copied[1].size >= 300_000)


def test_a_region_holds_its_file_open(path: str) -> None:
    port = opened(path, 1)
    _, body = port.read(path, 0, 1 << 30, BATCHES, True)
    expected = bytes(body.data)
    port.close_all()
    Path(path, f"{0:020d}.log").unlink()
    assert bytes(body.data) == expected
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    del body
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before - 1


def test_a_region_that_was_cut_is_an_error(path: str) -> None:
    _, body = opened(path, 1).read(path, 0, 1 << 30, BATCHES, True)
    os.truncate(Path(path, f"{0:020d}.log"), 1_000)
    with pytest.raises(OSError, match="was truncated"):
        _ = body.data


def test_a_region_of_a_file_that_was_cut_and_has_grown_again_is_void(path: str) -> None:
    """The region's part of the file now has other records."""
    port = opened(path, 1)
    _, before = port.read(path, 0, 1 << 30, BATCHES, True)
    rest = before.piece.skip(before.size // 2)
    port.truncate(path, 1)
    for _ in range(BATCHES):
        records = batch_of([(b"new", os.urandom(200_000))], 1_000)
        port.append(path, 1, False, False, records.body)
    for region in (before.piece, rest):
        with pytest.raises(OSError, match="was truncated"):
            region.read()
        with pytest.raises(OSError, match="was truncated"):
            region.send(-1)
    _, after = port.read(path, 0, 1 << 30, BATCHES, True)
    assert after.size >= before.size
    assert len(after.data) == after.size


def test_readers_that_decode_get_bytes(path: str) -> None:
    _, body = opened(path, 1).read(path, 0, 1 << 30, BATCHES, True, False)
    assert isinstance(body.piece, bytes)


async def asked(gateway: ListenerGateway, base: LocalBase, handler: Any, seen: list[Any], logs: Any = None) -> Client:
    """Return a client whose fetch request is in flight."""
    base.inject(gateway.address, ServeClients(handler, None, logs))
    client = await Client.of(gateway)
    client.writer.write(encode_request(FETCH, 1, "x"))
    await eventually(lambda: seen)
    return client


def test_what_is_sent_from_files_is_the_same_frame(path: str) -> None:
    copying, sending = opened(path, None), opened(path, 1)
    reads = ((0, 1 << 30), (5, 300_000), (20, 4_000_000))
    copied, sent = ([port.read(path, *read, BATCHES, True)[1] for read in reads] for port in (copying, sending))

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: Any, seen: list[Any]) -> None:
        client = await asked(gateway, base, handler, seen)
        base.inject(gateway.address, ClientResponse(seen[0].connection, 1, response(*sent)))
        assert await client.frame() == encode_response(RequestHeader(1, 11, 1, "x"), response(*copied))[4:]

    run_with_gateway(scenario)


def test_a_region_that_shrinks_while_it_is_sent_closes_the_connection(path: str) -> None:
    _, body = opened(path, 1).read(path, 0, 1 << 30, BATCHES, True)

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: Any, seen: list[Any]) -> None:
        client = await asked(gateway, base, handler, seen)
        base.inject(gateway.address, ClientResponse(seen[0].connection, 1, response(body)))
        [connection] = gateway._connections.values()
        await eventually(lambda: Hold.DRAINING in connection._holds)
        os.truncate(Path(path, f"{0:020d}.log"), 1_000)
        assert len(await client.reader.read()) < body.size
        assert not gateway._connections

    run_with_gateway(scenario)


@pytest.mark.parametrize(
    ("error", "reported"),
    [(errno.EIO, True), (errno.EUCLEAN, True), (errno.ECONNRESET, False), (errno.ETIMEDOUT, False)],
)
def test_a_disk_failure_during_a_send_is_reported(
    path: str, monkeypatch: pytest.MonkeyPatch, error: int, reported: bool
) -> None:
    """Errors of the connection itself are not reported; in both cases the connection is closed."""
    _, body = opened(path, 1).read(path, 0, 1 << 30, BATCHES, True)

    def fail(*args: object) -> int:
        raise OSError(error, os.strerror(error))

    async def scenario(gateway: ListenerGateway, base: LocalBase, handler: Any, seen: list[Any]) -> None:
        heard: list[Any] = []
        logs = base.external_endpoint("logs", lambda message, sender: heard.append(message))
        client = await asked(gateway, base, handler, seen, logs)
        monkeypatch.setattr(os, "sendfile", fail)
        base.inject(gateway.address, ClientResponse(seen[0].connection, 1, response(body)))
        assert len(await client.reader.read()) < body.size
        await eventually(lambda: not gateway._connections)
        await eventually(lambda: len(heard) == reported)
        assert heard == [LogFileFailed(f"{path}/{0:020d}.log", os.strerror(error))] * reported

    run_with_gateway(scenario)
