"""The exceptions that summaries can raise."""

from __future__ import annotations

from messages.trace.errors import TraceError


class SparkUnavailable(Exception):
    """Spark cannot be started; the exception's message is the reason."""


class Incomplete(TraceError):
    """Some traces cannot be read, and a partial result was not requested; the exception's message names the traces."""


class AlreadyFollowed(TraceError):
    """Another process already follows these traces and writes to the target folder."""


class BadOption(ValueError):
    """An option of the Spark data source is unknown or has an invalid value; the exception's message names it."""
