"""A connected TCP socket that receives and sends on the event loop, without copying data.

Rule 1: a connection buffers only the bytes that it has received. An idle connection has no buffer. A frame of more than
        USUAL bytes has its own buffer, which grows with the bytes received. The code that takes the frame gets views of
        this buffer, not copies.
Rule 2: output is a list of pieces: bytes, or regions of files. The pieces written in one turn of the loop are sent in
        one call. They are sent in a later turn, or at once if the writer says that no more follow. Unsent pieces wait.
        Above HIGH_WATER unsent bytes, the receiver (whose methods the stream calls) must stop writing. The system sends
        a region of a file directly from the file. If the region cannot be read any more, the response is incomplete,
        and the connection is aborted.
Rule 3: `close` sends waiting pieces first, `abort` does not. After either, in a later turn, or after the peer closed,
        the receiver's `connection_lost` is called once. Its argument is the error of the disk if a failed read of a
        file ended the connection, else None.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Sequence
from itertools import islice, takewhile
from typing import Any, Protocol

from messages.records import Region
from messages.wire import FrameTooLarge, MalformedFrame
from messages.wire.data_plane import Data, Piece

USUAL = 64 * 1024
"""Number of bytes received at once, and maximum size of a frame without its own buffer."""
BEGUN = 32 * 1024
"""Bytes of a large frame that must arrive before it gets its own buffer, so that an announced size alone takes no
memory."""
GROWTH = 32
"""Ratio of a large frame's buffer to the bytes received, so that a MB is moved once. A ratio of 8 cost 0.1 ms more."""
HIGH_WATER = 64 * 1024
MOST_PIECES = 512
"""Maximum number of pieces in a call; the system's limit is 1024."""

TLS_HANDSHAKE = 0x1603
"""First two bytes of a TLS connection: a handshake record of SSL 3.0, which all versions of TLS imitate."""

_SIZE = struct.Struct(">i")
_SIZE_AND_KEY = struct.Struct(">iH")


class FrameBuffer:
    """A receive buffer that splits a byte stream into frames: call `receive` with the socket, then `take` the frames.

    After a frame with an invalid size, all later bytes are refused, because the frame boundaries are unknown.
    """

    __slots__ = "_buffer", "_start", "held", "max_bytes"

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        """Maximum size of a frame."""
        self._buffer: bytes | bytearray = b""
        """The bytes as received, or the buffer of a large frame."""
        self._start = self.held = 0
        """Index of the next frame in the buffer, and number of received bytes that have not been taken."""

    def receive(self, connected: socket.socket) -> int:
        """Receive bytes from the socket, in one call; return their number, 0 at the end of the stream.

        While a large frame is incomplete, at most its missing bytes are received.
        """
        held = self.held
        if held >= BEGUN and (need := self._need()) > USUAL:
            if isinstance(self._buffer, bytes) or held == len(self._buffer):
                self._grow(min(need, GROWTH * held))
            with memoryview(self._buffer) as view:
                count = connected.recv_into(view[held:need])
        else:
            data = connected.recv(max(USUAL - held, _SIZE_AND_KEY.size) if held else USUAL)
            count = len(data)
            self._buffer = self._buffer[self._start :] + data if held else data
            self._start = 0
        self.held = held + count
        return count

    @property
    def is_large(self) -> bool:
        """Whether the next frame has, or will get, its own buffer."""
        return self._need() > USUAL

    @property
    def are_pipelined(self) -> bool:
        """Whether bytes of a further frame follow the next frame."""
        size = _SIZE.unpack_from(self._buffer, self._start)[0] if self.held > _SIZE.size else -1
        return 0 <= size < self.held - _SIZE.size and size <= self.max_bytes

    @property
    def is_refused(self) -> bool:
        """Whether the next frame has an invalid size: negative, or above the maximum."""
        return self.held >= _SIZE.size and not self._need()

    def next_frame_head(self) -> tuple[int, bytes] | None:
        """Return the size and the first 8 bytes of the next frame; None if its size field is incomplete or invalid."""
        need, at = self._need(), self._start + _SIZE.size
        return (need - _SIZE.size, bytes(self._buffer[at : min(at + 8, self._start + self.held)])) if need else None

    def next_key(self) -> int | None:
        """Return the API key of the next frame if it is complete; else None."""
        if self.held < _SIZE_AND_KEY.size:
            return None
        size, key = _SIZE_AND_KEY.unpack_from(self._buffer, self._start)
        return key if self.held >= _SIZE.size + size else None

    def take(self) -> Data | None:
        """Return the next frame without its size; None if it is incomplete.

        Raises:
            MalformedFrame: The size is negative.
            FrameTooLarge: The size is above the maximum.
        """
        buffer, begin, left = self._buffer, self._start + _SIZE.size, self.held - _SIZE.size
        size = _SIZE.unpack_from(buffer, self._start)[0] if left >= 0 else 0
        if size < 0:
            raise MalformedFrame(f"a frame of {size} bytes is announced")
        if size > self.max_bytes:
            if size >> 16 == TLS_HANDSHAKE:
                raise FrameTooLarge("its client uses TLS, which this listener does not")
            raise FrameTooLarge(f"a frame of {size} bytes is announced, {self.max_bytes} are allowed")
        left -= size
        if left < 0:
            if self._start and isinstance(buffer, bytes):  # free the frames that were taken
                self._buffer, self._start = buffer[self._start :], 0
            return None
        end = begin + size
        self.held = left
        self._buffer, self._start = (buffer, end) if left else (b"", 0)
        return buffer[begin:end] if isinstance(buffer, bytes) else memoryview(buffer).toreadonly()[begin:end]

    def _need(self) -> int:
        """Return the size in bytes of the next frame with its size field; 0 if that field is incomplete or invalid."""
        size = _SIZE.unpack_from(self._buffer, self._start)[0] if self.held >= _SIZE.size else -1
        return _SIZE.size + size if 0 <= size <= self.max_bytes else 0

    def _grow(self, size: int) -> None:
        """Move the received bytes of a large frame to a buffer of `size` bytes."""
        buffer = bytearray(size)
        buffer[: self.held] = memoryview(self._buffer)[self._start :]
        self._buffer, self._start = buffer, 0


