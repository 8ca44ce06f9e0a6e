"""Named points in the code; coverage of the simulation counts how often a run reaches each.

Rule 1: a probe is observability, as a log line is: it returns nothing, and nothing is decided by it. So pure modules
        may have probes, and a replay does not see them.
Rule 2: without a collector a probe is one call that does nothing. Paths of records and loops over partitions have no
        unconditional probes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_collectors: list[Callable[[str], None]] = []


def probe(name: str) -> None:
    """Count that this point of the code was reached."""
    if _collectors:
        _collectors[-1](name)


@contextmanager
def collecting(count: Callable[[str], None]) -> Iterator[None]:
    """Call `count` with the name of each probe that is reached meanwhile in this process."""
    _collectors.append(count)
    try:
        yield
    finally:
        _collectors.pop()
