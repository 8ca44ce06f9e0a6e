"""The errors of summaries."""

from __future__ import annotations

from messages.trace.errors import TraceError


class SparkUnavailable(Exception):
    """Spark cannot be started; the message has the reason."""


class Incomplete(TraceError):
    """Some traces cannot be read and a partial answer was not requested; the message names them."""


class FollowedAlready(TraceError):
    """Another process already follows traces into that folder."""


class BadOption(ValueError):
    """An option of the data source is unknown or has a bad value; the message names it."""
