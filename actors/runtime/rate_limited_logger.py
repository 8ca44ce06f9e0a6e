"""A logger for events that a peer or an unavailable server can cause many times a second."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any


class RateLimitedLogger(logging.LoggerAdapter):  # type: ignore[type-arg]
    """A logger with a limit of `lines` in `seconds`; the first line after a suppression says how many were suppressed.

    Args:
        logger: The logger that writes the lines.
        lines: Maximum number of lines in a period.
        seconds: Duration of a period, by `clock`.
        clock: Returns the time in seconds.
        each_text: Whether the limit applies to each format string separately.
    """

    def __init__(
        self, logger: logging.Logger, lines: int, seconds: float, clock: Callable[[], float], each_text: bool = False
    ) -> None:
        super().__init__(logger, {})
        self._lines, self._seconds, self._clock, self._each_text = lines, seconds, clock, each_text
        self._periods: dict[str, tuple[float, int, int]] = {}
        """Format string, or "" for all: the start of the period, the lines written in it, and the suppressed lines."""

    def log(self, level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Write a line, or count it as suppressed."""
        text = msg if self._each_text else ""
        now = self._clock()
        began, written, suppressed = self._periods.get(text, (-math.inf, 0, 0))
        if now - began >= self._seconds:
            began, written = now, 0
        if written < self._lines:
            self._periods[text] = began, written + 1, 0
            note = f"{msg} ({suppressed} similar log lines were suppressed)" if suppressed else msg
            super().log(level, note, *args, **kwargs)
        else:
            self._periods[text] = began, written, suppressed + 1
