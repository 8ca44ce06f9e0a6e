"""Start a program that ends when the process that started it ends.

Run as a script, by its path and with nothing but the standard library:

    python guardian.py signal PARENT_PID PROGRAM ARGUMENT...     (Linux)
    python guardian.py pipe   PARENT_PID PROGRAM ARGUMENT...     (everywhere)

`signal` asks the kernel to kill this process when the thread that started it ends, then becomes PROGRAM (the setting
survives exec). `pipe` stays, with PROGRAM as its child, and kills it when standard input ends: the other end of that
pipe belongs to the parent, and closes however the parent ends. SIGTERM is handed on, and PROGRAM's exit code is ours.
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
    """Become `command`, to be killed together with `parent`."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed, so the process would outlive its parent")
    if os.getppid() != parent:  # it died before the kernel was asked
        sys.exit(1)
    os.execvp(command[0], command)


def under_pipe(command: list[str]) -> int:
    """Run `command` until it ends by itself or standard input ends. Its exit code is the result."""
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
    """Carry out the command line; see the module's docstring."""
    way, parent, *command = arguments
    if way == "signal":
        under_signal(int(parent), command)
    return under_pipe(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
