"""A region of a log file, which `os.sendfile` sends to a socket without reading the bytes into memory.

Rule 1: the file descriptor stays open until the last region is freed, even if the log no longer uses the file or has
        removed it.
Rule 2: truncating the file invalidates its regions permanently, even if the file grows again, because the new bytes
        differ. Sending such a region fails, so the peer receives an incomplete response.
Rule 3: an error of the disk contains the file name; an error of the connection does not.

Kafka: `FileRecords`.
"""

from __future__ import annotations

import errno
import os

from actors.storage.log.handles import OpenFile
from messages.records import Region

DISK_ERRORS = frozenset({errno.EIO, errno.EBADMSG, errno.EUCLEAN, errno.EREMOTEIO, errno.ESTALE, errno.ENXIO})
"""Errors of a disk or a file system that a connection cannot have."""


class TruncationFlag:
    """Whether a file was truncated after a read; all regions that the read returned share this flag."""

    __slots__ = ("holds",)

    def __init__(self) -> None:
        self.holds = True


class FileRegion(Region):
    """A region of an open file: `size` bytes, beginning at `position`."""

    __slots__ = ("_file", "_path", "_position", "_size", "_uncut")

    def __init__(self, file: OpenFile, path: str, position: int, size: int, uncut: TruncationFlag) -> None:
        self._file = file
        self._path = path
        self._uncut = uncut
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def read(self) -> bytes:
        """Return the bytes. Raises OSError, also if the file was truncated."""
        data = os.pread(self._file.descriptor, self._size, self._position) if self._uncut.holds else b""
        if len(data) < self._size:
            raise _cut()
        return data

    def send(self, socket: int) -> int:
        """Send as much as the socket accepts, and return the number of bytes.

        Raises:
            OSError: An error of the connection or of the disk. Only a disk error contains the file name (rule 3).
        """
        try:
            sent = os.sendfile(socket, self._file.descriptor, self._position, self._size) if self._uncut.holds else 0
        except OSError as error:
            if error.errno in DISK_ERRORS:
                raise OSError(error.errno, error.strerror, self._path) from None
            raise
        if not sent:
            raise _cut()
        return sent

    def skip(self, count: int) -> FileRegion:
        """Return the region after the first `count` bytes."""
        return FileRegion(self._file, self._path, self._position + count, self._size - count, self._uncut)


def _cut() -> OSError:
    return OSError(errno.ENODATA, "the file was truncated while it was being sent")