class Receiver(Protocol):
    """The interface of an object that owns a stream and is notified of its data and its end."""

    def handle_bytes(self, count: int) -> None:
        """Handle `count` bytes that were received into the stream's frame buffer."""

    def pause_writing(self) -> None:
        """Stop writing: the peer does not read fast enough."""

    def resume_writing(self) -> None:
        """Resume writing: all waiting bytes were sent."""

    def connection_lost(self, disk_error: OSError | None) -> None:
        """Handle the end of the connection, closed by either side.

        `disk_error` has the name of the file that could not be read.
        """


_NOTHING: deque[Piece] = deque()
"""The output of a stream that has nothing to write: an empty deque takes 0.6 KB, most of what a silent client takes."""


class Stream:
    """A connected TCP socket on the event loop; `receiver` is notified of received data and of the connection's end."""

    __slots__ = (
        "__weakref__",
        *("_disk_error", "_fd", "_flush_ahead", "_gone", "_loop", "_out", "_paused", "_reading", "_receiver"),
        *("_silent", "_socket", "_waiting", "_writing", "frames", "is_closing"),
    )

    def __init__(self, connected: socket.socket, receiver: Receiver, max_frame_bytes: int) -> None:
        self.frames = FrameBuffer(max_frame_bytes)
        self._socket = connected
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._out = _NOTHING
        self._waiting = 0
        """Number of bytes in `_out`."""
        self._flush_ahead = self._writing = self._paused = self._reading = False
        self._gone = self._silent = False
        self.is_closing = False
        """Whether the stream receives and sends no further data."""
        self._disk_error: OSError | None = None
        connected.setblocking(False)
        self._fd = connected.fileno()
        """The socket's descriptor: of a socket that the event loop does not know, it makes an error text, in 20 us."""
        self.resume_reading()

    def silence(self) -> None:
        """Receive and send nothing more, and keep the socket open until `abort`, as if the machine were dead."""
        if not self.is_closing:
            self.is_closing = self._gone = self._silent = True
            self._out.clear()
            self.pause_reading()
            if self._writing:
                self._loop.remove_writer(self._fd)

    # ------------------------------------------------------------------------------------------------ receiving

    def pause_reading(self) -> None:
        """Stop receiving: data stays in the socket."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        """Receive again."""
        if not (self._reading or self.is_closing):
            self._reading = True
            self._loop.add_reader(self._fd, self._readable)

    def read_ahead(self) -> None:
        """Receive what has arrived already, without a turn of the event loop."""
        if self._reading:
            self._readable()

    def _readable(self) -> None:
        try:
            count = self.frames.receive(self._socket)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.abort()
            return
        if count:
            self._receiver.handle_bytes(count)
            return
        self.is_closing = True
        self.pause_reading()
        if not self._out:
            self._end(later=False)

    # ------------------------------------------------------------------------------------------------ sending

    def write(self, pieces: Sequence[Piece], more: bool = True) -> None:
        """Send these pieces after all earlier pieces.

        Args:
            pieces: Bytes, or regions of files.
            more: Whether the caller may write more in this turn of the loop. If so, everything written in this turn is
                sent together in a later turn.
        """
        if self.is_closing:
            return
        if self._out:
            self._out += pieces
        else:
            self._out = deque(pieces)
        self._waiting += sum(map(len, pieces))
        if self._flush_ahead or self._writing:
            return
        if more:
            self._flush_ahead = True
            self._loop.call_soon(self._flush)
        else:
            self._flush()

    def _flush(self) -> None:
        """Send as much as the socket accepts."""
        self._flush_ahead = False
        try:
            while self._out and not self._gone:
                count = self._send(self._out[0])
                if count == self._waiting:
                    self._out, self._waiting = _NOTHING, 0
                else:
                    self._note_sent(count)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._disk_error = error if error.filename else None
            self.abort()
        if self._gone:
            return
        if bool(self._out) != self._writing:
            self._writing = bool(self._out)
            if self._writing:
                self._loop.add_writer(self._fd, self._flush)
            else:
                self._loop.remove_writer(self._fd)
        if self.is_closing and not self._out:
            self._end()
        elif not self._paused and self._waiting > HIGH_WATER:
            self._paused = True
            self._receiver.pause_writing()
        elif self._paused and not self._out:
            self._paused = False
            self._receiver.resume_writing()

    def _send(self, first: Piece) -> int:
        """Send one file region, or the byte pieces before the next file region; return the number of bytes sent."""
        if len(self._out) == 1 and first.__class__ is bytes:
            return self._socket.send(first)
        if isinstance(first, Region):
            return first.send(self._fd)
        pieces: list[Any] = [*takewhile(_is_data, islice(self._out, MOST_PIECES))]
        return self._socket.sendmsg(pieces)

    def _note_sent(self, count: int) -> None:
        """Remove the pieces that were sent, and what was sent of the next one."""
        out = self._out
        self._waiting -= count
        while out and count:
            size = len(out[0])
            if size <= count:
                out.popleft()
                count -= size
            else:
                first = out[0]
                out[0] = first.skip(count) if isinstance(first, Region) else memoryview(first)[count:]
                count = 0
        while out and not len(out[0]):
            out.popleft()

    # ------------------------------------------------------------------------------------------------ ending

    def close(self) -> None:
        """Close after all written pieces are sent."""
        if not self.is_closing:
            self.is_closing = True
            self.pause_reading()
            if not self._out:
                self._end()

    def abort(self) -> None:
        """Close at once."""
        self.is_closing = True
        if self._silent:
            self._silent = self._gone = self._writing = False
        self._out.clear()
        self._end()

    def _end(self, later: bool = True) -> None:
        if self._gone:
            return
        self._gone = True
        self.pause_reading()
        if self._writing:
            self._loop.remove_writer(self._fd)
        if later:
            self._loop.call_soon(self._close_socket)
        else:
            self._close_socket()

    def _close_socket(self) -> None:
        self._socket.close()
        receiver = self._receiver
        del self._receiver  # breaks the reference cycle, so that reference counting frees an old connection
        receiver.connection_lost(self._disk_error)


def _is_data(piece: Piece) -> bool:
    return isinstance(piece, (bytes, memoryview))  # faster than `not isinstance(piece, Region)`
