"""A connected TCP socket on the event loop, which receives and sends without copying data.

Rule 1: a connection holds what it has received and not more: a silent one holds no buffer. A frame of more than USUAL
        bytes gets a buffer of its own, which grows with what has come; its readers keep views of it.
Rule 2: what is to be sent is a list of pieces. All that one turn of the loop gathers goes out in one call, at once
        where nothing is to follow; what the socket does not take waits, and beyond HIGH_WATER the receiver must
        pause. A region of a file is sent by the system, from where it lies; where it cannot be any more, what the peer
        has got is no answer, and the connection is aborted.
Rule 3: `close` sends what waits first, `abort` does not. Either way, and when the peer has gone, the receiver is
        notified `connection_lost`, once, in a later turn; and of the disk's error, if it was that.
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

USUAL = 64 * 1024
"""Bytes received at once, and the most that a frame without a buffer of its own has."""
BEGUN = 32 * 1024
"""Bytes of a large frame that come before it gets its buffer: the size that a peer announces costs nothing."""
GROWTH = 32
"""How many times the bytes that have come a large frame's buffer holds: a MB is moved once. Eight cost 0.1 ms more."""
HIGH_WATER = 64 * 1024
MOST_PIECES = 512
"""In one call; the system takes 1024."""

_SIZE = struct.Struct(">i")
_SIZE_AND_KEY = struct.Struct(">iH")
Data = bytes | memoryview
Piece = bytes | memoryview | Region


class FrameBuffer:
    """A receive buffer that splits a byte stream into frames: call `receive` with the socket, then `take` the frames.

    A stream whose next size is refused stays refused: what follows it has no known meaning.
    """

    __slots__ = "_buffer", "_end", "_max_bytes", "_start"

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer: bytes | bytearray = b""
        """Bytes as they came, or the buffer of a large frame."""
        self._start = self._end = 0

    @property
    def held(self) -> int:
        """Bytes of the peer's that have not been taken."""
        return self._end - self._start

    def receive(self, connected: socket.socket) -> int:
        """Receive once, of a large frame no more than it needs. Returns the number of bytes, 0 at the stream's end."""
        need, held = self._need(), self._end - self._start
        if need > USUAL and held >= BEGUN:
            if self._end == len(self._buffer) or isinstance(self._buffer, bytes):
                self._grow(min(need, GROWTH * held))
            with memoryview(self._buffer) as view:
                count = connected.recv_into(view[self._end : self._start + need])
        else:
            data = connected.recv(max(USUAL - held, _SIZE_AND_KEY.size))
            count = len(data)
            self._buffer = self._buffer[self._start : self._end] + data if held else data
            self._start, self._end = 0, held
        self._end += count
        return count

    @property
    def is_large(self) -> bool:
        """Whether the next frame has a buffer of its own, or is to get one."""
        return self._need() > USUAL

    @property
    def is_refused(self) -> bool:
        """Whether the next size cannot be."""
        return self._end - self._start >= _SIZE.size and not self._need()

    def begun(self) -> tuple[int, bytes] | None:
        """Size and first bytes of the frame that is not there whole; None if its size is incomplete or refused."""
        need, at = self._need(), self._start + _SIZE.size
        return (need - _SIZE.size, bytes(self._buffer[at : min(at + 8, self._end)])) if need else None

    def next_key(self) -> int | None:
        """The API key of the next frame, if it is there whole."""
        held = self._end - self._start
        if held < _SIZE_AND_KEY.size:
            return None
        size, key = _SIZE_AND_KEY.unpack_from(self._buffer, self._start)
        return key if held >= _SIZE.size + size else None

    def take(self) -> Data | None:
        """The next frame without its size, None if it is incomplete.

        Raises MalformedFrame for a negative size and FrameTooLarge for one above the maximum.
        """
        held = self._end - self._start
        size = _SIZE.unpack_from(self._buffer, self._start)[0] if held >= _SIZE.size else 0
        if size < 0:
            raise MalformedFrame(f"a frame of {size} bytes is announced")
        if size > self._max_bytes:
            raise FrameTooLarge(f"a frame of {size} bytes is announced, {self._max_bytes} are allowed")
        begin, end = self._start + _SIZE.size, self._start + _SIZE.size + size
        if end > self._end:
            if self._start and isinstance(self._buffer, bytes):  # the frames that were taken are held no longer
                self._buffer = self._buffer[self._start :]
                self._start, self._end = 0, len(self._buffer)
            return None
        if isinstance(self._buffer, bytearray):
            frame: Data = memoryview(self._buffer).toreadonly()[begin:end]
            self._buffer = b""
            self._start = self._end = 0
            return frame
        frame = self._buffer[begin:end]
        self._start = end
        if end == self._end:
            self._buffer = b""
            self._start = self._end = 0
        return frame

    def _need(self) -> int:
        """Bytes of the frame that is coming, its size included, as far as is known."""
        if self._end - self._start < _SIZE.size:
            return 0
        (size,) = _SIZE.unpack_from(self._buffer, self._start)
        return _SIZE.size + size if 0 <= size <= self._max_bytes else 0

    def _grow(self, size: int) -> None:
        """Move what has come of a large frame to a buffer of `size` bytes."""
        buffer, held = bytearray(size), self.held
        buffer[:held] = memoryview(self._buffer)[self._start : self._end]
        self._buffer, self._start, self._end = buffer, 0, held


