"""ReplicaFetcherActor fetches partitions from one leader over one connection (`actors.core.broker.fetcher`).

One request is in flight at a time; the next is sent after the response to the previous one was processed. If the leader
has no data, the network gateway repeats the fetch until data arrives or this actor interrupts it. Counts of fetched
records are published once a second, if there are any.

Kafka: `ReplicaFetcherThread`.
"""

from __future__ import annotations

import logging

from thespian.actors import ActorAddress, ActorExitRequest, WakeupMessage

from actors.core.broker.fetcher import Fetcher, FetchSettings, PartitionCommand
from actors.core.broker.topic_stats import FIGURES, FIGURES_SECONDS, TopicStats
from actors.runtime import Dispatcher
from messages.apis.fetch import FetchResponse
from messages.apis.list_offsets import ListOffsetsResponse
from messages.apis.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from messages.cluster import TopicPartition
from messages.metrics import Counts, DropMetric, Gauge, Gauges, PublishCounters
from messages.network import CloseConnection, Interrupt, Received, Transmit, TransmitFailed
from messages.partition import (
    BackOff,
    Follow,
    Replicate,
    Replicated,
    StartFetcher,
    ThrottledBytes,
    ThrottleReplicas,
    Unfollow,
)

log = logging.getLogger("kafka.server.ReplicaFetcherThread")


MAX_LAG = "kafka_server_replicafetchermanager_maxlag"


