"""The kinds of subjects that `kafka-actors why` explains: how a user names one, and what can be asked about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from actors.explain import cluster_history, transaction_history
from actors.explain.causes import cause_of
from actors.explain.client_situations import denials_of, produce_errors, throttles_of
from actors.explain.explanations import LAST, Answer, Sentence
from actors.explain.explanations import QUESTIONS as OF_ONE
from actors.explain.step_texts import text_of, times_text
from messages.cluster import TopicPartition, partition_named
from messages.error_names import name_of
from messages.facts import declarations
from messages.facts.declarations import Fact
from messages.facts.trace_facts import TraceFacts, group_by

USUAL = ("MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS")
"""Names of errors that members get in the normal course of a rebalance."""


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
    "client": Subject("PRINCIPAL|CLIENT-ID", str),
}
"""Kind of subject -> how it is named; controller and cluster have no name."""


def list_facts(find: Callable[[TraceFacts, str], Sequence[Fact]]) -> Callable[[TraceFacts, str], Answer]:
    """Return a function that lists the last of these facts."""
    return lambda facts, subject: [Sentence(text_of(each), each.place) for each in find(facts, subject)][-LAST:]


def rebalances(facts: TraceFacts, group: str) -> Answer:
    """List the last states of the group, each with the member or timer that caused it."""
    lines = []
    for each in facts.select(declarations.GroupStateChanged, group=group)[-2 * LAST :]:
        cause = cause_of(facts, each)
        lines.append(Sentence(f"{each.state}" + (f": {text_of(cause)}" if cause is not None else ""), each.place))
    return lines


def refused_group_requests(facts: TraceFacts, group: str) -> list[declarations.ErrorAnswered]:
    """Return the requests that the coordinator refused."""
    return [each for each in facts.select(declarations.ErrorAnswered, group=group) if name_of(each.code) not in USUAL]


def sessions(facts: TraceFacts, producer: str) -> list[declarations.TransactionRequest]:
    """Return the requests by which the producer received its ids and epochs."""
    return [
        each
        for each in facts.select(declarations.TransactionRequest, api="InitProducerId")
        if producer in (each.client_id, each.transactional_id, str(each.producer_id))
    ]


def denied_operations(facts: TraceFacts, client: str) -> list[declarations.OperationDenied]:
    """Return the operations that the authorizer refused, equal ones once."""
    last = {(each.operation, each.resource, each.name, each.api): each for each in denials_of(facts, client)}
    return [*last.values()]


def failed_authentications(facts: TraceFacts, client: str) -> Answer:
    """Return a sentence for each listener and mechanism by which clients failed to authenticate."""
    failures = facts.select(declarations.AuthenticationFailures)
    found = group_by(failures, lambda each: (each.place.node, each.listener, each.mechanism))
    return [
        Sentence(f"{text_of(same[-1])}: {times_text(sum(each.times for each in same))}, the last:", same[-1].place)
        for same in found.values()
    ]


QUESTIONS: dict[str, tuple[tuple[str, Callable[..., Answer]], ...]] = {
    **OF_ONE,
    "transaction": transaction_history.QUESTIONS,
    "consumer-group": (
        (
            "Which broker coordinates it, and why?",
            list_facts(lambda facts, group: facts.select(declarations.GroupHosted, group=group)),
        ),
        ("Which states did it have last, and why?", rebalances),
        ("Which requests were refused?", list_facts(refused_group_requests)),
    ),
    "producer": (
        ("Which of its requests were refused, and why?", list_facts(produce_errors)),
        ("Which producer ids was it given?", list_facts(sessions)),
    ),
    "client": (
        ("Which operations were refused, and why?", list_facts(denied_operations)),
        ("Which authentications failed?", failed_authentications),
        ("When was it throttled, and by which quota?", list_facts(throttles_of)),
    ),
    "cluster": cluster_history.QUESTIONS,
}
"""Kind of subject -> its questions, and the functions that answer them."""

UNNAMED = tuple(kind for kind in QUESTIONS if kind not in SUBJECTS)
"""The kinds of subjects that need no name."""


def subject_of(about: str, name: str) -> object:
    """Return the subject of the kind `about` with this name.

    Raises:
        ValueError: The name is malformed; the message contains the correct form.
    """
    form, read = SUBJECTS[about]
    try:
        return read(name)
    except ValueError:
        raise ValueError(f"'{name}' is not a valid {about}: it should be {form}") from None
