"""Answerer is the base class of actors that only answer requests (`Ask`), each with an `Answer`.

Rule: an exception of the handler is sent to the requester as a Failure, logged, and stored in the delivery's record. An
error in one partition thus affects only the result for that partition, and the requester does not have to wait for its
deadline.
"""

from __future__ import annotations

import logging

from thespian.actors import ActorAddress

from actors.runtime.thespian.dispatch import Dispatcher
from messages.ask import Ask, Failure, answering
from messages.vocabulary import Message

log = logging.getLogger(__name__)


class Answerer(Dispatcher):
    """The base class of actors that answer each `Ask`; subclasses implement `answer`."""

    def answer(self, question: Message) -> Message:
        """Return the result of a question. An exception is answered as Failure("AskFailed")."""
        raise NotImplementedError(f"{type(self).__name__} has no handler for {type(question).__name__}")

    def receiveMsg_Ask(self, message: Ask, sender: ActorAddress) -> None:
        """Answer the question, even if the handler fails."""
        try:
            result = self.answer(message.question)
        except Exception as error:
            name = type(message.question).__name__
            log.error(
                "Actor %s failed to handle a %s message: %s", self.myAddress, name, type(error).__name__, exc_info=error
            )
            self.note_error(error)
            result = Failure("AskFailed", f"{name}: {type(error).__name__}: {error}")
        self.send(sender, answering(message.id, result))
