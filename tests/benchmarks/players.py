"""Two actors that send a small message to each other.

They have their own module, because a trace identifies an actor's class by its module.
"""

from __future__ import annotations

from thespian.actors import Actor, ActorAddress

from messages.ask import Continue
from messages.events import BrokerModifications


class Wall(Actor):
    """An actor that returns each message to its sender."""

    def receiveMessage(self, message: object, sender: ActorAddress) -> None:
        """Return a message to its sender."""
        self.send(sender, message)


class Player(Actor):
    """An actor that sends a message to a Wall until it has been returned a given number of times."""

    def __init__(self) -> None:
        self.left = 0

    def receiveMessage(self, message: object, sender: ActorAddress) -> None:
        """Begin with the Continue message, whose id is the number of returns; then count each return."""
        if isinstance(message, Continue):
            self.left = message.id
            self.send(self.createActor(Wall), BrokerModifications(1, 2))
            return
        self.left -= 1
        if self.left:
            self.send(sender, message)
