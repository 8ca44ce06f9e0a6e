"""Encode and decode large messages in slices, so that the event loop is never blocked for long.

Rule 1: the first slice is done at once, and that is all of a message of usual size. The slices of what has more come
        one message after the other, and those of a turn end when they have taken `turn_seconds` of CPU: so a turn of
        the loop stays short, and what is quickly done does not wait for a turn a slice.
Rule 2: a slice may yield a call that takes long and lets other threads run: a thread makes it, and the job goes on when
        it is over. Such calls of all jobs are made one after the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from actors.runtime import RealClock
from messages.wire import LongSteps, Steps, WireError

T = TypeVar("T")
Finished = Callable[[T | WireError], None]


def letting_go(parts: list[Any]) -> Steps[None]:
    """Forget parts one by one: to free a hundred thousand entries at once takes its time too."""
    while parts:
        parts.pop()
        yield


class SlicedTaskQueue:
    """A queue of long computations that run in slices on the node's asyncio loop, a limited time in each turn."""

    cpu: Callable[[], float] = staticmethod(RealClock.cpu)
    """CPU seconds of the loop's thread."""

    def __init__(self, turn_seconds: float) -> None:
        self._turn_seconds = turn_seconds
        self._jobs: deque[tuple[LongSteps[Any], Finished[Any]]] = deque()
        self._thread: ThreadPoolExecutor | None = None

    def begin(self, steps: LongSteps[T], finished: Finished[T]) -> None:
        """Take the steps; `finished` gets their result, or the WireError that they raised.

        Who has no use for that any more closes the steps: `finished` then gets None.
        """
        if not self._step(steps, finished):
            self.go_on_with(steps, finished)

    def go_on_with(self, steps: LongSteps[T], finished: Finished[T], long: Callable[[], None] | None = None) -> None:
        """As `begin`, for steps of which the first was taken, and which yielded `long` (rule 2)."""
        if long is not None:
            self._call(long, steps, finished)
            return
        self._jobs.append((steps, finished))
        if len(self._jobs) == 1:
            self._go_on()

    async def result(self, steps: LongSteps[T]) -> T:
        """The steps' result; raises the WireError that they raise."""
        future: asyncio.Future[T | WireError] = asyncio.get_running_loop().create_future()
        self.begin(steps, lambda result: None if future.done() else future.set_result(result))
        result = await future
        if isinstance(result, WireError):
            raise result
        return result

    def close(self) -> None:
        """Make no more calls on the thread."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _call(self, long: Callable[[], None], steps: LongSteps[T], finished: Finished[T]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "decompression")
        loop = asyncio.get_running_loop()

        def over(call: Future[None]) -> None:
            if not (call.cancelled() or loop.is_closed()):
                loop.call_soon_threadsafe(self.begin, steps, finished)

        self._thread.submit(long).add_done_callback(over)

    def _go_on(self) -> None:
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """A slice of each, and again, until the turn is over."""
        began = self.cpu()
        while self._jobs:
            steps, finished = self._jobs.popleft()
            if not self._step(steps, finished):
                self._jobs.append((steps, finished))
            if self.cpu() - began >= self._turn_seconds:
                break
        if self._jobs:
            self._go_on()

    def _step(self, steps: LongSteps[T], finished: Finished[T]) -> bool:
        """Do one slice; whether the job has no more slices to do now."""
        try:
            long = next(steps)
        except StopIteration as done:
            finished(done.value)
        except WireError as error:
            finished(error)
        else:
            if long is None:
                return False
            self._call(long, steps, finished)
        return True
