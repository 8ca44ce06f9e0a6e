"""SlicedTaskQueue limits the CPU time of one turn of the loop, also for large messages."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from actors.gateway.sliced_tasks import SlicedTaskQueue
from messages.wire import LongSteps, MalformedFrame, Steps


def work(name: str, slices: int, log: list[str], error: bool = False) -> Steps[str]:
    for number in range(1, slices):
        log.append(f"{name}{number}")
        yield
    log.append(f"{name}{slices}")
    if error:
        raise MalformedFrame("torn")
    return name


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 10))


class Bench(SlicedTaskQueue):
    """A queue whose CPU clock advances by one second at each reading."""

    def __init__(self, turn_seconds: float = 1.0) -> None:
        super().__init__(turn_seconds)
        self.cpu = itertools.count().__next__


def test_a_small_message_is_done_at_once() -> None:
    log: list[Any] = []
    Bench().begin(work("a", 1, log), log.append)
    assert log == ["a1", "a"]


@pytest.mark.parametrize(
    ("turn_seconds", "done"),
    [(1.0, "a1b1c1c-a2-b2-a3a-b3-b4b"), (2.0, "a1b1c1c-a2b2-a3ab3-b4b"), (99.0, "a1b1c1c-a2b2a3ab3b4b")],
)
def test_large_messages_take_turns_with_each_other_and_with_the_loop(turn_seconds: float, done: str) -> None:
    """A turn ends with the slice after which its CPU time is used up."""

    async def scenario() -> None:
        log: list[Any] = []
        bench = Bench(turn_seconds)

        def probe(left: int) -> None:
            log.append("-")
            if left:
                asyncio.get_running_loop().call_soon(probe, left - 1)

        bench.begin(work("a", 3, log), log.append)
        bench.begin(work("b", 4, log), log.append)
        bench.begin(work("c", 1, log), log.append)
        probe(5)
        while "b" not in log:
            await asyncio.sleep(0)
        assert "".join(log).rstrip("-") == done

    run(scenario())


def test_results_and_errors_reach_the_caller() -> None:
    async def scenario() -> None:
        bench = Bench()
        log: list[str] = []
        assert await bench.result(work("a", 3, log)) == "a"
        for slices in (1, 3):
            with pytest.raises(MalformedFrame):
                await bench.result(work("e", slices, log, error=True))

    run(scenario())


def test_abandoned_work_does_not_delay_other_work() -> None:
    async def scenario() -> None:
        bench = Bench()
        log: list[Any] = []
        steps = work("a", 9, log)
        bench.begin(steps, log.append)
        waiting = asyncio.ensure_future(bench.result(work("b", 3, log)))
        await asyncio.sleep(0)
        steps.close()
        waiting.cancel()
        while "b3" not in log:
            await asyncio.sleep(0)
        assert None in log and "a9" not in log

    run(scenario())


def test_a_long_call_is_made_on_another_thread_while_the_loop_goes_on() -> None:
    """The call ends only after a turn of the loop; on the loop's thread it would never end."""

    async def scenario() -> None:
        turned, done = threading.Event(), asyncio.get_running_loop().create_future()
        made: list[bool] = []

        def steps() -> LongSteps[str]:
            yield lambda: made.append(turned.wait(10) and threading.current_thread() is not threading.main_thread())
            yield None
            return "done"

        bench = SlicedTaskQueue(1.0)
        bench.begin(steps(), done.set_result)
        asyncio.get_running_loop().call_soon(turned.set)
        assert (await done, made) == ("done", [True])
        bench.close()

    run(scenario())
