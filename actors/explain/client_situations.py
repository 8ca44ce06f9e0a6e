"""Tables of verdicts (short diagnoses) about transactional ids, groups and producers, and functions to select one.

The rows are in the order of importance. `kafka-actors why` prints the first that applies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from actors.explain.causes import cause_of
from actors.explain.partition_situations import OF_PARTITIONS, no_leader
from actors.explain.situation import Remedy, Seen, Situation, last_of, quiet
from actors.explain.step_texts import not_joined_again, times_text
from actors.explain.transaction_history import RETRIED
from messages import errors
from messages.cluster import TopicPartition
from messages.facts import declarations
from messages.facts.trace_facts import TraceFacts
from messages.placement import slot

# -------------------------------------------------------------------------------------------------------- transactions


def _troubles(facts: TraceFacts, name: str) -> list[declarations.TransactionRequest | declarations.TransactionDecision]:
    """Return the aborts and rejected requests of a transactional id, or of a producer's client id or producer id."""
    rejected = [
        each
        for each in facts.select(declarations.TransactionRequest)
        if name in (each.transactional_id, each.client_id, str(each.producer_id))
        and each.code not in (errors.NONE, *RETRIED)
    ]
    aborted = [
        each
        for each in facts.select(declarations.TransactionDecision, transactional_id=name)
        if not each.commit and each.api != "EndTxn" and not each.loaded
    ]
    return sorted([*rejected, *aborted], key=lambda each: each.place)


def _not_begun_again(facts: TraceFacts, seen: Seen) -> bool:
    """Return whether no transaction began after the trouble with a transactional id."""
    later = [
        each
        for each in facts.select(declarations.TransactionRequest, transactional_id=seen.fact.transactional_id)
        if each.place > seen.fact.place
    ]
    return not any(each.code == errors.NONE and each.api in ("AddPartitionsToTxn", "AddOffsetsToTxn") for each in later)


def _find_damage_of(topic: str) -> Callable[[TraceFacts, str], Seen | None]:
    """Return a function that finds the last read of the partition of a group or transactional id, if it is damaged."""

    def find(facts: TraceFacts, name: str) -> Seen | None:
        count = len({each.partition for each in facts.assignments_of_topics.get(topic, ())})
        log = TopicPartition(topic, slot(name) % max(count, 1))
        read = next(reversed(facts.select(declarations.CoordinatorPartitionRead, partition=log)), None)
        codes = (errors.CORRUPT_MESSAGE, errors.UNKNOWN_SERVER_ERROR)
        is_damaged = read is not None and (read.unreadable or read.code in codes)
        return Seen(read, since=read.place.at) if read is not None and is_damaged else None

    return find


# -------------------------------------------------------------------------------------------------------------- groups


def _group_coordinator_moved(facts: TraceFacts, group: str) -> Seen | None:
    """Find the group's last move to another coordinator, if the group has not started a rebalance since."""
    hosted = facts.select(declarations.GroupHosted, group=group)
    if len(hosted) < 2 or hosted[-1].place.run == hosted[-2].place.run:
        return None
    begun = facts.select(declarations.GroupStateChanged, group=group, state="PreparingRebalance")
    if begun and begun[-1].place > hosted[-1].place:
        return None
    return Seen(hosted[-1], since=hosted[-1].place.at)


def _refused_commits(facts: TraceFacts, group: str) -> list[declarations.ErrorAnswered]:
    """Return the refused commits of offsets; refusals after which the client simply tries again do not count."""
    return [
        each
        for each in facts.select(declarations.ErrorAnswered, group=group)
        if each.api in ("OffsetCommit", "TxnOffsetCommit") and each.code not in _RETRY
    ]


def _has_no_coordinator(facts: TraceFacts, group: str) -> Seen | None:
    """Find a group whose coordinator's partition has no leader."""
    hosted = facts.select(declarations.GroupHosted, group=group)
    seen = no_leader(facts, hosted[-1].log) if hosted else None
    return None if seen is None else seen._replace(values={**seen.values, "log": hosted[-1].log})


_RETRY = (errors.COORDINATOR_LOAD_IN_PROGRESS, errors.REQUEST_TIMED_OUT)


def _group_rebalanced(facts: TraceFacts, group: str) -> Seen | None:
    states = facts.select(declarations.GroupStateChanged, group=group)
    changes = [
        after
        for before, after in pairwise([None, *states])
        if after is not None
        and (after.state == "PreparingRebalance" or (after.state == "Empty" and before is not None))
        and (before is None or before.state != after.state)
    ]
    if not changes:
        return None
    times = sum(each.state == "PreparingRebalance" for each in changes)
    words = "has no members" if changes[-1].state == "Empty" else "began its last rebalance"
    return Seen(changes[-1], {"times": times, "what": words, "now": states[-1].state}, changes[-1].place.at)


def _group_known(facts: TraceFacts, group: str) -> Seen | None:
    hosted = facts.select(declarations.GroupHosted, group=group)
    return Seen(None, {"broker": hosted[-1].place.node}, hosted[-1].place.at) if hosted else None


# ----------------------------------------------------------------------------------------------------------- producers


def produce_errors(facts: TraceFacts, name: str) -> list[declarations.ErrorAnswered]:
    """Return the refused produce requests of a producer, given by its client id, producer id or transactional id."""
    producers = {each.producer_id for each in facts.select(declarations.TransactionRequest, transactional_id=name)}
    return [
        each
        for each in facts.select(declarations.ErrorAnswered, api="Produce")
        if each.client_id == name
        or (each.batch is not None and (str(each.batch.producer_id) == name or each.batch.producer_id in producers))
    ]


