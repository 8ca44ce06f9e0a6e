"""The state of an actor system's queue and timers, for snapshots and inspection."""

from __future__ import annotations

from thespian.actors import ActorAddress

from messages.vocabulary import Message, message

SENT = "sent"
"""Sent by an actor, or by the system for it: exit notices, dead letters."""
OUTSIDE = "outside"
"""Came from outside: another thread, an external endpoint, tell() and ask()."""
TIMER = "timer"
"""A wake-up that an actor requested."""


@message
class StopChildren(Message):
    """A message that the actor system sends to itself: stop the next batch of the children of an ended actor."""

    parent: ActorAddress


@message
class QueuedMessage(Message):
    """A message in the queue, as a snapshot stores it; `kind` and `cause` are those of its trace record.

    `event_id` is the current event id of the handler when it sent the message.
    """

    receiver: ActorAddress
    sender: ActorAddress
    kind: str
    cause: int
    event_id: int
    queued_at: float
    message: object


@message
class WaitingTimer(Message):
    """A pending timer, as a snapshot stores it; `name` is "" if the timer cannot be cancelled."""

    receiver: ActorAddress
    name: str
    armed_by: int
    due: float
    message: object


@message
class KernelState(Message):
    """The queued messages and the pending timers of an actor system after delivery `n`, both in order.

    `queue` has only messages from actors; an external message is in the record of its delivery. A timer is in `timers`
    until its message is delivered, even if the timer is already due.
    """

    n: int
    now: float
    queue: tuple[QueuedMessage, ...]
    timers: tuple[WaitingTimer, ...]


@message
class ActorSnapshot(Message):
    """A live actor, as a snapshot stores it: its address, its parent's address, and its class as "module:Class"."""

    address: ActorAddress
    parent: ActorAddress
    actor: str


@message
class SystemState(Message):
    """The actors, the queue and the timers of an actor system, without the states of the actors.

    `created` is the number of actors ever created. Parents precede their children in `actors`.
    """

    kernel: KernelState
    created: int
    actors: tuple[ActorSnapshot, ...]
