"""Find in traces which of a producer's requests were refused, and which producer ids the producer received."""

from __future__ import annotations

from collections.abc import Callable

from actors.explain.client_situations import produce_errors
from actors.explain.explanations import LAST, Answer, Sentence
from actors.explain.fact_gathering import TraceFacts
from actors.explain.step_texts import text_of


def refused(facts: TraceFacts, producer: str) -> Answer:
    """List the last produce requests that were refused."""
    return [Sentence(text_of(each), each.place) for each in produce_errors(facts, producer)[-LAST:]]


def sessions(facts: TraceFacts, producer: str) -> Answer:
    """List the last producer ids and epochs that the producer received from InitProducerId."""
    begun = [
        each
        for each in facts.transaction_requests
        if each.api == "InitProducerId" and producer in (each.client_id, each.transactional_id, str(each.producer_id))
    ]
    return [Sentence(text_of(each), each.place) for each in begun[-LAST:]]


QUESTIONS: tuple[tuple[str, Callable[[TraceFacts, str], Answer]], ...] = (
    ("Which of its requests were refused, and why?", refused),
    ("Which producer ids was it given?", sessions),
)
"""Question about a producer, and the function that answers it."""
