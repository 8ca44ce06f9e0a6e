"""Decide what the controller does after an event handler failed.

Rule 1: an error that Kafka's code logs and goes on from is foreseen, and named here: what could not be read or written
        stays as it was, and the event is dropped.
Rule 2: where the controller's knowledge is in doubt - a write of unknown outcome, another controller - its term ends.
        Kafka waits in the middle of an event until ZooKeeper is back. Here an event ends, and what it left half done is
        made whole by loading everything anew.
Rule 3: an unexpected error leaves an inconsistent context, and the znodes are the truth: the term ends, too. But
        the same node stands again at once, so that an event which raises again after the reload finds who knows it: it
        is dropped then, and named in the node's figures, for a poisoned znode must not make every node resign in turn.
"""

from __future__ import annotations

import enum

import attrs

from actors.core.controller.context import BrokerEndpointNotAvailable
from messages.conversation import (
    AskFailed,
    BadZnode,
    ConnectionLoss,
    ControllerMoved,
    LostAnswer,
    SessionLost,
    ZooKeeperRefused,
)
from messages.events import Event
from messages.vocabulary import Message


class Consequence(enum.Enum):
    """What the controller does after an event handler failed, such as drop the event or resign."""

    DROPPED = "the event is dropped"
    EXPIRED = "the session has expired, which is reported separately and handled first"
    DEPOSED = "another controller was elected"
    GIVEN_UP = "the outcome of a write is unknown: the next controller reloads all state"
    RELOADED = "unexpected: this node resigns, and joins the election at once"


CONSEQUENCES: dict[type[Exception], Consequence] = {
    BadZnode: Consequence.DROPPED,
    ZooKeeperRefused: Consequence.DROPPED,
    BrokerEndpointNotAvailable: Consequence.DROPPED,
    SessionLost: Consequence.EXPIRED,
    ControllerMoved: Consequence.DEPOSED,
    ConnectionLoss: Consequence.GIVEN_UP,
    LostAnswer: Consequence.GIVEN_UP,
}
"""Every error that is foreseen."""

PASSING = (BadZnode, ZooKeeperRefused)
"""Answers that a flow may log, to go on with the rest."""


def consequence(error: Exception) -> Consequence:
    """What follows from this error."""
    return CONSEQUENCES.get(type(error), Consequence.RELOADED)


def passing(error: AskFailed) -> AskFailed:
    """The error, if a flow may log it and go on with the rest. Raises it again where that is more than an event's."""
    if not isinstance(error, PASSING):
        raise error
    return error


def name_of(event: Message) -> str:
    """The event and whom it is about, not when it was: what is the same event after a reload."""
    name = type(event).__name__
    if not issubclass(type(event), Event):
        return name
    fields = attrs.asdict(event, recurse=False, filter=lambda field, _: field.name != "generation")
    return " ".join([name, *(str(key) for key in fields.values() if isinstance(key, int | str))])
