"""Switch logging off during replay and simulation."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent() -> Iterator[None]:
    """Suppress all log lines in the block; they would report replayed or injected failures."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
