"""Flush log files to disk, either in the calling thread or in other threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from actors.storage.log.handles import opening


class Flush(Protocol):
    """A request to flush files of a log to disk."""

    def done(self) -> bool:
        """Return whether the flush has ended."""

    def result(self) -> None:
        """Wait until the flush has ended. Raises OSError if the flush failed."""


class Flusher(Protocol):
    """The interface of an object that flushes log files."""

    def submit(self, flush: Callable[[Sequence[str]], None], paths: Sequence[str], /) -> Flush:
        """Call `flush` with these paths, now or on another thread."""

    def shutdown(self, wait: bool = True) -> None:
        """Accept no more flushes. If `wait`, return only when those in progress have ended."""


class SynchronousFlusher:
    """A flusher that flushes in the thread of the caller."""

    def submit(self, flush: Callable[[Sequence[str]], None], paths: Sequence[str], /) -> Flush:
        """Call `flush` now."""
        try:
            flush(paths)
        except OSError as error:
            return _FlushCompleted(error)
        return _FlushCompleted(None)

    def shutdown(self, wait: bool = True) -> None:
        """Do nothing: no flush is ever pending."""


class _FlushCompleted:
    """The end of a flush, with the error if it failed."""

    def __init__(self, error: OSError | None) -> None:
        self._error = error

    def done(self) -> bool:
        return True

    def result(self) -> None:
        if self._error is not None:
            raise self._error


def make_durable(paths: Sequence[str]) -> None:
    """Flush these files to disk; any thread may call this. Files that were removed meanwhile are skipped.

    Raises OSError.
    """
    for path in paths:
        try:
            descriptor = opening(partial(os.open, path, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            continue
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
