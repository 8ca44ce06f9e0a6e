"""Runs of many schedules in parallel processes.

Rule: the results do not depend on the number of cores, nor on the order in which the runs end.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from actors.simulation.run import Outcome, run
from actors.simulation.schedule import Schedule


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def explore(schedules: Sequence[Schedule], workers: int = 0) -> Iterator[Outcome]:
    """Yield the outcomes as the runs end; `workers` is the number of processes, by default one per core."""
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
