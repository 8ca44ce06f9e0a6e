"""Two actors that send one small message to and fro. In a module of their own: a trace names actors by it."""

from __future__ import annotations

from thespian.actors import Actor, ActorAddress

from messages.ask import Continue
from messages.events import BrokerModifications


class Wall(Actor):
    """Sends everything back."""

    def receiveMessage(self, message: object, sender: ActorAddress) -> None:
        """One message."""
        self.send(sender, message)


class Player(Actor):
    """Plays against a wall until all messages are used up."""

    def __init__(self) -> None:
        self.left = 0

    def receiveMessage(self, message: object, sender: ActorAddress) -> None:
        """The first message begins the game, and says how many returns it has."""
        if isinstance(message, Continue):
            self.left = message.id
            self.send(self.createActor(Wall), BrokerModifications(1, 2))
            return
        self.left -= 1
        if self.left:
            self.send(sender, message)
