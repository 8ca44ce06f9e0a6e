"""Decide a partition's responses to readers: fetches, offset lookups and epoch end lookups (broker.md 3.7, 3.8).

Rule 1: a broker reads up to the log end offset; a consumer reads up to the high watermark, or up to the last stable
        offset if it reads committed data only.
Rule 2: a follower serves only consumers, from Fetch 11 on (KIP-392).
Rule 3: until the high watermark has reached the start of the leader's epoch, a consumer's lookup of the latest offset
        gets an error (KIP-207).

Kafka: `Partition.readRecords`, `fetchOffsetForTimestamp`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from actors.core.broker import partition_effects
from actors.core.broker.hosted_replica import HostedReplica
from actors.core.broker.leader import Leader
from actors.core.broker.produce import epoch_verdict
from actors.core.broker.replica_log import ReplicaLog
from actors.core.broker.replica_role import FOLLOWER, STOPPED, ReplicaRole
from messages import errors
from messages.apis import fetch
from messages.apis.describe_producers import DescribedProducer, DescribedProducers
from messages.apis.list_offsets import EARLIEST, LATEST, ListedOffset
from messages.apis.offset_for_leader_epoch import EpochEnd
from messages.partition import (
    ContinueSearch,
    EpochEndFound,
    FindEpochEnd,
    FindOffset,
    FindProducers,
    LogSettings,
    OffsetFound,
    ProducersFound,
    ReadLog,
    log_read,
)
from messages.records import Body
from messages.vocabulary import changed

FOLLOWERS_SERVE_SINCE = 11
"""The Fetch version from which consumers may read from followers."""
ZSTD_SINCE = 10
"""The Fetch version from which a topic whose `compression.type` is zstd is served."""
NOT_AVAILABLE_SINCE = 5
"""The ListOffsets version that has OFFSET_NOT_AVAILABLE."""


def fetch_verdict(message: ReadLog, role: ReplicaRole, leader: Leader | None, settings: LogSettings) -> int:
    """Return NONE, or the error code of a fetch, as determined by its leader epoch, replica id and version (rule 2)."""
    is_follower = message.replica_id not in (fetch.CONSUMER, role.broker_id)
    error_code = epoch_verdict(message.part.current_leader_epoch, role.leader_epoch)
    if error_code == errors.NONE and leader is None:
        follows = role.name in (FOLLOWER, STOPPED)
        served = not is_follower and follows and message.version >= FOLLOWERS_SERVE_SINCE
        error_code = errors.NONE if served else errors.NOT_LEADER_OR_FOLLOWER
    if error_code == errors.NONE and is_follower and leader is not None and message.replica_id not in leader.followers:
        error_code = errors.UNKNOWN_LEADER_EPOCH  # as Kafka 3.9.1 responds to an unassigned replica
    if error_code == errors.NONE and message.version < ZSTD_SINCE and settings.compression_type == "zstd":
        error_code = errors.UNSUPPORTED_COMPRESSION_TYPE
    return error_code


def read_limit(log: ReplicaLog, replica_id: int, committed: bool) -> int:
    """Return the offset up to which a reader may read (rule 1)."""
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


def listed_offset(
    message: FindOffset, role: ReplicaRole, leader: Leader | None, log: ReplicaLog
) -> ListedOffset | None:
    """Return the first or last offset, or an error code (rule 3); None for a search by time."""
    query = message.query
    error_code = epoch_verdict(query.current_leader_epoch, role.leader_epoch)
    if error_code == errors.NONE and leader is None:
        error_code = errors.NOT_LEADER_OR_FOLLOWER
    if error_code != errors.NONE or leader is None:
        return ListedOffset(query.partition, error_code)
    if query.timestamp == EARLIEST:
        return ListedOffset(query.partition, errors.NONE, -1, log.start, role.leader_epoch)
    if query.timestamp == LATEST:
        limit = read_limit(log, message.replica_id, message.isolation_level == fetch.READ_COMMITTED)
        return not_available(message, leader) or ListedOffset(
            query.partition, errors.NONE, -1, limit, role.leader_epoch
        )
    return None


def not_available(message: FindOffset, leader: Leader) -> ListedOffset | None:
    """Return the error for a consumer that must not receive the last offset yet (rule 3); None if it may."""
    if message.replica_id != fetch.CONSUMER or leader.log.high_watermark >= leader.epoch_start:
        return None
    error_code = errors.OFFSET_NOT_AVAILABLE if message.version >= NOT_AVAILABLE_SINCE else errors.LEADER_NOT_AVAILABLE
    return ListedOffset(message.query.partition, error_code)


def read_call(message: ReadLog, role: ReplicaRole, log: ReplicaLog, limit: int) -> partition_effects.CallAdapter:
    """Return the effect that reads the log for a fetch, up to `limit`."""
    part = message.part
    wanted = part.fetch_offset, min(part.partition_max_bytes, message.max_bytes), limit, message.at_least_one
    if message.isolation_level == fetch.READ_COMMITTED:
        return log.call("read_committed", *wanted)
    return log.call("read", *wanted, message.replica_id != role.broker_id)


def with_records(
    message: ReadLog, log: ReplicaLog, error_code: int, body: Body, found: Iterable[tuple[int, int]] = ()
) -> fetch.FetchedPartition:
    """Return the result of a fetch whose log was read.

    The last three arguments are what the effect of `read_call` returned.
    """
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
    if error_code == errors.NONE:
        limit = read_limit(log, replica_id, message.isolation_level == fetch.READ_COMMITTED)
        result = without_records(message, role, leader, log, limit)
        if result is None:
            try:
                result = with_records(message, log, *(yield read_call(message, role, log, limit)))
            except partition_effects.StorageError as error:
                result = fetch.FetchedPartition(message.part.partition, (yield from partition.log_failed(error)))
    else:
        result = fetch.FetchedPartition(message.part.partition, error_code)
    if replica_id == role.broker_id:
        yield partition_effects.send((sender, log_read(message.request, result, partition.log_state())))
        return
    in_sync, adding = True, False
    if leader is not None and replica_id != fetch.CONSUMER:
        if result.error_code == errors.NONE:
            yield from _fetched(partition, message, leader, now)
        in_sync, adding = leader.is_settled(replica_id), replica_id in role.adding_replicas
    state = partition.log_state()
    partition.reader = sender, state, state
    yield partition_effects.send((sender, log_read(message.request, result, state, in_sync, adding)))


def _fetched(partition: HostedReplica, message: ReadLog, leader: Leader, now: float) -> partition_effects.Effects[None]:
    """Update what the leader stores about a follower, from the values of the follower's fetch."""
    part, replica_id = message.part, message.replica_id
    if message.idle_until >= 0:
        leader.caught_up(replica_id, message.idle_until)
    start, end = part.log_start_offset, partition.log.end
    leader.fetched(replica_id, part.fetch_offset, start, end, now, alive=message.alive)
    yield from partition.carry_out(leader, now)
    yield from partition.complete_deletes(leader, now)


