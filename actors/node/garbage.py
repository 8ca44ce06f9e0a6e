"""Run Python's garbage collector between two turns of the event loop, so that no request waits (actors.md 3 row 7).

Rule 1: reference counting frees nearly all objects immediately. The collector is needed only for cycles, mostly errors
        with their tracebacks, which become garbage when they are young.
Rule 2: a collection runs when the number of new objects exceeds YOUNG. It examines 10,000 to 20,000 objects and takes a
        millisecond. Every second collection also examines the objects that survived the previous one (OFTEN). Before
        this second examination, most temporary objects of one slice of a large task are freed. If YOUNG were a fifth of
        its value, creating 100,000 leaderships would take a tenth longer. YOUNG is not larger, because examining a
        tuple of 100,000 partitions takes ten milliseconds, and two such tuples must not be examined together.
Rule 3: objects that also survive this second examination are not examined again (NEVER). Examining 100,000 partitions
        takes half a second and finds no garbage. A cycle that becomes garbage at that age stays in memory.
Rule 4: on an event loop, collections run between two turns. If more than MUCH objects were created since the end of the
        last turn, most are assumed to be tables and states of many partitions, which stay in use. Later collections do
        not examine the objects that exist at this time. Before this rule, a collection that ran while such objects were
        created examined several tables of 100,000 entries and took 60 ms. This rule shortened the longest turn of a
        failover from 63 ms to less than 20 ms.
Rule 5: gc.callbacks are not used. While Python runs a callback, other threads run too. The running collection does not
        examine the objects that these threads create, and the next collection would examine all of them at once.
"""

from __future__ import annotations

import gc

YOUNG = 10_000
OFTEN = 0
NEVER = 1_000_000_000
MUCH = 1_000


def tame() -> None:
    """Set the thresholds of this process's collector according to the module's rules."""
    gc.set_threshold(YOUNG, OFTEN, NEVER)


class GarbageCollectionSchedule:
    """A schedule of garbage collections, which run after a turn of the event loop."""

    def __init__(self) -> None:
        gc.disable()
        self._young = 0
        self._generation = 0

    def __call__(self) -> None:
        """Run a collection if it is due."""
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
    """Skip the last garbage collection of this process, which would examine all objects."""
    gc.freeze()
