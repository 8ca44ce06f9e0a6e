"""What waits in a node's actor system, as values: for snapshots and for looking at it."""

from __future__ import annotations

from thespian.actors import ActorAddress

from messages.vocabulary import Message, message


@message
class StopChildren:
    """The system to itself: this actor is gone; ask some more of its children to go, too."""

    parent: ActorAddress


@message
class WaitingMail:
    """A message that has not been delivered; `kind` and `cause` as in the record of its delivery."""

    receiver: ActorAddress
    sender: ActorAddress
    kind: str
    cause: int
    queued_at: float
    message: Message


@message
class WaitingTimer:
    """A timer that has not come due; `name` is "" where it cannot be taken back."""

    receiver: ActorAddress
    name: str
    armed_by: int
    due: float
    message: Message


@message
class KernelState:
    """What waits in an actor system after delivery `n`: mail in the order of its delivery, timers in that of theirs.

    Of the mail only what actors sent. What came from outside is in the record of its delivery, and a timer that is due
    and waits in the queue is still one of the timers.
    """

    n: int
    now: float
    queue: tuple[WaitingMail, ...]
    timers: tuple[WaitingTimer, ...]


@message
class ActorSnapshot:
    """An actor that lives: its address, its parent's, and its class as "module:Class"."""

    address: ActorAddress
    parent: ActorAddress
    actor: str


@message
class SystemState:
    """All of an actor system but what its actors hold.

    `created` is how many actors have ever been; of those that live parents come before children.
    """

    kernel: KernelState
    created: int
    actors: tuple[ActorSnapshot, ...]
