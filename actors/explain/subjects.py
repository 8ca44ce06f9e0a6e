"""The kinds of subjects that `kafka-actors why` explains: how a user names one, and what can be asked about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from actors.explain import client_situations, cluster_history, explanations, transaction_history
from actors.explain.broker_situations import BROKER, CLUSTER, CONTROLLER
from actors.explain.explanations import LAST, Answer, Sentence, cause_text, sentence_of
from actors.explain.partition_situations import PARTITION, TOPIC
from actors.explain.situation import Situation
from actors.explain.step_texts import text_of, times_text
from messages.cluster import TopicPartition, partition_named
from messages.error_names import name_of
from messages.facts import declarations
from messages.facts.declarations import Fact
from messages.facts.trace_facts import TraceFacts, group_by

USUAL = ("MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS")
"""Names of errors that members get in the normal course of a rebalance."""


def _partition(text: str) -> TopicPartition:
    partition = partition_named(text)
    if partition is None:
        raise ValueError(text)
    return partition


def list_facts(find: Callable[[TraceFacts, str], Sequence[Fact]]) -> Callable[[TraceFacts, str], Answer]:
    """Return a function that lists the last of these facts."""
    return lambda facts, subject: [*map(sentence_of, find(facts, subject)[-LAST:])]


def rebalances(facts: TraceFacts, group: str) -> Answer:
    """List the last states of the group, each with the member or timer that caused it."""
    found = facts.select(declarations.GroupStateChanged, group=group)
    return [Sentence(each.state + cause_text(facts, each), each.place) for each in found[-2 * LAST :]]


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
    last = {
        (each.operation, each.resource, each.name, each.api): each
        for each in client_situations.denials_of(facts, client)
    }
    return [*last.values()]


def failed_authentications(facts: TraceFacts, client: str) -> Answer:
    """Return a sentence for each listener and mechanism by which clients failed to authenticate."""
    failures = facts.select(declarations.AuthenticationFailures)
    found = group_by(failures, lambda each: (each.place.node, each.listener, each.mechanism))
    return [
        Sentence(f"{text_of(same[-1])}: {times_text(sum(each.times for each in same))}, the last:", same[-1].place)
        for same in found.values()
    ]


class Subject(NamedTuple):
    """A kind of subject: its verdicts (`verdicts`), its questions with the functions that answer them, and its name.

    `form` is how a user names it, "" if it has no name; `read` parses the name.
    """

    situations: tuple[Situation, ...]
    questions: tuple[tuple[str, Callable[..., Answer]], ...]
    form: str = ""
    read: Callable[[str], Any] = str


SUBJECTS = {
    "partition": Subject(
        PARTITION,
        (
            ("Which broker leads it, and why?", explanations.leader),
            ("Why is the preferred replica not the leader?", explanations.why_not_preferred),
            ("Which replicas are not in the ISR, and why?", explanations.isr),
            ("How did its ISR change, and why?", explanations.isr_history),
            ("Why is its reassignment not complete?", explanations.reassignment),
            ("Why was a reassignment rejected, cancelled or replaced?", explanations.why_reassignment_ended),
            ("Why did its leader epoch increase?", explanations.epoch),
            ("When did it have no leader, and how long did each step take?", explanations.outages),
            ("Which brokers have an older state than ZooKeeper, and why?", explanations.heard),
            ("Why are records missing?", explanations.why_records_missing),
        ),
        "TOPIC-NUMBER",
        _partition,
    ),
    "topic": Subject(
        TOPIC,
        (
            ("Why is it not deleted?", explanations.deletion),
            ("Why was it not created, or not enlarged?", explanations.why_not_created),
            ("Who deleted it, and who created it again?", explanations.identity),
        ),
        "TOPIC",
    ),
    "broker": Subject(
        BROKER,
        (
            ("Why does the controller consider it dead or alive?", explanations.alive),
            ("Why does it receive no requests?", explanations.unreachable),
            ("Why was its controlled shutdown rejected?", explanations.leaves),
        ),
        "ID",
        int,
    ),
    "controller": Subject(
        CONTROLLER,
        (
            ("Which broker was controller, when, and why did it change?", explanations.terms),
            ("Which events are being handled or queued?", explanations.busy),
            ("Which events took longest?", explanations.slow),
            ("Which events did nothing, and why?", explanations.idle),
        ),
    ),
    "transaction": Subject(
        client_situations.TRANSACTION,
        (
            ("What state is the transaction in, and since when?", transaction_history.state),
            ("How did its last transactions end, and why?", transaction_history.ends),
            ("Which requests were rejected, and why?", transaction_history.why_rejected),
        ),
        "TRANSACTIONAL-ID",
    ),
    "consumer-group": Subject(
        client_situations.CONSUMER_GROUP,
        (
            (
                "Which broker coordinates it, and why?",
                list_facts(lambda facts, group: facts.select(declarations.GroupHosted, group=group)),
            ),
            ("Which states did it have last, and why?", rebalances),
            ("Which requests were refused?", list_facts(refused_group_requests)),
        ),
        "GROUP",
    ),
    "producer": Subject(
        client_situations.PRODUCER,
        (
            ("Which of its requests were refused, and why?", list_facts(client_situations.produce_errors)),
            ("Which producer ids was it given?", list_facts(sessions)),
        ),
        "CLIENT-ID|PRODUCER-ID|TRANSACTIONAL-ID",
    ),
    "client": Subject(
        client_situations.CLIENT,
        (
            ("Which operations were refused, and why?", list_facts(denied_operations)),
            ("Which authentications failed?", failed_authentications),
            ("When was it throttled, and by which quota?", list_facts(client_situations.throttles_of)),
        ),
        "PRINCIPAL|CLIENT-ID",
    ),
    "cluster": Subject(
        CLUSTER,
        (
            ("What happened?", cluster_history.list_events),
            ("Which requests were refused?", cluster_history.count_errors),
            ("Which clients lacked a permission?", cluster_history.count_denials),
            ("Which messages could not be read?", cluster_history.undecodable),
        ),
    ),
}
"""The kinds of subjects, by name."""


def subject_of(about: str, name: str) -> object:
    """Return the subject of the kind `about` with this name.

    Raises:
        ValueError: The name is malformed; the message contains the correct form.
    """
    try:
        return SUBJECTS[about].read(name)
    except ValueError:
        raise ValueError(f"'{name}' is not a valid {about}: it should be {SUBJECTS[about].form}") from None
