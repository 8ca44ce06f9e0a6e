"""Messages in the queue of an actor system, and the record of their delivery.

A delivery is one message handled by one receiver. Deliveries are numbered from 1 in the order in which they happen. The
*cause* of a delivery is the number of the delivery that sent its message or armed its timer. A message from outside has
cause -k if it came after delivery k, and cause 0 if it came before the first delivery.

The *event id* of a delivery is the number of the delivery that began its event. A delivery begins an event if it
delivers a message from outside (such as a client's request), a timer, or a controller event. Messages inherit the event
id of the handler that sends them. An actor that continues earlier work (a suspended flow, a queued request) calls
`Kernel.serve` to use the event id of that work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from thespian.actors import ActorAddress

DEAD_LETTER = "dead letter"
"""Delivery.error of a message whose receiver has been removed."""


class AdapterCall(NamedTuple):
    """A recorded call of an I/O adapter.

    Its arguments and its result contain only str, int, bool, None and tuples.

    `error` is "" if the call succeeded, else the number and the text of the raised OSError as "errno text".
    """

    port: str
    method: str
    args: tuple[Any, ...]
    result: Any
    error: str


class Envelope(NamedTuple):
    """A message in the queue, with its sender and its receiver.

    `event_id` is 0 for a message from outside and for a timer, because the delivery of such a message begins an event.
    """

    receiver: ActorAddress
    message: Any
    sender: ActorAddress
    cause: int
    queued_at: float
    kind: str
    event_id: int


class Delivery(NamedTuple):
    """The record of a delivered message and of its handler's result; times are in seconds.

    `actor_class` is "" if the receiver is an external endpoint. `error` is None, the handler's error, or DEAD_LETTER.
    """

    n: int
    kind: str
    cause: int
    event_id: int
    sender: ActorAddress
    receiver: ActorAddress
    actor_class: str
    message: Any
    queued_at: float
    taken_at: float
    finished_at: float
    effects: tuple[AdapterCall, ...]
    error: str | None
