"""A small blocking client for tests: one connection that sends and receives messages."""

from __future__ import annotations

import socket
import struct
from types import TracebackType

from messages.vocabulary import Message
from messages.wire import decode_response, encode_request


class WireClient:
    """One connection to a node.

    `call` raises ConnectionError if the node closes the connection, and TimeoutError after `timeout` seconds.
    """

    def __init__(self, host: str, port: int, client_id: str = "test", timeout: float = 30.0) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self._client_id = client_id
        self._correlation_id = 0

    def __enter__(self) -> WireClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def call(self, request: Message) -> Message:
        """Send `request` and wait for its response."""
        return self.receive(self.send(request), request)

    def send(self, request: Message) -> int:
        """Send `request` and return its correlation id. Call `receive` for the responses in the order of sending."""
        self._correlation_id += 1
        self.socket.sendall(encode_request(request, self._correlation_id, self._client_id))
        return self._correlation_id

    def receive(self, correlation_id: int, request: Message) -> Message:
        """Receive the next response. It must answer the request with this correlation id."""
        found, response = decode_response(type(request), request.version, self.receive_frame())
        assert found == correlation_id, f"the reply to request {found} came where {correlation_id} was due"
        return response

    def send_frame(self, frame: bytes) -> None:
        """Send arbitrary bytes as a frame: their size, then the bytes."""
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive_frame(self) -> bytes:
        """Receive the next frame, and return it without its size."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def is_closed_by_peer(self) -> bool:
        """Wait for data or the end of the connection; return True if the node has closed the connection."""
        try:
            return not self.socket.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            return True

    def close(self) -> None:
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError(f"closed after {len(data)} of {size} bytes")
            data += more
        return bytes(data)
