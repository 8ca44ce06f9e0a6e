"""Answerer is the base class of actors that only answer requests (`Ask`), each with an `Answer`.

Rule: what the handler raises becomes a Failure, sent to the asker, logged here and recorded on the delivery. So one
partition that breaks costs its own result, not the time that its asker would wait for it.
"""

from __future__ import annotations

import logging

from thespian.actors import ActorAddress

from actors.runtime.dispatch import Dispatcher
from messages.conversation import Ask, Failure, answering
from messages.vocabulary import Message

log = logging.getLogger(__name__)


class Answerer(Dispatcher):
    """The base class of actors that answer each `Ask`; subclasses implement `answer`."""

    def answer(self, question: Message) -> Message:
        """The result of a question. What it raises is answered as Failure("AskFailed")."""
        raise NotImplementedError(f"{type(self).__name__} has no handler for {type(question).__name__}")

    def receiveMsg_Ask(self, message: Ask, sender: ActorAddress) -> None:
        """Answer, whatever happens."""
        try:
            result = self.answer(message.question)
        except Exception as error:
            name = type(message.question).__name__
            log.error("%s: handling %s failed: %s", self.myAddress, name, type(error).__name__, exc_info=error)
            self.note_error(error)
            result = Failure("AskFailed", f"{name}: {type(error).__name__}: {error}")
        self.send(sender, answering(message.id, result))
