"""Workbench: large messages become bytes, and bytes messages, one slice in a turn of the loop.

Rule: the first slice is done at once, and that is all of a message of usual size. What has more slices takes its turns
with the others', so that a turn of the loop holds one of them, however many connections send large messages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from messages.wire import Steps, WireError

T = TypeVar("T")
Finished = Callable[[T | WireError], None]


def letting_go(parts: list[Any]) -> Steps[None]:
    """Forget parts one by one: to free a hundred thousand entries at once takes its time too."""
    while parts:
        parts.pop()
        yield


class Workbench:
    """What is under way in slices. Lives on the node's asyncio loop."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[Steps[Any], Finished[Any]]] = deque()

    def begin(self, steps: Steps[T], finished: Finished[T]) -> None:
        """Take the steps; `finished` gets their result, or the WireError that they raised.

        Who has no use for that any more closes the steps: `finished` then gets None.
        """
        if not self._step(steps, finished):
            self.go_on_with(steps, finished)

    def go_on_with(self, steps: Steps[T], finished: Finished[T]) -> None:
        """As `begin`, for steps of which the first was taken."""
        self._jobs.append((steps, finished))
        if len(self._jobs) == 1:
            self._go_on()

    async def result(self, steps: Steps[T]) -> T:
        """The steps' result; raises the WireError that they raise."""
        future: asyncio.Future[T | WireError] = asyncio.get_running_loop().create_future()
        self.begin(steps, lambda result: None if future.done() else future.set_result(result))
        result = await future
        if isinstance(result, WireError):
            raise result
        return result

    def _go_on(self) -> None:
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """One slice, then those of the others."""
        steps, finished = self._jobs.popleft()
        if not self._step(steps, finished):
            self._jobs.append((steps, finished))
        if self._jobs:
            self._go_on()

    def _step(self, steps: Steps[T], finished: Finished[T]) -> bool:
        """Do one slice; whether it was the last."""
        try:
            next(steps)
        except StopIteration as done:
            finished(done.value)
        except WireError as error:
            finished(error)
        else:
            return False
        return True
