"""TopicDeletionActor: the deletion's record (`actors.core.controller.deletion`), behind a door that only answers."""

from __future__ import annotations

from thespian.actors import ActorAddress

from actors.core.controller.deletion import DeletionRecord
from actors.runtime import Dispatcher
from messages.conversation import Answer, Ask


class TopicDeletionActor(Dispatcher):
    """One per controller, made and asked by it alone. It never asks back, so the two cannot wait for each other."""

    def __init__(self) -> None:
        super().__init__()
        self.record = DeletionRecord()

    def receiveMsg_Ask(self, message: Ask, sender: ActorAddress) -> None:
        """A question of the running flow."""
        self.send(sender, Answer(message.id, self.record.answer(message.question)))
