"""Split the byte stream of a TCP connection into frames: an int32 size, then as many bytes (broker.md 6.3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from messages.wire.errors import FrameTooLarge, MalformedFrame

MAX_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's socket.request.max.bytes by default."""

_SIZE = struct.Struct(">i")


def framed(*pieces: bytes | memoryview) -> bytes:
    """The payload that `pieces` make together, with its size before it."""
    return b"".join((_SIZE.pack(sum(map(len, pieces))), *pieces))


class FrameReader:
    """Splits a byte stream, which arrives in pieces of any size, into frames.

    A stream whose next size is refused stays refused: what follows it has no known meaning.
    """

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take `data`; the iterator gives every frame that is whole now, without its size.

        Raises (the iterator) MalformedFrame for a negative size and FrameTooLarge for one above `max_bytes`, after the
        frames that came before it.
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
