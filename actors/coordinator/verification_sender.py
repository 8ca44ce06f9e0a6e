"""VerificationSenderActor asks one broker whether partitions are in open transactions, one request at a time.

Rule 1: the first request is for the broker's API versions. A broker without version 4 of AddPartitionsToTxn cannot
        verify: the transactions that it coordinates count as verified, as in Kafka.
Rule 2: after a request without a response, its verifications and the queued verifications get NETWORK_EXCEPTION. The
        API versions are then requested again.
Rule 3: the metrics contain the duration of verifications and the number of failed verifications, as in Kafka.

Kafka: `AddPartitionsToTxnManager`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from thespian.actors import ActorAddress

from actors.coordinator.request_sender import RequestSender
from actors.core.transaction.verifications import error_codes, request_of, supports_verification, take
from messages import errors
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnResponse
from messages.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from messages.cluster import TopicPartition
from messages.metrics import Count, Counts, Sample, Samples
from messages.probes import probe
from messages.transactions import TransactionVerified, VerificationRequest, Verify
from messages.vocabulary import Message

TIME = "kafka_server_addpartitionstotxnmanager_verificationtimems"
FAILURES = "kafka_server_addpartitionstotxnmanager_verificationfailurerate_total"


class VerificationSenderActor(RequestSender[VerificationRequest]):
    """This actor asks one broker, one request at a time, whether partitions are in open transactions."""

    CLIENT = "add-partitions-to-txn"

    def __init__(self) -> None:
        super().__init__()
        self._verifies = False
        """Whether the broker is known to support verification."""

    def receiveMsg_Verify(self, message: Verify, sender: ActorAddress) -> None:
        """Queue verifications."""
        self._queue += message.verifications
        self.send_next()

    def next_request(self) -> Message:
        """Return the request with the next verifications, or the request for the API versions (rule 1)."""
        if not self._verifies:
            return ApiVersionsRequest(0)
        self._in_flight = take(self._queue)
        return request_of(self._in_flight)

    def handle_response(self, entries: list[VerificationRequest], response: Message) -> None:
        """Send the results of the verifications to the partitions' actors."""
        if isinstance(response, ApiVersionsResponse):
            self._verifies = supports_verification(response)
            if not self._verifies:
                probe("a transaction coordinator cannot verify")
                self._answer(self._queue, {}, errors.NONE)
                self._queue.clear()
        elif isinstance(response, AddPartitionsToTxnResponse):
            self._answer(entries, error_codes(response), response.error_code or errors.UNKNOWN_SERVER_ERROR)

    def handle_failure(self, entries: list[VerificationRequest], sent: int, reason: str) -> None:
        """Send NETWORK_EXCEPTION to the partitions' actors (rule 2)."""
        probe("a verification gets no response")
        self._verifies = False
        self._answer(entries, {}, errors.NETWORK_EXCEPTION)

    def _answer(
        self,
        entries: Collection[VerificationRequest],
        codes: Mapping[tuple[str, TopicPartition], int],
        otherwise: int,
    ) -> None:
        failures = 0
        for each in entries:
            code = codes.get((each.transactional_id, each.partition), otherwise)
            failures += code != errors.NONE
            self.send(each.asker, TransactionVerified(each.number, each.producer_id, code))
        metrics = self._start.metrics
        if metrics is not None and entries:
            self.send(metrics, Samples(tuple([Sample(TIME, 1000 * (self.now - each.since)) for each in entries])))
            if failures:
                self.send(metrics, Counts((Count(FAILURES, failures),)))
