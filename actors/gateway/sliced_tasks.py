"""Encode and decode large messages in slices, so that the event loop is never blocked for long.

Rule 1: the first slice runs at once, and completes a message of usual size. The slices of larger messages run round
        robin. A turn of the event loop runs slices until they have taken `turn_seconds` of CPU. So the turn is short,
        but can contain many small slices.
Rule 2: a slice may yield a long call that releases the GIL. A thread executes it, and then the job resumes. The thread
        executes the calls of all jobs one after another.
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


def free_parts(parts: list[Any]) -> Steps[None]:
    """Free parts one by one: freeing a hundred thousand entries at once would block the loop."""
    while parts:
        parts.pop()
        yield


class SlicedTaskQueue:
    """A queue of long computations that run in slices on the node's asyncio loop, a limited time in each turn."""

    cpu: Callable[[], float] = staticmethod(RealClock.cpu)
    """Returns the CPU seconds of the loop's thread."""

    def __init__(self, turn_seconds: float) -> None:
        self._turn_seconds = turn_seconds
        self._jobs: deque[tuple[LongSteps[Any], Finished[Any]]] = deque()
        self._thread: ThreadPoolExecutor | None = None

    def begin(self, steps: LongSteps[T], finished: Finished[T]) -> None:
        """Run the steps and call `finished` with their result, or with the WireError that they raise.

        A caller that does not need the result any more closes the steps. `finished` is then called with None.
        """
        if not self._step(steps, finished):
            self.continue_steps(steps, finished)

    def continue_steps(
        self, steps: LongSteps[T], finished: Finished[T], long: Callable[[], None] | None = None
    ) -> None:
        """Continue steps whose first slice has run. `long` is the call that this slice yielded, if any (rule 2)."""
        if long is not None:
            self._call(long, steps, finished)
            return
        self._jobs.append((steps, finished))
        if len(self._jobs) == 1:
            self._schedule_turn()

    async def result(self, steps: LongSteps[T]) -> T:
        """Run the steps and return their result. Raises the WireError that the steps raise."""
        future: asyncio.Future[T | WireError] = asyncio.get_running_loop().create_future()
        self.begin(steps, lambda result: None if future.done() else future.set_result(result))
        result = await future
        if isinstance(result, WireError):
            raise result
        return result

    def close(self) -> None:
        """Stop the thread. Queued calls are cancelled."""
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

    def _schedule_turn(self) -> None:
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Run slices of the jobs round robin, until the time of this turn of the loop is used up."""
        began = self.cpu()
        while self._jobs:
            steps, finished = self._jobs.popleft()
            if not self._step(steps, finished):
                self._jobs.append((steps, finished))
            if self.cpu() - began >= self._turn_seconds:
                break
        if self._jobs:
            self._schedule_turn()

    def _step(self, steps: LongSteps[T], finished: Finished[T]) -> bool:
        """Run one slice.

        Return True if the job needs no further slice now: it is complete, or waits for a long call.
        """
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
