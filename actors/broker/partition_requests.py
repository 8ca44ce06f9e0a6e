"""PartitionRequestsActor splits Produce, Fetch and similar requests by partition and merges the results.

Rule 1: each partition actor receives its part directly, without the replica manager, which only publishes the actors'
        addresses. The client receives its response when all partitions have replied.
Rule 2: the metadata cache decides about a partition that is not hosted here: error code 6 if it exists, 3 if not. A
        partition whose disk failed gets error code 56.
Rule 3: a fetch uses its session, which records the state of its partitions (`actors.core.broker.fetches`). Only
        partitions that may have data are read. A fetch that finds too little data waits in the session, not in
        partitions.
Rule 4: a produce with acks=0 gets no response. If it fails, its connection is closed, which is the producer's only sign
        of the failure.
Rule 5: only an admin client, recognised by its name, may write to internal topics (broker.md 3.6).
Rule 6: fetches ignore the results of an actor that no longer hosts its partition. If a partition is stopped or
        fails, its part of each pending request gets the error code of rule 2, whether or not the partition had received
        that part.
Rule 7: counts (`actors.core.broker.topic_stats`) are published once a second, if there are any. The rate at which
        throttled replicas fetch is published at the same time, if it has changed.
Rule 8: a transaction marker must be replicated to all in-sync replicas before the partition's result is accepted. The
        group coordinator is notified at once of a marker in its topic, without waiting for the request's other
        partitions (`core.broker.pending_requests`).

Kafka: `KafkaApis` for Produce and Fetch; a fetch that waits is a `DelayedFetch` (`actors.core.broker.fetches`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any

from thespian.actors import ActorAddress, WakeupMessage

from actors.core.broker.fetch_sessions import FetchSessions
from actors.core.broker.fetches import Fetches, ReadPartition, Respond, WakeSession, with_ids
from actors.core.broker.hosted_replica import refused_queries
from actors.core.broker.leader import transactional_verdict
from actors.core.broker.pending_requests import PendingRequest, PendingRequests, partition_markers
from actors.core.broker.replication_quota import LEADER, metric, replication_quota
from actors.core.broker.topic_stats import FIGURES, FIGURES_SECONDS, REASSIGNMENT_OUT, TopicStats
from actors.core.topic.topic_name import GROUP_METADATA, INTERNAL_TOPICS, name_fault
from actors.runtime import Dispatcher
from messages import errors, network
from messages.apis.delete_records import DeleteRecordsRequest
from messages.apis.describe_producers import DescribedProducers, DescribeProducersRequest
from messages.apis.fetch import FETCH_LEADERS_SINCE, FetchedPartition, FetchRequest
from messages.apis.list_offsets import ListOffsetsRequest
from messages.apis.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from messages.apis.produce import PRODUCE_LEADERS_SINCE, ProducedPartition, ProduceRequest
from messages.apis.write_txn_markers import WriteTxnMarkersRequest
from messages.broker import LEADER_CODES, AddLeaders, AliveBrokers, TopicIds
from messages.client_quotas import FetchThrottled
from messages.cluster import TopicPartition
from messages.groups import TransactionEnded
from messages.metrics import Counts, Gauge, Gauges, PublishCounters
from messages.network import Forwarded
from messages.node import StartPartitionRequests
from messages.partition import (
    FROM_CLIENT,
    AppendBatch,
    AppendBatches,
    AppendMarker,
    AppendMarkers,
    BatchesAppended,
    CaughtUp,
    CheckPartitionsExist,
    EpochEndFound,
    FindEpochEnd,
    FindOffset,
    FindProducers,
    LogMoved,
    LogRead,
    LogTrimmed,
    OffsetFound,
    PartitionsExist,
    PartitionsHosted,
    ProducersFound,
    QueryIdleFollowers,
    ThrottleReplicas,
    ThrottleReplication,
    TrimLog,
)
from messages.vocabulary import AnyMessage, Message, maker

ADMIN_CLIENT = "__admin_client"

MOST_SESSIONS = 1 << 30
"""The highest first session id of a process, which leaves it at least as many ids as this."""

_forwarded = maker(Forwarded)


class PartitionRequestsActor(Dispatcher):
    """This actor splits requests by partition and merges the results of the partitions; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._metadata_cache: ActorAddress
        self._hosted: dict[TopicPartition, ActorAddress | None] = {}
        self._group_coordinator: ActorAddress | None = None
        self._metrics: ActorAddress | None = None
        self._rack_aware = False
        self._marker_timeout = 0.0
        self._figures = TopicStats()
        self._telling = False
        self._rate = 0.0
        """The last published rate of throttled replicas, in bytes per second."""
        self._pending = PendingRequests()
        self._batches: dict[TopicPartition, tuple[ActorAddress, list[AppendBatch]]] = {}
        """The batches of the current delivery, by partition."""
        self._fetches: Fetches
        self._fetching: dict[int, Forwarded] = {}
        """The requests of fetches without a response, by number."""
        self._listener: ActorAddress | None = None
        """The listener, which answers the polls of idle sessions."""
        self._deadline: float | None = None
        """The time of the timer: the earliest deadline, which may belong to a fetch that was answered since."""

    def receiveMsg_StartPartitionRequests(self, message: StartPartitionRequests, sender: ActorAddress) -> None:
        """Set the settings, the metadata cache, the group coordinator and the metrics gateway."""
        settings, self._metadata_cache = message.settings, message.metadata_cache
        self._metrics, self._group_coordinator = message.metrics, message.group_coordinator
        self._rack_aware = settings.replica_selector_class != ""
        self._marker_timeout = settings.request_timeout_ms / 1000
        first_id = self.port("time").wall_ms() % MOST_SESSIONS + 1  # usually above the ids from before a restart
        # With an authorizer each fetch is judged, so it must name its partitions: there are no sessions.
        slots = 0 if settings.authorizer_class_name else settings.max_incremental_fetch_session_cache_slots
        self._fetches = Fetches(FetchSessions(slots, first_id), settings.fetch_max_bytes, replication_quota(settings))

    def receiveMsg_PartitionsHosted(self, message: PartitionsHosted, sender: ActorAddress) -> None:
        """Update the hosted partitions, and refuse pending requests for partitions that were removed or failed."""
        now = self.now
        for partition, actor, gone in message.changes:
            if gone:
                self._hosted.pop(partition, None)
            else:
                self._hosted[partition] = actor
            self._fetches.discard_state(partition, now)
        self._refuse_lost({partition for partition, actor, _ in message.changes if actor is None})
        self._carry_out()

    def _refuse_lost(self, gone: Collection[TopicPartition]) -> None:
        """Refuse the parts of pending requests that wait for these partitions (rule 6)."""
        for number, pending, unanswered in self._pending.of_partitions(gone):
            self._refuse(number, pending, unanswered)

    def receiveMsg_AliveBrokers(self, message: AliveBrokers, sender: ActorAddress) -> None:
        """Store the live brokers from the metadata cache; only a live broker may join an ISR."""
        self._fetches.brokers_alive(message.ids, message.racks if self._rack_aware else ())

    def receiveMsg_TopicIds(self, message: TopicIds, sender: ActorAddress) -> None:
        """Store the topic ids from the metadata cache; fetches by id need them."""
        self._fetches.topic_ids_changed(message.topics, self.now)
        self._carry_out()

    # ------------------------------------------------------------------------------------------------ requests

    def receiveMsg_ClientRequest(self, message: network.ClientRequest, sender: ActorAddress) -> None:
        """Handle a Produce or Fetch request, which the listener sends directly to this actor."""
        self.receiveMsg_Forwarded(Forwarded(sender, message), sender)

    def receiveMsg_ClientRequests(self, message: network.ClientRequests, sender: ActorAddress) -> None:
        """Handle requests that arrived together; batches for one partition are sent to it together."""
        for woken in message.woken:
            self._fetches.woken(*woken)
        for request in message.requests:
            _BEGIN[type(request.request)](self, _forwarded(sender, request), request.request)
        self._hand_out()

    def receiveMsg_Forwarded(self, message: Forwarded, sender: ActorAddress) -> None:
        """Handle a request of a client or a follower."""
        _BEGIN[type(message.request.request)](self, message, message.request.request)
        self._hand_out()

    def _produce(self, forwarded: Forwarded, request: ProduceRequest) -> None:
        """Collect each batch for its partition. Only admin clients write to internal topics (rule 5)."""
        timeout, acks, version, batches = request.timeout_ms / 1000, request.acks, request.version, self._batches
        if code := transactional_verdict(request):
            number, pending = self._pending.begin(forwarded, 0)
            pending.results += [ProducedPartition(part.partition, code) for part in request.partitions]
            self._refuse(number, pending, ())
            return
        id = request.transactional_id
        barred = () if forwarded.request.client_id == ADMIN_CLIENT else INTERNAL_TOPICS
        number, pending = self._pending.begin(forwarded, len(request.partitions))
        unhosted = []
        for index, part in enumerate(request.partitions):
            partition = part.partition
            if partition.topic in barred:
                pending.note(index, ProducedPartition(partition, errors.INVALID_TOPIC))
            elif (actor := self._hosted.get(partition)) is not None:
                batch = tuple.__new__(AppendBatch, (number, index, part, acks, version, timeout, FROM_CLIENT, id))
                of_partition = batches.get(partition)
                if of_partition is None:
                    batches[partition] = actor, [batch]
                else:
                    of_partition[1].append(batch)
            else:
                unhosted.append((index, partition))
        if unhosted or not pending.outstanding:
            self._refuse(number, pending, unhosted)

    def _hand_out(self) -> None:
        """Send the collected batches to each partition."""
        batches = self._batches
        if batches:
            self._batches = {}
            for actor, of_partition in batches.values():
                self.send(actor, AppendBatches(tuple(of_partition)))

    def _write_markers(self, forwarded: Forwarded, request: WriteTxnMarkersRequest) -> None:
        """Send each partition its markers (rule 8)."""
        markers = partition_markers(request)
        number, pending = self._pending.begin(forwarded, len(markers))
        pending.markers = markers
        of_actors: dict[TopicPartition, tuple[ActorAddress, list[AppendMarker]]] = {}
        for index, (marker, partition) in enumerate(markers):
            actor = self._hosted.get(partition)
            if marker.producer_epoch < 0 or actor is None:
                code = errors.UNKNOWN_SERVER_ERROR if marker.producer_epoch < 0 else errors.UNKNOWN_TOPIC_OR_PARTITION
                pending.note(index, ProducedPartition(partition, code))
                continue
            what = (marker.producer_id, marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch)
            append = AppendMarker(number, index, *what, self._marker_timeout)
            of_actors.setdefault(partition, (actor, []))[1].append(append)
        for actor, appends in of_actors.values():
            self.send(actor, AppendMarkers(tuple(appends)))
        if not pending.outstanding:
            self._refuse(number, pending, ())

    def _report_marker(self, pending: PendingRequest, index: int, result: ProducedPartition) -> None:
        """Notify the group coordinator of a marker that is now replicated in the coordinator's topic (rule 8)."""
        marker, partition = pending.markers[index]
        if (
            result.error_code == errors.NONE
            and partition.topic == GROUP_METADATA
            and self._group_coordinator is not None
        ):
            ended = (marker.producer_id, partition.partition, marker.transaction_result, result.base_offset)
            self.send(self._group_coordinator, TransactionEnded(*ended))

    def _describe_producers(self, forwarded: Forwarded, request: DescribeProducersRequest) -> None:
        number, pending = self._pending.begin(forwarded, len(request.partitions))
        unhosted = []
        for index, partition in enumerate(request.partitions):
            actor = self._hosted.get(partition)
            if actor is not None:
                self.send(actor, FindProducers(number, index, partition))
            elif (fault := name_fault(partition.topic)) is not None:
                pending.note(index, DescribedProducers(partition, errors.INVALID_TOPIC, fault))
            else:
                unhosted.append((index, partition))
        if unhosted or not pending.outstanding:
            self._refuse(number, pending, unhosted)

    def _list_offsets(self, forwarded: Forwarded, request: ListOffsetsRequest) -> None:
        self._ask(
            forwarded,
            lambda number, index: FindOffset(
                number, index, request.partitions[index], request.replica_id, request.version, request.isolation_level
            ),
            refused_queries(request),
        )

    def _epoch_ends(self, forwarded: Forwarded, request: OffsetForLeaderEpochRequest) -> None:
        self._ask(
            forwarded,
            lambda number, index: FindEpochEnd(number, index, request.partitions[index]),
        )

    def _delete_records(self, forwarded: Forwarded, request: DeleteRecordsRequest) -> None:
        timeout, alive = request.timeout_ms / 1000, tuple(sorted(self._fetches.alive))
        self._ask(
            forwarded,
            lambda number, index: TrimLog(number, index, request.partitions[index].offset, timeout, alive),
        )

    def _ask(
        self,
        forwarded: Forwarded,
        question: Callable[[int, int], Message],
        refused: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Send a message to the actor of every partition in the request (rules 1, 2), except the `refused`.

        `refused` has error codes by index.
        """
        partitions = [each.partition for each in forwarded.request.request.partitions]
        number, pending = self._pending.begin(forwarded, len(partitions))
        unhosted = []
        for index, partition in enumerate(partitions):
            actor = self._hosted.get(partition)
            if index in refused:
                pending.note(index, pending.refusal(partition, refused[index]))
            elif actor is not None:
                self.send(actor, question(number, index))
            else:
                unhosted.append((index, partition))
        if unhosted or not pending.outstanding:
            self._refuse(number, pending, unhosted)

    def _refuse(self, number: int, pending: PendingRequest, unhosted: Sequence[tuple[int, TopicPartition]]) -> None:
        """Refuse partitions whose disk failed; check in the metadata cache whether the others exist (rule 2)."""
        nowhere = []
        for index, partition in unhosted:
            if partition in self._hosted:
                pending.note(index, pending.refusal(partition, errors.KAFKA_STORAGE_ERROR))
            else:
                pending.lost.append(index)
                nowhere.append(partition)
        if nowhere:
            self.send(self._metadata_cache, CheckPartitionsExist(number, tuple(nowhere)))
        if not pending.outstanding:
            self._pending.finish(number)
            self._complete(pending)

    # ------------------------------------------------------------------------------------------------ results

    def receiveMsg_PartitionsExist(self, message: PartitionsExist, sender: ActorAddress) -> None:
        """Refuse partitions that are not hosted here: error code 6 if they exist in the cluster, else 3 (rule 2)."""
        pending = self._pending.get(message.request)
        if pending is None:
            for partition, known in zip(message.partitions, message.known, strict=True):
                code = errors.NOT_LEADER_OR_FOLLOWER if known else errors.UNKNOWN_TOPIC_OR_PARTITION
                self._refuse_fetch(message.request, partition, code)
            self._carry_out()
            return
        somewhere = dict(zip(message.partitions, message.known, strict=True))
        for index, partition in pending.found(somewhere):
            code = errors.NOT_LEADER_OR_FOLLOWER if somewhere[partition] else errors.UNKNOWN_TOPIC_OR_PARTITION
            self._handle_result(message.request, index, pending.refusal(partition, code))

    def receiveMsg_BatchesAppended(self, message: BatchesAppended, sender: ActorAddress) -> None:
        """Record the results of appended batches.

        Send the responses that are now complete, grouped by listener.
        """
        done = []
        for number, index, result in message.results:
            pending = self._record_result(number, index, result)
            if pending is None:
                continue
            if pending.markers:
                self._complete(pending)
            else:
                done.append(pending)
        self._count_produced(done)
        for client, of_client in groupby(done, lambda pending: pending.forwarded.client):
            responses = [response for pending in of_client if (response := self._response(pending)) is not None]
            if responses:
                self.send(client, responses[0] if len(responses) == 1 else network.ClientResponses(tuple(responses)))

    def receiveMsg_OffsetFound(self, message: OffsetFound, sender: ActorAddress) -> None:
        """Record a partition's result: the offset that it has found."""
        self._handle_result(message.request, message.index, message.result)

    def receiveMsg_EpochEndFound(self, message: EpochEndFound, sender: ActorAddress) -> None:
        """Record a partition's result: the end offset that it has found for an epoch."""
        self._handle_result(message.request, message.index, message.result)

    def receiveMsg_ProducersFound(self, message: ProducersFound, sender: ActorAddress) -> None:
        """Record a partition's result: the producers that it has described."""
        self._handle_result(message.request, message.index, message.result)

    def receiveMsg_LogTrimmed(self, message: LogTrimmed, sender: ActorAddress) -> None:
        """Record the result of a partition that has raised its log start offset."""
        self._handle_result(message.request, message.index, message.result)

    def _handle_result(self, number: int, index: int, result: object) -> None:
        pending = self._record_result(number, index, result)
        if pending is not None:
            self._complete(pending)

    def _record_result(self, number: int, index: int, result: Any) -> PendingRequest | None:
        """Record a partition's result; return the request if no further result is awaited."""
        pending = self._pending.get(number)
        if pending is None or not pending.note(index, result):
            return None
        if pending.markers:
            self._report_marker(pending, index, result)
        if pending.outstanding:
            return None
        self._pending.finish(number)
        return pending

    def _complete(self, pending: PendingRequest) -> None:
        """Send the response of a request whose partitions have all replied."""
        if isinstance(pending.forwarded.request.request, ProduceRequest):
            self._count_produced((pending,))
        response = self._response(pending)
        if response is not None:
            self.send(pending.forwarded.client, response)

    def _count_produced(self, answered: Sequence[PendingRequest]) -> None:
        """Count the produced records, and the produce requests that were refused."""
        parts = [part for pending in answered for part in pending.forwarded.request.request.partitions]
        self._figures.count_produce(
            zip(parts, [result for pending in answered for result in pending.results], strict=True)
        )
        self._schedule_metrics()

    def _response(self, pending: PendingRequest) -> network.ClientResponse | None:
        """Return the response to a request; None if its connection is closed instead (rule 4)."""
        response = pending.response()
        if isinstance(response, network.CloseClient):
            self.send(pending.forwarded.client, response)
            return None
        request = pending.forwarded.request.request
        if request.__class__ is ProduceRequest and request.version >= PRODUCE_LEADERS_SINCE and request.acks:
            return None if response and self._adds_leaders(pending.forwarded, response.response) else response
        return response

    def _adds_leaders(self, forwarded: Forwarded, response: AnyMessage) -> bool:
        """Let the metadata cache send the response if clients get the leader of a partition in it (KIP-951)."""
        if not any(each.error_code in LEADER_CODES for each in response.partitions):
            return False
        self.send(self._metadata_cache, AddLeaders(forwarded, response))
        return True

    def _schedule_metrics(self) -> None:
        """Publish counts after a second, if there are any (rule 7)."""
        news = self._figures or self._fetches.quota.replicas or self._rate
        if news and self._metrics is not None and not self._telling:
            self._telling = True
            self.set_timer(FIGURES, FIGURES_SECONDS, PublishCounters())

    # ------------------------------------------------------------------------------------------------ fetches

    def _fetch(self, forwarded: Forwarded, request: FetchRequest) -> None:
        number = self._pending.next_number()
        self._fetching[number] = forwarded
        self._fetches.begin(number, request, self.now)
        self._carry_out()

    def receiveMsg_ClientGone(self, message: network.ClientGone, sender: ActorAddress) -> None:
        """Drop the fetches of a closed connection."""
        for number, forwarded in list(self._fetching.items()):
            if (forwarded.client, forwarded.request.connection) == (sender, message.connection):
                del self._fetching[number]
                self._fetches.drop(number)

    def receiveMsg_FetchThrottled(self, message: FetchThrottled, sender: ActorAddress) -> None:
        """Undo a response that did not reach its consumer, because of a client quota."""
        self._fetches.undo_response(message.session_id, message.is_full, message.partitions, self.now)
        self._carry_out()

    def receiveMsg_LogRead(self, message: LogRead, sender: ActorAddress) -> None:
        """Pass the records that a partition has read to the fetches that wait for them."""
        if sender != self._hosted.get(message.result.partition):
            return  # this actor no longer hosts the partition (rule 6)
        if message.adding and message.result.body.size:
            self._figures.count(REASSIGNMENT_OUT, message.result.partition.topic, message.result.body.size)
        self._fetches.read(message.request, message.result, message.state, self.now, message.in_sync)
        self._carry_out()

    def receiveMsg_LogMoved(self, message: LogMoved, sender: ActorAddress) -> None:
        """Inform the waiting fetches that a partition's offsets have changed since the last read."""
        if sender != self._hosted.get(message.partition):
            return  # this actor no longer hosts the partition (rule 6)
        self._fetches.store_state(message.partition, message.state, self.now)
        self._carry_out()

    def receiveMsg_QueryIdleFollowers(self, message: QueryIdleFollowers, sender: ActorAddress) -> None:
        """Reply with the time when each follower of the partition was last caught up.

        After the reply, the leader removes lagging followers from the ISR.
        """
        self.send(sender, CaughtUp(self._fetches.idle_until(message.partition, self.now)))

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Handle a timer: publish the counts, or send timed-out fetches the records found so far."""
        if isinstance(message.payload, PublishCounters):
            self._telling = False
            self._publish_metrics()
            return
        self._deadline = None
        self._fetches.expire(self.now)
        self._carry_out()

    def _publish_metrics(self) -> None:
        """Publish the counts, and the bytes per second of throttled replicas (rule 7)."""
        assert self._metrics is not None
        if self._figures:
            self.send(self._metrics, Counts(self._figures.take()))
        rate = self._fetches.quota.measured_rate(self.now)
        if rate != self._rate:
            self._rate = rate
            self.send(self._metrics, Gauges((Gauge(metric(LEADER), rate),)))
            self._schedule_metrics()

    def receiveMsg_ThrottleReplicas(self, message: ThrottleReplicas, sender: ActorAddress) -> None:
        """Update the partitions whose followers are throttled."""
        self._fetches.quota.replicas.update(message.topics)

    def receiveMsg_ThrottleReplication(self, message: ThrottleReplication, sender: ActorAddress) -> None:
        """Set the quota in bytes per second."""
        self._fetches.quota.rate = message.rate

    def _carry_out(self) -> None:
        """Carry out the effects of the fetches, and set the timer for the earliest deadline."""
        fetches, wake = self._fetches, []
        while to_do := fetches.take():
            unknown: dict[int, list[TopicPartition]] = {}
            for step in to_do:
                match step:
                    case Respond(number, response, rest, ids):
                        forwarded = self._fetching.pop(number)
                        self._figures.count_fetch(forwarded.request.request, response.partitions)
                        if rest:
                            self._listener = forwarded.client
                        if ids is not None:
                            response = with_ids(response, ids)
                        version = forwarded.request.request.version
                        if version < FETCH_LEADERS_SINCE or not self._adds_leaders(forwarded, response):
                            self.send(*forwarded.reply(response, rest))
                        self._schedule_metrics()
                    case WakeSession(session_id):
                        wake.append(session_id)
                    case ReadPartition(partition, question):
                        actor = self._hosted.get(partition)
                        if actor is not None:
                            self.send(actor, question)
                        elif partition in self._hosted:
                            self._refuse_fetch(question.request, partition, errors.KAFKA_STORAGE_ERROR)
                        else:
                            unknown.setdefault(question.request, []).append(partition)
            for number, partitions in unknown.items():
                self.send(self._metadata_cache, CheckPartitionsExist(number, tuple(partitions)))
        if wake:
            assert self._listener is not None
            self.send(self._listener, network.WakeFetchSessions(tuple(wake)))
        deadline = fetches.next_deadline
        if deadline is not None and (self._deadline is None or deadline < self._deadline):
            self._deadline = deadline
            self.wake_at(deadline, name="deadline")

    def _refuse_fetch(self, number: int, partition: TopicPartition, error_code: int) -> None:
        self._fetches.read(number, FetchedPartition(partition, error_code), None, self.now)


_BEGIN: dict[type, Callable[[PartitionRequestsActor, Forwarded, Any], None]] = {
    ProduceRequest: PartitionRequestsActor._produce,
    FetchRequest: PartitionRequestsActor._fetch,
    ListOffsetsRequest: PartitionRequestsActor._list_offsets,
    OffsetForLeaderEpochRequest: PartitionRequestsActor._epoch_ends,
    DeleteRecordsRequest: PartitionRequestsActor._delete_records,
    WriteTxnMarkersRequest: PartitionRequestsActor._write_markers,
    DescribeProducersRequest: PartitionRequestsActor._describe_producers,
}
