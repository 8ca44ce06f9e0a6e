"""The log of nodes: one form of line, on standard error or in a file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOG_FORMAT = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"


@contextmanager
def logging_to(file: Path) -> Iterator[None]:
    """Let this process's nodes say what they have to say in `file`, after what is in it."""
    log = logging.FileHandler(file)
    log.setFormatter(logging.Formatter(LOG_FORMAT))
    root = logging.getLogger()
    root.addHandler(log)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(log)
        log.close()
