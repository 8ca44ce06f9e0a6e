"""The form in which snapshots store the state of an actor; `actors.runtime.trace.state` does the conversion.

Values that traces can store (numbers, text, bytes, messages) are unchanged. Mutable objects are numbered in the order
of their first occurrence, so references to one object stay shared.
"""

from __future__ import annotations

from typing import NamedTuple

from messages.vocabulary import AnyMessage, Message, message


class StatePart(NamedTuple):
    """An attribute of an object, or an entry of a dict, as a snapshot stores it."""

    key: AnyMessage
    value: AnyMessage


@message
class ActorState(Message):
    """An actor's class and the values of the actor's attributes, as a snapshot stores them."""

    actor: str
    parts: tuple[StatePart, ...]


@message
class StateItems(Message):
    """A tuple, list, deque, set or frozenset, as a snapshot stores it; the items of sets are sorted.

    `kind` is the name of the class. For a deque with a maximum length, `kind` also contains that length: "deque 64".

    `number` identifies a mutable object in the snapshot; it is 0 for tuples and frozensets.
    """

    kind: str
    number: int
    items: tuple[object, ...]


@message
class StateTable(Message):
    """The form in which a snapshot stores a dict or a read-only view of a dict.

    The entries keep their order.
    """

    mutable: bool
    number: int
    entries: tuple[StatePart, ...]


@message
class StateObject(Message):
    """An object with its attributes, as a snapshot stores it.

    `number` identifies a mutable object in the snapshot; it is 0 for a NamedTuple.
    """

    number: int
    type: str
    parts: tuple[StatePart, ...]


@message
class StateBackReference(Message):
    """A reference to an object that occurred earlier in the snapshot, given by that object's number."""

    number: int


@message
class StateName(Message):
    """A class, function or enum member, which a snapshot stores by its name: "module:name"."""

    name: str


@message
class StateRuntimeReference(Message):
    """A reference, in a saved actor state, to a method or an I/O adapter of the actor itself.

    Examples of `name` are `send` and `port:disk`. A restore replaces the reference by the same method or adapter of the
    new actor.
    """

    name: str


@message
class StateSuspended(Message):
    """An actor's state while an event handler waits for an answer. It cannot be restored.

    `name` is the handler's name.
    """

    name: str
