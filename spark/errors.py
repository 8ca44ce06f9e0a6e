"""Why there is no summary."""

from __future__ import annotations

from messages.trace.errors import TraceError


class SparkUnavailable(Exception):
    """Spark cannot be started; the text says why."""


class Incomplete(TraceError):
    """Not everything can be read, and a partial answer was not asked for; the text names what is missing."""


class FollowedAlready(TraceError):
    """Another process lands in that folder."""


class BadOption(ValueError):
    """An option of the data source is unknown or has a bad value; the text says which."""
