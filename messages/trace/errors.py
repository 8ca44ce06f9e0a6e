"""The errors of traces."""

from __future__ import annotations

from pathlib import Path


class TraceError(Exception):
    """Base class of the errors of traces."""


class UnknownType(TraceError):
    """A class or a type name has no form in traces."""


class BadPayload(TraceError):
    """A payload does not fit its type, or a message cannot be encoded as JSON; the message names type and path."""


class NotATrace(TraceError):
    """The folder has no traces, or a file with a trace's name is not a trace."""


class WrongSchema(TraceError):
    """The trace was written with another version of the record schema."""


class Damaged(TraceError):
    """A trace file is damaged: `path`, the byte `offset` of the damage, and its description."""

    def __init__(self, path: Path, offset: int, what: str) -> None:
        super().__init__(f"{path}, byte {offset}: {what}")
        self.path = path
        self.offset = offset
        self.what = what


class Torn(Damaged):
    """The file ends inside a frame: normal at the end of a killed run, else damage."""
