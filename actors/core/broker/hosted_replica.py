"""HostedReplica holds the state of a hosted replica, and computes the effects of a change of that state and of reads.

Rule 1: a disk error makes the controller's order or the client's request fail with error code 56. The replica manager
        is notified, and takes the whole log directory offline.
Rule 2: a reader receives the log's state with the data. It receives a notification (`LogMoved`) when a value of this
        state changes for the first time after the read. An unchanged partition therefore needs no message.
Rule 3: a broker reads up to the log end offset; a consumer reads up to the high watermark, or up to the last stable
        offset if it reads committed data only (broker.md 3.7, 3.8).
Rule 4: a follower serves only consumers, from Fetch 11 on (KIP-392).
Rule 5: until the high watermark has reached the start of the leader's epoch, a consumer's lookup of the latest offset
        gets an error (KIP-207).

Kafka: the fields of `Partition`, `readRecords`, `fetchOffsetForTimestamp`; requests that wait are `DelayedProduce` and
`DelayedDeleteRecords`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import groupby
from typing import NamedTuple, cast

from actors.core.broker import partition_effects
from actors.core.broker.leader import CompleteProduce, Leader, ToDo, WriteIsr, epoch_verdict
from actors.core.broker.partition_effects import Address, Send
from actors.core.broker.replica_log import ReplicaLog
from actors.core.broker.replica_role import FOLLOWER, LEADER, STOPPED, ReplicaRole, health_flags
from actors.core.broker.state_changes import changing_isr
from actors.core.broker.verification import TransactionVerification
from messages import errors, partition
from messages.apis import fetch
from messages.apis.delete_records import DeletedRecords
from messages.apis.describe_producers import DescribedProducer, DescribedProducers
from messages.apis.list_offsets import EARLIEST_LOCAL, LATEST_TIERED, SINCE, ListedOffset, ListOffsetsRequest
from messages.apis.offset_for_leader_epoch import EpochEnd
from messages.broker import LogFailed, PartitionContext, PartitionHealth
from messages.cluster import NO_EPOCH, TopicPartition
from messages.log_results import RecordsRead
from messages.partition import (
    ContinueSearch,
    EpochEndFound,
    FindEpochEnd,
    FindOffset,
    FindProducers,
    LogSettings,
    LogTrimmed,
    OffsetFound,
    ProducersFound,
    ReadLog,
    TrimLog,
    log_read,
)
from messages.probes import probe
from messages.records import EARLIEST, LATEST
from messages.vocabulary import evolve

HIGH_WATERMARK = -1
"""The offset in a request that means the high watermark."""


class DelayedDeleteRecords(NamedTuple):
    """A DeleteRecords request that waits until all replicas have deleted the records (broker.md 9.7 row 95).

    Only records of topics with `cleanup.policy=delete` are deleted, and at most up to the high watermark. The low
    watermark is the least log start offset of all replicas. The response follows when the low watermark has reached the
    offset of the request. If the request's deadline (seconds of the node's clock) passes or the leadership ends first,
    the response has an error code.
    """

    sender: Address
    request: TrimLog
    deadline: float


def delete_verdict(offset: int, is_leader: bool, deletes: bool, high_watermark: int) -> int:
    """Return NONE if a request may delete the records before `offset`, otherwise the error code.

    `deletes` is whether the topic's cleanup.policy contains `delete`.
    """
    if not is_leader:
        return errors.NOT_LEADER_OR_FOLLOWER
    if not deletes:
        return errors.POLICY_VIOLATION
    return errors.NONE if 0 <= offset <= high_watermark else errors.OFFSET_OUT_OF_RANGE


def low_watermark(log: ReplicaLog, leader: Leader, alive: Collection[int]) -> int:
    """Return the least log start offset of the replicas on these brokers."""
    return min((log.start, *[each.log_start_offset for replica, each in leader.followers.items() if replica in alive]))


def deletion_verdict(request: TrimLog, deadline: float, log_start: int, low: int, now: float) -> int | None:
    """Return the response's error code (the code NONE means success), or None while the request waits."""
    if low >= (log_start if request.offset == HIGH_WATERMARK else request.offset):
        return errors.NONE
    return errors.REQUEST_TIMED_OUT if deadline <= now else None


