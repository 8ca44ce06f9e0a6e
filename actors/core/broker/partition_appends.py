"""How a partition's leader appends producers' batches and transaction markers (broker.md 3.6).

A batch of a transaction is appended after the transaction coordinator has verified it (`verification`). A marker, or a
batch with acks=all, gets its response when it is committed.

Kafka: `Partition.appendRecordsToLeader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from actors.core.broker.hosted_replica import NOTHING, WALL_MS, HostedReplica
from actors.core.broker.leader import Leader
from actors.core.broker.partition_effects import Address, Effects, Send, StorageError, send
from actors.core.broker.produce import acks_verdict, batch_verdict
from actors.core.broker.verification import RefusedBatches, TransactionVerification
from messages import errors
from messages.apis.produce import ACKS_ALL, ProducedPartition, produced_partition
from messages.partition import (
    FROM_CLIENT,
    AppendBatch,
    AppendBatches,
    AppendMarker,
    AppendMarkers,
    BatchAppended,
    BatchesAppended,
    batches_appended,
)
from messages.probes import probe
from messages.records import NO_PRODUCER_ID
from messages.transactions import TransactionVerified, VerificationRequest, Verify
from messages.vocabulary import AnyMessage

Refused = RefusedBatches[tuple[Address, AppendBatch]]

ANY_TIME = 2**63 - 1
"""A value of `message.timestamp.difference.max.ms` that allows every timestamp."""


def append_batches(partition: HostedReplica, message: AppendBatches, sender: Address, now: float) -> Effects[None]:
    """Append batches; respond now, or when they are committed."""
    done, taken, leader, settings = [], [], partition.leader, partition.settings
    now_ms = 0 if settings.timestamp_difference_max_ms == ANY_TIME else (yield WALL_MS)
    refusals: dict[int, int] = {}
    """Error codes by acks."""
    for batch in message.batches:
        error_code = refusals.get(batch.acks)
        if error_code is None:
            error_code = refusals[batch.acks] = _acks_refused(partition, batch.acks)
        if error_code == errors.NONE:
            refused = batch_verdict(batch, settings, now_ms)
        else:
            refused = ProducedPartition(batch.part.partition, error_code)
        if refused is not None:
            done.append(BatchAppended(batch.request, batch.place, refused))
        elif batch.transactional_id is None or (yield from _is_verified(partition, batch, sender)):
            taken.append(batch)
    if taken and leader is not None:
        done += yield from _append(partition, taken, leader, sender, now)
        yield from partition.carry_out(leader, now)
    if done:
        yield send((sender, batches_appended(tuple(done))))


def append_markers(partition: HostedReplica, message: AppendMarkers, sender: Address, now: float) -> Effects[None]:
    """Append markers that end transactions; respond when they are committed (transactions.md 1.6)."""
    done, leader = [], partition.leader
    for marker in message.markers:
        error_code = _acks_refused(partition, ACKS_ALL)
        if error_code != errors.NONE or leader is None:
            refused = ProducedPartition(partition.role.partition, error_code)
            done.append(BatchAppended(marker.request, marker.place, refused))
        else:
            end = partition.log.end
            done += yield from _append(partition, (marker,), leader, sender, now)
            if partition.verification is not None and partition.log.end > end:
                yield from _refused(partition.verification.ended(marker.producer_id))
    if leader is not None:
        yield from partition.carry_out(leader, now)
    if done:
        yield send((sender, batches_appended(tuple(done))))


def transaction_verified(
    partition: HostedReplica, message: TransactionVerified, sender: Address, now: float
) -> Effects[None]:
    """Append the batches that waited for the coordinator's verification, or refuse them."""
    verification, leader = partition.verification, partition.leader
    if verification is None or leader is None:
        return
    waited, refused = verification.answered(message.number, message.producer_id, message.error_code)
    yield from _refused(refused)
    for waiting, batch in waited:
        [header] = batch.part.records.batches
        code = verification.append_verdict(header.producer_id, header.producer_epoch, header.base_sequence)
        code = code or _acks_refused(partition, batch.acks)
        if code != errors.NONE:
            yield from _refused(RefusedBatches(((waiting, batch),), code))
            continue
        end = partition.log.end
        done = yield from _append(partition, (batch,), leader, waiting, now)
        if partition.log.end > end:
            verification.opened(header.producer_id, header.producer_epoch)
        if done:
            yield Send(waiting, BatchesAppended(tuple(done)))
    yield from partition.carry_out(leader, now)


