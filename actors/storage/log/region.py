"""A stretch of a segment's file that is sent from there, without its bytes being read (`os.sendfile`).

Rule: the file stays open until the last of its regions is gone, also where the log has closed or removed it. That it
was cut meanwhile is an error to whoever sends: what the peer has got is no answer.
"""

from __future__ import annotations

import errno
import os

from actors.storage.log.handles import OpenFile
from messages.records import Region


class FileRegion(Region):
    """`size` bytes of an open file from `position` on."""

    __slots__ = ("_file", "_position", "_size")

    def __init__(self, file: OpenFile, position: int, size: int) -> None:
        self._file = file
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def read(self) -> bytes:
        """The bytes. Raises OSError where the file has become shorter."""
        data = os.pread(self._file.descriptor, self._size, self._position)
        if len(data) < self._size:
            raise _cut()
        return data

    def send(self, socket: int) -> int:
        """Send what the socket takes. Raises OSError, also where the file has become shorter."""
        sent = os.sendfile(socket, self._file.descriptor, self._position, self._size)
        if not sent:
            raise _cut()
        return sent

    def after(self, count: int) -> FileRegion:
        """What comes after so many bytes."""
        return FileRegion(self._file, self._position + count, self._size - count)


def _cut() -> OSError:
    return OSError(errno.ENODATA, "the file has become shorter")
