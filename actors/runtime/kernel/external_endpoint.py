"""An external endpoint is an address of a function, not of an actor; messages to it are passed to the function.

ZooKeeper, sockets, metrics and the process itself are outside of the actor system. Actors send messages to them as to
other actors. Messages from external endpoints enter by `base.inject(to, message, sender=endpoint_address)`. The
system base (`base`) handles an external endpoint as a receiver whose handler is a callback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thespian.actors import ActorAddress


class ExternalEndpoint:
    """A receiver outside the actor system.

    It passes each message to `callback(message, sender)` on the thread that runs the actors.
    """

    __slots__ = ("receiveMessage",)

    def __init__(self, callback: Callable[[Any, ActorAddress], None]) -> None:
        self.receiveMessage = callback
