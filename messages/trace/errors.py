"""The exceptions that reading and writing traces can raise."""

from __future__ import annotations


class TraceError(Exception):
    """The base class of the exceptions of traces."""


class UnknownType(TraceError):
    """This class cannot be stored in traces, or a trace contains the name of an unknown class."""


class BadPayload(TraceError):
    """A message cannot be encoded as JSON, or JSON cannot be decoded to a message.

    The exception's message names the type and the path.
    """


class UnsupportedSchema(TraceError):
    """This program does not support the version of the trace's record schema."""
