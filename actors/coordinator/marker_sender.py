"""MarkerSenderActor sends the markers of transactions to one broker, one request at a time.

Rule 1: one WriteTxnMarkers request is in flight; the next has what was queued meanwhile.
Rule 2: a request without a response, and partitions with a code that may pass, go back to TransactionMarkersActor,
        which finds their leaders again.

Kafka: `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`.
"""

from __future__ import annotations

import logging
from collections import deque

from thespian.actors import ActorAddress, ActorExitRequest

from actors.core.transaction.markers import Outcome, outcomes, request_of, take
from actors.runtime import Dispatcher
from messages.error_codes import NONE
from messages.error_names import name_of
from messages.network import CloseConnection, Received, Transmit, TransmitFailed
from messages.probes import probe
from messages.transaction_requests import WriteTxnMarkersResponse
from messages.transactions import (
    DropMarkers,
    Marker,
    MarkersCancelled,
    PartitionsMarked,
    RetryMarkers,
    SendMarkers,
    StartMarkerSender,
)

log = logging.getLogger("kafka.coordinator.transaction.TransactionMarkerChannelManager")


class MarkerSenderActor(Dispatcher):
    """This actor sends the markers that end transactions to one broker, one request at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._start: StartMarkerSender
        self._parent: ActorAddress
        self._queue: deque[Marker] = deque()
        self._in_flight: list[Marker] = []
        self._correlation_id = 0

    def receiveMsg_StartMarkerSender(self, message: StartMarkerSender, sender: ActorAddress) -> None:
        """Set the broker."""
        self._start, self._parent = message, sender

    def receiveMsg_SendMarkers(self, message: SendMarkers, sender: ActorAddress) -> None:
        """Queue markers."""
        self._queue += message.markers
        self._go_on()

    def receiveMsg_DropMarkers(self, message: DropMarkers, sender: ActorAddress) -> None:
        """Drop the queued markers of ids that this broker coordinates no longer."""
        self._queue = deque(each for each in self._queue if each.state_partition != message.state_partition)

    def receiveMsg_Received(self, message: Received, sender: ActorAddress) -> None:
        """The broker's response."""
        if message.correlation_id != self._correlation_id or not self._in_flight:
            return
        markers, self._in_flight = self._in_flight, []
        if isinstance(message.response, WriteTxnMarkersResponse):
            again = [each for outcome in outcomes(markers, message.response) for each in self._carry_out(outcome)]
            if again:
                self.send(self._parent, RetryMarkers(tuple(again)))
        self._go_on()

    def receiveMsg_TransmitFailed(self, message: TransmitFailed, sender: ActorAddress) -> None:
        """No response (rule 2)."""
        if message.correlation_id != self._correlation_id or not self._in_flight:
            return
        probe("markers get no response")
        log.warning(
            "[Transaction Marker Channel Manager %d]: Sending %d transaction markers to broker %d failed: %s",
            *(self._start.node_id, len(self._in_flight), self._start.broker, message.reason),
        )
        markers, self._in_flight = (*self._in_flight, *self._queue), []
        self._queue.clear()
        self.send(self._parent, RetryMarkers(tuple(markers)))

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: ActorAddress) -> None:
        """The broker has another endpoint now."""
        self.send(self._start.network, CloseConnection(self._start.channel))

    def _carry_out(self, outcome: Outcome) -> list[Marker]:
        """Send the results of a marker to its owner; return what is to be tried again."""
        marker, start = outcome.marker, self._start
        who = marker.transactional_id, marker.producer_id, marker.producer_epoch
        for partition, code in outcome.failed:
            log.error(
                "[Transaction Marker Channel Manager %d]: Broker %d rejected the marker of %r for %s-%d with %s. The"
                " marker is not sent again.",
                *(start.node_id, start.broker, marker.transactional_id, *partition, name_of(code)),
            )
        if outcome.done:
            self.send(marker.owner, PartitionsMarked(*who, outcome.done))
        if outcome.cancelled != NONE:
            probe("markers are cancelled")
            self.send(marker.owner, MarkersCancelled(*who, outcome.cancelled))
            return []
        return [marker._replace(partitions=outcome.again)] if outcome.again else []

    def _go_on(self) -> None:
        """Send the next request (rule 1)."""
        if self._in_flight or not self._queue:
            return
        start = self._start
        self._in_flight = take(self._queue)
        self._correlation_id += 1
        client = f"broker-{start.node_id}-txn-marker-sender"
        self.send(
            start.network,
            Transmit(
                start.channel,
                start.endpoint,
                self._correlation_id,
                client,
                request_of(self._in_flight),
                start.timeout,
            ),
        )
