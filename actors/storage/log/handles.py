"""The open files of all logs of a process; at the limit, the least recently used file is closed.

Rule 1: a file is opened when it is first needed. A fetch in progress holds the file that it sends from, even after the
        file is closed here. While a total of `limit` files are open here or held by fetches, no further fetch may hold
        a file.
Rule 2: logs are written and dated here: a simulated disk gives files the simulated time.
Rule 3: a lack of free file descriptors does not count as a disk failure (`NO_DESCRIPTORS`). The files here are closed,
        fewer are kept open from then on, and the failed open is repeated once (`opening`).
"""

from __future__ import annotations

import errno
import logging
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of a process or a machine with too many open files."""
LIMIT = 500
LEAST = 8
"""Minimum number of files that logs keep open after the process once had no free descriptor."""

_log = logging.getLogger("kafka_actors.log")
_every: weakref.WeakSet[Handles] = weakref.WeakSet()
"""All instances of the process, because the limit is per process."""


def opening(open: Callable[[], T]) -> T:
    """Return `open()`. If no file descriptor is free, close all log files, and call `open` once more (rule 3).

    Raises:
        OSError: The error of the last call of `open`.
    """
    try:
        return open()
    except OSError as error:
        if error.errno not in NO_DESCRIPTORS:
            raise
        open_files = sum(map(len, list(_every)))
        _log.warning("%s: closing all %d log files. Raise the limit with ulimit -n.", error.strerror, open_files)
    for handles in list(_every):
        handles.halve()
    return open()


class OpenFile:
    """An open file of a log, which is not closed while this object is referenced."""

    __slots__ = ("_alive", "descriptor")

    def __init__(self, path: str, flags: int, alive: list[int]) -> None:
        self.descriptor = -1
        self._alive = alive
        self.descriptor = os.open(path, flags, 0o644)
        alive[0] += 1

    def __del__(self) -> None:
        if self.descriptor >= 0:
            self._alive[0] -= 1
            os.close(self.descriptor)


class Handles:
    """The open files of all logs, in a dict by path; a missing file is created when it is opened for writing.

    Args:
        limit: Maximum number of open files.
        wall_ms: Returns the time in ms that a written file gets as its modification time; None for the system's.
    """

    def __init__(self, limit: int = LIMIT, wall_ms: Callable[[], int] | None = None) -> None:
        self._limit = limit
        self._most = max(1, limit // 2)
        """Maximum number of files that are kept open here. Fetches may hold the same number."""
        self._open: OrderedDict[str, OpenFile] = OrderedDict()
        self._folders: dict[str, dict[str, None]] = {}
        """The paths of the open files by folder: 100,000 logs are closed without a look at each other's files."""
        self._alive = [0]
        """Number of files that are open here or held by a fetch."""
        self._wall_ms = wall_ms
        _every.add(self)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def may_lend(self) -> bool:
        """Whether a fetch may hold a file (rule 1)."""
        return self._alive[0] < self._limit

    def write(self, descriptor: int, pieces: Sequence[bytes | memoryview], position: int) -> int:
        """Write to an open file, and return the number of written bytes (rule 2)."""
        written = os.pwritev(descriptor, pieces, position)
        if self._wall_ms is not None:
            time = 1_000_000 * self._wall_ms()
            os.utime(descriptor, ns=(time, time))
        return written

    def modified_ms(self, path: str) -> int:
        """Return the modification time of a file in ms."""
        return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116  (as `DiskAdapter.make_directory`)

    def get(self, path: str, create: bool = False) -> OpenFile:
        """Return the file at `path`; it is open while the caller references it. Raises OSError."""
        file = self._open.pop(path, None)
        if file is None:
            if len(self._open) >= self._most:
                self.close(next(iter(self._open)))
            flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
            file = opening(lambda: OpenFile(path, flags, self._alive))
            self._folders.setdefault(path.rpartition("/")[0], {})[path] = None
        self._open[path] = file
        return file

    def close(self, path: str) -> None:
        """Close the file if it is open. Needed before the file is renamed or removed, and after its last use."""
        if self._open.pop(path, None) is not None:
            folder = path.rpartition("/")[0]
            del self._folders[folder][path]
            if not self._folders[folder]:
                del self._folders[folder]

    def close_below(self, folder: str) -> None:
        """Close every file in `folder`."""
        for path in self._folders.pop(folder, ()):
            del self._open[path]

    def close_all(self) -> None:
        """Close all files."""
        self._open.clear()
        self._folders.clear()

    def halve(self) -> None:
        """Close all files, and halve the maximum number of open files, but not below LEAST."""
        self._most = min(self._most, max(LEAST, self._most // 2))
        self.close_all()
