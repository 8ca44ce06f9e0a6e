"""Run a program, and end it when the parent of this process ends.

Run it as a script by its path. It needs only the standard library:

    python guardian.py signal PARENT_PID PROGRAM ARGUMENT...     (Linux)
    python guardian.py pipe   PARENT_PID PROGRAM ARGUMENT...     (everywhere)

With `signal`, this process sets PR_SET_PDEATHSIG, and then replaces itself by PROGRAM. The setting survives exec: the
kernel kills PROGRAM when the parent's thread that started this process ends.

With `pipe`, this process runs PROGRAM as its child, and kills PROGRAM when standard input ends. Standard input is a
pipe. The parent owns the other end of the pipe, so the pipe closes however the parent ends. SIGTERM is forwarded to
PROGRAM, and PROGRAM's exit code is returned.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

PR_SET_PDEATHSIG = 1


def under_signal(parent: int, command: list[str]) -> None:
    """Replace this process by `command`. The kernel kills `command` when the thread that started this process ends.

    `parent` is the expected pid of that thread's process.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed, so the process would outlive its parent")
    if os.getppid() != parent:  # the parent ended before the prctl call
        sys.exit(1)
    os.execvp(command[0], command)


def under_pipe(command: list[str]) -> int:
    """Run `command` until it ends or standard input ends, and return its exit code."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as child:
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())

        def watch() -> None:
            while os.read(0, 1024):
                pass
            child.kill()

        threading.Thread(target=watch, daemon=True).start()
        code = child.wait()
    return code if code >= 0 else 128 - code


def main(arguments: list[str]) -> int:
    """Execute the command line; see the module's docstring."""
    way, parent, *command = arguments
    if way == "signal":
        under_signal(int(parent), command)
    return under_pipe(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
