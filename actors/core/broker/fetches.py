"""Pending fetch requests, some of which wait for data (DelayedFetch in Kafka's purgatory; broker.md 3.7).

Rule 1: `min_bytes` and `max_bytes` are totals of a request. The broker's `fetch.max.bytes` limits `max_bytes`, which
        limits `min_bytes`. The response is sent when enough bytes are found, when a
        partition fails, when a consumer is sent to another replica (rule 6), or when the session has no partition.
        After the request's timeout, the response contains the data that was found until then.
Rule 2: this module stores the state of each log at the last read, and the state in the last notification after that
        read. A log reports each value's change once, when the value first changes after the read (`LogMoved`). A value
        without a notification has therefore not changed since the read. A value whose change was reported may have
        changed again, so the log is read at the reader's next poll.
Rule 3: a partition is read only if it may have data for the reader: it is new to the session, its reader's fetch offset
        has changed, its log has grown beyond the reader, its role has changed, or its last read returned records or an
        error. A poll does no work for any other partition.
Rule 4: the first partition with data returns at least one batch, even if the batch exceeds the limits. Every other
        partition returns no more than its own limit and the rest of the response. So partitions are read one by one
        until data is found, and then in waves of as many partitions as fit into the rest whatever they return. Once the
        response is full, the remaining partitions return only their offsets.
Rule 5: a poll of an in-sync follower that is caught up causes no message to the partition. The session stores the time
        of the last such poll. The partition receives this time with the next read after its log has grown. The
        partition also asks for this time before it removes a lagging follower.
Rule 6: a consumer that names its rack is sent at once to a replica in this rack, if that replica is in the ISR
        and has the fetch offset (`replica.selector.class`, broker.md 3.7).
Rule 7: a session is idle if its last response was empty and the session has nothing left to send. The listener then
        answers the session's polls without a message to the actor that uses this module. The session stops being idle
        when one of its logs changes. While a session is idle, the current time counts as the time of its last poll,
        until the listener sends the actual time.
Rule 8: bytes that followers read from throttled replicas are counted with the response. While the quota is exceeded,
        `ReadLog.throttled` is set when a follower reads a throttled replica (`replication_quota`).

Methods do not wait or send: they take an event and the time; `take` returns the resulting steps in order.

Kafka: a fetch that waits is a `DelayedFetch` in the purgatory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from actors.core.broker import fetch_sessions
from actors.core.broker.leader import epoch_verdict
from actors.core.broker.replication_quota import ReplicationQuota
from messages import errors
from messages.apis.fetch import (
    CONSUMER,
    IDS_SINCE,
    READ_COMMITTED,
    ZSTD_SINCE,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
)
from messages.cluster import NO_EPOCH, TopicId, TopicPartition
from messages.partition import LogState, ReadLog
from messages.vocabulary import evolve, value_class


@value_class
class ReadPartition:
    """An instruction to read a partition and to pass the result to `Fetches.read`."""

    partition: TopicPartition
    question: ReadLog


@value_class
class Respond:
    """An instruction to send the response to the request with this `number`."""

    number: int
    response: FetchResponse
    rest: int = 0
    """The epoch of the next poll of a session that is idle from now on (rule 7); otherwise 0."""
    ids: Mapping[str, str] | None = None
    """Topic -> the id that the response has in its place, if the request has ids (`with_ids`)."""


@value_class
class WakeSession:
    """An instruction to end the idle state of a fetch session.

    While a session is idle, the listener itself answers the session's fetches; after this instruction it forwards them.
    `Fetches.woken` is then called with the time of the last fetch.
    """

    session_id: int


ToDo = ReadPartition | Respond | WakeSession


class Fetches:
    """All fetch sessions and all pending fetch requests of a broker."""

    def __init__(
        self, sessions: fetch_sessions.FetchSessions, max_bytes: int, quota: ReplicationQuota | None = None
    ) -> None:
        self.sessions = sessions
        self.quota = quota or ReplicationQuota()
        self._max_bytes = max_bytes
        """The broker's `fetch.max.bytes`."""
        self._logs: dict[TopicPartition, tuple[LogState, LogState]] = {}
        """Each log's state as it was read, and with the later notifications (rule 2)."""
        self._under_way: dict[int, fetch_sessions.Session] = {}
        """Sessions with a request in flight, by the request's number."""
        self._readers: dict[TopicPartition, dict[int, fetch_sessions.Session]] = {}
        """Sessions that read a log, by partition and key."""
        self._deadlines: list[tuple[float, int]] = []
        self._to_do: list[ToDo] = []
        self.alive: frozenset[int] = frozenset()
        self._topics: dict[str, str] = {}
        """Topic id -> topic."""
        self._by_rack: dict[str, tuple[int, ...]] = {}
        """The live brokers of each rack; empty unless consumers are sent to replicas in their rack (rule 6)."""

    @property
    def next_deadline(self) -> float | None:
        """The earliest deadline of a pending fetch."""
        while self._deadlines and self._deadlines[0][1] not in self._under_way:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def take(self) -> list[ToDo]:
        """Return the new steps to carry out, in order; each step is returned once."""
        taken, self._to_do = self._to_do, []
        return taken

    # ------------------------------------------------------------------------------------------------ events

    def brokers_alive(self, ids: Iterable[int], racks: Iterable[str | None] = ()) -> None:
        """Set the live brokers; only a live broker may join an ISR.

        Args:
            ids: Their broker ids.
            racks: Their racks, in the same order; empty unless consumers are sent to replicas in their rack.
        """
        self.alive, self._by_rack = frozenset(ids), {}
        for broker, rack in zip(ids, racks, strict=False):
            if rack:
                self._by_rack[rack] = (*self._by_rack.get(rack, ()), broker)

    def begin(self, number: int, request: FetchRequest, now: float) -> None:
        """Begin a fetch request."""
        ids = None
        if request.version >= IDS_SINCE:
            request, ids = self._with_names(request)
        session = self.sessions.find(request, number, now)
        self._leave_ended(now)
        if isinstance(session, int):
            self._to_do.append(Respond(number, FetchResponse((), session)))
            return
        if session.ids is not None and ids is not None:
            session.ids.update(ids)
        if session.fetch is not None:
            self._answer(session, session.fetch, now)
        self._leave(session, request.forgotten)
        for part in request.partitions:
            if part.partition in session.partitions:  # the same request may also forget the partition
                self._readers.setdefault(part.partition, {})[session.key] = session
        if request.version >= ZSTD_SINCE and not self._near(request):  # others may be refused because of the version
            for partition in [partition for partition in session.unread if self._has_nothing(session, partition)]:
                del session.unread[partition]
                session.moved[partition] = None
        max_bytes = min(request.max_bytes, self._max_bytes)
        deadline = now + request.max_wait_ms / 1000
        fetch = fetch_sessions.DelayedFetch(
            number, request, max_bytes, min(request.min_bytes, max_bytes), deadline, session.queue()
        )
        self._under_way[number], session.fetch = session, fetch
        self._read_next(session, fetch, now)

    def topic_ids_changed(self, topics: Iterable[TopicId], now: float) -> None:
        """Set the ids of all topics that have one, and apply them to the sessions with ids."""
        self._topics = {topic_id: topic for topic, topic_id in topics}
        for session in self.sessions.with_ids():
            if session.fetch is not None:
                self._answer(session, session.fetch, now)
            self._rename(session)

    def _rename(self, session: fetch_sessions.Session) -> None:
        """Give each partition of a session the name that its topic id has now, and read it if the name has changed."""
        new = {}
        for partition, place in list(session.partitions.items()):
            topic_id = _id_of(session, partition)
            renamed = partition._replace(topic=self._name_of(topic_id))
            if renamed != partition:
                new[renamed] = topic_id, place
                self._leave(session, (partition,))
                for known in (session.partitions, session.unread, session.moved):
                    known.pop(partition, None)
        for renamed, (topic_id, place) in new.items():
            part = evolve(place.part, partition=renamed)
            session.partitions[renamed] = fetch_sessions.CachedPartition(part, place.turn)
            session.unread[renamed] = None
            session.ids = {**(session.ids or {}), renamed.topic: topic_id}
            self._readers.setdefault(renamed, {})[session.key] = session

    def _with_names(self, request: FetchRequest) -> tuple[FetchRequest, dict[str, str]]:
        """Return a request with the names of its topics in place of their ids, and the ids of these topics."""
        names = {each.partition.topic: self._name_of(each.partition.topic) for each in request.partitions}
        parts = [
            evolve(each, partition=each.partition._replace(topic=names[each.partition.topic]))
            for each in request.partitions
        ]
        forgotten = [each._replace(topic=self._name_of(each.topic)) for each in request.forgotten]
        known = {name: topic_id for topic_id, name in names.items() if not name.startswith(fetch_sessions.UNKNOWN)}
        return evolve(request, partitions=tuple(parts), forgotten=tuple(forgotten)), known

    def _name_of(self, topic_id: str) -> str:
        return self._topics.get(topic_id) or fetch_sessions.UNKNOWN + topic_id

    def read(
        self,
        number: int,
        result: FetchedPartition,
        state: LogState | None,
        now: float,
        in_sync: bool = True,
    ) -> None:
        """Store the result of a read of a partition; respond or read on.

        Args:
            number: The number of the fetch request.
            result: The partition's part of the response.
            state: The log's current state, None if the log is not hosted here.
            now: Seconds of the node's clock.
            in_sync: False if the partition must also be read at the follower's next poll, because the follower may join
                the ISR.
        """
        partition = result.partition
        session = self._under_way.get(number)
        if state is not None:
            before = self._logs.get(partition)
            self._logs[partition] = state, state
            if before is not None and before[1] != state:
                self._spread(partition, before[1], state, now, session)
        if session is None or session.fetch is None or partition not in session.fetch.reading:
            return
        fetch = session.fetch
        del fetch.reading[partition]
        place = session.partitions.get(partition)
        if place is not None:
            fetch.results[partition] = result
            fetch.found += result.body.size
            session.unread.pop(partition, None)
            has_more = state is not None and _limit(session, state) > place.part.fetch_offset
            if result.error_code != errors.NONE or has_more or not in_sync:
                session.unread[partition] = None
        self._read_next(session, fetch, now)

    def store_state(self, partition: TopicPartition, state: LogState, now: float) -> None:
        """Store a log's new state from a notification, and let its readers read again if necessary."""
        known = self._logs.get(partition)
        if known is not None:
            self._logs[partition] = known[0], state
            self._spread(partition, known[1], state, now)

    def discard_state(self, partition: TopicPartition, now: float) -> None:
        """Discard the stored state of an added, removed or failed partition, and repeat its pending reads."""
        self._logs.pop(partition, None)
        readers = self._readers.get(partition)
        for session in list(readers.values()) if readers else ():
            if session.fetch is not None:
                session.fetch.reading.pop(partition, None)
            self._read_again(session, partition, now)

    def woken(self, session_id: int, epoch: int, used_at: float) -> None:
        """End the idle state of a session.

        Args:
            session_id: The session.
            epoch: The epoch of its next request.
            used_at: The time of its last poll, in seconds of the node's clock.
        """
        session = self.sessions.get(session_id)
        if session is not None:
            session.resting = False
            session.epoch, session.used_at = epoch, used_at
            for partition in session.unread:
                place = session.partitions[partition]
                place.idle_until = min(place.idle_until, used_at)

    def undo_response(self, session_id: int, is_full: bool, partitions: Iterable[TopicPartition], now: float) -> None:
        """Undo a response that was replaced by an empty one, because of a client quota.

        Args:
            session_id: The session.
            is_full: Whether the session began with this response; it ends.
            partitions: The partitions in the response; the next response contains them again.
            now: Seconds of the node's clock.
        """
        session = self.sessions.get(session_id)
        if session is None:
            return
        if is_full:
            self.sessions.end(session)
            self._leave_ended(now)
            return
        for partition in partitions:
            if session.ids is not None:
                partition = partition._replace(topic=self._name_of(partition.topic))
            place = session.partitions.get(partition)
            if place is not None:
                place.high_watermark = fetch_sessions.UNTOLD
                session.moved[partition] = None

    def idle_until(self, partition: TopicPartition, now: float) -> tuple[tuple[int, float], ...]:
        """Return the partition's followers, each with the time of its last poll that found no new records (rule 5)."""
        found = []
        for session in self._readers.get(partition, {}).values():
            if session.resting:
                until = now
            else:
                until = session.partitions[partition].idle_until if partition in session.unread else session.used_at
            if session.is_follower and until > fetch_sessions.NEVER:
                found.append((session.replica_id, until))
        return tuple(found)

    def drop(self, number: int) -> None:
        """Drop the fetch of a closed connection."""
        session = self._under_way.pop(number, None)
        if session is not None:
            session.fetch = None
            if not self.sessions.holds(session):
                self._leave(session, session.partitions)

    def expire(self, now: float) -> None:
        """Respond to the fetches whose deadline has passed, with the data found so far."""
        while self._deadlines and self._deadlines[0][0] <= now:
            session = self._under_way.get(heappop(self._deadlines)[1])
            if session is not None and session.fetch is not None and not session.fetch.reading:
                self._answer(session, session.fetch, now)

    # ------------------------------------------------------------------------------------------------ reading

    def _has_nothing(self, session: fetch_sessions.Session, partition: TopicPartition) -> bool:
        """Return whether the stored state shows that a consumer finds no data in a partition (rule 3)."""
        known = self._logs.get(partition)
        if known is None or session.is_follower:
            return False
        (read, last_sent), part = known, session.partitions[partition].part
        if not last_sent.leads or read[:-1] != last_sent[:-1]:
            return False
        if epoch_verdict(part.current_leader_epoch, last_sent.leader_epoch) != errors.NONE:
            return False
        if part.last_fetched_epoch not in (NO_EPOCH, last_sent.leader_epoch):
            return False  # the logs may diverge
        return last_sent.start <= part.fetch_offset <= last_sent.end and part.fetch_offset >= _limit(session, last_sent)

    def _read_next(self, session: fetch_sessions.Session, fetch: fetch_sessions.DelayedFetch, now: float) -> None:
        """Read the next wave (rule 4); when all is read, respond or wait."""
        if fetch.reading:
            return
        promised = 0
        while fetch.queue:
            partition = next(iter(fetch.queue))
            place = session.partitions.get(partition)
            if place is None:
                del fetch.queue[partition]
                continue
            before = fetch.results.get(partition)
            found = fetch.found - (0 if before is None else before.body.size)
            left = max(fetch.max_bytes - found, 0)
            promised += place.part.partition_max_bytes
            if fetch.reading and (not found or 0 < left < promised):
                break
            del fetch.queue[partition]
            fetch.results.pop(partition, None)
            fetch.found = found
            fetch.reading[partition] = None
            throttled = session.is_follower and partition in self.quota.replicas and self.quota.is_exceeded(now)
            topic_id = session.ids.get(partition.topic, "") if session.ids else ""
            self._to_do.append(ReadPartition(partition, self._question(fetch, place, left, throttled, topic_id)))
        if fetch.reading:
            return
        if fetch.deadline <= now or _is_satisfied(session, fetch):
            self._answer(session, fetch, now)
        elif not fetch.parked:
            fetch.parked = True
            heappush(self._deadlines, (fetch.deadline, fetch.number))

    def _question(
        self,
        fetch: fetch_sessions.DelayedFetch,
        place: fetch_sessions.CachedPartition,
        left: int,
        throttled: bool,
        topic_id: str,
    ) -> ReadLog:
        request = fetch.request
        idle_until, place.idle_until = place.idle_until, fetch_sessions.NEVER
        return ReadLog(
            fetch.number,
            place.part,
            request.replica_id,
            request.version,
            request.isolation_level,
            left,
            not fetch.found,
            request.replica_id in self.alive,
            idle_until,
            self._near(request),
            throttled,
            topic_id,
        )

    def _near(self, request: FetchRequest) -> tuple[int, ...]:
        """Return the brokers in a consumer's rack (rule 6)."""
        return self._by_rack.get(request.rack_id, ()) if request.replica_id == CONSUMER else ()

    # ------------------------------------------------------------------------------------------------ waiting

    def _spread(
        self,
        partition: TopicPartition,
        before: LogState,
        state: LogState,
        now: float,
        reader: fetch_sessions.Session | None = None,
    ) -> None:
        """Mark a log as changed for the sessions that read it; if necessary, read it again for these sessions.

        The log is not read again for `reader`, the session whose read returned the new state.
        """
        for session in list(self._readers.get(partition, {}).values()):
            self._wake_session(session, now)
            session.moved[partition] = None
            if session is reader:
                continue
            fetch = session.fetch
            if fetch is not None and partition in fetch.results and not fetch.results[partition].body.size:
                del fetch.results[partition]  # its offsets are outdated; the log's new offsets replace them
            offset = session.partitions[partition].part.fetch_offset
            new_role = (state.leader_epoch, state.leads) != (before.leader_epoch, before.leads)
            if new_role or _limit(session, state) > offset or not state.start <= offset <= state.end:
                self._read_again(session, partition, now)

    def _read_again(self, session: fetch_sessions.Session, partition: TopicPartition, now: float) -> None:
        """Read a partition again for a session; store the time until which a follower was caught up (rule 5)."""
        self._wake_session(session, now)
        fetch = session.fetch
        if partition not in session.unread:
            session.unread[partition] = None
            session.partitions[partition].idle_until = session.used_at
        if fetch is not None and partition not in fetch.reading:
            fetch.queue[partition] = None
            self._read_next(session, fetch, now)

    def _wake_session(self, session: fetch_sessions.Session, now: float) -> None:
        """End the idle state of a session (rule 7)."""
        if session.resting:
            session.resting, session.used_at = False, now
            self._to_do.append(WakeSession(session.id))

    def _leave_ended(self, now: float) -> None:
        """Remove ended sessions from the readers of their partitions."""
        for ended in self.sessions.take_ended():
            self._wake_session(ended, now)
            if ended.fetch is None:
                self._leave(ended, ended.partitions)

    def _leave(self, session: fetch_sessions.Session, partitions: Iterable[TopicPartition]) -> None:
        """Remove the session from the readers of these partitions."""
        for partition in partitions:
            readers = self._readers.get(partition)
            if readers is not None and readers.pop(session.key, None) is not None and not readers:
                del self._readers[partition]

    # ---------------------------------------------------------------------------------------------- responses

    def _answer(self, session: fetch_sessions.Session, fetch: fetch_sessions.DelayedFetch, now: float) -> None:
        """Respond to a fetch with all partitions or, within a session, only with new or changed partitions."""
        session.fetch = None
        del self._under_way[fetch.number]
        request, moved, session.moved = fetch.request, session.moved, {}
        within = session.id and request.session_epoch > fetch_sessions.INITIAL_EPOCH
        results = []
        for partition in {**fetch.results, **moved} if within else session.partitions:
            place = session.partitions.get(partition)
            result = fetch.results.get(partition) or self._offsets_of(partition, request)
            if place is None or result is None:
                continue
            if place.must_include(result) or not within:
                results.append(result)
            if within and result.body.size:
                session.move_to_end(place)
            known = self._logs.get(partition)
            if result.error_code != errors.NONE or known is None:
                continue
            if known[1].high_watermark != result.high_watermark:
                session.moved[partition] = None
            if _offsets_only(known[0]) != _offsets_only(known[1]):
                self._read_again(session, partition, now)  # its log has changed since it was read (rule 2)
        if not self.sessions.holds(session):
            self._leave(session, session.partitions)
        elif within:
            session.resting = not (results or session.unread or session.moved or session.ids is not None)
        if session.is_follower and self.quota.replicas:
            size = sum(result.body.size for result in results if result.partition in self.quota.replicas)
            if size:
                self.quota.count(size, now)
        response = FetchResponse(tuple(results), errors.NONE, session.id)
        self._to_do.append(Respond(fetch.number, response, session.epoch if session.resting else 0, session.ids))

    def _offsets_of(self, partition: TopicPartition, request: FetchRequest) -> FetchedPartition | None:
        """Return the offsets of a partition that has no data to read."""
        known = self._logs.get(partition)
        if known is None:
            return None
        state, aborted = known[1], () if request.isolation_level == READ_COMMITTED else None
        return FetchedPartition(partition, errors.NONE, state.high_watermark, state.stable, state.start, aborted)


