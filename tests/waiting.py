"""Waiting for a condition with a deadline: the only way a test lets real time pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(
    look: Callable[[], T],
    good: Callable[[T], bool] = bool,
    what: str = "",
    timeout: float = 30.0,
    ignore: tuple[type[Exception], ...] = (),
) -> T:
    """Look every 50 ms until what is seen is good, and return it; AssertionError with the last sight after `timeout` s.

    Exceptions in `ignore` count as a bad sight.
    """
    deadline = time.monotonic() + timeout
    while True:
        seen: T | Exception
        try:
            seen = look()
            if good(seen):
                return seen
        except ignore as error:
            seen = error
        if time.monotonic() > deadline:
            raise AssertionError(f"{what or 'condition'} not met within {timeout} s; last seen: {seen!r}")
        time.sleep(0.05)
