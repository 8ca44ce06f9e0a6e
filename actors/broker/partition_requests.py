"""PartitionRequestsActor: requests about partitions' records, divided among them and put together again.

Rule 1: each partition is asked by its own address; the request is answered when all have answered. The replica manager
        takes no part in this: it says where partitions are, and no more.
Rule 2: a partition that nobody hosts here has another leader (6), or is nowhere (3), as the metadata cache says; one
        whose disk failed answers 56.
Rule 3: a fetch that finds too little waits (`actors.core.broker.fetches`), for its partitions or its time.
Rule 4: a produce with acks=0 is never answered. If it fails the connection is closed: the producer has no other way to
        hear of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from heapq import heappop, heappush
from typing import Any

import attrs
from thespian.actors import ActorAddress, WakeupMessage

from actors.core.broker.fetches import WaitingFetch
from actors.runtime import Dispatcher
from messages.apis import API_BY_REQUEST
from messages.broker import AliveBrokers, Forwarded
from messages.cluster import TopicPartition
from messages.data_requests import (
    DeletedRecords,
    DeleteRecordsRequest,
    EpochEnd,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    ListedOffset,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProducedPartition,
    ProduceRequest,
)
from messages.errors import (
    FETCH_SESSION_ID_NOT_FOUND,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from messages.network import ClientResponse, CloseClient
from messages.node import StartPartitionRequests
from messages.partition import (
    AppendBatch,
    AreKnown,
    BatchAppended,
    EpochEndFound,
    FindEpochEnd,
    FindOffset,
    Known,
    LogGrew,
    LogRead,
    LogTrimmed,
    OffsetFound,
    PartitionsHosted,
    ReadLog,
    TrimLog,
    WatchLog,
)
from messages.vocabulary import Message


@attrs.define
class _Pending:
    """One request under way: whose it is, what its partitions have answered, and how many have not."""

    forwarded: Forwarded
    results: list[Any]
    outstanding: int
    lost: list[int]
    """Places of partitions that nobody hosts here."""
    fetch: WaitingFetch | None = None


class PartitionRequestsActor(Dispatcher):
    """One per broker; see the module's rules."""

    def __init__(self) -> None:
        super().__init__()
        self._metadata_cache: ActorAddress
        self._hosted: dict[TopicPartition, ActorAddress | None] = {}
        self._alive: frozenset[int] = frozenset()
        self._requests = 0
        self._pending: dict[int, _Pending] = {}
        self._watched: dict[tuple[TopicPartition, bool], list[int]] = {}
        """(partition, whether for committed records) -> the parked fetches that wait for it."""
        self._deadlines: list[tuple[float, int]] = []
        self._alarm: float | None = None

    def receiveMsg_StartPartitionRequests(self, message: StartPartitionRequests, sender: ActorAddress) -> None:
        """Learn who knows where partitions are that nobody hosts here."""
        self._metadata_cache = message.metadata_cache

    def receiveMsg_PartitionsHosted(self, message: PartitionsHosted, sender: ActorAddress) -> None:
        """Partitions have come, gone, or failed."""
        for partition, actor, gone in message.changes:
            if gone:
                self._hosted.pop(partition, None)
            else:
                self._hosted[partition] = actor
            if actor is None:
                for committed in (True, False):
                    self._grown(partition, committed)

    def receiveMsg_AliveBrokers(self, message: AliveBrokers, sender: ActorAddress) -> None:
        """Which brokers are alive, by the metadata cache: others do not come into an ISR."""
        self._alive = frozenset(message.ids)

    # ------------------------------------------------------------------------------------------------ requests

    def receiveMsg_Forwarded(self, message: Forwarded, sender: ActorAddress) -> None:
        """A client's or follower's request."""
        _BEGIN[type(message.request.request)](self, message, message.request.request)

    def _produce(self, forwarded: Forwarded, request: ProduceRequest) -> None:
        timeout = request.timeout_ms / 1000
        self._ask(
            forwarded,
            [part.partition for part in request.partitions],
            lambda number, index: AppendBatch(
                number, index, request.partitions[index], request.acks, request.version, timeout
            ),
        )

    def _list_offsets(self, forwarded: Forwarded, request: ListOffsetsRequest) -> None:
        self._ask(
            forwarded,
            [query.partition for query in request.partitions],
            lambda number, index: FindOffset(
                number, index, request.partitions[index], request.replica_id, request.version
            ),
        )

    def _epoch_ends(self, forwarded: Forwarded, request: OffsetForLeaderEpochRequest) -> None:
        self._ask(
            forwarded,
            [query.partition for query in request.partitions],
            lambda number, index: FindEpochEnd(number, index, request.partitions[index]),
        )

    def _delete_records(self, forwarded: Forwarded, request: DeleteRecordsRequest) -> None:
        timeout = request.timeout_ms / 1000
        self._ask(
            forwarded,
            [trimmed.partition for trimmed in request.partitions],
            lambda number, index: TrimLog(number, index, request.partitions[index].offset, timeout),
        )

    def _fetch(self, forwarded: Forwarded, request: FetchRequest) -> None:
        if request.session_id != 0:
            self._respond(forwarded, FetchResponse((), FETCH_SESSION_ID_NOT_FOUND))
            return
        count = len(request.partitions)
        fetch = WaitingFetch(request, self.now + request.max_wait_ms / 1000, [None] * count, [0] * count)
        self._ask(
            forwarded,
            [part.partition for part in request.partitions],
            lambda number, index: self._read_of(fetch, number, index),
            fetch,
        )

    def _read_of(self, fetch: WaitingFetch, number: int, index: int) -> ReadLog:
        request = fetch.request
        return ReadLog(
            number,
            index,
            request.partitions[index],
            request.replica_id,
            request.version,
            request.isolation_level,
            request.max_bytes,
            True,
            request.replica_id in self._alive,
        )

    def _ask(
        self,
        forwarded: Forwarded,
        partitions: Sequence[TopicPartition],
        question: Callable[[int, int], Message],
        fetch: WaitingFetch | None = None,
    ) -> None:
        """Ask every partition (rules 1, 2)."""
        self._requests += 1
        number, refusal = self._requests, _REFUSALS[type(forwarded.request.request)]
        pending = _Pending(forwarded, [None] * len(partitions), len(partitions), [], fetch)
        self._pending[number] = pending
        for index, partition in enumerate(partitions):
            if partition not in self._hosted:
                pending.lost.append(index)
            elif (actor := self._hosted[partition]) is None:
                pending.results[index] = refusal(partition, KAFKA_STORAGE_ERROR)
                pending.outstanding -= 1
            else:
                self.send(actor, question(number, index))
        if pending.lost:
            self.send(self._metadata_cache, AreKnown(number, tuple(partitions[index] for index in pending.lost)))
        if not pending.outstanding:
            self._complete(number, pending)

    # ------------------------------------------------------------------------------------------------ answers

    def receiveMsg_Known(self, message: Known, sender: ActorAddress) -> None:
        """Whether the partitions that nobody hosts here are anywhere (rule 2)."""
        pending = self._pending.get(message.request)
        if pending is None:
            return
        request = pending.forwarded.request.request
        partitions, refusal = _partitions(request), _REFUSALS[type(request)]
        lost, pending.lost = pending.lost, []
        for index, known in zip(lost, message.known, strict=True):
            code = NOT_LEADER_OR_FOLLOWER if known else UNKNOWN_TOPIC_OR_PARTITION
            self._answered(message.request, index, refusal(partitions[index], code))

    def receiveMsg_BatchAppended(self, message: BatchAppended, sender: ActorAddress) -> None:
        """A partition has appended."""
        self._answered(message.request, message.index, message.result)

    def receiveMsg_OffsetFound(self, message: OffsetFound, sender: ActorAddress) -> None:
        """A partition has found an offset."""
        self._answered(message.request, message.index, message.result)

    def receiveMsg_EpochEndFound(self, message: EpochEndFound, sender: ActorAddress) -> None:
        """A partition has found an epoch's end."""
        self._answered(message.request, message.index, message.result)

    def receiveMsg_LogTrimmed(self, message: LogTrimmed, sender: ActorAddress) -> None:
        """A partition begins later."""
        self._answered(message.request, message.index, message.result)

    def receiveMsg_LogRead(self, message: LogRead, sender: ActorAddress) -> None:
        """A partition has read."""
        pending = self._pending.get(message.request)
        if pending is not None and pending.fetch is not None:
            pending.fetch.limits[message.index] = message.limit
        self._answered(message.request, message.index, message.result)

    def _answered(self, number: int, index: int, result: Any) -> None:
        pending = self._pending.get(number)
        if pending is None:
            return
        pending.results[index] = result
        pending.outstanding -= 1
        if not pending.outstanding:
            self._complete(number, pending)

    def _complete(self, number: int, pending: _Pending) -> None:
        """All have answered: so does the request, or it waits (rule 3)."""
        fetch = pending.fetch
        if fetch is not None:
            fetch.results = pending.results
            if not fetch.is_satisfied and fetch.deadline > self.now:
                self._park(number, fetch)
                return
        self._finish(number, pending)

    def _finish(self, number: int, pending: _Pending) -> None:
        del self._pending[number]
        if pending.fetch is not None and pending.fetch.parked:
            self._unpark(number, pending.fetch)
        request = pending.forwarded.request.request
        if pending.fetch is not None:
            self._respond(pending.forwarded, FetchResponse(pending.fetch.answer()))
            return
        results = tuple(pending.results)
        if isinstance(request, ProduceRequest) and request.acks == 0:
            failed = next((result for result in results if result.error_code != NONE), None)
            if failed is None:
                self._respond(pending.forwarded, None)
            else:
                reason = f"a produce with acks=0 to {failed.partition} failed with error {failed.error_code}"
                self.send(pending.forwarded.client, CloseClient(pending.forwarded.request.connection, reason))
            return
        self._respond(pending.forwarded, _RESPONSES[type(request)](results))

    def _respond(self, forwarded: Forwarded, response: Message | None) -> None:
        request = forwarded.request
        self.send(forwarded.client, ClientResponse(request.connection, request.correlation_id, response))

    # ------------------------------------------------------------------------------------------------ waiting

    def _park(self, number: int, fetch: WaitingFetch) -> None:
        """Wait until one of the partitions has more, or the time is up."""
        if not fetch.parked:
            fetch.parked = True
            heappush(self._deadlines, (fetch.deadline, number))
            self._wake(fetch.deadline)
        for part, limit in zip(fetch.request.partitions, fetch.limits, strict=True):
            key = part.partition, fetch.committed
            waiting = self._watched.get(key)
            if waiting is None:
                waiting = self._watched[key] = []
                actor = self._hosted.get(part.partition)
                if actor is not None:
                    self.send(actor, WatchLog(max(limit, part.fetch_offset), fetch.committed))
            if number not in waiting:
                waiting.append(number)

    def _unpark(self, number: int, fetch: WaitingFetch) -> None:
        """It waits no more; its partitions stay watched, for whoever comes next."""
        for part in fetch.request.partitions:
            waiting = self._watched.get((part.partition, fetch.committed), [])
            if number in waiting:
                waiting.remove(number)

    def receiveMsg_LogGrew(self, message: LogGrew, sender: ActorAddress) -> None:
        """A watched partition has more."""
        self._grown(message.partition, message.committed)

    def _grown(self, partition: TopicPartition, committed: bool) -> None:
        """Read the partition again for everybody who waits for it (rule 3)."""
        for number in self._watched.pop((partition, committed), ()):
            pending = self._pending.get(number)
            if pending is None or pending.fetch is None:
                continue
            actor = self._hosted.get(partition)
            for index in pending.fetch.indexes_of(partition):
                pending.outstanding += 1
                if actor is None:
                    code = KAFKA_STORAGE_ERROR if partition in self._hosted else NOT_LEADER_OR_FOLLOWER
                    self._answered(number, index, FetchedPartition(partition, code))
                else:
                    self.send(actor, self._read_of(pending.fetch, number, index))

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Answer the fetches whose time is up, with what they have."""
        self._alarm = None
        while self._deadlines and self._deadlines[0][0] <= self.now:
            _, number = heappop(self._deadlines)
            pending = self._pending.get(number)
            if pending is not None and not pending.outstanding:
                self._finish(number, pending)
        if self._deadlines:
            self._wake(self._deadlines[0][0])

    def _wake(self, at: float) -> None:
        if self._alarm is None or at < self._alarm:
            self._alarm = at
            self.wakeupAfter(timedelta(seconds=max(at - self.now, 0.0)))


def _partitions(request: Any) -> list[TopicPartition]:
    return [entry.partition for entry in request.partitions]


_BEGIN: dict[type, Callable[[PartitionRequestsActor, Forwarded, Any], None]] = {
    ProduceRequest: PartitionRequestsActor._produce,
    FetchRequest: PartitionRequestsActor._fetch,
    ListOffsetsRequest: PartitionRequestsActor._list_offsets,
    OffsetForLeaderEpochRequest: PartitionRequestsActor._epoch_ends,
    DeleteRecordsRequest: PartitionRequestsActor._delete_records,
}

_REFUSALS: dict[type, Callable[[TopicPartition, int], Any]] = {
    ProduceRequest: ProducedPartition,
    FetchRequest: FetchedPartition,
    ListOffsetsRequest: ListedOffset,
    OffsetForLeaderEpochRequest: EpochEnd,
    DeleteRecordsRequest: DeletedRecords,
}
"""Request -> how one of its partitions is refused, with a code."""

_RESPONSES: dict[type, Callable[..., Message]] = {request: API_BY_REQUEST[request].response for request in _BEGIN}
