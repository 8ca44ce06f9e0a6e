"""Split the byte stream of a TCP connection into frames: an int32 size, then that number of bytes (broker.md 6.3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from messages.wire.errors import FrameTooLarge, MalformedFrame

MAX_FRAME_BYTES = 100 * 1024 * 1024
"""Default of Kafka's socket.request.max.bytes."""

_SIZE = struct.Struct(">i")


def frame_of(*pieces: bytes | memoryview) -> bytes:
    """Return the frame of a payload given in pieces: its size and the pieces."""
    return b"".join((_SIZE.pack(sum(map(len, pieces))), *pieces))


class FrameReader:
    """Splits a byte stream, which arrives in pieces of any size, into frames.

    After an invalid size the stream cannot be read any further, because the next frame's position is unknown.
    """

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add `data`, and return an iterator over all complete frames, without their sizes.

        The iterator first yields all frames before an invalid size. It then raises MalformedFrame for a negative size,
        or FrameTooLarge for a size above `max_bytes`.
        """
        self._buffer += data
        return self._frames()

    def _frames(self) -> Iterator[bytes]:
        while len(self._buffer) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._buffer)
            if size < 0:
                raise MalformedFrame(f"a frame of {size} bytes is announced")
            if size > self._max_bytes:
                raise FrameTooLarge(f"a frame of {size} bytes is announced, {self._max_bytes} are allowed")
            end = _SIZE.size + size
            if len(self._buffer) < end:
                return
            with memoryview(self._buffer) as view:
                frame = bytes(view[_SIZE.size : end])
            del self._buffer[:end]
            yield frame
