"""What waits in a node's actor system, as values: for snapshots and for looking at it."""

from __future__ import annotations

from thespian.actors import ActorAddress

from messages.vocabulary import Message, message


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
    """All that an actor system holds besides its actors, after delivery `n`: mail in the order of its delivery.

    `arrived` is what came from outside and has not entered the queue: timers that are due by then go before it.
    """

    n: int
    now: float
    queue: tuple[WaitingMail, ...]
    arrived: tuple[WaitingMail, ...]
    timers: tuple[WaitingTimer, ...]
