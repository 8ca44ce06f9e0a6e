"""Texts that describe how a recorded run ended."""

from __future__ import annotations

from messages.trace.schema import STOPPED

KILLED = "killed"
RUNNING = "still running"
DAMAGED = "damaged"


def worded(how: str) -> str:
    """An ending for people: what did not go on to a clean stop of the node ended early."""
    return how if how in (STOPPED, DAMAGED) else f"{how}: recording ended early"
