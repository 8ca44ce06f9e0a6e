"""A TLS connection on the event loop, with the interface of `stream.Stream`.

Rule 1: OpenSSL works on memory (`ssl.MemoryBIO`), so that the stream keeps its own socket calls. A plaintext piece
        stays in the stream until all of its ciphertext is sent.
Rule 2: the handshake runs with the first reads. OpenSSL takes 50 KB for it, so it begins when the client's first record
        is complete: clients that stay silent, or send less, must not fill the memory. A failure sends OpenSSL's alert
        and closes at once.
Rule 3: a step of a handshake takes a millisecond. At most HANDSHAKES of them run in a turn of the event loop, so that
        other clients are served meanwhile.
Rule 4: at most MOST_HANDSHAKES are in progress. Further clients wait with their first record, of which 2 KB are usual.
        While a client waits, a handshake that takes longer than PATIENCE is ended, the oldest first.

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
MOST_HANDSHAKES = 500
"""Maximum number of handshakes in progress: about as many as a CPU completes in a second."""
PATIENCE = 1.0


class Handshakes:
    """The handshakes of this process (rule 4)."""

    def __init__(self) -> None:
        self._begun: dict[TlsSocket, float] = {}
        """The handshakes in progress, the oldest first, with the loop's time of their begin."""
        self._waiting: dict[TlsSocket, Callable[[], None]] = {}

    def admit(self, tls: TlsSocket, wake: Callable[[], None]) -> bool:
        """Return whether a handshake may begin now; if not, `wake` is called when it may."""
        if tls not in self._begun:
            if len(self._begun) >= MOST_HANDSHAKES:
                if tls not in self._waiting:
                    self._waiting[tls] = wake
                    self._end_oldest_for(tls)
                return tls in self._begun
            self._begun[tls] = asyncio.get_running_loop().time()
        return True

    def end(self, tls: TlsSocket) -> None:
        """Forget a handshake, and let the next one begin."""
        self._waiting.pop(tls, None)
        if self._begun.pop(tls, None) is not None and self._waiting:
            following = next(iter(self._waiting))
            self._begun[following] = asyncio.get_running_loop().time()
            self._waiting.pop(following)()

    def _end_oldest_for(self, waiting: TlsSocket) -> None:
        """End handshakes that take too long until this one may begin, or try again later."""
        loop = asyncio.get_running_loop()
        while waiting in self._waiting:
            oldest, began = next(iter(self._begun.items()))
            if began + PATIENCE > loop.time():
                loop.call_at(began + PATIENCE, self._end_oldest_for, waiting)
                return
            oldest.give_up()


class TlsSocket:
    """A connected socket with TLS, in place of a plain socket.

    Args:
        connected: The socket.
        context: The server's context.
        established: Called after the handshake with the client's certificate in DER, or None; it raises ValueError to
            refuse the client.
    """

    __slots__ = (
        *("_context", "_encrypted", "_established", "_first", "_incoming", "_outgoing", "_socket", "_tls", "_unsent"),
        "wake",
    )
    _handshakes: ClassVar[Handshakes] = Handshakes()

    def __init__(
        self, connected: socket.socket, context: ssl.SSLContext, established: Callable[[bytes | None], None]
    ) -> None:
        self.wake: Callable[[], None] = _ignore
        """Called when the handshake may begin, after it had to wait (rule 4)."""
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
        self._handshakes.end(self)
        if self._established is None:
            with contextlib.suppress(OSError):
                self._tls.unwrap()
            with contextlib.suppress(OSError):
                self._flush()
        else:
            self._established = _refuse  # breaks a reference cycle, so that reference counting frees OpenSSL's memory
        self.wake = _ignore
        self._socket.close()

    @property
    def is_established(self) -> bool:
        """Whether the handshake is over."""
        return self._established is None

    @property
    def is_waiting(self) -> bool:
        """Whether the first record is complete and the handshake has not begun."""
        return self._first is not None and _is_record(self._first)

    def give_up(self) -> None:
        """End the handshake: the event loop finds the connection closed."""
        self._handshakes.end(self)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

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
                    self._handshakes.end(self)
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
            BlockingIOError: The record is not complete, or the handshake must wait.
        """
        while not _is_record(first):
            size = self._socket.recv_into(_RECEIVED[: RECORD_HEADER + LARGEST_RECORD - len(first)])
            if not size:
                return False
            first += _RECEIVED[:size]
        if not self._handshakes.admit(self, self.wake):
            raise BlockingIOError
        self._first, self._incoming, self._outgoing = None, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._incoming.write(first)
        self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
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


def _ignore() -> None:
    """Do nothing."""


def _refuse(certificate: bytes | None) -> None:
    """Refuse a client whose connection is closed."""
    raise ValueError("the connection is closed")


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
        tls.wake = self.resume_reading

    def resume_reading(self) -> None:
        """Receive again, also what was read from the socket already."""
        super().resume_reading()
        if self._tls.has_received or self._tls.is_waiting:
            self._loop.call_soon(self._readable)

    def _readable(self) -> None:
        if not self._reading:
            return
        if not self._tls.is_established and not self._turn.admits(self._loop):
            if self._tls.is_waiting:
                self._loop.call_soon(self._readable)
            return  # the socket is still readable in the next turn
        super()._readable()
        if self._reading and self._tls.is_waiting:
            self.pause_reading()  # what follows the first record stays in the socket
        elif self._reading and self._tls.has_received:
            self._loop.call_soon(self._readable)

    def _send(self, first: Piece) -> int:
        return self._tls.send_pieces([first, *islice(self._out, 1, MOST_PIECES)])
