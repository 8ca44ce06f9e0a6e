"""Run event handlers that are generators: each yields requests to other actors and gets their results back.

The code that runs a generator is called its driver. The driver passes each yielded value to its function `perform`. The
result of `perform` is sent into the generator, or the exception of `perform` is thrown into it. If `perform` returns
WAITING, the generator stays suspended until the driver calls `advance` with the answer. There are three kinds of
drivers:

* serial (one conversation at a time; other events are stashed): `actors.runtime.flow.flow`;
* concurrent (many conversations at once, each with one request in flight): `zk_bridge.core`;
* immediate (no conversation ever waits): tests that supply the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

WAITING: Final = object()
"""Result of `perform` for a step whose answer is not available yet."""


class Returned(NamedTuple, Generic[T]):
    """The outcome of a generator that returned, with its return value."""

    result: T


class Raised(NamedTuple):
    """The outcome of a generator that raised; it holds the exception."""

    error: Exception


def advance(
    conversation: Generator[Any, Any, T],
    perform: Callable[[Any], object],
    value: object = None,
    error: Exception | None = None,
) -> Returned[T] | Raised | None:
    """Resume a generator, and run it until it waits, returns or raises.

    Args:
        conversation: The generator.
        perform: Executes each yielded value; returns its result, or WAITING.
        value: Sent into the generator.
        error: If given, thrown into the generator instead.

    Returns:
        None if the generator waits; otherwise its outcome, Returned or Raised.
    """
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
