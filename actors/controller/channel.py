"""BrokerChannelActor: the controller's requests to one broker, in order, one at a time (controller.md 5).

Rule 1: one request is in flight; the next is sent when its answer is here. So a broker sees requests in order.
Rule 2: a request that got no answer is sent again, the same, after 100 ms, for ever: only the controller decides that a
        broker is gone, and then it ends this actor. What is queued or in flight then vanishes.
Rule 3: error codes are not looked at: answers become the controller's events, and ZooKeeper alone makes it resign.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from datetime import timedelta

from thespian.actors import ActorAddress, ActorExitRequest, WakeupMessage

from actors.runtime import Dispatcher
from messages.channel import ResendRequest, StartChannel
from messages.events import (
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from messages.metrics import DropMetric, Gauge, Gauges, Timing
from messages.network import CloseConnection, Received, Transmit, TransmitFailed
from messages.requests import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from messages.vocabulary import Message

log = logging.getLogger("kafka.controller")
state_log = logging.getLogger("state.change.logger")

BACKOFF = timedelta(milliseconds=100)
QUEUE_SIZE = "kafka_controller_controllerchannelmanager_queuesize"
QUEUE_TIME = "kafka_controller_controllerchannelmanager_requestrateandqueuetimems"

Request = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


class BrokerChannelActor(Dispatcher):
    """The FIFO to one broker; see the module's rules."""

    def __init__(self) -> None:
        super().__init__()
        self._start: StartChannel
        self._controller: ActorAddress
        self._queue: deque[tuple[Request, float]] = deque()
        """Requests, the one in flight first, with the times when they came."""
        self._correlation_id = 0
        self._awaited: int | None = None
        self._published = -1

    def receiveMsg_StartChannel(self, message: StartChannel, sender: ActorAddress) -> None:
        """Learn to whom this channel leads."""
        self._start = message
        self._controller = sender
        self._publish()

    def receiveMsg_LeaderAndIsrRequest(self, message: LeaderAndIsrRequest, sender: ActorAddress) -> None:
        """Queue it."""
        self._enqueue(message)

    def receiveMsg_UpdateMetadataRequest(self, message: UpdateMetadataRequest, sender: ActorAddress) -> None:
        """Queue it."""
        self._enqueue(message)

    def receiveMsg_StopReplicaRequest(self, message: StopReplicaRequest, sender: ActorAddress) -> None:
        """Queue it."""
        self._enqueue(message)

    def receiveMsg_Received(self, message: Received, sender: ActorAddress) -> None:
        """The answer to the request in flight: tell the controller, and send the next."""
        if message.correlation_id != self._awaited:
            return
        self._awaited = None
        request, _ = self._queue.popleft()
        if state_log.isEnabledFor(logging.DEBUG):
            state_log.debug(
                "[Controller id=%d] Received response %s for request %s with correlation id %d sent to broker %d",
                self._start.controller_id,
                message.response,
                type(request).__name__,
                message.correlation_id,
                self._start.broker_id,
            )
        event = self._event(request, message.response)
        if event is not None:
            self.send(self._controller, event)
        self._begin()

    def receiveMsg_TransmitFailed(self, message: TransmitFailed, sender: ActorAddress) -> None:
        """No answer: pause, then send it again."""
        if message.correlation_id == self._awaited:
            start = self._start
            log.warning(
                "[Controller id=%d] connection to broker %d (%s:%d) was not successful: %s",
                start.controller_id,
                start.broker_id,
                start.endpoint.host,
                start.endpoint.port,
                message.reason,
            )
            self.wakeupAfter(BACKOFF, ResendRequest(message.correlation_id))

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """The pause is over."""
        if isinstance(message.payload, ResendRequest) and message.payload.correlation_id == self._awaited:
            self._transmit()

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: ActorAddress) -> None:
        """The broker is gone, or we are not its controller any more."""
        self.send(self._start.network, CloseConnection(self._start.channel))
        for name in (QUEUE_SIZE, QUEUE_TIME):
            self.send(self._start.metrics, DropMetric(name, self._labels()))

    def _enqueue(self, request: Request) -> None:
        self._queue.append((request, self.now))
        if len(self._queue) == 1:
            self._begin()
        else:
            self._publish()

    def _begin(self) -> None:
        """Send the head of the queue for the first time: its time in the queue is over (Kafka measures it here too)."""
        if self._queue:
            waited = (self.now - self._queue[0][1]) * 1000
            self.send(self._start.metrics, Timing(QUEUE_TIME, waited, self._labels()))
            self._transmit()
        self._publish()

    def _transmit(self) -> None:
        """Send the head of the queue, under a correlation id of its own."""
        start = self._start
        self._correlation_id += 1
        self._awaited = self._correlation_id
        self.send(
            start.network,
            Transmit(
                start.channel,
                start.endpoint,
                self._correlation_id,
                str(start.controller_id),
                self._queue[0][0],
                start.timeout,
            ),
        )

    def _event(self, request: Request, response: Message) -> Message | None:
        """What the controller is told of an answer; None where nothing follows from it."""
        expected = _RESPONSES[type(request)]
        if not isinstance(response, expected):
            log.error("broker %d answered a %s with a %s", self._start.broker_id, request, response)
            return None
        return _EVENTS[type(request)](self._start.broker_id, request, response)

    def _publish(self) -> None:
        size = len(self._queue)
        if size != self._published:
            self._published = size
            self.send(self._start.metrics, Gauges((Gauge(QUEUE_SIZE, size, self._labels()),)))

    def _labels(self) -> tuple[tuple[str, str], ...]:
        return (("broker_id", str(self._start.broker_id)),)


def _stop_replica_event(
    broker_id: int, request: StopReplicaRequest, response: StopReplicaResponse
) -> TopicDeletionStopReplicaResponseReceived | None:
    deleted = tuple(state.partition for state in request.partition_states if state.delete_partition)
    if not deleted:
        return None
    return TopicDeletionStopReplicaResponseReceived(broker_id, response.error_code, deleted, response)


_RESPONSES: dict[type, type] = {
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    UpdateMetadataRequest: UpdateMetadataResponse,
    StopReplicaRequest: StopReplicaResponse,
}

_EVENTS: dict[type, Callable[[int, Message, Message], Message | None]] = {
    LeaderAndIsrRequest: lambda broker_id, _, response: LeaderAndIsrResponseReceived(broker_id, response),
    UpdateMetadataRequest: lambda broker_id, _, response: UpdateMetadataResponseReceived(broker_id, response),
    StopReplicaRequest: _stop_replica_event,
}
"""Request -> the event that its answer becomes."""
