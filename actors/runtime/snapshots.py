"""Snapshots of an actor system: read out as lines, by a copy of the process where a loop must go on, and restored.

Rule 1: a snapshot is what was so between two deliveries. Of a system that a loop drives it is read out by a child of
        this process, which has that moment's memory for itself and nothing else to do: however much there is, the
        node's turns are not longer by it (a fork takes some 2 ms for each 100 MB). Elsewhere it is read out at once.
Rule 2: the child touches nothing that it shares: it closes every file but its pipe, and ends without a goodbye.
Rule 3: a trace is no program: only classes of ours that are actors, or that whoever replays has named, live again.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import struct
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

from thespian.actors import Actor

from actors.runtime.base import LocalBase, class_name
from actors.runtime.state import actor_class, restore, state_of
from messages.runtime import SystemState
from messages.state import ActorState
from messages.trace.codec import Codec
from messages.trace.snapshots import Piece, line, message_of, pieces

_HEAD = struct.Struct("<I I")
"""Before each piece in the pipe: its bytes and its lines. No lines: the child's last words, on what went wrong."""
_AT_ONCE = 1 << 18
"""So many bytes are taken from the pipe in one turn."""


def system_lines(base: LocalBase) -> Iterator[bytes]:
    """All that a system holds, line by line (`messages.trace.snapshots`). Raises ValueError, NoForm, TraceError."""
    yield line(base.system_state())
    for ref in base.living():
        yield line(state_of(ref.actor))


def system_pieces(base: LocalBase) -> Iterator[Piece]:
    """The same as pieces of a snapshot."""
    return pieces(system_lines(base), base.resting)


def restore_lines(base: LocalBase, lines: Iterator[bytes], actors: Collection[type[Actor]]) -> None:
    """Let a fresh system hold what the lines say. Raises LookupError, NotAtRest, TraceError, ValueError."""
    known = {class_name(each): each for each in actors}
    head = next(lines)
    for each in message_of(head, Codec()).actors:
        cls = known.get(each.actor) or actor_class(each.actor)
        base.settle(each.address.actorAddressString, each.parent.actorAddressString, cls)
    codec = Codec(base.address_of)
    state: SystemState = message_of(head, codec)
    base.restore_system(state)
    for ref, each in zip(list(base.living()), lines, strict=True):
        held: ActorState = message_of(each, codec)
        restore(ref.actor, held)


class Aside:
    """A child process that reads out its copy of the system; the loop takes the pieces as they come.

    `take` is called for each piece, then `done` with what went wrong ("": nothing). Raises OSError where no process
    can be had.
    """

    def __init__(
        self,
        base: LocalBase,
        loop: asyncio.AbstractEventLoop,
        take: Callable[[Piece], None],
        done: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._take = take
        self._done = done
        self._waiting = bytearray()
        self._words = ""
        reading, writing = os.pipe()
        self._child = os.fork()
        if not self._child:
            _read_out(base, writing)
        os.close(writing)
        self._pipe = reading
        os.set_blocking(reading, False)
        loop.add_reader(reading, self._readable)

    def close(self) -> None:
        """End it, wherever it is; `done` is not called."""
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
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
                self._take(Piece(content, lines))
            else:
                self._words = content.decode() or "it came to its end"
        if not came:
            self.close()
            self._done("" if self._words == _WELL else self._words or "its process died")


_WELL = "well"


def _read_out(base: LocalBase, pipe: int) -> None:
    """The child's whole life."""
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.nice(10)
        os.closerange(0, pipe)
        os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
        words = _WELL
        try:
            for content, lines in system_pieces(base):
                _write(pipe, _HEAD.pack(len(content), lines) + content)
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
        _write(pipe, _HEAD.pack(len(words.encode()), 0) + words.encode())
    finally:
        os._exit(0)


def _write(pipe: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(pipe, left) :]