def _last_with_times(
    find: Callable[[TraceFacts, str], Sequence[Any]], what: Callable[[Any], object]
) -> Callable[[TraceFacts, str], Seen | None]:
    """Return a function that finds the last of these facts, with the `times` of all that have the same `what`."""

    def find_last(facts: TraceFacts, name: str) -> Seen | None:
        found = find(facts, name)
        if not found:
            return None
        same = [each for each in found if what(each) == what(found[-1])]
        times = times_text(sum(each.times for each in same))
        return Seen(found[-1], {"times": times}, same[0].place.at, found[-1].place.at)

    return find_last


_produce_refused = _last_with_times(produce_errors, lambda error: (error.code, error.subject))


def _refused_requests(facts: TraceFacts, name: str) -> list[declarations.ErrorAnswered]:
    """Return the refused requests of this client that no other situation is about."""
    clients = {
        each.client_id
        for each in facts.select(declarations.TransactionRequest)
        if name in (each.transactional_id, str(each.producer_id))
    }
    return [
        each
        for each in facts.select(declarations.ErrorAnswered)
        if each.client_id == name or (each.api == "TxnOffsetCommit" and each.client_id in clients)
    ]


def _produce_refused_itself(facts: TraceFacts, name: str) -> Seen | None:
    """Return a produce request that was refused because of its own content."""
    seen = _produce_refused(facts, name)
    return seen if seen is not None and cause_of(facts, seen.fact) is None else None


# ------------------------------------------------------------------------------------------------------------- clients


def denials_of(facts: TraceFacts, name: str) -> list[declarations.OperationDenied]:
    """Return the refused operations of a client, given by its principal, the principal's name, or its client id."""
    return [
        each
        for each in facts.select(declarations.OperationDenied)
        if name in (each.principal, each.principal.partition(":")[2], each.client_id)
    ]


def throttles_of(facts: TraceFacts, name: str) -> list[declarations.ClientThrottled]:
    """Return when a client, given by its user or its client id, was throttled."""
    user = name.partition(":")[2] or name
    return [
        each
        for each in facts.select(declarations.ClientThrottled)
        if each.client_id == name or each.user in (name, user)
    ]


_DAMAGED = (
    "{partition}, which contains {subject}, is damaged on broker {node}: it was not read whole at {since}",
    True,
    (Remedy("Let another replica lead {partition}: reassign it, or stop broker {node}."),),
)

TRANSACTION = (
    Situation(_find_damage_of("__transaction_state"), *_DAMAGED),
    Situation(
        last_of(_troubles),
        "transactional id {subject} had trouble at {since}: {first}{why}",
        True,
        (Remedy("Begin a new transaction.", _not_begun_again),),
    ),
    Situation(
        last_of(lambda facts, name: facts.select(declarations.TransactionDecision, transactional_id=name)),
        "the last transaction of {subject} ended at {since}: {first}",
    ),
    Situation(
        last_of(lambda facts, name: facts.select(declarations.TransactionRequest, transactional_id=name)),
        "the last request of {subject} was at {since}: {first}",
    ),
    Situation(quiet, "the trace has no request of transactional id {subject}"),
)

CONSUMER_GROUP = (
    OF_PARTITIONS[0]._replace(
        find=_has_no_coordinator,
        verdict="group {subject} has had no coordinator since {since}: {log} has no leader: {state}{why}",
    ),
    Situation(_find_damage_of("__consumer_offsets"), *_DAMAGED),
    Situation(
        last_of(_refused_commits),
        "group {subject} refused offsets of client {client_id} at {since} ({error_name}){why}",
        True,
        (
            Remedy(
                "The member must join again; what it did not commit is read again.",
                lambda facts, seen: not_joined_again(facts, seen.fact),
            ),
        ),
    ),
    Situation(_group_coordinator_moved, "broker {node} has coordinated group {subject} since {since}{why}"),
    Situation(_group_rebalanced, "group {subject} {what} at {since} (rebalances: {times}; state now: {now}){why}"),
    Situation(_group_known, "broker {broker} has coordinated group {subject} since {since}, without a rebalance"),
    Situation(quiet, "no node in this trace coordinates group {subject}"),
)

CLIENT = (
    Situation(
        _last_with_times(denials_of, lambda denial: denial[1:-1]),
        "client {subject} has been refused since {since} ({times}, from host {client_host}): {first}",
        True,
    ),
    Situation(
        _last_with_times(throttles_of, lambda throttle: throttle.quota),
        "client {subject} is slow because of a quota from {since} to {until} ({times}): {first}",
        True,
    ),
    Situation(  # a broker does not know which clients have failed to authenticate
        _last_with_times(
            lambda facts, name: facts.select(declarations.AuthenticationFailures), lambda failure: failure[1:-1]
        ),
        "no operation of client {subject} was refused, but {first} ({times} since {since}, the last at {until})",
        True,
    ),
    Situation(quiet, "the trace has no operation of client {subject} that was refused or throttled"),
)

PRODUCER = (
    Situation(
        _produce_refused_itself,
        "producer {subject} has been refused with {error_name} for {self.subject} since {since} ({times}): {first}",
        True,
        (Remedy("Correct the producer: the request itself is wrong."),),
    ),
    Situation(
        _produce_refused,
        "producer {subject} was refused with {error_name} for {self.subject} from {since} to {until} ({times}){why}",
        True,
    ),
    Situation(
        last_of(lambda facts, name: facts.select(declarations.InjectedFaultReturned, client_id=name)),
        "a request of producer {subject} was not handled as usual at {since}: {first}",
        True,
    ),
    Situation(last_of(_troubles), "producer {subject} had trouble at {since}: {first}{why}", True),
    Situation(last_of(_refused_requests), "the last refused request of {subject} was at {since}: {first}{why}"),
    Situation(quiet, "the trace has no refused request of producer {subject}"),
)
