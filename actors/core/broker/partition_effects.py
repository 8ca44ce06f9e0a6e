"""The effects of a partition: what a partition asks its actor to do when the partition handles an event.

A handler is a generator. It yields an effect and is resumed at once with the effect's result: of a CallAdapter what the
call returned, of RenameDeletedLog the new path, of any other None. A failed effect raises StorageError in the handler.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from messages.vocabulary import Message

R = TypeVar("R")


class Send(NamedTuple):
    """Send a message to the actor with this address."""

    to: Any
    message: Message


send: Callable[[tuple[Any, Message]], Send] = partial(tuple.__new__, Send)
"""Makes a Send of (to, message), in a third of the time that the class takes: nearly every event ends with one."""


class CallAdapter(NamedTuple):
    """Call a method of an I/O adapter: of the logs, the disk, the wall clock or the random numbers."""

    adapter: str
    method: str
    arguments: tuple[Any, ...]


class RenameDeletedLog(NamedTuple):
    """Close the log with this path, and rename it so that it is removed later; the result is the new path, or "" if
    there is no such log."""

    path: str


class WakeAt(NamedTuple):
    """Have the partition check its deadlines at this time."""

    at: float


Effect = Send | CallAdapter | RenameDeletedLog | WakeAt

Effects = Generator[Effect, Any, R]
"""The effects of one event, and the handler's result."""


class StorageError(Exception):
    """An effect failed; `failure` is the error of the disk, or "" if the disk works and its directory stays online."""

    def __init__(self, failure: str) -> None:
        super().__init__(failure)
        self.failure = failure