class Receiver(Protocol):
    """The interface of an object that owns a stream and is notified of its data and its end."""

    def received(self, count: int) -> None:
        """A number of bytes was received into the stream's frames."""

    def pause_writing(self) -> None:
        """The peer does not take what is sent."""

    def resume_writing(self) -> None:
        """It has taken it."""

    def connection_lost(self, disk_error: OSError | None) -> None:
        """The connection is closed by either side; `disk_error` where a file could not be read, with its name."""


class Stream:
    """A connected TCP socket on the event loop, which passes its data to `receiver`."""

    __slots__ = (
        "__weakref__",
        *("_closing", "_disk_error", "_flush_ahead", "_gone", "_loop", "_out", "_paused", "_reading", "_receiver"),
        *("_socket", "_waiting", "_writing", "frames"),
    )

    def __init__(self, connected: socket.socket, receiver: Receiver, max_frame_bytes: int) -> None:
        self.frames = FrameBuffer(max_frame_bytes)
        self._socket = connected
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._out: deque[Piece] = deque()
        self._waiting = 0
        """Bytes in it."""
        self._flush_ahead = self._writing = self._paused = self._reading = False
        self._closing = self._gone = False
        self._disk_error: OSError | None = None
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.resume_reading()

    @property
    def is_closing(self) -> bool:
        """Whether nothing more is received or sent."""
        return self._closing

    # ------------------------------------------------------------------------------------------------ receiving

    def pause_reading(self) -> None:
        """Leave what comes in the socket."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket)

    def resume_reading(self) -> None:
        """Receive again."""
        if not (self._reading or self._closing):
            self._reading = True
            self._loop.add_reader(self._socket, self._readable)

    def _readable(self) -> None:
        try:
            count = self.frames.receive(self._socket)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.abort()
            return
        if count:
            self._receiver.received(count)
        else:
            self.close()

    # ------------------------------------------------------------------------------------------------ sending

    def write(self, pieces: Sequence[Piece], more: bool = True) -> None:
        """Send these, after what was written before; in a later turn if there may be `more` to go with them."""
        if self._closing:
            return
        self._out += pieces
        self._waiting += sum(map(len, pieces))
        if self._flush_ahead or self._writing:
            return
        if more:
            self._flush_ahead = True
            self._loop.call_soon(self._flush)
        else:
            self._flush()

    def _flush(self) -> None:
        """Send as much as the socket takes."""
        self._flush_ahead = False
        try:
            while self._out and not self._gone:
                self._sent(self._send(self._out[0]))
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
                self._loop.add_writer(self._socket, self._flush)
            else:
                self._loop.remove_writer(self._socket)
        if self._closing and not self._out:
            self._end()
        elif not self._paused and self._waiting > HIGH_WATER:
            self._paused = True
            self._receiver.pause_writing()
        elif self._paused and not self._out:
            self._paused = False
            self._receiver.resume_writing()

    def _send(self, first: Piece) -> int:
        """Send a region, or the pieces before the next."""
        if isinstance(first, Region):
            return first.send(self._socket.fileno())
        pieces: list[Any] = [*takewhile(_is_data, islice(self._out, MOST_PIECES))]
        return self._socket.sendmsg(pieces)

    def _sent(self, count: int) -> None:
        out = self._out
        if count == self._waiting:
            out.clear()
        self._waiting -= count
        while out and count:
            size = len(out[0])
            if size <= count:
                out.popleft()
                count -= size
            else:
                first = out[0]
                out[0] = first.after(count) if isinstance(first, Region) else memoryview(first)[count:]
                count = 0
        while out and not len(out[0]):
            out.popleft()

    # ------------------------------------------------------------------------------------------------ ending

    def close(self) -> None:
        """Close after what was written."""
        if not self._closing:
            self._closing = True
            self.pause_reading()
            if not self._out:
                self._end()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._out.clear()
        self._end()

    def _end(self) -> None:
        if self._gone:
            return
        self._gone = True
        self.pause_reading()
        if self._writing:
            self._loop.remove_writer(self._socket)
        self._loop.call_soon(self._lost)

    def _lost(self) -> None:
        self._socket.close()
        receiver = self._receiver
        del self._receiver  # it holds us: an old connection is freed by its last reference alone
        receiver.connection_lost(self._disk_error)


def _is_data(piece: Piece) -> bool:
    return isinstance(piece, (bytes, memoryview))  # sooner known than that it is no Region
