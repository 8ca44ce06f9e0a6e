"""Texts that describe how a recorded run ended."""

from __future__ import annotations

from messages.trace.schema import STOPPED

KILLED = "killed"
RUNNING = "still running"
DAMAGED = "damaged"


def worded(how: str) -> str:
    """Return an ending as text for users; all except STOPPED and DAMAGED are followed by "recording ended early"."""
    return how if how in (STOPPED, DAMAGED) else f"{how}: recording ended early"
