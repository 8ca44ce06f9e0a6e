"""Run many schedules in parallel, on all CPU cores.

Rule: the violations of a seed depend neither on the number of cores nor on the order in which runs end.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def explore(
    items: Iterable[T],
    play: Callable[[T], R],
    workers: int = 0,
    is_over: Callable[[], bool] = lambda: False,
    fresh: bool = False,
) -> Iterator[R]:
    """Yield the results of `play` as they come.

    Args:
        items: The arguments of `play`, in order; possibly without an end.
        play: The function that runs one item, such as `actors.simulation.run.run`; worker processes import it by name.
        workers: Number of processes, by default one per core.
        is_over: Returns True when no further item should be started.
        fresh: Whether each item runs in its own process.
    """
    count = workers or cores()
    waiting = iter(items)
    if count <= 1 and not fresh:
        for item in waiting:
            if is_over():
                return
            yield play(item)
        return
    # Workers are spawned, not forked, because a fork would copy locks that the caller's threads hold.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, max_tasks_per_child=1 if fresh else None) as pool:
        running: set[Future[R]] = {pool.submit(play, item) for item in islice(waiting, 2 * count)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    yield each.result()
                if not is_over():
                    running |= {pool.submit(play, item) for item in islice(waiting, len(done))}
        finally:
            for each in running:
                each.cancel()
