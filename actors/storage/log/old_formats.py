"""Detect message formats 0 and 1, which Kafka wrote before version 0.11.

A log with such messages causes an error and is never truncated.

Such a message begins like a batch, with offset and length. The next two fields are a CRC-32 of the remaining bytes, and
the format (broker.md 5.6.6).
"""

from __future__ import annotations

import errno
import struct
import zlib
from collections.abc import Callable

UNSUPPORTED_FORMAT = errno.ENOTSUP
"""The errno of a log that is not opened because of its format."""

_HEAD = struct.Struct(">qiIb")
_OVERHEAD = 12
"""Bytes of offset and length, which the length field does not count."""
_CRC_SIZE = 4
_SHORTEST = 14
"""Minimum length field of a message: format 0 without key and value."""


class UnsupportedFormat(OSError):
    """The log has messages of an old format; the exception's message names the file, the offset and the format."""

    def __init__(self, path: str, offset: int, magic: int) -> None:
        super().__init__(UNSUPPORTED_FORMAT, f"{path}: the message at offset {offset} has format {magic}")


def refuse_old_format(path: str, read: Callable[[int, int], bytes], position: int, size: int) -> None:
    """Raise UnsupportedFormat if a message of format 0 or 1 begins at `position` of a segment of `size` bytes.

    A message with a wrong checksum also counts as format 0 or 1 if an intact message of format 0 or 1 follows. In this
    case the log has an old format, and the first message is damaged.
    """
    first = None
    while position + _OVERHEAD + _SHORTEST <= size:
        offset, length, crc, magic = _HEAD.unpack(read(position, _HEAD.size))
        end = position + _OVERHEAD + length
        if magic not in (0, 1) or length < _SHORTEST or end > size:
            return
        first = first or (offset, magic)
        if zlib.crc32(read(position + _OVERHEAD + _CRC_SIZE, length - _CRC_SIZE)) == crc:
            raise UnsupportedFormat(path, *first)
        position = end
