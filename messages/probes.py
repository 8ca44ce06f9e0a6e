"""Probes: named points in the code; the simulation counts how often a run reaches each one.

Rule 1: a probe is observability, like a log line: it returns nothing, and no decision depends on it. Pure modules may
        therefore have probes, and a replay is independent of them.
Rule 2: without a collector a probe is one call without effect. Code that runs for each record or each partition has no
        unconditional probes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_collectors: list[Callable[[str], None]] = []


def probe(name: str) -> None:
    """Record that the run has reached this point of the code; the collector counts it."""
    if _collectors:
        _collectors[-1](name)


@contextmanager
def collecting(count: Callable[[str], None]) -> Iterator[None]:
    """Call `count` with the name of each probe that this process reaches inside the `with` block."""
    _collectors.append(count)
    try:
        yield
    finally:
        _collectors.pop()
