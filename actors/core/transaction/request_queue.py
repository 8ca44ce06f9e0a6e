"""Remove the queued markers or verifications that fit into the next request; the others stay queued."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def take_fitting(queue: deque[_T], most: int, fits: Callable[[_T], bool]) -> list[_T]:
    """Remove and return up to `most` queue entries that fit into one request; the others keep their order.

    Args:
        fits: Function that returns whether an entry fits; it is called once per entry, in order.
    """
    taken: list[_T] = []
    later: list[_T] = []
    while queue and len(taken) < most:
        entry = queue.popleft()
        (taken if fits(entry) else later).append(entry)
    queue.extendleft(reversed(later))
    return taken
