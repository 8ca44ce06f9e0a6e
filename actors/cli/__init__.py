"""The command line `kafka-actors`: each command has a module, and `app` reports errors."""

from __future__ import annotations

import gc
import signal
import sys
from typing import NoReturn

__all__ = ["main"]

YOUNG = 200_000
"""Threshold of Python's garbage collector: a collection during the imports frees nothing, and takes a tenth of the
start time.
"""


def main() -> NoReturn:
    """Run this process's command line and exit with its code.

    Before the command starts and after it ends, Ctrl-C ends the process without output.
    """
    gc.set_threshold(YOUNG)
    as_exception = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from actors.cli import app

    app.fill_standard_streams()
    signal.signal(signal.SIGINT, as_exception)
    code = app.run()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)
