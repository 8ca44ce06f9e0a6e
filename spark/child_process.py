"""Run a function in a separate process, so that its memory and threads are freed when it ends.

Spark starts a JVM and workers; an interrupt leaves them behind, or makes py4j print errors. Therefore a child does the
work, as the leader of a process group. A Ctrl-C at the terminal reaches only the parent, which kills the child's group
and removes the child's temporary folder. If the parent is killed, the child notices the end of a pipe and kills the
group itself.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from types import FrameType
from typing import Any, NoReturn, TypeVar

_T = TypeVar("_T")
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_SIGNALS = (signal.SIGINT, *_ENDING)


class ChildEnded(Exception):
    """A child process ended without a result: it was killed, or it ran out of memory."""


def apart(work: Callable[[], _T]) -> _T:
    """Run `work` in a child process; return its result, or raise its exception. Result and exception are pickled.

    Call this in the main thread. An interrupt, SIGTERM or SIGHUP ends the child and all that it started.

    Raises:
        ChildEnded: The child ended without a result.
    """
    reader, writer = Pipe(duplex=False)
    lifeline, ours = Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="kafka-actors-", ignore_cleanup_errors=True) as temporary, _ending():
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        child = os.fork()
        if child == 0:
            ours.close()
            _be_the_child(work, writer, lifeline, temporary)
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            writer.close()
            lifeline.close()
            succeeded, result = reader.recv()
        except EOFError:
            raise ChildEnded("the process that did the work ended without a result") from None
        finally:
            _kill(child)
            reader.close()
            ours.close()
    if succeeded:
        return result  # type: ignore[no-any-return]
    raise result


def _be_the_child(work: Callable[[], Any], writer: Connection, lifeline: Connection, temporary: str) -> NoReturn:
    os.setsid()
    threading.Thread(target=_die_with_the_parent, args=(lifeline,), daemon=True).start()
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    tempfile.tempdir = os.environ["TMPDIR"] = temporary
    try:
        outcome: tuple[bool, Any] = True, work()
    except BaseException as error:
        outcome = False, error
    try:
        # Some exceptions of Spark can be pickled, but not be read again.
        ForkingPickler.loads(sent := ForkingPickler.dumps(outcome))
        writer.send_bytes(sent)
    except Exception:
        writer.send((False, RuntimeError(f"{type(outcome[1]).__name__}: {outcome[1]}")))
    finally:
        os._exit(0)


def _die_with_the_parent(lifeline: Connection) -> None:
    with suppress(EOFError):
        lifeline.recv()
    os.killpg(0, signal.SIGKILL)


def _kill(child: int) -> None:
    """Kill the child's process group and wait until the child has ended; signals are blocked in the meantime."""
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    with suppress(ProcessLookupError, PermissionError):  # the process group does not exist yet, or has ended
        os.killpg(child, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, masked)


@contextmanager
def _ending() -> Iterator[None]:
    """Inside the `with` block, let signals that end a process raise SystemExit, as Ctrl-C raises KeyboardInterrupt."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    before = [signal.signal(number, end) for number in _ENDING]
    try:
        yield
    finally:
        for number, handler in zip(_ENDING, before, strict=True):
            signal.signal(number, handler)
