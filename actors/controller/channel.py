"""BrokerChannelActor sends the controller's requests to one broker, in order and one at a time (controller.md 5).

Rule 1: One request is in flight; the next request is sent after its response arrives. So the broker receives requests
        in order.
Rule 2: A request that gets no response is sent again with the same content, 100 ms after each failed attempt. The
        number of attempts is not limited. Only the controller declares a broker dead; it then stops this actor, and
        queued and in-flight requests are dropped. If a broker registers another endpoint, the request in flight is sent
        to this endpoint at once.
Rule 3: Error codes do not affect the channel: responses become controller events, and only a change in ZooKeeper makes
        the controller resign. An event has at most the entries of one part (`messages.parts`). The event of a
        LeaderAndIsr response has only two kinds of partitions: those that became unavailable because their log
        directory failed, and those that became available again. A StopReplica request in parts causes one event per
        part. A large response is processed in slices, unless it only reports that no partition has an error.

Kafka: `ControllerChannelManager` and its `RequestSendThread`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from thespian.actors import ActorAddress, ActorExitRequest, WakeupMessage

from actors.runtime import FlowActor
from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import ControllerRequest, UpdateMetadataRequest, UpdateMetadataResponse
from messages.channel import MoveChannel, StartChannel
from messages.cluster import EPOCH_DURING_DELETE, Endpoint, TopicPartition
from messages.errors import KAFKA_STORAGE_ERROR, NONE
from messages.events import (
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from messages.flow.conversation import Flow, for_each
from messages.metrics import DropMetric, Gauge, Gauges, Sample, Samples
from messages.network import ChannelPart, CloseConnection, Received, Transmit, TransmitFailed
from messages.parts import (
    LeaderAndIsrPart,
    NoErrorsPart,
    Part,
    StopReplicaPart,
    UpdateMetadataPart,
    all_entries,
    free_parts,
)
from messages.probes import probe
from messages.vocabulary import Message

log = logging.getLogger("kafka.controller")
state_log = logging.getLogger("state.change.logger")

TRACE = 5
"""Level of Kafka's log lines about each response."""

BACKOFF = 0.1
"""Seconds between a failure and the next attempt."""
RESEND = "resend"
QUEUE_SIZE = "kafka_controller_controllerchannelmanager_queuesize"
QUEUE_TIME = "kafka_controller_controllerchannelmanager_requestrateandqueuetimems"


def _errors(
    answered: Sequence[Part], response: Message, asked: Iterable[LeaderAndIsrPartitionState]
) -> Iterable[PartitionError]:
    """Return the partition errors of a response.

    Some responses report only that no partition has an error, because a list of 100,000 partitions without errors would
    be 100,000 objects. For such a response, return NONE for the partitions in `asked`.
    """
    if answered and isinstance(answered[0], NoErrorsPart):
        return (PartitionError(state.partition, NONE) for state in asked)
    return all_entries(answered, response)


class Queued(NamedTuple):
    """A request in the queue of a channel, with the time when it was queued.

    `parts` are the first entries of a large request; they are sent before the message `request`, which has the rest
    (`messages.parts`).

    `event_id` is the id of the controller event that caused the request. The messages that send this request have the
    same event id. Its response has this event id, too.
    """

    parts: list[Part]
    request: ControllerRequest
    came_at: float
    event_id: int


