"""Split the byte stream of a TCP connection into frames: an int32 size, then that number of bytes (broker.md 6.3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from messages.wire.compression import Data
from messages.wire.errors import FrameTooLarge, MalformedFrame

MAX_FRAME_BYTES = 100 * 1024 * 1024
"""Default of Kafka's socket.request.max.bytes."""

CHUNK = 256 * 1024
"""Bytes of a frame that are sent at once."""

_SIZE = struct.Struct(">i")


def chunks(pieces: Sequence[Data]) -> Iterator[bytes]:
    """Join the pieces of a frame to chunks of CHUNK bytes or more. Only the last chunk can be smaller."""
    chunk: list[Data] = []
    size = 0
    for piece in pieces:
        chunk.append(piece)
        size += len(piece)
        if size >= CHUNK:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)


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
