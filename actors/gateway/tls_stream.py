"""A TLS connection on the event loop, with the interface of `stream.Stream`.

Rule 1: OpenSSL works on memory (`ssl.MemoryBIO`), so that the stream keeps its own socket calls. A plaintext piece
        stays in the stream until all of its ciphertext is sent.
Rule 2: the handshake runs with the first reads. OpenSSL takes 50 KB for it, so it begins when the client's first record
        is complete: clients that stay silent, or send less, must not fill the memory. A failure sends OpenSSL's alert
        and closes at once.
Rule 3: a step of a handshake takes a millisecond. At most HANDSHAKES of them run in a turn of the event loop, so that
        other clients are served meanwhile. At most MOST_HANDSHAKES are in progress: the oldest is ended for a new one.

The reasons for MemoryBIO: an `SSLSocket` has no sendmsg, and after a partial write it must get the same bytes again.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from itertools import islice
from typing import Any, ClassVar

from actors.gateway.stream import Receiver, Stream
from messages.wire.data_plane import Piece

READ_BYTES = 64 * 1024
"""Bytes of ciphertext that are read from the socket at once."""
_RECEIVED = memoryview(bytearray(READ_BYTES))
"""What was read last, from any socket."""
HANDSHAKE = 22
RECORD_HEADER = 5
LARGEST_RECORD = 1 << 14
"""Type of the records of a handshake, and bytes of a record."""
MOST_PLAINTEXT = 64 * 1024
"""Bytes of plaintext that are encrypted in a call."""
MOST_PIECES = 64
HANDSHAKES = 2
"""Maximum number of steps of handshakes in a turn of the loop."""
MOST_HANDSHAKES = 1000


class TlsSocket:
    """A connected socket with TLS, in place of a plain socket.

    Args:
        connected: The socket.
        context: The server's context.
        established: Called after the handshake with the client's certificate in DER, or None; it raises ValueError to
            refuse the client.
    """

    _in_progress: ClassVar[dict[TlsSocket, None]] = {}
    """The handshakes of this process, the oldest first."""

    def __init__(
        self, connected: socket.socket, context: ssl.SSLContext, established: Callable[[bytes | None], None]
    ) -> None:
        self._socket = connected
        self._established: Callable[[bytes | None], None] | None = established
        self._context = context
        self._first: bytearray | None = bytearray()
        """The first record as far as it is received; None once the handshake has begun (rule 2)."""
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self._tls: ssl.SSLObject
        self._unsent = b""
        """Ciphertext that the socket has not accepted."""
        self._encrypted = 0
        """Bytes of plaintext whose ciphertext is in `_unsent`."""

    def fileno(self) -> int:
        """Return the socket's descriptor, which the event loop watches."""
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:
        """Set the socket's mode."""
        self._socket.setblocking(flag)

    def close(self) -> None:
        """Tell the peer that the data ends here, and close the socket."""
        self._in_progress.pop(self, None)
        if self._established is None:
            with contextlib.suppress(OSError):
                self._tls.unwrap()
            with contextlib.suppress(OSError):
                self._flush()
        self._socket.close()

    @property
    def is_established(self) -> bool:
        """Whether the handshake is over."""
        return self._established is None

    @property
    def has_received(self) -> bool:
        """Whether bytes were read from the socket that are not decrypted yet; the event loop does not know of them."""
        return self._established is None and bool(self._tls.pending() or self._incoming.pending)

    def recv(self, size: int) -> bytes:
        """Return decrypted bytes, b"" at the end. Raises BlockingIOError, or OSError after a failure."""
        parts = [self._read(lambda: self._tls.read(size))]
        size -= len(parts[0])
        with contextlib.suppress(ssl.SSLError):  # the next call raises it again
            while size > 0 and self.has_received:
                parts.append(self._tls.read(size))
                size -= len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def recv_into(self, buffer: Any) -> int:
        """Decrypt into a buffer; return the number of bytes."""
        end = int(self._read(lambda: self._tls.read(len(buffer), buffer)) or 0)
        with contextlib.suppress(ssl.SSLError):
            while end < len(buffer) and self.has_received:
                read: Any = self._tls.read(len(buffer) - end, buffer[end:])
                end += read
        return end

    def _read(self, read: Callable[[], Any]) -> Any:
        while True:
            try:
                if self._first is not None and not self._begin(self._first):
                    return b""
                if self._established is not None:
                    self._tls.do_handshake()
                    established, self._established = self._established, None
                    self._in_progress.pop(self, None)
                    established(self._tls.getpeercert(binary_form=True))
                    self._flush()
                return read()
            except ssl.SSLWantReadError:
                self._flush()
                size = self._socket.recv_into(_RECEIVED)
                if not size:
                    return b""
                self._incoming.write(_RECEIVED[:size])
            except ssl.SSLZeroReturnError:
                return b""
            except ValueError as error:
                raise ConnectionError(str(error)) from None
            except ssl.SSLError:
                self._flush()
                raise

    def _begin(self, first: bytearray) -> bool:
        """Begin the handshake once the first record is complete; return False if the client has closed.

        Raises:
            BlockingIOError: The record is not complete.
        """
        while not _is_record(first):
            size = self._socket.recv_into(_RECEIVED)
            if not size:
                return False
            first += _RECEIVED[:size]
        self._first, self._incoming, self._outgoing = None, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._incoming.write(first)
        self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._in_progress[self] = None
        if len(self._in_progress) > MOST_HANDSHAKES:
            oldest = next(iter(self._in_progress))
            del self._in_progress[oldest]
            with contextlib.suppress(OSError):
                oldest._socket.shutdown(socket.SHUT_RDWR)
        return True

    def send_pieces(self, pieces: list[Any]) -> int:
        """Encrypt and send pieces; return the number of plaintext bytes once their ciphertext is sent.

        Raises:
            BlockingIOError: The socket does not accept more. The next call goes on with the same pieces.
        """
        if not self._encrypted:
            left = MOST_PLAINTEXT
            for piece in pieces:
                self._encrypted += self._tls.write(memoryview(piece)[:left]) if len(piece) else 0
                left -= len(piece)
                if left <= 0:
                    break
        self._flush()
        if self._unsent:
            raise BlockingIOError
        sent, self._encrypted = self._encrypted, 0
        return sent

    def _flush(self) -> None:
        """Send ciphertext, as far as the socket accepts it."""
        self._unsent += self._outgoing.read()
        while self._unsent:
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except (BlockingIOError, InterruptedError):
                return


