"""Wait for a condition with a deadline. Tests let real time pass only in this way."""

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
    """Call `look` every 50 ms until `good` accepts its result, and return this result.

    Exceptions in `ignore` count as a bad result. After `timeout` seconds AssertionError is raised with the last result.
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
