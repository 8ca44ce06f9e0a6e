"""TopicDeletionActor keeps track of the topics that a controller deletes (`actors.core.controller.topic_deletion`).

Kafka: `TopicDeletionManager`.
"""

from __future__ import annotations

from actors.core.controller.topic_deletion import TopicDeletions
from actors.runtime import FlowActor, UnknownMessage
from messages.ask import Answer, Ask, Failure
from messages.flow.conversation import Flow
from messages.vocabulary import Message


class TopicDeletionActor(FlowActor):
    """Keeps the list of topics that a controller has to delete, and decides which deletion steps are possible now.

    It never waits for the controller, so the two actors cannot deadlock.

    Every request gets a reply; after an exception, the reply is Failure("AskFailed").
    """

    def __init__(self) -> None:
        super().__init__()
        self.record = TopicDeletions()

    def flow(self, message: Message) -> Flow[None]:
        """Handle a request of the controller's running flow."""
        if not isinstance(message, Ask):
            raise UnknownMessage(f"TopicDeletionActor has no handler for {type(message).__name__}")
        return self._answer(message)

    def event_failed(self, event: Message, error: Exception) -> None:
        """Reply Failure("AskFailed") to a request whose handler raised an exception."""
        if isinstance(event, Ask):
            detail = f"{type(event.question).__name__}: {type(error).__name__}: {error}"
            self.send(self.sender, Answer(event.id, Failure("AskFailed", detail)))

    def _answer(self, asked: Ask) -> Flow[None]:
        result = yield from self.record.answer(asked.question)
        self.send(self.sender, Answer(asked.id, result))
