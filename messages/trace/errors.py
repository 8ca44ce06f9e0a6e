"""The exceptions that reading and writing traces can raise."""

from __future__ import annotations

from pathlib import Path


class TraceError(Exception):
    """The base class of the exceptions of traces."""


class UnknownType(TraceError):
    """A class cannot be stored in traces, or a trace names an unknown class."""


class BadPayload(TraceError):
    """A message cannot be encoded as JSON, or JSON cannot be decoded to a message; the text names type and path."""


class NotATrace(TraceError):
    """The folder contains no traces, or a file has the name of a trace file but not its format."""


class UnsupportedSchema(TraceError):
    """This program does not support the version of the trace's record schema."""


class Damaged(TraceError):
    """A trace file is damaged at the byte `offset`; the exception's message describes the damage."""

    def __init__(self, path: Path, offset: int, what: str) -> None:
        super().__init__(f"{path}, byte {offset}: {what}")
        self.path = path
        self.offset = offset
        self.what = what


class Torn(Damaged):
    """A trace file ends inside a frame; this is normal if the node was killed, otherwise it is damage."""
