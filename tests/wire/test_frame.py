"""Test that a stream is split into frames, however its bytes arrive, and a client with a server on a socket."""

from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages.apis.api_versions import ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.cluster import Endpoint
from messages.wire import FrameReader, FrameTooLarge, MalformedFrame, chunks, decode_request, encode_response
from messages.wire.frame import CHUNK
from tests.wire_client import WireClient


def size_of(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big")


@given(frames=st.lists(st.binary(max_size=50), max_size=8), data=st.data())
def test_frames_are_restored_from_any_pieces_of_the_stream(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(size_of(frame) + frame for frame in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    reader = FrameReader()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == frames


def test_feeding_counts_without_a_reader() -> None:
    reader = FrameReader()
    reader.feed(b"\0\0\0\2")
    reader.feed(b"a")
    assert list(reader.feed(b"b")) == [b"ab"]


@pytest.mark.parametrize(
    ("size", "refusal", "words"),
    [(-1, MalformedFrame, "a frame of -1 bytes"), (101, FrameTooLarge, "a frame of 101 bytes is announced, 100")],
)
def test_a_refused_size_ends_the_stream(size: int, refusal: type[Exception], words: str) -> None:
    reader = FrameReader(max_bytes=100)
    frames = reader.feed(size_of(b"ok") + b"ok" + size.to_bytes(4, "big", signed=True))
    assert next(frames) == b"ok", "what came before is good"
    with pytest.raises(refusal, match=words):
        next(frames)
    with pytest.raises(refusal, match=words):
        list(reader.feed(size_of(b"ok") + b"ok"))
    assert list(FrameReader(max_bytes=100).feed(size_of(bytes(100)) + bytes(100))) == [bytes(100)]


def test_client_and_server_meet() -> None:
    answer = ApiVersionsResponse(0, (ApiVersionRange(18, 0, 3),))

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        reader = FrameReader()
        with connection:
            while data := connection.recv(7):
                for frame in reader.feed(data):
                    header, request = decode_request(frame)
                    if not isinstance(request, ApiVersionsRequest):
                        return
                    connection.sendall(encode_response(header, answer))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint("PLAINTEXT", *listener.getsockname())
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        with WireClient(endpoint.host, endpoint.port) as client:
            assert client.call(ApiVersionsRequest(3, "tests", "1")) == answer
            first, second = client.send(ApiVersionsRequest(0)), client.send(ApiVersionsRequest(2))
            assert client.receive(first, ApiVersionsRequest(0)) == answer
            assert client.receive(second, ApiVersionsRequest(2)) == answer
            client.send(ControlledShutdownRequest(3, 1))
            assert client.is_closed_by_peer()
            with pytest.raises(ConnectionError):
                client.receive_frame()
        server.join(10)
    assert not server.is_alive()


@given(st.lists(st.integers(0, 3 * CHUNK // 2), max_size=6))
def test_pieces_are_joined_to_chunks(sizes: list[int]) -> None:
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    joined = list(chunks(pieces))
    assert b"".join(joined) == b"".join(pieces)
    assert all(len(chunk) >= CHUNK for chunk in joined[:-1])
    assert len(joined) <= 1 + sum(sizes) // CHUNK
