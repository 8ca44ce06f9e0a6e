"""Many seeds on all cores: each is a schedule of its own, and one that breaks something is shrunk.

Rule: which seeds break what does not depend on how many cores there are, nor on the order in which they end.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from actors.simulation.run import Outcome, run
from actors.simulation.schedule import Schedule


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def explore(schedules: Sequence[Schedule], workers: int = 0) -> Iterator[Outcome]:
    """The outcomes of the schedules, as they come; `workers`: processes, by default one per core."""
    count = min(workers or cores(), len(schedules))
    if count <= 1:
        yield from map(run, schedules)
        return
    # A fresh process each: what the caller's threads hold must not be copied.
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(run, schedule) for schedule in schedules]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for each in waiting:
                each.cancel()