class ReplicaFetcherActor(Dispatcher):
    """This actor fetches partitions from one leader; there is one for each leader and fetcher id."""

    def __init__(self) -> None:
        super().__init__()
        self._start: StartFetcher
        self._manager: ActorAddress
        self._fetcher: Fetcher
        self._actors: dict[TopicPartition, ActorAddress] = {}
        self._figures = TopicStats()
        self._telling = False
        self._lag = -1
        """The largest lag in records that was published, -1 if none was."""
        self._correlation_id = 0
        self._awaited: int | None = None
        self._repeats = False
        """Whether the network repeats the request in flight until it returns data."""

    def receiveMsg_StartFetcher(self, message: StartFetcher, sender: ActorAddress) -> None:
        """Set the leader's endpoint and the settings of fetches."""
        self._start, self._manager = message, sender
        self._fetcher = Fetcher(
            FetchSettings(
                message.broker_id,
                message.max_wait,
                message.min_bytes,
                message.max_bytes,
                message.partition_max_bytes,
                message.backoff,
                message.protocol,
            )
        )

    def receiveMsg_Follow(self, message: Follow, sender: ActorAddress) -> None:
        """Fetch these partitions from now on."""
        for partition, actor, leader_epoch, log_end_offset, high_watermark, epoch, adding in message.partitions:
            self._actors[partition] = actor
            self._fetcher.follow(partition, leader_epoch, log_end_offset, high_watermark, epoch, adding)
        self._interrupt()
        self._send_next()

    def receiveMsg_Unfollow(self, message: Unfollow, sender: ActorAddress) -> None:
        """Stop fetching these partitions."""
        self._fetcher.unfollow(message.partitions)
        for partition in message.partitions:
            self._actors.pop(partition, None)
        self._interrupt()
        self._send_next()  # the next request may have waited only for these partitions to store their records

    def receiveMsg_Received(self, message: Received, sender: ActorAddress) -> None:
        """Process the leader's response."""
        if not self._is_awaited(message.correlation_id):
            return
        fetcher = self._fetcher
        match message.response:
            case FetchResponse() as fetched:
                orders = fetcher.handle_response(fetched, self.now)
                self._send(orders)
                self._count(orders)
                size = fetcher.take_throttled_bytes()
                if size:
                    self.send(self._manager, ThrottledBytes(size))
            case OffsetForLeaderEpochResponse(partitions):
                self._send(fetcher.epochs_ended(partitions, self.now))
            case ListOffsetsResponse(partitions):
                self._send(fetcher.offsets_listed(partitions, self.now))
            case _:
                fetcher.handle_failure(self.now)
        self._send_next()

    def receiveMsg_TransmitFailed(self, message: TransmitFailed, sender: ActorAddress) -> None:
        """Back off after a request without a response."""
        if self._is_awaited(message.correlation_id):
            log.warning(
                "[ReplicaFetcher replicaId=%d, leaderId=%d, fetcherId=%d] Error in fetch: %s",
                self._start.broker_id,
                self._start.leader_id,
                self._start.fetcher_id,
                message.reason,
            )
            self._fetcher.handle_failure(self.now)
            self._send_next()

    def receiveMsg_Replicated(self, message: Replicated, sender: ActorAddress) -> None:
        """Continue with a partition that has appended its records."""
        self._fetcher.handle_replicated(message, self.now)
        self._send_next()

    def receiveMsg_ThrottleReplicas(self, message: ThrottleReplicas, sender: ActorAddress) -> None:
        """Update the throttled replicas."""
        self._fetcher.throttled.update(message.topics)

    def receiveMsg_BackOff(self, message: BackOff, sender: ActorAddress) -> None:
        """Do not fetch throttled replicas until the given time."""
        self._fetcher.back_off(message.until)
        self._interrupt()
        self._send_next()

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Continue after a back-off, or publish counts."""
        if isinstance(message.payload, PublishCounters):
            self._telling = False
            self._publish_metrics()
        else:
            self._send_next()

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: ActorAddress) -> None:
        """Publish the last counts, and close the connection."""
        self._publish_metrics()
        if self._lag >= 0 and self._start.metrics is not None:
            self.send(self._start.metrics, DropMetric(MAX_LAG, self._labels))
        self.send(self._start.network, CloseConnection(self._start.channel))

    def _count(self, orders: list[PartitionCommand]) -> None:
        if self._start.metrics is None:
            return
        for partition, message in orders:
            if isinstance(message, Replicate) and message.body.size:
                adding = self._fetcher.partitions[partition].adding
                self._figures.count_followed(partition.topic, message.body.size, adding)
        if self._figures and not self._telling:
            self._telling = True
            self.set_timer(FIGURES, FIGURES_SECONDS, PublishCounters())

    @property
    def _labels(self) -> tuple[tuple[str, str], ...]:
        return (("leader", str(self._start.leader_id)), ("fetcher", str(self._start.fetcher_id)))

    def _publish_metrics(self) -> None:
        if self._figures and self._start.metrics is not None:
            self.send(self._start.metrics, Counts(self._figures.take()))
            lag = self._fetcher.max_lag()
            if lag != self._lag:
                self._lag = lag
                self.send(self._start.metrics, Gauges((Gauge(MAX_LAG, lag, self._labels),)))

    def _is_awaited(self, correlation_id: int) -> bool:
        """Return whether a response belongs to the request in flight.

        Each time the network gateway repeated the request, the correlation id increased by 1.
        """
        if self._awaited is None or correlation_id < self._awaited:
            return False
        self._fetcher.advance_epoch(correlation_id - self._awaited)
        self._awaited, self._correlation_id, self._repeats = None, correlation_id, False
        return True

    def _interrupt(self) -> None:
        """Stop the network gateway from repeating the request in flight, so that a changed request can be sent."""
        if self._repeats:
            self._repeats = False
            self.send(self._start.network, Interrupt(self._start.channel))

    def _send(self, orders: list[PartitionCommand]) -> None:
        for partition, message in orders:
            actor = self._actors.get(partition)
            if actor is not None:
                self.send(actor, message)

    def _send_next(self) -> None:
        """Send the next request, if none is in flight."""
        fetcher, start = self._fetcher, self._start
        if self._awaited is not None or not fetcher.settled:
            return
        orders = fetcher.without_epochs(self.now)
        if orders:
            self._send(orders)
            return
        request = fetcher.next_request(self.now)
        if request is None:
            due = fetcher.next_time()
            if due is not None:
                self.wake_at(due, name="backoff")
            return
        self._correlation_id += 1
        self._awaited = self._correlation_id
        self._repeats = fetcher.may_repeat(request)
        client = f"broker-{start.broker_id}-fetcher-{start.fetcher_id}"
        self.send(
            start.network,
            Transmit(
                start.channel,
                start.endpoint,
                self._correlation_id,
                client,
                request,
                start.timeout,
                again=self._repeats,
            ),
        )
