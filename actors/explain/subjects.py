"""The kinds of subjects that `kafka-actors why` explains: how a user names one, and what can be asked about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from actors.explain import cluster_history, group_history, producer_history, transaction_history
from actors.explain.explanations import QUESTIONS as OF_ONE
from actors.explain.explanations import Answer
from messages.cluster import TopicPartition, partition_named


class Subject(NamedTuple):
    """A kind of subject that `kafka-actors why` accepts: the form of its name, and the function that parses it."""

    form: str
    read: Callable[[str], Any]


def _partition(text: str) -> TopicPartition:
    partition = partition_named(text)
    if partition is None:
        raise ValueError(text)
    return partition


SUBJECTS = {
    "partition": Subject("TOPIC-NUMBER", _partition),
    "topic": Subject("TOPIC", str),
    "broker": Subject("ID", int),
    "transaction": Subject("TRANSACTIONAL-ID", str),
    "consumer-group": Subject("GROUP", str),
    "producer": Subject("CLIENT-ID|PRODUCER-ID|TRANSACTIONAL-ID", str),
}
"""Kind of subject -> how it is named; controller and cluster have no name."""

QUESTIONS: dict[str, tuple[tuple[str, Callable[..., Answer]], ...]] = {
    **OF_ONE,
    "transaction": transaction_history.QUESTIONS,
    "consumer-group": group_history.QUESTIONS,
    "producer": producer_history.QUESTIONS,
    "cluster": cluster_history.QUESTIONS,
}
"""Kind of subject -> its questions, and the functions that answer them."""

UNNAMED = tuple(kind for kind in QUESTIONS if kind not in SUBJECTS)
"""The kinds of subjects that need no name."""


def subject_of(about: str, name: str) -> Any:
    """Return the subject of the kind `about` with this name.

    Raises:
        ValueError: The name is malformed; the message contains the correct form.
    """
    form, read = SUBJECTS[about]
    try:
        return read(name)
    except ValueError:
        raise ValueError(f"'{name}' is not a valid {about}: it should be {form}") from None
