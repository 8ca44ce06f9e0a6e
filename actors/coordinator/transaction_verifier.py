"""TransactionVerifierActor asks coordinators whether partitions are in open transactions.

Rule 1: the metadata cache returns the coordinators. For each broker, a separate VerificationSenderActor sends the
        requests to that broker, and sends the results to the actors of the partitions.
Rule 2: a verification without a live coordinator is answered with COORDINATOR_NOT_AVAILABLE. This actor does not retry:
        the producer retries its batches.
Rule 3: the sender's first request is for the broker's API versions. A broker without version 4 of AddPartitionsToTxn
        cannot verify: the transactions that it coordinates count as verified, as in Kafka.
Rule 4: after a request without a response, the sender's verifications, also the queued ones, get NETWORK_EXCEPTION. The
        API versions are then requested again.
Rule 5: the metrics contain the duration of verifications and the number of failed verifications, as in Kafka.

Kafka: `AddPartitionsToTxnManager`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import zip_longest

from thespian.actors import ActorAddress, ChildActorExited

from actors.coordinator.broker_senders import BrokerSenders
from actors.coordinator.request_sender import RequestSender
from actors.core.topic.topic_name import TRANSACTION_STATE
from actors.core.transaction.verifications import error_codes, request_of, supports_verification, take
from messages import errors, transactions
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnResponse
from messages.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from messages.ask import Answer, Ask
from messages.cluster import Endpoint, TopicPartition
from messages.groups import CountPartitions, PartitionCount
from messages.metrics import Count, Counts, Sample, Samples
from messages.placement import slot
from messages.probes import probe
from messages.vocabulary import Message

TIME = "kafka_server_addpartitionstotxnmanager_verificationtimems"
FAILURES = "kafka_server_addpartitionstotxnmanager_verificationfailurerate_total"


class VerificationSenderActor(RequestSender[transactions.VerificationRequest]):
    """This actor asks one broker, one request at a time, whether partitions are in open transactions."""

    CLIENT = "add-partitions-to-txn"

    def __init__(self) -> None:
        super().__init__()
        self._verifies = False
        """Whether the broker is known to support verification."""

    def receiveMsg_Verify(self, message: transactions.Verify, sender: ActorAddress) -> None:
        """Queue verifications."""
        self._queue += message.verifications
        self.send_next()

    def next_request(self) -> Message:
        """Return the request with the next verifications, or the request for the API versions (rule 3)."""
        if not self._verifies:
            return ApiVersionsRequest(0)
        self._in_flight = take(self._queue)
        return request_of(self._in_flight)

    def handle_response(self, entries: list[transactions.VerificationRequest], response: Message) -> None:
        """Send the results of the verifications to the partitions' actors."""
        if isinstance(response, ApiVersionsResponse):
            self._verifies = supports_verification(response)
            if not self._verifies:
                probe("a transaction coordinator cannot verify")
                self._answer(self._queue, {}, errors.NONE)
                self._queue.clear()
        elif isinstance(response, AddPartitionsToTxnResponse):
            self._answer(entries, error_codes(response), response.error_code or errors.UNKNOWN_SERVER_ERROR)

    def handle_failure(self, entries: list[transactions.VerificationRequest], sent: int, reason: str) -> None:
        """Send NETWORK_EXCEPTION to the partitions' actors (rule 4)."""
        probe("a verification gets no response")
        self._verifies = False
        self._answer(entries, {}, errors.NETWORK_EXCEPTION)

    def _answer(
        self,
        entries: Collection[transactions.VerificationRequest],
        codes: Mapping[tuple[str, TopicPartition], int],
        otherwise: int,
    ) -> None:
        failures = 0
        for each in entries:
            code = codes.get((each.transactional_id, each.partition), otherwise)
            failures += code != errors.NONE
            self.send(each.asker, transactions.TransactionVerified(each.number, each.producer_id, code))
        metrics = self._start.metrics
        if metrics is not None and entries:
            self.send(metrics, Samples(tuple([Sample(TIME, 1000 * (self.now - each.since)) for each in entries])))
            if failures:
                self.send(metrics, Counts((Count(FAILURES, failures),)))


class TransactionVerifierActor(BrokerSenders):
    """Each broker has one such actor. It checks whether the broker's partitions are in open transactions."""

    SENDER = VerificationSenderActor
    CHANNELS = "verifications"

    def __init__(self) -> None:
        super().__init__()
        self._start: transactions.StartTransactionVerifier
        self._due: list[transactions.VerificationRequest] = []
        """Verifications whose coordinators are not requested yet."""
        self._finding = False
        """Whether coordinators are being found: first the number of partitions of __transaction_state, then their
        leaders."""
        self._asked: dict[TopicPartition, list[transactions.VerificationRequest]] = {}
        """Verifications whose coordinators are being found, by the partition of __transaction_state that has the id."""
        self._questions = 0

    def receiveMsg_StartTransactionVerifier(
        self, message: transactions.StartTransactionVerifier, sender: ActorAddress
    ) -> None:
        """Set the actors that this actor sends requests to."""
        self._start = message

    def receiveMsg_Verify(self, message: transactions.Verify, sender: ActorAddress) -> None:
        """Queue the verifications that a partition's leader requests."""
        self._due += [each._replace(asker=sender, since=self.now) for each in message.verifications]
        self._find()

    def _find(self) -> None:
        """Find the coordinators of the queued verifications, one request at a time."""
        if not self._finding and self._due:
            self._finding = True
            self.send(self._start.finder, CountPartitions(TRANSACTION_STATE))

    def receiveMsg_PartitionCount(self, message: PartitionCount, sender: ActorAddress) -> None:
        """Request the leaders of the partitions of __transaction_state.

        If the topic has no partitions, refuse the verifications.
        """
        due, self._due = self._due, []
        if not message.count:
            self._finding = False
            self._refuse(due)
            return
        for each in due:
            place = TopicPartition(TRANSACTION_STATE, slot(each.transactional_id) % message.count)
            self._asked.setdefault(place, []).append(each)
        self._questions += 1
        self.send(self._start.metadata_cache, Ask(self._questions, transactions.FindLeaders(tuple(self._asked))))

    def receiveMsg_Answer(self, message: Answer, sender: ActorAddress) -> None:
        """Send each verification to its coordinator's VerificationSenderActor, or refuse it (rules 1, 2)."""
        asked, self._asked, self._finding = self._asked, {}, False
        leaders = message.result.leaders if isinstance(message.result, transactions.LeadersFound) else ()
        by_broker: dict[tuple[int, Endpoint], list[transactions.VerificationRequest]] = {}
        for its, leader in zip_longest(asked.values(), leaders):
            if leader is None or leader.endpoint is None:
                self._refuse(its)
            else:
                by_broker.setdefault((leader.leader, leader.endpoint), []).extend(its)
        for broker, its in by_broker.items():
            self.send(self.sender_to(*broker), transactions.Verify(tuple(its)))
        self._find()

    def _refuse(self, verifications: Iterable[transactions.VerificationRequest]) -> None:
        """Reply COORDINATOR_NOT_AVAILABLE to verifications without a live coordinator (rule 2)."""
        for each in verifications:
            refusal = transactions.TransactionVerified(each.number, each.producer_id, errors.COORDINATOR_NOT_AVAILABLE)
            self.send(each.asker, refusal)

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """Ignore the exit of a child that sent requests: this actor stopped the child."""
