"""The exceptions that reading trace files can raise."""

from __future__ import annotations

from pathlib import Path

from messages.trace.errors import TraceError


class NotATrace(TraceError):
    """The folder contains no traces, or a file has the name of a trace file but not its format."""


class Damaged(TraceError):
    """A trace file is damaged at the byte `offset`; the exception's message describes the damage."""

    def __init__(self, path: Path, offset: int, what: str) -> None:
        super().__init__(f"{path}, byte {offset}: {what}")
        self.path = path
        self.offset = offset
        self.what = what


class Torn(Damaged):
    """A trace file ends inside a frame; this is normal if the node was killed, otherwise it is damage."""
