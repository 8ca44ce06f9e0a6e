"""Read facts from the messages of transaction coordinators.

Rule 1: a trace does not contain the records of `__transaction_state`. A response shows that the log of this topic
        contains a change. Sent markers show that the log contains a decision to commit or to abort.
Rule 2: a response and markers that have the same cause belong together: the request made the decision. A decision
        without such a response has one of two causes. If the actor that sends the markers had appended any record
        before the decision, the cause is the transaction timeout. Otherwise the actor found the decision when it loaded
        its partition.
"""

from __future__ import annotations

from typing import TypeAlias

from messages import errors
from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.end_txn import EndTxnRequest
from messages.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from messages.cluster import TopicPartition
from messages.facts import declarations
from messages.facts.controller_facts import Emit
from messages.facts.open_requests import OpenClientRequests
from messages.groups import LoadEnded
from messages.network import ClientResponse
from messages.partition import BatchesAppended
from messages.response_codes import codes_of
from messages.trace.schema import TraceRecord
from messages.transactions import PartitionsMarked, SendMarkers, TransactionsLoaded
from messages.vocabulary import Message

COORDINATOR, IDS, MARKERS = "TransactionCoordinatorActor", "TransactionsActor", "TransactionMarkersActor"

_Request: TypeAlias = InitProducerIdRequest | AddPartitionsToTxnRequest | AddOffsetsToTxnRequest | EndTxnRequest
DECIDING = (EndTxnRequest, InitProducerIdRequest)
"""The requests that end a transaction."""


class CoordinatorFacts:
    """Finds the facts about transactional ids in one run."""

    def __init__(self, emit: Emit, open_requests: OpenClientRequests) -> None:
        self._emit = emit
        self._open = open_requests
        self._requests: dict[tuple[int, str], declarations.TransactionRequest] = {}
        """Responses that a decision may follow, by cause and transactional id (rule 2)."""
        self._first_appends: dict[str, int] = {}
        """The delivery of the first appended change, by actor; the partition was loaded before it."""

    def take(self, place: declarations.TracePosition, record: TraceRecord, message: Message) -> None:
        """Read the next message."""
        match message:
            case ClientResponse() if record.sender.rpartition(".")[0] in (COORDINATOR, IDS):
                self._read_response(place, record, message)
            case BatchesAppended() if record.actor == IDS:
                self._first_appends.setdefault(record.receiver, record.n)
            case SendMarkers() if record.actor == MARKERS and record.sender.startswith(IDS):
                self._read_decisions(place, record, message)
            case PartitionsMarked():
                producer = message.transactional_id, message.producer_id, message.producer_epoch
                self._emit(declarations.TransactionMarked(place, *producer, message.partitions))
            case LoadEnded() | TransactionsLoaded():
                topic = "__consumer_offsets" if isinstance(message, LoadEnded) else "__transaction_state"
                log = TopicPartition(topic, message.partition)
                self._emit(declarations.CoordinatorPartitionRead(place, log, message.unreadable, message.error_code))

    def _read_response(self, place: declarations.TracePosition, record: TraceRecord, responded: ClientResponse) -> None:
        """Read the coordinator's response to a request."""
        found = self._open.request(responded.connection, responded.correlation_id)
        if found is None or not isinstance(asked := found.request, _Request) or not asked.transactional_id:
            return
        response, given = responded.response, (asked.producer_id, asked.producer_epoch)
        code = next(filter(None, codes_of(response)), errors.NONE)
        if isinstance(response, InitProducerIdResponse) and code == errors.NONE:
            given = response.producer_id, response.producer_epoch
        request = declarations.TransactionRequest(
            *(place, asked.transactional_id, type(asked).__name__.removesuffix("Request"), *given, code),
            asked.partitions if isinstance(asked, AddPartitionsToTxnRequest) else (),
            asked.group_id if isinstance(asked, AddOffsetsToTxnRequest) else "",
            found.client_id,
        )
        self._emit(request)
        if isinstance(asked, DECIDING):
            self._requests[record.cause, request.transactional_id] = request

    def _read_decisions(self, place: declarations.TracePosition, record: TraceRecord, sent: SendMarkers) -> None:
        """Read a request to send markers; each marker shows a decision."""
        for marker in sent.markers:
            request = self._requests.pop((record.cause, marker.transactional_id), None)
            first = self._first_appends.get(record.sender)
            self._emit(
                declarations.TransactionDecision(
                    *(place, marker.transactional_id, marker.producer_id, marker.producer_epoch, marker.commit),
                    marker.partitions,
                    request.api if request is not None else "",
                    loaded=first is None or record.cause < first,
                )
            )
