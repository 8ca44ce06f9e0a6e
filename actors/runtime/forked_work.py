"""Run work in a forked child process, on a copy of the memory, while the event loop continues.

Rule 1: a fork has one moment of everything for itself, and costs the node 2 to 6 ms for each 100 MB, whatever is to be
        done with it. What the child finds out it says piece by piece through a pipe.
Rule 2: the child touches nothing that it shares: it closes every file but its pipe, its standard streams lead nowhere,
        and it ends without a goodbye.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import struct
from collections.abc import Callable
from contextlib import suppress

from messages.trace.snapshots import Piece

Tell = Callable[[Piece], None]
"""How the child says something."""

_HEAD = struct.Struct("<I I")
"""Before each piece in the pipe: its bytes and its lines. No lines: the child's last words, on what went wrong."""
_AT_ONCE = 1 << 18
"""Bytes read from the pipe in one turn."""
_WELL = "well"
_STANDARD = 3
"""The number of standard streams."""


class ForkedWork:
    """A forked child process that runs `work` and sends its output to the event loop.

    `heard` is called for each piece, then `done` with what went wrong ("": nothing). Raises OSError where no process
    can be had.
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
        """End it, or else wait for its end; `done` is not called."""
        self._loop.remove_reader(self._pipe)
        if kill:
            with suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
        os.close(self._pipe)
        with suppress(ChildProcessError):  # with SIGCHLD ignored there is no child to wait for
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
    """The child's whole life."""
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN if number == signal.SIGUSR1 else signal.SIG_DFL)
        os.nice(10)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(_STANDARD):  # else a file of its own would get the number to which Python complains
            os.dup2(null, stream)
        os.closerange(_STANDARD, pipe)
        os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
        words = _WELL
        try:
            work(lambda piece: _say(pipe, piece.content, piece.lines))
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
        _say(pipe, words.encode(), 0)
    finally:
        os._exit(0)


def _say(pipe: int, content: bytes, lines: int) -> None:
    left = memoryview(_HEAD.pack(len(content), lines) + content)
    while left:
        left = left[os.write(pipe, left) :]
