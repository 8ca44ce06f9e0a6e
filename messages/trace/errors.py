"""What can be wrong with a trace, or with what is on its way there."""

from __future__ import annotations

from pathlib import Path


class TraceError(Exception):
    """Something in a trace, or on its way there, is not as it must be."""


class UnknownType(TraceError):
    """A value's class, or a type name, has no form in traces."""


class BadPayload(TraceError):
    """A payload does not fit its type, or a message's content does not fit JSON; the text names type and place."""


class NotATrace(TraceError):
    """There is no folder where traces should lie, or a file named like one of a trace is none."""


class WrongSchema(TraceError):
    """The trace was written with another version of the record schema."""


class Damaged(TraceError):
    """A file of a trace is not what was written: `path`, the byte `offset` at which it shows, and what is wrong."""

    def __init__(self, path: Path, offset: int, what: str) -> None:
        super().__init__(f"{path}, byte {offset}: {what}")
        self.path = path
        self.offset = offset
        self.what = what


class Torn(Damaged):
    """The file ends inside a frame. At the end of a run that was killed this is how it has to be; else it is damage."""