def delete_response(
    partition: TopicPartition, sender: Address, request: TrimLog, error_code: int, low: int = -1
) -> Send:
    """Return the response to a DeleteRecords request."""
    return Send(sender, LogTrimmed(request.request, request.index, DeletedRecords(partition, error_code, low)))


log = logging.getLogger("kafka.cluster.Partition")

Verifying = TransactionVerification[tuple[partition_effects.Address, partition.AppendBatch]]

_NO_ROLE = ReplicaRole(TopicPartition("", -1), -1)
_DEFAULTS = partition.LogSettings()

NOTHING: tuple[partition_effects.Send, ...] = ()

WALL_MS = partition_effects.CallAdapter("time", "wall_ms", ())
"""Read the wall clock, in ms."""


class HostedReplica:
    """The state of one hosted replica."""

    __slots__ = (
        *("address", "alarm", "delayed_deletes", "future", "health_flags", "host", "isr_writes", "leader"),
        *("log", "look_at", "reader", "role", "settings", "topic_id", "verification"),
    )

    def __init__(self) -> None:
        self.address: partition_effects.Address = None
        """The address of the partition's actor, for replies."""
        self.role = _NO_ROLE
        self.topic_id = ""
        """The topic id that the log keeps; "" if none is known."""
        self.settings = _DEFAULTS
        self.host: PartitionContext
        """The addresses of other actors; set by the first order."""
        self.log = ReplicaLog()
        self.leader: Leader | None = None
        """The followers, the ISR and the delayed produces while this replica leads."""
        self.delayed_deletes: tuple[DelayedDeleteRecords, ...] = ()
        self.verification: Verifying | None = None
        """The transactions of producers while this replica leads; None before the first transaction."""
        self.health_flags: tuple[str, ...] = ()
        """The health flags last sent to the replica manager."""
        self.reader: tuple[partition_effects.Address, partition.LogState, partition.LogState] | None = None
        """The last reader of the log, its state at that read, and the changes sent since (rule 2)."""
        self.future = ""
        """The folder to which the log is being copied; "" if the log does not move."""
        self.isr_writes = 0
        """ISR writes without an outcome, those of earlier leaderships included."""
        self.look_at: float | None = None
        """The time of the next check of the followers."""
        self.alarm: float | None = None
        """The next deadline of a waiting request."""

    def refusal(self, error_code: int) -> int:
        """Return the code of a refused request: 56 instead of 6 while the log lacks committed records."""
        return (
            errors.KAFKA_STORAGE_ERROR
            if error_code == errors.NOT_LEADER_OR_FOLLOWER and self.log.lacks_committed
            else error_code
        )

    def next_check(self, leader: Leader, now: float) -> float | None:
        """Return when to check the followers next; None if no check needs to be scheduled now."""
        if self.look_at is not None:
            return None
        after = leader.check_after(now)
        if after is not None:
            half = self.settings.lag / 2
            self.look_at = (after // half + 1) * half
        return self.look_at

    def carry_out(self, leader: Leader, now: float, reminds: bool = True) -> Iterable[partition_effects.Effect]:
        """Return the effects that the leader's state requires.

        Usually the leader has no steps to carry out. Then the result is a tuple, and no generator is created.

        Args:
            leader: The leader's state.
            now: Seconds of the node's clock.
            reminds: Whether to schedule the check of the followers too.
        """
        to_do = leader.take()
        if to_do or self.log.moved:
            return self._carry_out(leader, to_do, now, reminds)
        return self._after_change(leader, now, reminds)

    def _carry_out(
        self, leader: Leader, to_do: tuple[ToDo, ...], now: float, reminds: bool
    ) -> partition_effects.Effects[None]:
        yield from self.log.note_high_watermark()
        yield from _complete_produces(step for step in to_do if isinstance(step, CompleteProduce))
        for step in to_do:
            if isinstance(step, WriteIsr):
                yield from self._write_isr(leader, step, now)
        yield from self._after_change(leader, now, reminds)

    def _after_change(self, leader: Leader, now: float, reminds: bool) -> Iterable[partition_effects.Effect]:
        """Return the effects that set the next deadline, notify the reader, and schedule the check of the followers."""
        effects: tuple[partition_effects.Effect, ...] = NOTHING
        if leader is self.leader:
            deadline = leader.next_deadline
            if deadline is not None:
                effects += self.wake(deadline)
            if self.reader is not None:
                effects += self.log_moved()
            if reminds and self.look_at is None:
                look_at = self.next_check(leader, now)
                if look_at is not None:
                    effects += (
                        partition_effects.Send(
                            self.host.isr_keeper, partition.ScheduleFollowerCheck(look_at, (self.address,))
                        ),
                    )
        return effects

    def _write_isr(self, leader: Leader, write: WriteIsr, now: float) -> partition_effects.Effects[None]:
        role, grows = self.role, len(write.isr) > len(leader.isr)
        moves = role.adding_replicas or role.removing_replicas
        if grows:
            probe("ISR expands while a reassignment is under way" if moves else "ISR expands")
        else:
            probe("ISR shrinks while a reassignment is under way" if moves else "ISR shrinks")
        self.log_change(changing_isr(leader, write.isr, now, (yield WALL_MS)))
        self.isr_writes += 1
        epochs = role.broker_id, role.leader_epoch, role.controller_epoch
        lag = () if grows else (leader.laggards(write.isr, now), leader.log.end, leader.lag)
        yield partition_effects.Send(
            self.host.isr_keeper,
            partition.ChangeIsr(role.partition, write.number, *epochs, write.isr, write.zk_version, grows, *lag),
        )

    def log_state(self) -> partition.LogState:
        """Return the log's state for readers."""
        role, log = self.role, self.log
        offsets = log.start, log.high_watermark, log.last_stable_offset, log.end
        return tuple.__new__(partition.LogState, (role.leader_epoch, role.name == LEADER, *offsets))

    def log_moved(self) -> tuple[partition_effects.Send, ...]:
        """Return a LogMoved if the log's state has a new difference from the reader's last read (rule 2).

        A value is a new difference if it was still equal to the last read in the state last sent to the reader.
        """
        if self.reader is None:
            return NOTHING
        reader, read, last_sent = self.reader
        state = self.log_state()
        if state == last_sent or not any(
            now != then and known == then for now, then, known in zip(state, read, last_sent, strict=True)
        ):
            return NOTHING
        self.reader = reader, read, state
        return (partition_effects.Send(reader, partition.LogMoved(self.role.partition, state)),)

    def changed_health(self) -> Iterable[partition_effects.Send]:
        """Notify the replica manager of changed health flags."""
        found = self.find_health_flags()
        if found == self.health_flags:
            return NOTHING
        self.health_flags = found
        return (partition_effects.Send(self.host.manager, PartitionHealth(self.role.partition, found)),)

    def find_health_flags(self) -> tuple[str, ...]:
        """Return the health flags (such as under-replicated) of a partition that is led here."""
        leader = self.leader
        return () if leader is None else health_flags(self.role, leader.isr, leader.min_isr)

    def complete_deletes(
        self, leader: Leader, now: float
    ) -> Iterable[partition_effects.Send | partition_effects.WakeAt]:
        """Respond to DeleteRecords requests that no longer wait."""
        if not self.delayed_deletes:
            return NOTHING
        effects = list[partition_effects.Send | partition_effects.WakeAt]()
        waiting, self.delayed_deletes = self.delayed_deletes, ()
        for delayed in waiting:
            sender, request, deadline = delayed
            low = low_watermark(self.log, leader, request.alive)
            error_code = deletion_verdict(request, deadline, self.log.start, low, now)
            if error_code is not None:
                reached = low if error_code == errors.NONE else -1
                effects.append(delete_response(self.role.partition, sender, request, error_code, reached))
            else:
                self.delayed_deletes += (delayed,)
                effects += self.wake(deadline)
        return effects

    def log_change(self, text: str) -> None:
        """Write a line to the node's log, with the partition's name."""
        log.info("[Partition %s broker=%d] %s", self.role.partition, self.role.broker_id, text)

    def wake(self, at: float) -> tuple[partition_effects.WakeAt, ...]:
        """Return the effect that checks the deadlines at this time; none if an earlier check is set."""
        if self.alarm is not None and self.alarm <= at:
            return ()
        self.alarm = at
        return (partition_effects.WakeAt(at),)

    def log_failed(self, error: partition_effects.StorageError) -> partition_effects.Effects[int]:
        """Notify the replica manager of a disk error (rule 1); return the error code of the operation."""
        if error.failure:
            yield partition_effects.Send(self.host.manager, LogFailed(self.role.partition, error.failure))
        return errors.KAFKA_STORAGE_ERROR


def _complete_produces(released: Iterable[CompleteProduce]) -> Iterable[partition_effects.Send]:
    """Respond to delayed produces."""
    for sender, of_sender in groupby(released, lambda release: release.token[0]):
        done = []
        for release in of_sender:
            _, request, index, result = release.token
            if release.error_code != result.error_code:
                result = evolve(result, error_code=release.error_code)
            done.append(partition.BatchAppended(request, index, result))
        yield partition_effects.send((sender, partition.batches_appended(tuple(done))))


# -------------------------------------------------------------------------------------------------- reads

FOLLOWERS_SERVE_SINCE = 11
"""The Fetch version from which consumers may read from followers."""
NOT_AVAILABLE_SINCE = 5
"""The ListOffsets version that has OFFSET_NOT_AVAILABLE."""


def fetch_verdict(message: ReadLog, role: ReplicaRole, leader: Leader | None, settings: LogSettings) -> int:
    """Return NONE, or the error code of a fetch, as determined by its leader epoch, replica id and version (rule 4)."""
    is_follower = message.replica_id not in (fetch.CONSUMER, role.broker_id)
    error_code = epoch_verdict(message.part.current_leader_epoch, role.leader_epoch)
    if error_code == errors.NONE and leader is None:
        follows = role.name in (FOLLOWER, STOPPED)
        served = not is_follower and follows and message.version >= FOLLOWERS_SERVE_SINCE
        error_code = errors.NONE if served else errors.NOT_LEADER_OR_FOLLOWER
    if error_code == errors.NONE and is_follower and leader is not None and message.replica_id not in leader.followers:
        error_code = errors.UNKNOWN_LEADER_EPOCH  # as Kafka 3.9.1 responds to an unassigned replica
    if error_code == errors.NONE and message.version < fetch.ZSTD_SINCE and settings.compression_type == "zstd":
        error_code = errors.UNSUPPORTED_COMPRESSION_TYPE
    if (
        error_code == errors.NONE
        and message.version < fetch.FORMAT_2_SINCE
        and not settings.downconversion
        and settings.message_format > fetch.newest_format(message.version)
    ):
        error_code = errors.UNSUPPORTED_VERSION
    return error_code


def read_limit(log: ReplicaLog, replica_id: int, committed: bool) -> int:
    """Return the offset up to which a reader may read (rule 3)."""
    if replica_id != fetch.CONSUMER:
        return log.end
    return log.last_stable_offset if committed else log.high_watermark


def without_records(
    message: ReadLog, role: ReplicaRole, leader: Leader | None, log: ReplicaLog, limit: int
) -> fetch.FetchedPartition | None:
    """Return the result of a fetch that needs no read of the log; None if the log must be read (up to `limit`)."""
    part, offset, nearer = message.part, message.part.fetch_offset, fetch.NO_REPLICA
    if message.near and leader is not None and role.broker_id not in message.near:
        nearer = leader.preferred_read_replica(message.near, offset)
    if nearer == fetch.NO_REPLICA:
        if not log.start <= offset <= log.end:
            return fetch.FetchedPartition(part.partition, errors.OFFSET_OUT_OF_RANGE)
        held_back = message.throttled and leader is not None and message.replica_id not in leader.isr
        if offset < limit and part.partition_max_bytes < 0:
            return fetch.FetchedPartition(
                part.partition, errors.UNKNOWN_SERVER_ERROR
            )  # as Kafka; pread would fail as a disk does
        if offset < limit and not held_back and (message.max_bytes or message.at_least_one):
            return None
    aborted = () if message.isolation_level == fetch.READ_COMMITTED else None
    offsets = log.high_watermark, log.last_stable_offset, log.start
    return fetch.fetched_partition(part.partition, errors.NONE, *offsets, aborted, preferred_read_replica=nearer)


def refused_queries(request: ListOffsetsRequest) -> dict[int, int]:
    """Return the error codes of queries that are refused without a look at their partition, by index.

    A partition must not be named twice, and a special value must be one of the request's version.
    """
    times = Counter([query.partition for query in request.partitions])
    found = {}
    for index, query in enumerate(request.partitions):
        if times[query.partition] > 1:
            found[index] = errors.INVALID_REQUEST
        elif query.timestamp < 0 and request.version < SINCE.get(query.timestamp, request.version + 1):
            found[index] = errors.UNSUPPORTED_VERSION
    return found


def listed_offset(
    message: FindOffset, role: ReplicaRole, leader: Leader | None, log: ReplicaLog, message_format: int
) -> ListedOffset | None:
    """Return the offset of a special value, or an error code (rule 5); None for a search of the log.

    A log with a `message_format` below 2 has no leader epochs, and format 0 has no times.
    """
    query = message.query
    error_code = epoch_verdict(query.current_leader_epoch, role.leader_epoch)
    if error_code == errors.NONE and leader is None:
        error_code = errors.NOT_LEADER_OR_FOLLOWER
    if error_code != errors.NONE or leader is None:
        return ListedOffset(query.partition, error_code)
    if query.timestamp == LATEST_TIERED:
        return ListedOffset(query.partition, errors.NONE)
    if query.timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = role.leader_epoch if message_format == 2 else NO_EPOCH
        return ListedOffset(query.partition, errors.NONE, -1, log.start, epoch)
    if query.timestamp == LATEST:
        limit = read_limit(log, message.replica_id, message.isolation_level == fetch.READ_COMMITTED)
        return not_available(message, leader) or ListedOffset(
            query.partition, errors.NONE, -1, limit, role.leader_epoch
        )
    return None if message_format else ListedOffset(query.partition, errors.UNSUPPORTED_FOR_MESSAGE_FORMAT)


def not_available(message: FindOffset, leader: Leader) -> ListedOffset | None:
    """Return the error for a consumer that must not receive the last offset yet (rule 5); None if it may."""
    if message.replica_id != fetch.CONSUMER or leader.log.high_watermark >= leader.epoch_start:
        return None
    error_code = errors.OFFSET_NOT_AVAILABLE if message.version >= NOT_AVAILABLE_SINCE else errors.LEADER_NOT_AVAILABLE
    return ListedOffset(message.query.partition, error_code)


def read_log(
    message: ReadLog, role: ReplicaRole, log: ReplicaLog, limit: int
) -> partition_effects.Effects[RecordsRead]:
    """Read the log for a fetch, up to `limit`."""
    part = message.part
    wanted = part.fetch_offset, min(part.partition_max_bytes, message.max_bytes), limit, message.at_least_one
    if message.isolation_level == fetch.READ_COMMITTED:
        return log.read_committed(*wanted)
    return log.read(*wanted, message.replica_id != role.broker_id)


def with_records(message: ReadLog, log: ReplicaLog, records: RecordsRead) -> fetch.FetchedPartition:
    """Return the result of a fetch whose log was read."""
    error_code, body, found = records
    if error_code != errors.NONE:
        return fetch.FetchedPartition(message.part.partition, error_code)
    committed = message.isolation_level == fetch.READ_COMMITTED
    aborted = tuple([fetch.AbortedTransaction(*each) for each in found]) if committed else None
    offsets = log.high_watermark, log.last_stable_offset, log.start
    return fetch.fetched_partition(message.part.partition, errors.NONE, *offsets, aborted, body=body)


def read(
    partition: HostedReplica, message: ReadLog, sender: partition_effects.Address, now: float
) -> partition_effects.Effects[None]:
    """Read for a client or a follower; a follower's fetch also updates the follower's state at the leader.

    A coordinator on the same broker also reads, but is not notified of later changes.
    """
    replica_id, role, leader, log = message.replica_id, partition.role, partition.leader, partition.log
    if replica_id != role.broker_id:
        partition.reader = None  # the response to this fetch shows the changes, so the reader needs no notification
    error_code = partition.refusal(fetch_verdict(message, role, leader, partition.settings))
    if message.topic_id and partition.topic_id and message.topic_id != partition.topic_id:
        error_code = errors.INCONSISTENT_TOPIC_ID
    if error_code == errors.NONE:
        limit = read_limit(log, replica_id, message.isolation_level == fetch.READ_COMMITTED)
        try:
            result = None
            if message.part.last_fetched_epoch != NO_EPOCH:
                result = yield from _compare_epochs(partition, message)
            if result is None:
                result = without_records(message, role, leader, log, limit)
            if result is None:
                result = with_records(message, log, (yield from read_log(message, role, log, limit)))
        except partition_effects.StorageError as error:
            result = fetch.FetchedPartition(message.part.partition, (yield from partition.log_failed(error)))
    else:
        result = fetch.FetchedPartition(message.part.partition, error_code)
    if replica_id == role.broker_id:
        yield partition_effects.send((sender, log_read(message.request, result, partition.log_state())))
        return
    in_sync, adding = True, False
    if leader is not None and replica_id != fetch.CONSUMER:
        if result.error_code == errors.NONE and result.diverging_epoch is None:
            yield from _update_follower(partition, message, leader, now)
        in_sync, adding = leader.is_settled(replica_id), replica_id in role.adding_replicas
    state = partition.log_state()
    partition.reader = sender, state, state
    yield partition_effects.send((sender, log_read(message.request, result, state, in_sync, adding)))


def _compare_epochs(
    partition: HostedReplica, message: ReadLog
) -> partition_effects.Effects[fetch.FetchedPartition | None]:
    """Compare the reader's last epoch with this log; return None if the reader has the records of this log (KIP-595).

    Kafka: `Partition.readRecords`.
    """
    part, log = message.part, partition.log
    if partition.leader is not None:
        if part.last_fetched_epoch == partition.role.leader_epoch and log.start <= part.fetch_offset <= log.end:
            return None  # the usual case: the epoch ends with the log
        yield from log.begin_first_epoch(partition.role.leader_epoch)
    epoch, end = yield from log.epoch_end(part.last_fetched_epoch)
    if epoch < 0 or part.fetch_offset < log.start:
        return fetch.FetchedPartition(part.partition, errors.OFFSET_OUT_OF_RANGE)
    if epoch >= part.last_fetched_epoch and end >= part.fetch_offset:
        return None
    aborted = () if message.isolation_level == fetch.READ_COMMITTED else None
    offsets = log.high_watermark, log.last_stable_offset, log.start
    diverging = fetch.DivergingEpoch(epoch, end)
    return fetch.FetchedPartition(part.partition, errors.NONE, *offsets, aborted, diverging_epoch=diverging)


def _update_follower(
    partition: HostedReplica, message: ReadLog, leader: Leader, now: float
) -> partition_effects.Effects[None]:
    """Update what the leader stores about a follower, from the values of the follower's fetch."""
    part, replica_id = message.part, message.replica_id
    if message.idle_until >= 0:
        leader.caught_up(replica_id, message.idle_until)
    start, end = part.log_start_offset, partition.log.end
    leader.handle_fetch(replica_id, part.fetch_offset, start, end, now, alive=message.alive)
    yield from partition.carry_out(leader, now)
    yield from partition.complete_deletes(leader, now)


def find_offset(
    partition: HostedReplica, message: FindOffset, sender: partition_effects.Address, now: float
) -> partition_effects.Effects[None]:
    """Find the log's first offset, its last offset, or the offset for a time (broker.md 3.8)."""
    return _search(partition, message, sender, 0) if message.version else _find_offsets(partition, message, sender)


def _find_offsets(
    partition: HostedReplica, message: FindOffset, asker: partition_effects.Address
) -> partition_effects.Effects[None]:
    """Find the offsets for ListOffsets 0, for a consumer up to the high watermark.

    Kafka: `Partition.legacyFetchOffsetsForTimestamp`.
    """
    query, log = message.query, partition.log
    error_code = partition.refusal(errors.NONE if partition.leader is not None else errors.NOT_LEADER_OR_FOLLOWER)
    offsets: tuple[int, ...] = ()
    if error_code == errors.NONE:
        try:
            offsets = yield from log.offsets_before(query.timestamp, query.max_num_offsets)
        except partition_effects.StorageError as error:
            error_code = yield from partition.log_failed(error)
    if message.replica_id == fetch.CONSUMER and offsets and offsets[0] > log.high_watermark:
        offsets = (log.high_watermark, *(each for each in offsets if each <= log.high_watermark))
    result = ListedOffset(query.partition, error_code, old_style_offsets=offsets)
    yield partition_effects.Send(asker, OffsetFound(message.request, message.index, result))


def search_on(
    partition: HostedReplica, message: ContinueSearch, sender: partition_effects.Address, now: float
) -> partition_effects.Effects[None]:
    """Continue a search by time; other messages are handled between the steps of a search."""
    return _search(partition, message.find, message.asker, message.search)


def _search(
    partition: HostedReplica, message: FindOffset, asker: partition_effects.Address, search: int
) -> partition_effects.Effects[None]:
    leader, query, log = partition.leader, message.query, partition.log
    found = listed_offset(message, partition.role, leader, log, partition.settings.message_format)
    if found is not None or leader is None:
        found = found and evolve(found, error_code=partition.refusal(found.error_code))
        if search:
            yield partition_effects.CallAdapter("logs", "end_search", (search,))
    else:
        limit = read_limit(log, message.replica_id, message.isolation_level == fetch.READ_COMMITTED)
        try:
            record = yield from log.find_time(query.timestamp, limit, search)
        except partition_effects.StorageError as error:
            found = ListedOffset(query.partition, (yield from partition.log_failed(error)))
        else:
            if record.search:
                yield partition_effects.Send(partition.address, ContinueSearch(message, asker, record.search))
                return
            at = record.time, record.offset, record.leader_epoch
            found = (not_available(message, leader) if record.offset < 0 else None) or ListedOffset(
                query.partition, errors.NONE, *at
            )
    yield partition_effects.Send(asker, OffsetFound(message.request, message.index, cast("ListedOffset", found)))


def find_epoch_end(
    partition: HostedReplica, message: FindEpochEnd, sender: partition_effects.Address, now: float
) -> partition_effects.Effects[None]:
    """Find the end offset of a leader epoch."""
    query = message.query
    error_code = epoch_verdict(query.current_leader_epoch, partition.role.leader_epoch)
    if error_code == errors.NONE and partition.leader is None:
        error_code = partition.refusal(errors.NOT_LEADER_OR_FOLLOWER)
    result = EpochEnd(query.partition, error_code)
    if error_code == errors.NONE:
        try:
            yield from partition.log.begin_first_epoch(partition.role.leader_epoch)
            result = EpochEnd(query.partition, errors.NONE, *(yield from partition.log.epoch_end(query.leader_epoch)))
        except partition_effects.StorageError as error:
            result = EpochEnd(query.partition, (yield from partition.log_failed(error)))
    yield partition_effects.Send(sender, EpochEndFound(message.request, message.index, result))


def find_producers(
    partition: HostedReplica, message: FindProducers, sender: partition_effects.Address, now: float
) -> partition_effects.Effects[None]:
    """Describe the producers of the log, on a follower too (transactions.md 1.8)."""
    states = tuple([DescribedProducer(*row) for row in (yield from partition.log.producers())])
    found = DescribedProducers(message.partition, errors.NONE, None, states)
    yield partition_effects.Send(sender, ProducersFound(message.request, message.index, found))
