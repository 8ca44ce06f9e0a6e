"""Split long loops into slices with pauses between them, so that other actors of the node can run.

During a pause the controller handles no other event, so no event reads a half-changed context. A loop over at most
MOVES or SLICE items does not pause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any, TypeVar

from messages.flow.conversation import SLICE, Flow, Pause, chunks, in_turns, overlapped, slices

E = TypeVar("E")

MOVES = 500
"""Number of partitions or replicas moved at a time, at about 10 microseconds each.

A single batch of 100,000 partitions took a turn of 440 ms.
"""


AHEAD = 2
"""Number of slices in flight to ZooKeeper while one answer is processed.

Otherwise the controller and ZooKeeper wait for each other between slices.
"""


def sliced(flow: Callable[[Sequence[E]], Flow[None]], items: Sequence[E]) -> Flow[None]:
    """Run a flow over each slice of MOVES `items`, which must not depend on each other (`overlapped`)."""
    yield from overlapped(map(flow, slices(items, MOVES)), AHEAD)


def chosen(test: Callable[[E], bool], items: Iterable[E]) -> Flow[list[E]]:
    """Return the `items` that pass the test."""
    found: list[E] = []
    yield from in_turns(lambda part: found.extend(filter(test, part)), chunks(items))
    return found


def drop(*tables: MutableMapping[Any, Any]) -> Flow[None]:
    """Empty large unused tables in slices: freeing 100,000 entries at once takes 20 ms and more."""
    pauses = Pauses()
    for table in tables:
        while table:
            count = min(len(table), SLICE)
            for _ in range(count):
                table.popitem()
            yield from pauses.after(count)


class Pauses:
    """A counter that pauses a loop after each SLICE items."""

    def __init__(self) -> None:
        self._done = 0

    def after(self, count: int) -> Flow[None]:
        """Count `count` processed items, and pause if SLICE is reached."""
        self._done += count
        if self._done >= SLICE:
            self._done = 0
            yield Pause()
