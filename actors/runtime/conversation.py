"""Run event handlers that are generators: each yields requests to other actors and gets their results back.

A generator has no opinion on who drives it. What it yields is given to the driver's `perform`, whose result it is sent,
or whose exception is thrown into it; where `perform` returns WAITING, the generator stays suspended until the driver
calls `advance` again with the answer. The policies stand with the drivers:

* serial, one conversation at a time, the rest is stashed: `actors.runtime.flow`;
* concurrent, many at once, each with one request under way: `zk_bridge.core`;
* at once, every answer is there: a test that plays the world.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

WAITING: Final = object()
"""What `perform` returns for a step whose answer is not there yet."""


class Returned(NamedTuple, Generic[T]):
    """The outcome of a generator that returned; it has the result."""

    result: T


class Raised(NamedTuple):
    """The outcome of a generator that raised an exception; it has the exception."""

    error: Exception


def advance(
    conversation: Generator[Any, Any, T],
    perform: Callable[[Any], object],
    value: object = None,
    error: Exception | None = None,
) -> Returned[T] | Raised | None:
    """Resume with `value`, or by raising `error`, and go on until it waits (None), has ended or has failed."""
    while True:
        try:
            step = conversation.send(value) if error is None else conversation.throw(error)
        except StopIteration as end:
            return Returned(end.value)
        except Exception as raised:
            return Raised(raised)
        value = error = None
        try:
            value = perform(step)
        except Exception as raised:
            error = raised
        if value is WAITING:
            return None
