"""Test RateLimitedLogger."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from actors.runtime.rate_limited_logger import RateLimitedLogger


def written(caplog: pytest.LogCaptureFixture, each_text: bool) -> Iterator[list[str]]:
    """Yield the logged lines of two periods: after 100 lines of two texts, and after one more line of each text."""
    times = iter([0.0] * 100 + [1.0] * 2)
    log = RateLimitedLogger(logging.getLogger("tests.peers"), 10, 1, lambda: next(times), each_text)
    for number in range(50):
        log.warning("line %d", number)
        log.error("another")
    yield caplog.messages[:]
    caplog.clear()
    log.warning("line %d", 50)
    log.error("another")
    yield caplog.messages[:]


def test_lines_of_all_texts_are_limited_together(caplog: pytest.LogCaptureFixture) -> None:
    first, second = written(caplog, each_text=False)
    assert first == [text for number in range(5) for text in (f"line {number}", "another")]
    assert second == ["line 50 (90 similar log lines were suppressed)", "another"]


def test_lines_of_each_text_are_limited_separately(caplog: pytest.LogCaptureFixture) -> None:
    first, second = written(caplog, each_text=True)
    assert first == [text for number in range(10) for text in (f"line {number}", "another")]
    assert second == [f"{text} (40 similar log lines were suppressed)" for text in ("line 50", "another")]
