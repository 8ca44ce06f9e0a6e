"""The state of an actor system's queue and timers as values, for snapshots and inspection."""

from __future__ import annotations

from thespian.actors import ActorAddress

from messages.vocabulary import Message, message


@message
class StopChildren:
    """A message that the actor system sends to itself, to stop the next batch of children of an actor that
    has ended."""

    parent: ActorAddress


@message
class QueuedMessage:
    """A message in the queue, as a snapshot stores it; `kind` and `cause` are those of its trace record.

    `event_id` is the event that its sender served.
    """

    receiver: ActorAddress
    sender: ActorAddress
    kind: str
    cause: int
    event_id: int
    queued_at: float
    message: Message


@message
class WaitingTimer:
    """A pending timer, as a snapshot stores it; `name` is "" if it cannot be cancelled."""

    receiver: ActorAddress
    name: str
    armed_by: int
    due: float
    message: Message


@message
class KernelState:
    """The queued messages and pending timers of an actor system after delivery `n`, in their order.

    Of the mail only what actors sent. What came from outside is in the record of its delivery, and a timer that is due
    and waits in the queue is still one of the timers.
    """

    n: int
    now: float
    queue: tuple[QueuedMessage, ...]
    timers: tuple[WaitingTimer, ...]


@message
class ActorSnapshot:
    """A live actor, as a snapshot stores it: its address, its parent's address, and its class as "module:Class"."""

    address: ActorAddress
    parent: ActorAddress
    actor: str


@message
class SystemState:
    """The actors, the queue and the timers of an actor system, without the states of the actors.

    `created` is how many actors have ever been; of those that live parents come before children.
    """

    kernel: KernelState
    created: int
    actors: tuple[ActorSnapshot, ...]
