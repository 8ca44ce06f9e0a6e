"""Run a command in the background, in a child process without a terminal; the child reports that it is ready."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from actors.cli.app import CommandFailed


def in_background(log: Path) -> str | None:
    """Fork. In the child, return None; in the parent, return the first line that the child prints.

    The child has its own session and no input, and writes errors to `log`. If this process is interrupted while it
    waits, it ends the child.

    Raises:
        CommandFailed: The child ended before it printed a line; the error text is the child's output in `log`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    complaints = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    before = os.fstat(complaints).st_size
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), writer, complaints)):
            os.dup2(stream, number)
        return None
    os.close(writer)
    os.close(complaints)
    try:
        with os.fdopen(reader) as lines:
            line = lines.readline()
    except BaseException:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        raise
    if line:
        return line
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    words = log.read_bytes()[before:].decode(errors="replace").strip()
    raise CommandFailed(words.rpartition("Error: ")[2] or f"it ended with {code} before it was ready; its log is {log}")
