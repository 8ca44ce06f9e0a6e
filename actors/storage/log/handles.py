"""Open files of all logs of a process, no more than so many at a time: the one used longest ago is closed first.

Ten thousand partitions have more segments than a process may have files. A file is opened when it is first needed, and
whoever sends from it (a fetch on its way) holds it open, when it is closed here, too.
"""

from __future__ import annotations

import os
from collections import OrderedDict


class OpenFile:
    """A file that is open as long as somebody holds this."""

    __slots__ = ("descriptor",)

    def __init__(self, path: str, flags: int) -> None:
        self.descriptor = -1
        self.descriptor = os.open(path, flags, 0o644)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class Handles:
    """Files by path, open for reading and writing; made where missing when asked for writing."""

    def __init__(self, limit: int = 500) -> None:
        self._limit = limit
        self._open: OrderedDict[str, OpenFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str, create: bool = False) -> int:
        """The descriptor of `path`, valid until the next call. Raises OSError."""
        return self.hold(path, create).descriptor

    def hold(self, path: str, create: bool = False) -> OpenFile:
        """The file at `path`, for who needs it beyond the next call. Raises OSError."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        if len(self._open) >= self._limit:
            self._open.popitem(last=False)
        file = self._open[path] = OpenFile(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0))
        return file

    def close(self, path: str) -> None:
        """Close the file, if it is open: it is renamed, removed, or not needed any more."""
        self._open.pop(path, None)

    def close_below(self, folder: str) -> None:
        """Close every file in `folder`."""
        for path in [path for path in self._open if path.startswith(folder + "/")]:
            self.close(path)

    def close_all(self) -> None:
        """Close everything."""
        self._open.clear()
