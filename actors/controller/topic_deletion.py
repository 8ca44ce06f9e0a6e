"""TopicDeletionActor: the deletion's record (`actors.core.controller.deletion`), behind a door that only answers."""

from __future__ import annotations

from actors.core.controller.deletion import DeletionRecord
from actors.runtime import Answerer
from messages.conversation import Question
from messages.deletion import DeletionPlan


class TopicDeletionActor(Answerer):
    """One per controller, made and asked by it alone. It never asks back, so the two cannot wait for each other."""

    def __init__(self) -> None:
        super().__init__()
        self.record = DeletionRecord()

    def answer(self, question: Question[DeletionPlan]) -> DeletionPlan:
        """A question of the running flow."""
        return self.record.answer(question)
