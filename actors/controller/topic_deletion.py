"""TopicDeletionActor: the record of `actors.core.controller.topic_deletion`, behind a door that only answers."""

from __future__ import annotations

from actors.core.controller.topic_deletion import DeletionRecord
from actors.runtime import Answerer
from messages.conversation import Question
from messages.topic_deletion import DeletionPlan, DeletionReport


class TopicDeletionActor(Answerer):
    """One per controller, made and asked by it alone. It never asks back, so the two cannot wait for each other."""

    def __init__(self) -> None:
        super().__init__()
        self.record = DeletionRecord()

    def answer(self, question: Question[DeletionPlan | DeletionReport]) -> DeletionPlan | DeletionReport:
        """A question of the running flow."""
        return self.record.answer(question)
