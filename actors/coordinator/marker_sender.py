"""MarkerSenderActor sends the markers of transactions to one broker, one request at a time.

Rule 1: a marker is returned to TransactionMarkersActor if its request got no response. If the response has retriable
        error codes for some partitions of the marker, the marker is returned for these partitions only.
        TransactionMarkersActor finds the leaders of the partitions again.

Kafka: `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`.
"""

from __future__ import annotations

import logging
from collections import deque

from thespian.actors import ActorAddress

from actors.coordinator.request_sender import RequestSender
from actors.core.transaction.markers import Outcome, outcomes, request_of, take
from messages import errors, transactions
from messages.apis.write_txn_markers import WriteTxnMarkersResponse
from messages.error_names import name_of
from messages.probes import probe
from messages.vocabulary import Message

log = logging.getLogger("kafka.coordinator.transaction.TransactionMarkerChannelManager")


class MarkerSenderActor(RequestSender[transactions.Marker]):
    """This actor sends transaction markers, which end transactions, to one broker, one request at a time."""

    CLIENT = "txn-marker-sender"

    def receiveMsg_SendMarkers(self, message: transactions.SendMarkers, sender: ActorAddress) -> None:
        """Queue markers."""
        self._queue += message.markers
        self.send_next()

    def receiveMsg_DropMarkers(self, message: transactions.DropMarkers, sender: ActorAddress) -> None:
        """Drop the queued markers of transactional ids that this broker does not coordinate any more."""
        self._queue = deque(each for each in self._queue if each.state_partition != message.state_partition)

    def next_request(self) -> Message:
        """Return the request that contains the next markers."""
        self._in_flight = take(self._queue)
        return request_of(self._in_flight)

    def handle_response(self, entries: list[transactions.Marker], response: Message) -> None:
        """Evaluate the result of each marker."""
        if isinstance(response, WriteTxnMarkersResponse):
            again = [each for outcome in outcomes(entries, response) for each in self._carry_out(outcome)]
            if again:
                self.send(self._parent, transactions.RetryMarkers(tuple(again)))

    def handle_failure(self, entries: list[transactions.Marker], sent: int, reason: str) -> None:
        """Give the markers back, so that they are sent again (rule 1)."""
        probe("markers get no response")
        log.warning(
            "[Transaction Marker Channel Manager %d]: Sending %d transaction markers to broker %d failed: %s",
            *(self._start.node_id, sent, self._start.broker, reason),
        )
        self.send(self._parent, transactions.RetryMarkers(tuple(entries)))

    def _carry_out(self, outcome: Outcome) -> list[transactions.Marker]:
        """Send the result of a marker to the marker's owner, a TransactionsActor.

        Return a list with the marker for the partitions to try again, or an empty list.
        """
        marker, start = outcome.marker, self._start
        who = marker.transactional_id, marker.producer_id, marker.producer_epoch
        for partition, code in outcome.failed:
            log.error(
                "[Transaction Marker Channel Manager %d]: Broker %d rejected the marker of transactional id %r for"
                " partition %s-%d with %s. The marker is not sent again.",
                *(start.node_id, start.broker, marker.transactional_id, *partition, name_of(code)),
            )
        if outcome.done:
            self.send(marker.owner, transactions.PartitionsMarked(*who, outcome.done))
        if outcome.cancelled != errors.NONE:
            probe("markers are cancelled")
            self.send(marker.owner, transactions.MarkersCancelled(*who, outcome.cancelled))
            return []
        return [marker._replace(partitions=outcome.again)] if outcome.again else []
