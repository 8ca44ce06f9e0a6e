"""Run work in a forked child process, on a copy of the memory, while the event loop continues.

Rule 1: the child has a consistent copy of the memory. The fork takes 2 to 6 ms of the node's time for each 100 MB,
        independent of the work. The child sends its output in pieces through a pipe.
Rule 2: the child may use MOST_BYTES of memory more than the node; then its work ends with MemoryError. A controller of
        a million partitions needed 15 GB for a snapshot, and the machine's memory ran out.
Rule 3: the child uses no shared resources: it closes every file except its pipe, redirects its standard streams to
        /dev/null, and exits without cleanup.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from messages.trace.files.snapshots import Piece

Tell = Callable[[Piece], None]
"""Function that sends a piece from the child."""

MOST_BYTES = 4 << 30

_HEAD = struct.Struct("<I I")
"""Header of each piece in the pipe: its bytes and its lines. 0 lines: the child's last message, an error or _WELL."""
_AT_ONCE = 1 << 18
"""Bytes read from the pipe in one turn."""
_WELL = "well"
_STANDARD = 3
"""Number of standard streams."""


class ForkedWork:
    """A forked child process that runs `work` and sends its output to the event loop.

    Args:
        work: Called in the child, with a function that sends one piece of output.
        loop: The event loop of the node.
        heard: Called in the parent with each piece.
        done: Called in the parent at the end with the error text, or "" without an error.

    Raises:
        OSError: The process cannot be forked.
    """

    def __init__(
        self,
        work: Callable[[Tell], None],
        loop: asyncio.AbstractEventLoop,
        heard: Tell,
        done: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._heard = heard
        self._done = done
        self._waiting = bytearray()
        self._words = ""
        reading, writing = os.pipe()
        try:
            self._child = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if not self._child:
            _live(work, writing)
        os.close(writing)
        self._pipe = reading
        os.set_blocking(reading, False)
        loop.add_reader(reading, self._readable)

    def close(self, kill: bool = True) -> None:
        """Kill the child, or wait for its end if not `kill`; `done` is not called."""
        self._loop.remove_reader(self._pipe)
        if kill:
            with suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
        os.close(self._pipe)
        with suppress(ChildProcessError):  # if SIGCHLD is ignored, the child cannot be waited for
            os.waitpid(self._child, 0)

    def _readable(self) -> None:
        came = os.read(self._pipe, _AT_ONCE)
        self._waiting += came
        while len(self._waiting) >= _HEAD.size:
            size, lines = _HEAD.unpack_from(self._waiting)
            end = _HEAD.size + size
            if len(self._waiting) < end:
                break
            content = bytes(self._waiting[_HEAD.size : end])
            del self._waiting[:end]
            if lines:
                self._heard(Piece(content, lines))
            else:
                self._words = content.decode()
        if not came:
            self.close(kill=False)
            self._done("" if self._words == _WELL else self._words or "its process died")


def _live(work: Callable[[Tell], None], pipe: int) -> None:
    """Run the work in the child, and exit."""
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN if number == signal.SIGUSR1 else signal.SIG_DFL)
        os.nice(10)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(_STANDARD):  # if stderr were closed, a file opened later could get its number
            os.dup2(null, stream)
        os.closerange(_STANDARD, pipe)
        os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
        words = _WELL
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if soft == resource.RLIM_INFINITY:  # a limit of the user stands
            with suppress(OSError):  # not Linux
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_BYTES, hard))
        try:
            work(lambda piece: _write(pipe, piece.content, piece.lines))
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
        _write(pipe, words.encode(), 0)
    finally:
        os._exit(0)


def _write(pipe: int, content: bytes, lines: int) -> None:
    left = memoryview(_HEAD.pack(len(content), lines) + content)
    while left:
        left = left[os.write(pipe, left) :]
