"""Decide how the controller reacts to a failed event handler.

Rule 1: Errors that Kafka logs and survives are listed here. The event is dropped, and data that could not be read or
        written stays unchanged.
Rule 2: A write with an unknown outcome, or the election of another controller, ends the term, because the context may
        be wrong. Kafka waits within the event until ZooKeeper is back. Here the event ends, and the next term reloads
        the state that the event left half changed.
Rule 3: An unexpected error also ends the term, because the error may leave the context in conflict with the znodes,
        which are authoritative. The same node joins the election at once. If the event's handler fails again after the
        reload, this node drops the event and counts the error in a gauge. Otherwise a znode whose data causes the error
        would make every node resign in turn.
"""

from __future__ import annotations

import enum

import attrs

from actors.core.controller.context import BrokerEndpointNotAvailable
from messages import ask
from messages.events import Event
from messages.vocabulary import Message


class Consequence(enum.Enum):
    """The controller's reaction to a failed event handler, such as dropping the event or resigning."""

    DROPPED = "the event is dropped"
    EXPIRED = "the session has expired, which is reported separately and handled first"
    DEPOSED = "another controller was elected"
    GIVEN_UP = "the outcome of a write is unknown: the next controller reloads all state"
    RELOADED = "unexpected: this node resigns, and joins the election at once"


CONSEQUENCES: dict[type[Exception], Consequence] = {
    ask.BadZnode: Consequence.DROPPED,
    ask.UnknownTopic: Consequence.DROPPED,
    ask.ZooKeeperRefused: Consequence.DROPPED,
    BrokerEndpointNotAvailable: Consequence.DROPPED,
    ask.SessionLost: Consequence.EXPIRED,
    ask.ControllerMoved: Consequence.DEPOSED,
    ask.ConnectionLoss: Consequence.GIVEN_UP,
    ask.LostAnswer: Consequence.GIVEN_UP,
}
"""Expected error -> its consequence."""

PASSING = (ask.BadZnode, ask.ZooKeeperRefused)
"""Errors of answers that a flow may log before it continues."""


def consequence(error: Exception) -> Consequence:
    """Return the consequence of an error; RELOADED for an unexpected error."""
    return CONSEQUENCES.get(type(error), Consequence.RELOADED)


def passing(error: ask.AskFailed) -> ask.AskFailed:
    """Return the error if a flow may log it and continue; otherwise raise it again, because it ends the event."""
    if not isinstance(error, PASSING):
        raise error
    return error


def name_of(event: Message) -> str:
    """Return the event's name: its class, and the integers and strings among its fields, without `generation`.

    The name is the same if the event occurs again after a reload.
    """
    name = type(event).__name__
    if not issubclass(type(event), Event):
        return name
    fields = attrs.asdict(event, recurse=False, filter=lambda field, _: field.name != "generation")
    return " ".join([name, *(str(key) for key in fields.values() if isinstance(key, int | str))])
