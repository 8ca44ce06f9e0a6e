"""Texts that describe how a recorded run ended."""

from __future__ import annotations

from messages.trace.schema import STOPPED

KILLED = "killed"
RUNNING = "still running"
DAMAGED = "damaged"


def ending_text(how: str) -> str:
    """Return an ending as text for users, with "recording ended early" if the node did not stop, and is not running."""
    return how if how in (STOPPED, DAMAGED, RUNNING) else f"{how}: recording ended early"