class BrokerChannelActor(FlowActor):
    """This actor sends the controller's requests to one live broker (Kafka's RequestSendThread)."""

    def __init__(self) -> None:
        super().__init__()
        self._start: StartChannel
        self._endpoint: Endpoint
        """The broker's endpoint, as last registered."""
        self._controller: ActorAddress
        self._request_parts: list[Part] = []
        """Parts of the next request to be queued."""
        self._queue: deque[Queued] = deque()
        """Queued requests; the first one is in flight."""
        self._answer_parts: list[Part] = []
        """Parts of the next response."""
        self._unserved: set[TopicPartition] = set()
        """Partitions with KAFKA_STORAGE_ERROR in the broker's last responses."""
        self._correlation_id = 0
        self._awaited: int | None = None
        self._published = -1

    def receiveMsg_StartChannel(self, message: StartChannel, sender: ActorAddress) -> None:
        """Set the broker's endpoint."""
        self._start = message
        self._endpoint = message.endpoint
        self._controller = sender
        self._publish()

    def receiveMsg_MoveChannel(self, message: MoveChannel, sender: ActorAddress) -> None:
        """Use the broker's new endpoint from now on, and resend the request that is in flight."""
        self.serve(self.event_id)  # use this delivery's event id; the request in flight keeps its own id
        changed = self._endpoint != message.endpoint
        self._endpoint = message.endpoint
        if changed and self._awaited is not None:
            probe("a broker moves while a request to it is in flight")
            self.send(self._start.network, CloseConnection(self._start.channel))
            self.cancel_timer(RESEND)
            self._answer_parts = []
            self._transmit()

    def receiveMsg_LeaderAndIsrRequest(self, message: LeaderAndIsrRequest, sender: ActorAddress) -> None:
        """Queue the request."""
        self._enqueue(message)

    def receiveMsg_UpdateMetadataRequest(self, message: UpdateMetadataRequest, sender: ActorAddress) -> None:
        """Queue the request."""
        self._enqueue(message)

    def receiveMsg_StopReplicaRequest(self, message: StopReplicaRequest, sender: ActorAddress) -> None:
        """Queue the request."""
        self._enqueue(message)

    def receiveMsg_LeaderAndIsrPart(self, message: LeaderAndIsrPart, sender: ActorAddress) -> None:
        """Store this part of a large request until the last part arrives: the request with the remaining entries."""
        self._request_parts.append(message)

    def receiveMsg_UpdateMetadataPart(self, message: UpdateMetadataPart, sender: ActorAddress) -> None:
        """Store this part of a large request until the last part arrives: the request with the remaining entries."""
        self._request_parts.append(message)

    def receiveMsg_StopReplicaPart(self, message: StopReplicaPart, sender: ActorAddress) -> None:
        """Store this part of a large request until the last part arrives: the request with the remaining entries."""
        self._request_parts.append(message)

    def receiveMsg_ChannelPart(self, message: ChannelPart, sender: ActorAddress) -> None:
        """Store this part of a large response until the Received message, which has the remaining entries, arrives."""
        self._answer_parts.append(message.part)

    def receiveMsg_TransmitFailed(self, message: TransmitFailed, sender: ActorAddress) -> None:
        """Send the request again after a pause, because it got no response."""
        if message.correlation_id == self._awaited:
            self.serve(self._queue[0].event_id)
            start = self._start
            log.warning(
                "[RequestSendThread controllerId=%d] Controller %d's connection to broker %s:%d (id: %d) "
                "was unsuccessful: %s",
                *(start.controller_id, start.controller_id),
                *(self._endpoint.host, self._endpoint.port, start.broker_id),
                message.reason,
            )
            probe("a request of the controller is sent again")
            self.set_timer(RESEND, BACKOFF)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Send the request again after the pause."""
        self._transmit()

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: ActorAddress) -> None:
        """Close the connection: the broker is dead, or this node is no longer the controller."""
        self.send(self._start.network, CloseConnection(self._start.channel))
        for name in (QUEUE_SIZE, QUEUE_TIME):
            self.send(self._start.metrics, DropMetric(name, self._labels()))

    def _enqueue(self, request: ControllerRequest) -> None:
        parts, self._request_parts = self._request_parts, []
        self._queue.append(Queued(parts, request, self.now, self.event_id))
        if len(self._queue) == 1:
            self._send_first()
        else:
            self._publish()

    def _send_first(self) -> None:
        """Send the head of the queue for the first time and record its time in the queue, as Kafka does."""
        if self._queue:
            waited = (self.now - self._queue[0].came_at) * 1000
            self.send(self._start.metrics, Samples((Sample(QUEUE_TIME, waited, self._labels()),)))
            self._transmit()
        self._publish()

    def _transmit(self) -> None:
        """Send the head of the queue under a new correlation id."""
        start = self._start
        self._correlation_id += 1
        self._awaited = self._correlation_id
        parts, request, _, event_id = self._queue[0]
        self.serve(event_id)
        for part in parts:
            self.send(start.network, ChannelPart(start.channel, part))
        self.send(
            start.network,
            Transmit(
                start.channel,
                self._endpoint,
                self._correlation_id,
                str(start.controller_id),
                request,
                start.timeout,
                start.connect_timeout,
            ),
        )

    # ---------------------------------------------------------------------------------------------- responses

    def event_id_of(self, message: Message) -> int:
        """Return the in-flight request's event id if `message` is its response, otherwise the current event id."""
        in_flight = isinstance(message, Received) and message.correlation_id == self._awaited
        return self._queue[0].event_id if in_flight else self.event_id

    def flow(self, message: Message) -> Flow[None] | None:
        """Handle the response to a request."""
        return self._handle_response(message) if isinstance(message, Received) else super().flow(message)

    def _handle_response(self, message: Received) -> Flow[None]:
        """Send the next request, then send the events of this response to the controller, in slices."""
        answered, self._answer_parts = self._answer_parts, []
        if message.correlation_id != self._awaited:
            return
        self._awaited = None
        self.cancel_timer(RESEND)
        ahead, request, _, event_id = self._queue.popleft()
        self._send_first()
        self.serve(event_id)
        broker_id, response = self._start.broker_id, message.response
        if state_log.isEnabledFor(TRACE):
            state_log.log(
                TRACE,
                "[Controller id=%d] Received response %s for request %s with correlation id %d sent to broker %d",
                self._start.controller_id,
                response,
                type(request).__name__,
                message.correlation_id,
                broker_id,
            )
        match request, response:
            case [LeaderAndIsrRequest(), LeaderAndIsrResponse(error_code)]:
                asked = all_entries(ahead, request) if self._unserved else ()
                news: list[PartitionError] = []
                yield from for_each(
                    _errors(answered, response, asked), lambda errors: news.extend(self._new_errors(errors))
                )
                result = LeaderAndIsrResponse(error_code, tuple(news))
                self.send(self._controller, LeaderAndIsrResponseReceived(broker_id, result))
            case [UpdateMetadataRequest(), UpdateMetadataResponse()]:
                self.send(self._controller, UpdateMetadataResponseReceived(broker_id, response))
            case [StopReplicaRequest(), StopReplicaResponse(error_code)]:
                codes: dict[TopicPartition, PartitionError] = {}
                yield from for_each(
                    _errors(answered, response, ()),
                    lambda errors: codes.update((error.partition, error) for error in errors),
                )
                yield from for_each(
                    all_entries(ahead, request),
                    lambda states: self._report_deletions(request.broker_epoch, states, error_code, codes),
                )
            case _:
                names = type(request).__name__, type(response).__name__
                log.error("Broker %d responded to a %s with an unexpected %s", broker_id, *names)
        yield from free_parts(ahead)
        yield from free_parts(answered)

    def _new_errors(self, errors: Sequence[PartitionError]) -> list[PartitionError]:
        """Return the error codes that are new to the controller (rule 3).

        A partition that became unavailable has an error; a partition that became available again has NONE.
        """
        result = []
        for error in errors:
            if error.error_code == KAFKA_STORAGE_ERROR:
                self._unserved.add(error.partition)
                result.append(error)
            elif error.error_code == NONE and error.partition in self._unserved:
                self._unserved.remove(error.partition)
                result.append(error)
        return result

    def _report_deletions(
        self,
        broker_epoch: int,
        states: Sequence[StopReplicaPartitionState],
        error_code: int,
        codes: dict[TopicPartition, PartitionError],
    ) -> None:
        """Send an event for one part of a StopReplica request, if the part deletes replicas of a deleted topic.

        Kafka also reports a replica that a reassignment removed. This channel does not report it, because the broker
        may have to create the replica again. If the topic is deleted later, another StopReplica request deletes the
        new replica.
        """
        deleted = tuple(
            state.partition for state in states if state.delete_partition and state.leader_epoch == EPOCH_DURING_DELETE
        )
        if deleted:
            errors = tuple(codes[state.partition] for state in states if state.partition in codes)
            answer = StopReplicaResponse(error_code, errors)
            self.send(
                self._controller,
                TopicDeletionStopReplicaResponseReceived(
                    self._start.broker_id, broker_epoch, error_code, deleted, answer
                ),
            )

    # ------------------------------------------------------------------------------------------------ metrics

    def _publish(self) -> None:
        size = len(self._queue)
        if size != self._published:
            self._published = size
            self.send(self._start.metrics, Gauges((Gauge(QUEUE_SIZE, size, self._labels()),)))

    def _labels(self) -> tuple[tuple[str, str], ...]:
        return (("broker_id", str(self._start.broker_id)),)