def _is_verified(partition: HostedReplica, batch: AppendBatch, sender: Address) -> Effects[bool]:
    """Return whether a batch may be appended now; otherwise it waits until its transaction is verified."""
    [header] = batch.part.records.batches
    if partition.verifier is None or not header.is_transactional or header.producer_id == NO_PRODUCER_ID:
        return True
    if partition.verification is None:
        partition.verification = TransactionVerification()
    producer = header.producer_id, header.producer_epoch
    if partition.verification.is_open(*producer):
        return True
    number, refused = partition.verification.wait(*producer, header.base_sequence, (sender, batch))
    if number:
        probe("a transaction is verified")
        asked = VerificationRequest(number, cast("str", batch.transactional_id), *producer, partition.role.partition)
        yield Send(partition.verifier, Verify((asked,)))
    yield from _refused(refused)
    return False


def forget_transactions(partition: HostedReplica) -> Iterable[Send]:
    """Forget the open transactions, and refuse all batches that wait for a verification.

    The caller ends the leadership of this replica or stops the replica.
    """
    if partition.verification is None:
        return NOTHING
    return _refused(RefusedBatches(partition.verification.leadership_ended(), errors.NOT_LEADER_OR_FOLLOWER))


def _append(
    partition: HostedReplica,
    batches: Sequence[AppendBatch] | Sequence[AppendMarker],
    leader: Leader,
    sender: Address,
    now: float,
) -> Effects[list[BatchAppended]]:
    """Append the batches, or the markers, of one request; return the results that do not wait for a commit."""
    log, name, epoch = partition.log, partition.role.partition, partition.role.leader_epoch
    alone, append_time = leader.is_alone, partition.settings.append_time
    entries: Sequence[AnyMessage] = batches
    appending: Iterable[object]
    if entries[0].__class__ is AppendMarker:
        method, appending = "append_marker", entries[0][2:6]
    else:
        method = "append" if entries[0].origin == FROM_CLIENT else "append_as_coordinator"
        appending = [batch.part.records.body for batch in entries]
    try:
        if not log.end:
            yield from log.begin_epoch(epoch)
        end, log.first_unstable, *appended = yield log.call(method, epoch, append_time, alone, *appending)
    except StorageError as error:
        failed = ProducedPartition(name, (yield from partition.log_failed(error)))
        return [BatchAppended(batch.request, batch.place, failed) for batch in batches]
    if end != log.end:
        leader.appended(end, now)
        if alone:
            log.moved = False  # the append has also stored the new high watermark
    done = []
    for batch, (error_code, first, last, time_ms) in zip(entries, appended, strict=True):
        result = produced_partition(name, error_code, first, time_ms, log.start)
        if batch.acks == ACKS_ALL and error_code == errors.NONE:
            leader.wait((sender, batch.request, batch.place, result), last + 1, now + batch.timeout)
        else:
            done.append(tuple.__new__(BatchAppended, (batch.request, batch.place, result)))
    return done


def _acks_refused(partition: HostedReplica, acks: int) -> int:
    """Return NONE, or the error code that refuses an append with this `acks`."""
    leader = partition.leader
    if leader is None:
        return partition.refusal(errors.NOT_LEADER_OR_FOLLOWER)
    return acks_verdict(acks) or leader.may_append(acks)


def _refused(refused: Refused | None) -> Iterable[Send]:
    """Respond to refused batches that waited for a verification."""
    if refused is not None:
        for sender, batch in refused.batches:
            result = ProducedPartition(batch.part.partition, refused.error_code)
            yield Send(sender, BatchesAppended((BatchAppended(batch.request, batch.place, result),)))