def _id_of(session: fetch_sessions.Session, partition: TopicPartition) -> str:
    """Return the id by which a session's reader names the topic of a partition."""
    topic = partition.topic
    return topic[1:] if topic.startswith(fetch_sessions.UNKNOWN) else (session.ids or {})[topic]


def with_ids(response: FetchResponse, ids: Mapping[str, str]) -> FetchResponse:
    """Return a response with the ids of its topics in place of their names; an unknown id has its own error code."""
    partitions = []
    for each in response.partitions:
        topic, number = each.partition
        if topic.startswith(fetch_sessions.UNKNOWN):
            partitions.append(FetchedPartition(TopicPartition(topic[1:], number), errors.UNKNOWN_TOPIC_ID))
        else:
            partitions.append(evolve(each, partition=TopicPartition(ids[topic], number)))
    return evolve(response, partitions=tuple(partitions))


def _limit(session: fetch_sessions.Session, state: LogState) -> int:
    """Return the offset up to which a reader may read.

    For a follower, this is the log end offset. For a consumer, it is the last stable offset if the consumer reads only
    committed data, otherwise the high watermark.
    """
    if session.is_follower:
        return state.end
    return state.stable if session.isolation_level == READ_COMMITTED else state.high_watermark


def _offsets_only(state: LogState) -> tuple[int, int, int]:
    """Return the offsets that a response without records contains."""
    return state.high_watermark, state.stable, state.start


def _is_satisfied(session: fetch_sessions.Session, fetch: fetch_sessions.DelayedFetch) -> bool:
    """Return whether the fetch can be answered before its deadline (rule 1)."""
    if fetch.found >= fetch.min_bytes or not session.partitions:
        return True
    return any(fetch_sessions.is_final(result) for result in fetch.results.values())
