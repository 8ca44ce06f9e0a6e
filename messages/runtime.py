"""The pending messages and timers of an actor system as values, for snapshots and inspection."""

from __future__ import annotations

from thespian.actors import ActorAddress

from messages.vocabulary import Message, message


@message
class StopChildren:
    """The system's message to itself: an actor has ended; stop more of its children."""

    parent: ActorAddress


@message
class WaitingMail:
    """A queued message; `kind` and `cause` as in the record of its delivery."""

    receiver: ActorAddress
    sender: ActorAddress
    kind: str
    cause: int
    queued_at: float
    message: Message


@message
class WaitingTimer:
    """A pending timer; `name` is "" if it cannot be cancelled."""

    receiver: ActorAddress
    name: str
    armed_by: int
    due: float
    message: Message


@message
class KernelState:
    """The queued messages and the pending timers of an actor system after delivery `n`, in their order.

    Of the mail only what actors sent. What came from outside is in the record of its delivery, and a timer that is due
    and waits in the queue is still one of the timers.
    """

    n: int
    now: float
    queue: tuple[WaitingMail, ...]
    timers: tuple[WaitingTimer, ...]


@message
class ActorSnapshot:
    """A live actor: its address, its parent's address, and its class as "module:Class"."""

    address: ActorAddress
    parent: ActorAddress
    actor: str


@message
class SystemState:
    """The state of an actor system without the states of its actors.

    `created` is how many actors have ever been; of those that live parents come before children.
    """

    kernel: KernelState
    created: int
    actors: tuple[ActorSnapshot, ...]
