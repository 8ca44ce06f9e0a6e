"""Collect from a trace what coordinators did with transactional ids, for `kafka-actors why transaction`.

Rule 1: a record contains no values of `__transaction_state`. A response says that the log has a change; markers that
        are sent say that it has a decision.
Rule 2: a response and markers with one cause belong together: the request made the decision. A decision that follows an
        append without a response comes from the transaction timeout; without an append, from a coordinator that loads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from actors.explain.trace_facts import (
    TraceFacts,
    TracePosition,
    TransactionDecision,
    TransactionMarked,
    TransactionRequest,
)
from messages.cluster import TopicPartition
from messages.error_codes import NONE
from messages.trace.schema import TraceRecord

COORDINATOR, IDS, MARKERS = "TransactionCoordinatorActor", "TransactionsActor", "TransactionMarkersActor"
DECIDING = ("EndTxn", "InitProducerId")
"""The requests that end a transaction."""


class _AskedCoordinator(NamedTuple):
    """A request to the coordinator: its API, and its fields as recorded."""

    api: str
    fields: Any


class TransactionFactReader:
    """The reader of what one run records about transactional ids."""

    def __init__(self, facts: TraceFacts) -> None:
        self._facts = facts
        self._asked: dict[tuple[str, int, int], _AskedCoordinator] = {}
        """Requests without a response, by listener, connection and number."""
        self._requests: dict[tuple[int, str], TransactionRequest] = {}
        """Responses that a decision may follow, by cause and transactional id (rule 2)."""
        self._first_appends: dict[str, int] = {}
        """The delivery of the first appended change, by actor: a partition is loaded before."""

    def requested(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """A request comes to the coordinator."""
        if record.actor == COORDINATOR:
            request = payload["request"]
            name, fields = request["request"]
            if fields.get("transactional_id"):
                key = payload["client"], request["connection"], request["correlation_id"]
                self._asked[key] = _AskedCoordinator(name.removesuffix("Request"), fields)

    def responded(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """The coordinator responds."""
        asked = self._asked.pop((record.receiver, payload["connection"], payload["correlation_id"]), None)
        if asked is None:
            return
        fields, response = asked.fields, payload["response"][1]
        codes = [response.get("error_code", NONE), *(each["error_code"] for each in response.get("partitions", ()))]
        code = next((each for each in codes if each != NONE), NONE)
        given = response if asked.api == "InitProducerId" and code == NONE else fields
        request = TransactionRequest(
            *(place, fields["transactional_id"], asked.api, given["producer_id"], given["producer_epoch"], code),
            tuple(TopicPartition(*each) for each in fields.get("partitions", ())),
            fields.get("group_id", ""),
        )
        self._facts.transaction_requests.append(request)
        if asked.api in DECIDING:
            self._requests[record.cause, request.transactional_id] = request

    def appended(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """The log of a partition of ids has changes."""
        if record.actor == IDS:
            self._first_appends.setdefault(record.receiver, record.n)

    def decided(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """Markers are sent."""
        for name, producer_id, epoch, _, commit, partitions, *_ in payload["markers"]:
            if record.actor == MARKERS and record.sender.startswith(IDS):
                request = self._requests.pop((record.cause, name), None)
                first = self._first_appends.get(record.sender)
                self._facts.decisions.append(
                    TransactionDecision(
                        *(place, name, producer_id, epoch, commit),
                        tuple(TopicPartition(*each) for each in partitions),
                        request.api if request is not None else "",
                        loaded=first is None or record.cause < first,
                    )
                )

    def marked(self, place: TracePosition, record: TraceRecord, payload: Any) -> None:
        """Partitions have their marker."""
        partitions = tuple(TopicPartition(*each) for each in payload["partitions"])
        producer = payload["producer_id"], payload["producer_epoch"]
        self._facts.marked.append(TransactionMarked(place, payload["transactional_id"], *producer, partitions))
