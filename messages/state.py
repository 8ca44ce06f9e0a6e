"""The state of an actor as a value (`actors.runtime.state`).

Values that traces know already (numbers, text, bytes, messages) are unchanged. A mutable object has a
number, in the order met, so that two who share it share it again.
"""

from __future__ import annotations

from typing import NamedTuple

from messages.vocabulary import Message, message


class StatePart(NamedTuple):
    """The value of an attribute or a key."""

    key: Message
    value: Message


@message
class ActorState:
    """The attributes of an actor of this class."""

    actor: str
    parts: tuple[StatePart, ...]


@message
class StateItems:
    """A tuple, list, deque, set or frozenset; sets are sorted. Tuples and frozensets have the number 0.

    A deque with a maximum length has it in `kind`: "deque 64".
    """

    kind: str
    number: int
    items: tuple[Message, ...]


@message
class StateTable:
    """A dictionary, in its own order; or a read-only view of one."""

    mutable: bool
    number: int
    entries: tuple[StatePart, ...]


@message
class StateObject:
    """An object of a class of ours, by attribute; a NamedTuple has the number 0."""

    number: int
    type: str
    parts: tuple[StatePart, ...]


@message
class StateSeen:
    """A reference to the object with this number."""

    number: int


@message
class StateName:
    """A class, a function or a member of an enumeration, by its name: "module:name"."""

    name: str


@message
class StateOwn:
    """What an actor has of its own shell: the method `send`, or the port `port:disk`."""

    name: str


@message
class StateSuspended:
    """A conversation that waits for an answer, by its function: it can be shown, and not restored."""

    name: str
