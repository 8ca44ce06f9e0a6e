"""Run Python's garbage collector between two turns of the event loop, so that no request waits for it (actors.md 3 row
7).

Rule 1: reference counting frees nearly everything here at once. The collector is for the cycles that remain, errors
        with their tracebacks mostly, which are young when they become garbage.
Rule 2: a collection looks at ten or twenty thousand objects, for a millisecond: it waits for YOUNG of them, and what
        survived one is looked at once more, by the next (OFTEN). Most of what a slice of large work makes is gone by
        then: with a fifth of that, a hundred thousand leaderships took a tenth longer to make. No more, because one
        tuple of a hundred thousand partitions takes ten milliseconds, and no two such should come together.
Rule 3: what survives that as well is not looked at again (NEVER). Looking through a hundred thousand partitions takes
        half a second, and finds nothing. A cycle that becomes garbage when it is that old stays in memory.
Rule 4: on a loop a collection comes between two turns, where it is due. What a turn, and what was between it and the
        one before, made much of (MUCH), is in use: tables and states of many partitions. It is not looked at even once:
        a collection in the midst of such work met several tables of a hundred thousand, for 60 ms.
Rule 5: no callback of the collector's: while Python runs in one, other threads run too, none of what they make is
        looked at, and the next collection finds it all at once.
"""

from __future__ import annotations

import gc

YOUNG = 10_000
OFTEN = 0
NEVER = 1_000_000_000
MUCH = 1_000


def tame() -> None:
    """Let the collector of this process work by the module's rules."""
    gc.set_threshold(YOUNG, OFTEN, NEVER)


class GarbageCollectionSchedule:
    """A schedule of garbage collections, which run after a turn of the event loop."""

    def __init__(self) -> None:
        gc.disable()
        self._young = 0
        self._generation = 0

    def __call__(self) -> None:
        """Look how many objects there are that are young."""
        young = gc.get_count()[0]
        made, self._young = young - self._young, young
        if made > MUCH:
            gc.freeze()
            self._young = 0
        elif young > YOUNG:
            gc.collect(self._generation)
            self._generation = 1 - self._generation
            self._young = 0


def leave() -> None:
    """The process ends: Python would look through everything once more."""
    gc.freeze()