def find_offset(
    partition: HostedReplica, message: FindOffset, sender: partition_effects.Address, now: float
) -> partition_effects.Effects[None]:
    """Find the log's first offset, its last offset, or the offset for a time (broker.md 3.8)."""
    return _search(partition, message, sender, 0)


def search_on(
    partition: HostedReplica, message: ContinueSearch, sender: partition_effects.Address, now: float
) -> partition_effects.Effects[None]:
    """Continue a search by time; other messages are handled between the steps of a search."""
    return _search(partition, message.find, message.asker, message.search)


def _search(
    partition: HostedReplica, message: FindOffset, asker: partition_effects.Address, search: int
) -> partition_effects.Effects[None]:
    leader, query, log = partition.leader, message.query, partition.log
    found = listed_offset(message, partition.role, leader, log)
    if found is not None or leader is None:
        found = found and changed(found, error_code=partition.refusal(found.error_code))
        if search:
            yield partition_effects.CallAdapter("logs", "end_search", (search,))
    else:
        limit = read_limit(log, message.replica_id, message.isolation_level == fetch.READ_COMMITTED)
        try:
            search, *at = yield log.call("find_time", query.timestamp, limit, search)
        except partition_effects.StorageError as error:
            found = ListedOffset(query.partition, (yield from partition.log_failed(error)))
        else:
            if search:
                yield partition_effects.Send(partition.address, ContinueSearch(message, asker, search))
                return
            found = (not_available(message, leader) if at[1] < 0 else None) or ListedOffset(
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
            yield from partition.log.begin_epoch(partition.role.leader_epoch)
            result = EpochEnd(query.partition, errors.NONE, *(yield from partition.log.epoch_end(query.leader_epoch)))
        except partition_effects.StorageError as error:
            result = EpochEnd(query.partition, (yield from partition.log_failed(error)))
    yield partition_effects.Send(sender, EpochEndFound(message.request, message.index, result))


def find_producers(
    partition: HostedReplica, message: FindProducers, sender: partition_effects.Address, now: float
) -> partition_effects.Effects[None]:
    """Describe the producers of the log, on a follower too (transactions.md 1.8)."""
    rows = (yield partition.log.call("producers")) if partition.log.path else ()
    states = tuple([DescribedProducer(*row) for row in rows])
    found = DescribedProducers(message.partition, errors.NONE, None, states)
    yield partition_effects.Send(sender, ProducersFound(message.request, message.index, found))
