"""Open files of all logs of a process, no more than so many at a time: the one used longest ago is closed first.

Ten thousand partitions have more segments than a process may have files. A file is opened when it is first needed, and
whoever sends from it (a fetch on its way) holds it open by a duplicate of its own.
"""

from __future__ import annotations

import os
from collections import OrderedDict


class Handles:
    """Descriptors by path, open for reading and writing; made where missing when asked for writing."""

    def __init__(self, limit: int = 500) -> None:
        self._limit = limit
        self._open: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str, create: bool = False) -> int:
        """The descriptor of `path`, valid until the next call. Raises OSError."""
        descriptor = self._open.get(path)
        if descriptor is not None:
            self._open.move_to_end(path)
            return descriptor
        if len(self._open) >= self._limit:
            os.close(self._open.popitem(last=False)[1])
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        descriptor = self._open[path] = os.open(path, flags, 0o644)
        return descriptor

    def close(self, path: str) -> None:
        """Close the file, if it is open: it is renamed, removed, or not needed any more."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_below(self, folder: str) -> None:
        """Close every file in `folder`."""
        for path in [path for path in self._open if path.startswith(folder + "/")]:
            self.close(path)

    def close_all(self) -> None:
        """Close everything."""
        while self._open:
            os.close(self._open.popitem()[1])
