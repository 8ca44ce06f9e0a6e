"""The effects of a `Partition`: the actions that it requests when it handles an event. Its actor carries them out.

`ReplicaManager` yields some of these effects, too.

A handler is a generator. It yields an effect and is resumed at once with the effect's result: for a CallAdapter the
call's return value, for a RenameDeletedLog the new path, otherwise None. A failed effect raises StorageError in the
handler. For an order of the replica manager, the last effect is the reply to the manager.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from messages.broker import PartitionStopped, ReplicaMoves, RoleTaken
from messages.flow.conversation import Instruction
from messages.vocabulary import Message, value_class

R = TypeVar("R")

Address: TypeAlias = object
"""The address of an actor, which is only stored, compared and sent to."""

Result: TypeAlias = Any  # type: ignore[explicit-any]  # the effect's class and method decide
"""The result of an effect."""


class _Send(NamedTuple):
    to: Address
    message: Message


class Send(_Send, Instruction):
    """An effect: send a message to the actor with this address."""

    __slots__ = ()


send: Callable[[tuple[Address, Message]], Send] = partial(tuple.__new__, Send)
"""Makes a Send of (to, message) in a third of the class's time: nearly every event ends with one."""


class _CallAdapter(NamedTuple):
    adapter: str
    method: str
    arguments: tuple[object, ...]


class CallAdapter(_CallAdapter, Instruction):
    """An effect: call a method of the I/O adapter for logs, disks, the wall clock or random numbers."""

    __slots__ = ()


call: Callable[[tuple[str, str, tuple[object, ...]]], CallAdapter] = partial(tuple.__new__, CallAdapter)
"""Makes a CallAdapter of (adapter, method, arguments) in a third of the class's time."""


@value_class
class RenameDeletedLog(Instruction):
    """An effect: close the log with this path, and rename it so that it is removed later.

    The result is the new path, or "" if no such log exists.
    """

    path: str


class WakeAt(NamedTuple):
    """An effect: check the partition's deadlines at this time."""

    at: float


class CopyAfter(NamedTuple):
    """An effect: send the partition CopyLog after these seconds."""

    seconds: float


Reply = RoleTaken | PartitionStopped | ReplicaMoves
"""An effect: reply to the replica manager."""

Effect = Send | CallAdapter | RenameDeletedLog | WakeAt | CopyAfter | Reply

Effects = Generator[Effect, Result, R]
"""The effects of one event, and the handler's result."""


class StorageError(Exception):
    """A read or write of a log failed. `failure` is the reason to take the directory offline, "" if it stays online."""

    def __init__(self, failure: str) -> None:
        super().__init__(failure)
        self.failure = failure
