"""Trace files consist of frames; each has a checksum, and the digest of the previous frame.

Rule 1: a frame is a prefix of 64 bytes, followed by a zstd frame. For zstd the prefix is a skippable frame, so that
        `zstdcat` shows the text of any trace file. The layout of the prefix, little-endian:
            0  magic of a skippable frame (4), bytes that follow in the prefix: 56 (4)
            8  size of the zstd frame in bytes (4), kind (1), zero (3), records (4)
           20  number of the last delivery before the frame (8)
           28  digest of the previous frame (16; zeros at the beginning of a chain)
           44  digest of this frame: blake2b of bytes 8..44 and the zstd frame (16)
           60  checksum of the prefix: blake2b of bytes 0..60 (4)

Rule 2: a file that ends inside a frame is torn. A complete prefix or frame with a wrong checksum is damage. A frame
        without the digest of the previous frame is damage, too.
Rule 3: readers skip frames of kinds that they do not use.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

from messages.trace.files.errors import Damaged, Torn

HEADER = 1
"""The first frame of each file, with the trace header."""
RECORDS = 2
SNAPSHOT = 3
"""A part of a snapshot of all actors (`messages.trace.files.snapshots`)."""
ENTRY = 4
"""An entry of a manifest."""

START = bytes(16)
"""The `previous` digest of the first frame of a chain."""

_MAGIC = 0x184D2A5B
_PREFIX = struct.Struct("<III B3x I Q 16s 16s 4s".replace(" ", ""))
_DIGESTED = slice(8, 44)


class Frame(NamedTuple):
    """A valid frame that was read: `content` is compressed with zstd, `offset` is the frame's position."""

    kind: int
    records: int
    after: int
    previous: bytes
    digest: bytes
    content: bytes
    offset: int

    @property
    def end(self) -> int:
        """The offset of the next frame."""
        return self.offset + _PREFIX.size + len(self.content)


def _digest(prefix: bytes, content: bytes) -> bytes:
    digest = blake2b(prefix[_DIGESTED], digest_size=16)
    digest.update(content)
    return digest.digest()


def _checksum(prefix: bytes) -> bytes:
    return blake2b(prefix[:60], digest_size=4).digest()


def frame(kind: int, content: bytes, previous: bytes, records: int = 0, after: int = 0) -> tuple[bytes, bytes]:
    """Return (the frame's bytes, its digest).

    Args:
        kind: HEADER, RECORDS, SNAPSHOT or ENTRY.
        content: The zstd frame.
        previous: The digest of the previous frame.
        records: The number of records or lines in `content`.
        after: The number of the last delivery before the frame.
    """
    fields = (_MAGIC, _PREFIX.size - 8, len(content), kind, records, after, previous)
    digest = _digest(_PREFIX.pack(*fields, START, b""), content)
    prefix = _PREFIX.pack(*fields, digest, b"")
    return prefix[:60] + _checksum(prefix) + content, digest


def is_framed(beginning: bytes) -> bool:
    """Return whether a file with this beginning consists of frames."""
    return beginning[:4] == _MAGIC.to_bytes(4, "little")


def read_frames(stream: BinaryIO, path: Path) -> Iterator[Frame]:
    """Yield the frames of a file, each checked by itself. Raises Torn, Damaged, OSError."""
    offset = 0
    while prefix := stream.read(_PREFIX.size):
        if len(prefix) < _PREFIX.size:
            raise Torn(path, offset, "the file ends inside a frame")
        magic, _, length, kind, records, after, previous, digest, checksum = _PREFIX.unpack(prefix)
        if magic != _MAGIC or checksum != _checksum(prefix):
            raise Damaged(path, offset, "no frame begins here, or the checksum of its beginning is wrong")
        content = stream.read(length)
        if len(content) < length:
            raise Torn(path, offset, "the file ends inside a frame")
        if digest != _digest(prefix, content):
            raise Damaged(path, offset, "the checksum of the frame that begins here is wrong")
        yield Frame(kind, records, after, previous, digest, content, offset)
        offset += _PREFIX.size + length


def last_frame(stream: BinaryIO, path: Path) -> Frame | None:
    """Return the last whole frame of a file without reading the contents of earlier ones.

    Raises:
        Damaged: The last whole frame is damaged, or bytes before it are not frames.
        OSError: The file cannot be read.
    """
    size, offset, last = stream.seek(0, os.SEEK_END), 0, None
    while offset + _PREFIX.size <= size:
        stream.seek(offset)
        prefix = stream.read(_PREFIX.size)
        magic, _, length, *_, checksum = _PREFIX.unpack(prefix)
        if magic != _MAGIC or checksum != _checksum(prefix):
            raise Damaged(path, offset, "no frame begins here, or the checksum of its beginning is wrong")
        if offset + _PREFIX.size + length <= size:
            last = offset
        offset += _PREFIX.size + length
    if last is None:
        return None
    stream.seek(last)
    return next(read_frames(stream, path))._replace(offset=last)


def check_chain(frames: Iterator[Frame], path: Path, previous: bytes) -> Iterator[Frame]:
    """Yield the frames, and check that each contains the digest of the previous frame.

    `previous` is the digest that the first frame must contain. Raises Damaged, and the errors of `frames`.
    """
    for each in frames:
        if each.previous != previous:
            raise Damaged(path, each.offset, "a frame is missing before this one, or it does not belong here")
        previous = each.digest
        yield each
