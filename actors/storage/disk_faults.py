"""Disk faults that are injected into the I/O adapters "disk" and "logs" of a simulated or a real node.

Rule 1: a full disk fails all writes that need space; a failing disk fails all operations.
Rule 2: a slow disk blocks its node, because a node writes synchronously.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

FULL = "full"
FAILING = "failing"
SLOW = "slow"

_WRITES = frozenset("append append_as_coordinator append_marker replicate make_directory write_text open".split())
"""The calls of both adapters that need disk space."""

_MEMORY = frozenset("configure lose note_high_watermark producers unlock".split())
"""The calls that do not access a disk."""

_ERRNO = {FULL: errno.ENOSPC, FAILING: errno.EIO}


class DiskFaults:
    """The disk faults of one node, which has one disk per log directory. They remain in effect when the node restarts.

    For a slow disk, `hold_up` is called with the seconds that the node waits.
    """

    def __init__(self, names: tuple[str, ...], hold_up: Callable[[float], None]) -> None:
        self.names = names
        self.faults: dict[str, str] = {}
        """Directory -> FULL or FAILING."""
        self.delays: dict[str, float] = {}
        """Directory -> seconds that each write takes."""
        self.read_delays: dict[str, float] = {}
        """Directory -> seconds that each read of a log takes."""
        self._hold_up = hold_up

    def met(self, fault: str) -> None:
        """Called after FULL, FAILING or SLOW was injected into an operation. Subclasses override it."""

    def check(self, method: str, args: tuple[Any, ...]) -> None:
        """Inject the disk faults that affect a call, before the call is made.

        Raises:
            OSError: The disk of the call is failing, or it is full and the call needs space.
        """
        if (self.faults or self.delays or self.read_delays) and method not in _MEMORY:
            for arg in args:
                if isinstance(arg, str):
                    self._check(method, self._directory_of(arg))

    def _directory_of(self, path: str) -> str:
        """Return the log directory that contains a path; "" if none does."""
        return next((name for name in self.names if path == name or path.startswith(f"{name}/")), "")

    def _check(self, method: str, directory: str) -> None:
        fault = self.faults.get(directory, "")
        if fault == FAILING or (fault == FULL and method in _WRITES):
            self.met(fault)
            raise OSError(_ERRNO[fault], os.strerror(_ERRNO[fault]))
        seconds = 0.0
        if method in _WRITES:
            seconds = self.delays.get(directory, 0.0)
        elif method in ("read", "read_committed"):
            seconds = self.read_delays.get(directory, 0.0)
        if seconds:
            self.met(SLOW)
            self._hold_up(seconds)


class FaultyAdapter:
    """An I/O adapter of a node; its calls fail or wait according to the faults of the node's disks."""

    def __init__(self, adapter: Any, disks: DiskFaults) -> None:
        self._adapter = adapter
        self._disks = disks

    def __getattr__(self, method: str) -> Callable[..., Any]:
        call = getattr(self._adapter, method)

        def checked(*args: Any) -> Any:
            self._disks.check(method, args)
            return call(*args)

        return checked