def _is_record(data: bytearray) -> bool:
    """Return whether these bytes contain a record of a handshake, or cannot become one."""
    if not data or data[0] != HANDSHAKE:
        return bool(data)
    size = int.from_bytes(data[3:5], "big")
    return len(data) >= RECORD_HEADER and (size > LARGEST_RECORD or len(data) >= RECORD_HEADER + size)


class _Turn:
    """The steps of handshakes in this turn of an event loop (rule 3)."""

    def __init__(self) -> None:
        self._steps = 0

    def admits(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether one more step may run in this turn."""
        if not self._steps:
            loop.call_soon(self._end)
        self._steps += 1
        return self._steps <= HANDSHAKES

    def _end(self) -> None:
        self._steps = 0


class TlsStream(Stream):
    """A stream over TLS."""

    __slots__ = ("_tls",)
    _turn = _Turn()

    def __init__(self, tls: TlsSocket, receiver: Receiver, max_frame_bytes: int) -> None:
        self._tls = tls
        connected: Any = tls
        super().__init__(connected, receiver, max_frame_bytes)

    def resume_reading(self) -> None:
        """Receive again, also what was read from the socket already."""
        super().resume_reading()
        if self._tls.has_received:
            self._loop.call_soon(self._readable)

    def _readable(self) -> None:
        if not self._reading:
            return
        if not self._tls.is_established and not self._turn.admits(self._loop):
            return  # the socket is still readable in the next turn
        super()._readable()
        if self._reading and self._tls.has_received:
            self._loop.call_soon(self._readable)

    def _send(self, first: Piece) -> int:
        return self._tls.send_pieces([first, *islice(self._out, 1, MOST_PIECES)])
