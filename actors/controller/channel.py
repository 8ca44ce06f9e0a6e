"""BrokerChannelActor: the controller's requests to one broker, in order, one at a time (controller.md 5).

Rule 1: one request is in flight; the next is sent when its answer is here. So a broker sees requests in order.
Rule 2: a request that got no answer is sent again, the same, after 100 ms, for ever: only the controller decides that a
        broker is gone, and then it ends this actor. What is queued or in flight then vanishes.
Rule 3: error codes make nothing go otherwise here: answers become the controller's events, and ZooKeeper alone makes it
        resign. An event is no larger than a part (`messages.parts`): of a LeaderAndIsr the controller is told which
        partitions are not served for want of their disk, and which of those are served again; a StopReplica in parts
        becomes as many events.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from thespian.actors import ActorAddress, ActorExitRequest, WakeupMessage

from actors.runtime import Dispatcher
from messages.channel import StartChannel
from messages.cluster import TopicPartition
from messages.errors import KAFKA_STORAGE_ERROR, NONE
from messages.events import (
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from messages.metrics import DropMetric, Gauge, Gauges, Timing
from messages.network import ChannelPart, CloseConnection, Received, Transmit, TransmitFailed
from messages.parts import LeaderAndIsrPart, Part, StopReplicaPart, UpdateMetadataPart, entries_of
from messages.requests import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from messages.vocabulary import Message

log = logging.getLogger("kafka.controller")
state_log = logging.getLogger("state.change.logger")

BACKOFF = 0.1
"""Seconds between a failure and the next try."""
RESEND = "resend"
QUEUE_SIZE = "kafka_controller_controllerchannelmanager_queuesize"
QUEUE_TIME = "kafka_controller_controllerchannelmanager_requestrateandqueuetimems"

Request = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


class Queued(NamedTuple):
    """A request with the parts that go ahead of it, and when it came."""

    parts: tuple[Part, ...]
    request: Request
    came_at: float


class BrokerChannelActor(Dispatcher):
    """The FIFO to one broker; see the module's rules."""

    def __init__(self) -> None:
        super().__init__()
        self._start: StartChannel
        self._controller: ActorAddress
        self._ahead: list[Part] = []
        """Parts of the next request to be queued."""
        self._queue: deque[Queued] = deque()
        """Requests, the one in flight first."""
        self._answered: list[Part] = []
        """Parts of the next answer."""
        self._unserved: set[TopicPartition] = set()
        """Partitions that the broker's disks cannot serve, as it last said."""
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

    def receiveMsg_LeaderAndIsrPart(self, message: LeaderAndIsrPart, sender: ActorAddress) -> None:
        """Keep it for its request."""
        self._ahead.append(message)

    def receiveMsg_UpdateMetadataPart(self, message: UpdateMetadataPart, sender: ActorAddress) -> None:
        """Keep it for its request."""
        self._ahead.append(message)

    def receiveMsg_StopReplicaPart(self, message: StopReplicaPart, sender: ActorAddress) -> None:
        """Keep it for its request."""
        self._ahead.append(message)

    def receiveMsg_ChannelPart(self, message: ChannelPart, sender: ActorAddress) -> None:
        """Keep it for the answer that it is of."""
        self._answered.append(message.part)

    def receiveMsg_Received(self, message: Received, sender: ActorAddress) -> None:
        """The answer to the request in flight: tell the controller, and send the next."""
        parts, self._answered = self._answered, []
        if message.correlation_id != self._awaited:
            return
        self._awaited = None
        self.cancel_timer(RESEND)
        queued = self._queue.popleft()
        if state_log.isEnabledFor(logging.DEBUG):
            state_log.debug(
                "[Controller id=%d] Received response %s for request %s with correlation id %d sent to broker %d",
                self._start.controller_id,
                message.response,
                type(queued.request).__name__,
                message.correlation_id,
                self._start.broker_id,
            )
        for event in self._events(queued, parts, message.response):
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
            self.set_timer(RESEND, BACKOFF)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """The pause is over."""
        self._transmit()

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: ActorAddress) -> None:
        """The broker is gone, or we are not its controller any more."""
        self.send(self._start.network, CloseConnection(self._start.channel))
        for name in (QUEUE_SIZE, QUEUE_TIME):
            self.send(self._start.metrics, DropMetric(name, self._labels()))

    def _enqueue(self, request: Request) -> None:
        parts, self._ahead = tuple(self._ahead), []
        self._queue.append(Queued(parts, request, self.now))
        if len(self._queue) == 1:
            self._begin()
        else:
            self._publish()

    def _begin(self) -> None:
        """Send the head of the queue for the first time: its time in the queue is over (Kafka measures it here too)."""
        if self._queue:
            waited = (self.now - self._queue[0].came_at) * 1000
            self.send(self._start.metrics, Timing(QUEUE_TIME, waited, self._labels()))
            self._transmit()
        self._publish()

    def _transmit(self) -> None:
        """Send the head of the queue, under a correlation id of its own."""
        start = self._start
        self._correlation_id += 1
        self._awaited = self._correlation_id
        parts, request, _ = self._queue[0]
        for part in parts:
            self.send(start.network, ChannelPart(start.channel, part))
        self.send(
            start.network,
            Transmit(
                start.channel,
                start.endpoint,
                self._correlation_id,
                str(start.controller_id),
                request,
                start.timeout,
            ),
        )

    def _events(self, queued: Queued, parts: list[Part], response: Message) -> Iterator[Message]:
        """What the controller is told of an answer (rule 3)."""
        broker_id, request = self._start.broker_id, queued.request
        match request, response:
            case LeaderAndIsrRequest(), LeaderAndIsrResponse(error_code):
                told = self._news(entries_of(parts, response))
                yield LeaderAndIsrResponseReceived(broker_id, LeaderAndIsrResponse(error_code, told))
            case UpdateMetadataRequest(), UpdateMetadataResponse():
                yield UpdateMetadataResponseReceived(broker_id, response)
            case StopReplicaRequest(), StopReplicaResponse(error_code):
                codes = {error.partition: error for errors in entries_of(parts, response) for error in errors}
                for states in entries_of(queued.parts, request):
                    deleted = tuple(state.partition for state in states if state.delete_partition)
                    if deleted:
                        errors = tuple(codes[state.partition] for state in states if state.partition in codes)
                        answer = StopReplicaResponse(error_code, errors)
                        yield TopicDeletionStopReplicaResponseReceived(broker_id, error_code, deleted, answer)
            case _:
                log.error(
                    "broker %d answered a %s with a %s", broker_id, type(request).__name__, type(response).__name__
                )

    def _news(self, answered: Iterable[Iterable[PartitionError]]) -> tuple[PartitionError, ...]:
        """Which partitions are not served, or are served again, for all the controller knows (rule 3)."""
        told = []
        for error in itertools.chain.from_iterable(answered):
            if error.error_code == KAFKA_STORAGE_ERROR:
                self._unserved.add(error.partition)
                told.append(error)
            elif error.error_code == NONE and error.partition in self._unserved:
                self._unserved.remove(error.partition)
                told.append(error)
        return tuple(told)

    def _publish(self) -> None:
        size = len(self._queue)
        if size != self._published:
            self._published = size
            self.send(self._start.metrics, Gauges((Gauge(QUEUE_SIZE, size, self._labels()),)))

    def _labels(self) -> tuple[tuple[str, str], ...]:
        return (("broker_id", str(self._start.broker_id)),)
