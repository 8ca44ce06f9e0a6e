"""Partition is this broker's replica of a partition, as leader or follower (like Kafka's class of this name).

Rule 1: `handle` takes an event and the time, and yields effects (`partition_effects`). The result of an effect, such as
        an append, is sent back while the same message is handled. No method waits. A request that must wait is stored
        with its deadline: a delayed produce in `leader`, a delayed DeleteRecords in `delayed_deletes`.
Rule 2: every request gets a response, even if the role changes meanwhile or the disk fails.
Rule 3: after a disk error, the client's request or the controller's order fails with code 56. (An order is the part of
        a controller request for one partition.) The replica manager is notified, and takes the whole log directory
        offline.
Rule 4: a response shows the state before the request. If a follower's fetch moves the high watermark, the follower
        receives the new high watermark with its next fetch (broker.md 3.5).
Rule 5: a replica whose log lacks committed records does not lead while the ISR has another member. It refuses the order
        and requests with code 56, and gets the missing records as a follower (`replica_log`, rule 4).
Rule 6: a batch of a transaction is appended after the transaction coordinator has verified it (`verification`). A
        marker, or a batch with acks=all, gets its response when it is committed (broker.md 3.6).
Rule 7: a reader is notified of changes of the log's state (`hosted_replica`, rule 2).

Kafka: `Partition`; requests that wait are `DelayedProduce` and `DelayedDeleteRecords` in their purgatories.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import cast

from actors.core.broker import partition_effects, replica_role
from actors.core.broker.hosted_replica import (
    HIGH_WATERMARK,
    NOTHING,
    WALL_MS,
    DelayedDeleteRecords,
    HostedReplica,
    delete_response,
    delete_verdict,
    find_epoch_end,
    find_offset,
    find_producers,
    read,
    search_on,
)
from actors.core.broker.leader import ANY_TIME, Leader, acks_verdict, batch_verdict, time_limits
from actors.core.broker.log_dirs import directory_of
from actors.core.broker.replica_log import NO_LOG
from actors.core.broker.state_changes import changed_isr
from actors.core.broker.verification import RefusedBatches, TransactionVerification
from actors.core.config.log_settings import log_config
from messages import errors, partition
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState
from messages.apis.produce import ABORTABLE_SINCE, ACKS_ALL, ProducedPartition, produced_partition
from messages.broker import (
    BecomeFollower,
    BecomeLeader,
    LogFileFailed,
    MoveReplica,
    PartitionStopped,
    ReplicaMoved,
    ReplicaMoves,
    RoleTaken,
    StopPartition,
)
from messages.probes import probe
from messages.records import NO_PRODUCER_ID
from messages.transactions import TransactionVerified, VerificationRequest, Verify
from messages.vocabulary import AnyMessage

log = logging.getLogger("kafka.cluster.Partition")

Transition = Callable[[replica_role.ReplicaRole, LeaderAndIsrPartitionState], tuple[replica_role.ReplicaRole, bool]]

COPIED_AT_ONCE = 1 << 20
"""Bytes of a log that are copied to another directory in one turn."""

Refused = RefusedBatches[tuple[partition_effects.Address, partition.AppendBatch]]

_role_taken = lru_cache(256)(RoleTaken)
"""Cached, because most of a hundred thousand orders have equal results."""


class Partition(HostedReplica):
    """This broker's replica of a partition: it handles events and returns their effects."""

    __slots__ = ()

    def handle(self, event: object, sender: partition_effects.Address, now: float) -> partition_effects.Effects[None]:
        """Yield the effects of an event (rule 1).

        If the event is an order (rule 3), the last effect is the reply to the replica manager.

        Raises:
            KeyError: The event has no handler.
        """
        return _HANDLERS[event.__class__](self, event, sender, now)

    def _configure(
        self, message: partition.Configure, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Apply the topic's changed configuration to all later operations."""
        upgrades = self.settings.message_format < message.settings.message_format
        self.settings = message.settings
        if self.log.path:
            yield from self.log.configure(log_config(self.settings))
        if upgrades and self.leader is not None and self.log.end:
            yield from self.log.begin_epoch(self.role.leader_epoch)  # a log of format 0 or 1 has no epochs
        if self.leader is not None:
            self.leader.apply_config(self.settings.lag, self.settings.min_insync_replicas, now)
            yield from self.carry_out(self.leader, now)
            yield from self.changed_health()

    def _become_leader(
        self, order: BecomeLeader, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        return self._take_role(order, replica_role.make_leader, now)

    def _become_follower(
        self, order: BecomeFollower, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        return self._take_role(order, replica_role.make_follower if order.leader_alive else _keep_role, now)

    def _take_role(
        self, asked: BecomeLeader | BecomeFollower, transition: Transition, now: float
    ) -> partition_effects.Effects[None]:
        order, host, log = asked.state, asked.host, self.log
        if host is not None:
            self.role = replica_role.no_role(order.partition, host.broker_id)
            self.host, self.settings = host, host.settings
        before = self.role
        error_code, storage_error, changed = replica_role.role_verdict(before, order), "", False
        if order.leader_epoch == before.leader_epoch and bool(asked.topic_id) != bool(self.topic_id):
            error_code, transition = errors.NONE, _keep_role
        try:
            if (
                error_code == errors.NONE
                and not log.path
                and (transition is _keep_role or not replica_role.is_superseded(before, order))
            ):
                if asked.log is None:
                    error_code = errors.KAFKA_STORAGE_ERROR
                else:
                    config = log_config(self.settings) if host is None else host.log_config
                    yield from log.open(asked.log, config)
            if asked.topic_id and error_code == errors.NONE and log.path and asked.topic_id != self.topic_id:
                error_code = yield from self._assign_topic_id(asked.topic_id)
            if log.lost_before and error_code == errors.NONE and transition is replica_role.make_leader:
                error_code = self._verdict_on_loss(before, order)
            if error_code == errors.NONE:
                self.role, changed = transition(before, order)
                if self.role is not before:
                    yield from self._enter_role(order, now)
        except partition_effects.StorageError as error:
            error_code, storage_error = errors.KAFKA_STORAGE_ERROR, error.failure
        self.health_flags = self.find_health_flags()
        role, look_at = self.role, None if self.leader is None else self.next_check(self.leader, now)
        leads = role.name == replica_role.LEADER
        is_counted = host is None and not changed and role.replicas == before.replicas
        replicas = None if is_counted else len(role.replicas) if leads else 0
        yield _role_taken(
            error_code,
            changed,
            leads,
            self.health_flags,
            log.path != NO_LOG,
            storage_error,
            log.end,
            log.high_watermark,
            log.latest_epoch,
            role.leader_epoch,
            look_at,
            replicas,
        )

    def _assign_topic_id(self, topic_id: str) -> partition_effects.Effects[int]:
        """Let the log keep the topic's id, if logs keep ids; return code 103 if it keeps another one (KIP-516)."""
        if not self.topic_id:
            self.topic_id = yield from self.log.assign_topic_id(topic_id)
        if self.topic_id in ("", topic_id):
            return errors.NONE
        probe("a log of an earlier topic with the same name refuses a role")
        log.error(
            "[Partition %s broker=%d] Topic ID in memory: %s does not match the topic ID for partition received: %s.",
            *(self.role.partition, self.role.broker_id, self.topic_id, topic_id),
        )
        return errors.INCONSISTENT_TOPIC_ID

    def _verdict_on_loss(self, role: replica_role.ReplicaRole, order: LeaderAndIsrPartitionState) -> int:
        """Return NONE if this replica may lead without some committed records, otherwise code 56 (rule 5)."""
        if not self.log.lacks_committed or replica_role.is_superseded(role, order):
            return errors.NONE
        others = [replica for replica in order.isr if replica != role.broker_id]
        lost = *(order.partition, role.broker_id), *(self.log.end, self.log.lost_before)
        if others:
            probe("a replica without committed records refuses to lead")
            log.error("[Partition %s broker=%d] Offsets %d to %d are missing: another replica must lead", *lost)
            return errors.KAFKA_STORAGE_ERROR
        probe("a replica leads without committed records")
        log.error("[Partition %s broker=%d] Offsets %d to %d are lost: no other replica is in sync", *lost)
        self.log.accept_loss()
        return errors.NONE

    def _enter_role(self, order: LeaderAndIsrPartitionState, now: float) -> partition_effects.Effects[None]:
        """Begin, renew or end the leadership after the new role was stored."""
        role, log, leader = self.role, self.log, self.leader
        if role.name != replica_role.LEADER:
            yield from self._end_leadership(now)
            # Records that were replicated since the last look-up have leader epochs. Without a new look-up, a log that
            # had no epoch before would be truncated to its high watermark, which may be below acknowledged records.
            log.latest_epoch = (yield from log.read_latest_epoch()) if log.end else -1
            return
        if log.end:
            yield from log.begin_epoch(role.leader_epoch)
        log.latest_epoch = role.leader_epoch
        known = order.replicas, order.isr, order.zk_version
        if leader is None:
            limits = self.settings.lag, self.settings.min_insync_replicas
            self.leader = Leader(role.broker_id, role.leader_epoch, *known, log, *limits, now)
            if log.moved:
                yield from log.note_high_watermark()
            yield from self.log_moved()
        else:
            leader.renew(role.leader_epoch, *known, now)
            yield from self.carry_out(leader, now, reminds=False)

    def _end_leadership(self, now: float) -> partition_effects.Effects[None]:
        leader, self.leader = self.leader, None
        if leader is not None:
            leader.end()
            yield from self.carry_out(leader, now)
        yield from self._forget_transactions()
        waiting, self.delayed_deletes = self.delayed_deletes, ()
        for sender, request, _ in waiting:
            yield delete_response(self.role.partition, sender, request, errors.NOT_LEADER_OR_FOLLOWER)
        yield from self.log_moved()

    def _stop(
        self, order: StopPartition, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        yield (yield from self._report_stop(order, now))

    def _report_stop(self, order: StopPartition, now: float) -> partition_effects.Effects[PartitionStopped]:
        error_code = replica_role.stop_verdict(self.role, order.leader_epoch)
        if error_code != errors.NONE:
            return PartitionStopped(error_code, leader_epoch=self.role.leader_epoch)
        if not order.delete:
            if self.leader is not None:
                self.leader.end()
                yield from self.carry_out(self.leader, now)
            yield from self._forget_transactions()
            self.role = replica_role.make_stopped(self.role)
            yield from self.log_moved()
            return PartitionStopped(errors.NONE)
        yield from self._end_leadership(now)
        path, self.log.path = self.log.path, NO_LOG
        self.role = replica_role.ReplicaRole(self.role.partition, self.role.broker_id)
        writes_isr = self.isr_writes > 0
        if not path:
            return PartitionStopped(errors.NONE, writes_isr=writes_isr)
        try:
            renamed = yield partition_effects.RenameDeletedLog(path)
        except partition_effects.StorageError as error:
            return PartitionStopped(errors.KAFKA_STORAGE_ERROR, storage_error=error.failure)
        return PartitionStopped(errors.NONE, renamed, writes_isr=writes_isr)

    def _move(
        self, order: MoveReplica, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Begin or end to copy the log to another directory."""
        self.future, failure = "", ""
        if self.log.path and directory_of(order.future) == directory_of(self.log.path):
            pass  # the last move is complete, which the manager does not know yet
        elif self.log.path and order.future:
            try:
                yield from self.log.begin_copy(order.future)
                self.future = order.future
                yield partition_effects.CopyAfter(0.0)
            except partition_effects.StorageError as error:
                failure = error.failure
        elif self.log.path:
            yield from self.log.end_copy()
        yield ReplicaMoves(self.log.path != NO_LOG, failure)

    def _copy(
        self, message: partition.CopyLog, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Copy more of the log. If the copy is complete, it replaces the log, before anything else is appended."""
        log, future = self.log, self.future
        if not (future and log.path):
            return
        try:
            copied = yield from log.copy(COPIED_AT_ONCE)
            if copied.lag > 0:
                if copied.wait_ms:
                    probe("a copy waits because of its rate")
                yield partition_effects.CopyAfter(copied.wait_ms / 1000)
                return
            self.future = ""
            if copied.failure:
                yield partition_effects.Send(self.host.manager, LogFileFailed(f"{future}/log", copied.failure))
            elif copied.lag == 0:
                probe("a copy replaces its log")
                yield from log.note_high_watermark()
                old = yield from log.swap()
                if self.topic_id:
                    yield from log.assign_topic_id(self.topic_id)
                deleted = yield partition_effects.RenameDeletedLog(old)
                yield partition_effects.Send(self.host.manager, ReplicaMoved(self.role.partition, log.path, deleted))
        except partition_effects.StorageError as error:
            self.future = ""
            yield from self.log_failed(error)

    def _delete_records(
        self, message: partition.TrimLog, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Raise the log start offset; respond when all replicas have raised theirs (broker.md 9.7 row 95)."""
        log, leader = self.log, self.leader
        offset = log.high_watermark if message.offset == HIGH_WATERMARK else message.offset
        verdict = delete_verdict(offset, leader is not None, self.settings.deleting, log.high_watermark)
        error_code = self.refusal(verdict)
        if error_code == errors.NONE:
            try:
                yield from log.advance_start(offset)
            except partition_effects.StorageError as error:
                error_code = yield from self.log_failed(error)
        if error_code != errors.NONE or leader is None:
            yield delete_response(self.role.partition, sender, message, error_code)
            return
        yield from self.log_moved()
        self.delayed_deletes += (DelayedDeleteRecords(sender, message, now + message.timeout),)
        yield from self.complete_deletes(leader, now)

    def _expire_log(
        self, message: partition.ExpireLog, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Delete old segments, on a follower too (broker.md 5.5)."""
        if self.log.path:
            try:
                yield from self.log.expire()
                yield from self.log_moved()
            except partition_effects.StorageError as error:
                yield from self.log_failed(error)

    def _replicate(
        self, message: partition.Replicate, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Append the leader's records, and adopt the leader's high watermark (broker.md 4.5)."""
        log, error_code = self.log, self._epoch_error(message.leader_epoch)
        if error_code == errors.NONE and message.body.size and message.fetch_offset != log.end:
            error_code = errors.CORRUPT_MESSAGE
        if error_code == errors.NONE:
            try:
                error_code = yield from log.replicate(message)
            except partition_effects.StorageError as error:
                error_code = yield from self.log_failed(error)
            log.move_high_watermark(min(max(message.high_watermark, log.start), log.end))
            yield from log.note_high_watermark()
        yield from self._answer_fetcher(sender, message, error_code)

    def _reconcile(
        self, message: partition.TruncateToEpochEnd, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Truncate the log to the offset at which it and the leader's log diverge (broker.md 4.4)."""
        error_code, ask = self._epoch_error(message.leader_epoch), -1
        if error_code == errors.NONE:
            try:
                ask = yield from self.log.truncate(message)
            except partition_effects.StorageError as error:
                error_code = yield from self.log_failed(error)
        yield from self._answer_fetcher(sender, message, error_code, ask)

    def _restart(
        self, message: partition.TruncateFullyAndStartAt, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Delete the log's records, none of which are in the leader's log any more, and start at the given offset."""
        error_code = self._epoch_error(message.leader_epoch)
        if error_code == errors.NONE:
            probe("a follower begins its log anew")
            try:
                yield from self.log.restart(message.offset)
            except partition_effects.StorageError as error:
                error_code = yield from self.log_failed(error)
        yield from self._answer_fetcher(sender, message, error_code)

    def _epoch_error(self, leader_epoch: int) -> int:
        """Return NONE, or code 74 for data of a leader epoch that this replica does not follow.

        When the partition changes its role or is stopped, its fetcher is stopped only later. So messages of the fetcher
        may arrive after the change.
        """
        if leader_epoch != self.role.leader_epoch or self.role.name != replica_role.FOLLOWER:
            probe("a follower refuses data of another leader epoch")
            return errors.FENCED_LEADER_EPOCH
        return errors.NONE

    def _answer_fetcher(
        self,
        sender: partition_effects.Address,
        message: partition.Replicate | partition.TruncateToEpochEnd | partition.TruncateFullyAndStartAt,
        error_code: int,
        ask: int = -1,
    ) -> partition_effects.Effects[None]:
        """Answer a fetcher's message, with the newest epoch in the log if the fetcher asks for it."""
        last = None
        if message.with_epoch and error_code == errors.NONE:
            last = yield from self.log.read_latest_epoch()
        yield partition_effects.Send(
            sender,
            partition.Replicated(self.role.partition, message.leader_epoch, error_code, self.log.end, ask, last),
        )
        yield from self.log_moved()

    def _isr_changed(
        self, message: partition.IsrChanged, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Process the outcome of an ISR write."""
        self.isr_writes -= 1
        leader = self.leader
        if leader is not None and message.leader_epoch == leader.leader_epoch:
            written = message.zk_version >= 0
            if message.zk_version != partition.UNRESOLVED:
                leader.isr_written(message.number, message.zk_version if written else None, now)
            self.log_change(changed_isr(leader, written))
            yield from self.carry_out(leader, now)
            yield from self.changed_health()

    def _check_followers(
        self, message: partition.CheckFollowers, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Check the followers, as scheduled."""
        self.look_at = None
        leader = self.leader
        if leader is not None and self.reader is not None and leader.lagging(now):
            yield partition_effects.Send(self.reader[0], partition.QueryIdleFollowers(self.role.partition))
        elif leader is not None:
            leader.tick(now)
            yield from self.carry_out(leader, now)

    def _caught_up(
        self, message: partition.CaughtUp, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Store when each follower was last caught up; then remove lagging followers from the ISR."""
        leader = self.leader
        if leader is not None:
            for replica, at in message.idle_until:
                leader.caught_up(replica, at)
            leader.tick(now)
            yield from self.carry_out(leader, now)

    # ------------------------------------------------------------------------------------------------ appends

    def _append_batches(
        self, message: partition.AppendBatches, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Append batches; respond now, or when they are committed."""
        done, taken, leader, settings = [], [], self.leader, self.settings
        now_ms = 0 if time_limits(settings) == (ANY_TIME, ANY_TIME) else (yield WALL_MS)
        refusals: dict[int, int] = {}
        """Error codes by acks."""
        for batch in message.batches:
            error_code = refusals.get(batch.acks)
            if error_code is None:
                error_code = refusals[batch.acks] = self._acks_refused(batch.acks)
            if error_code == errors.NONE:
                refused = batch_verdict(batch, settings, now_ms)
            else:
                refused = ProducedPartition(batch.part.partition, error_code)
            if refused is not None:
                done.append(partition.BatchAppended(batch.request, batch.place, refused))
            elif batch.transactional_id is None or (yield from self._is_verified(batch, sender)):
                taken.append(batch)
        if taken and leader is not None:
            done += yield from self._append(taken, leader, sender, now)
            yield from self.carry_out(leader, now)
        if done:
            yield partition_effects.send((sender, partition.batches_appended(tuple(done))))

    def _append_markers(
        self, message: partition.AppendMarkers, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Append markers that end transactions; respond when they are committed (transactions.md 1.6)."""
        done, leader = [], self.leader
        for marker in message.markers:
            error_code = self._acks_refused(ACKS_ALL)
            if error_code != errors.NONE or leader is None:
                refused = ProducedPartition(self.role.partition, error_code)
                done.append(partition.BatchAppended(marker.request, marker.place, refused))
            else:
                end = self.log.end
                done += yield from self._append((marker,), leader, sender, now)
                if self.verification is not None and self.log.end > end:
                    yield from _refuse_batches(self.verification.note_end(marker.producer_id))
        if leader is not None:
            yield from self.carry_out(leader, now)
        if done:
            yield partition_effects.send((sender, partition.batches_appended(tuple(done))))

    def _transaction_verified(
        self, message: TransactionVerified, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Append the batches that waited for the coordinator's verification, or refuse them."""
        verification, leader = self.verification, self.leader
        if verification is None or leader is None:
            return
        waited, refused = verification.handle_reply(message.number, message.producer_id, message.error_code)
        yield from _refuse_batches(refused)
        for waiting, batch in waited:
            [header] = batch.part.records.batches
            code = verification.append_verdict(header.producer_id, header.producer_epoch, header.base_sequence)
            code = code or self._acks_refused(batch.acks)
            if code != errors.NONE:
                yield from _refuse_batches(RefusedBatches(((waiting, batch),), code))
                continue
            end = self.log.end
            done = yield from self._append((batch,), leader, waiting, now)
            if self.log.end > end:
                verification.note_open(header.producer_id, header.producer_epoch)
            if done:
                yield partition_effects.Send(waiting, partition.BatchesAppended(tuple(done)))
        yield from self.carry_out(leader, now)

    def _is_verified(
        self, batch: partition.AppendBatch, sender: partition_effects.Address
    ) -> partition_effects.Effects[bool]:
        """Return whether a batch may be appended now; otherwise it waits until its transaction is verified."""
        [header] = batch.part.records.batches
        if self.host.verifier is None or not header.is_transactional or header.producer_id == NO_PRODUCER_ID:
            return True
        if self.verification is None:
            self.verification = TransactionVerification()
        producer = header.producer_id, header.producer_epoch
        if self.verification.is_open(*producer):
            return True
        number, refused = self.verification.wait(*producer, header.base_sequence, (sender, batch))
        if number:
            probe("a transaction is verified")
            asked = VerificationRequest(number, cast("str", batch.transactional_id), *producer, self.role.partition)
            yield partition_effects.Send(self.host.verifier, Verify((asked,)))
        yield from _refuse_batches(refused)
        return False

    def _forget_transactions(self) -> Iterable[partition_effects.Send]:
        """Forget the open transactions, and refuse all batches that wait for a verification.

        The caller ends the leadership of this replica or stops the replica.
        """
        if self.verification is None:
            return NOTHING
        return _refuse_batches(RefusedBatches(self.verification.leadership_ended(), errors.NOT_LEADER_OR_FOLLOWER))

    def _append(
        self,
        batches: Sequence[partition.AppendBatch] | Sequence[partition.AppendMarker],
        leader: Leader,
        sender: partition_effects.Address,
        now: float,
    ) -> partition_effects.Effects[list[partition.BatchAppended]]:
        """Append the batches, or the markers, of one request; return the results that do not wait for a commit."""
        log, name, epoch = self.log, self.role.partition, self.role.leader_epoch
        alone, append_time = leader.is_alone, self.settings.append_time
        entries: Sequence[AnyMessage] = batches
        appending: Iterable[object]
        if entries[0].__class__ is partition.AppendMarker:
            method, appending = "append_marker", entries[0][2:6]
        else:
            method = "append" if entries[0].origin == partition.FROM_CLIENT else "append_as_coordinator"
            appending = [batch.part.records.body for batch in entries]
        try:
            appended = yield from log.append(method, epoch, append_time, alone, appending)
        except partition_effects.StorageError as error:
            failed = ProducedPartition(name, (yield from self.log_failed(error)))
            return [partition.BatchAppended(batch.request, batch.place, failed) for batch in batches]
        if appended.end != log.end:
            leader.handle_append(appended.end, now)
            if alone:
                log.moved = False  # the append has also stored the new high watermark
        done = []
        for batch, (error_code, first, last, time_ms) in zip(entries, appended.batches, strict=True):
            result = produced_partition(name, error_code, first, time_ms, log.start)
            if batch.acks == ACKS_ALL and error_code == errors.NONE:
                leader.wait((sender, batch.request, batch.place, result), last + 1, now + batch.timeout)
            else:
                done.append(tuple.__new__(partition.BatchAppended, (batch.request, batch.place, result)))
        return done

    def _acks_refused(self, acks: int) -> int:
        """Return NONE, or the error code that refuses an append with this `acks`."""
        leader = self.leader
        if leader is None:
            return self.refusal(errors.NOT_LEADER_OR_FOLLOWER)
        return acks_verdict(acks) or leader.may_append(acks)

    # ------------------------------------------------------------------------------------------------ deadlines

    def expire(self, now: float) -> partition_effects.Effects[None]:
        """Respond to requests whose deadline has passed."""
        self.alarm = None
        leader = self.leader
        if leader is not None:
            leader.expire(now)
            yield from self.complete_deletes(leader, now)
            yield from self.carry_out(leader, now)


def _refuse_batches(refused: Refused | None) -> Iterable[partition_effects.Send]:
    """Respond to refused batches that waited for a verification."""
    if refused is not None:
        for sender, batch in refused.batches:
            is_unknown = refused.error_code == errors.TRANSACTION_ABORTABLE and batch.version < ABORTABLE_SINCE
            code = errors.INVALID_TXN_STATE if is_unknown else refused.error_code
            result = ProducedPartition(batch.part.partition, code)
            done = partition.BatchAppended(batch.request, batch.place, result)
            yield partition_effects.Send(sender, partition.BatchesAppended((done,)))


def _keep_role(
    role: replica_role.ReplicaRole, order: LeaderAndIsrPartitionState
) -> tuple[replica_role.ReplicaRole, bool]:
    """Return the unchanged role, and False for "not changed".

    The leader is not alive, or the order tells only a topic's id (KIP-516). A leader epoch of the first is not stored,
    so a later order with the same epoch still applies (broker.md 1.4).
    """
    return role, False


_HANDLERS: dict[
    type,
    Callable[
        [Partition, AnyMessage, partition_effects.Address, float], partition_effects.Effects[partition_effects.Result]
    ],
] = {
    partition.AppendBatches: Partition._append_batches,
    partition.AppendMarkers: Partition._append_markers,
    BecomeFollower: Partition._become_follower,
    BecomeLeader: Partition._become_leader,
    partition.CaughtUp: Partition._caught_up,
    partition.Configure: Partition._configure,
    partition.ExpireLog: Partition._expire_log,
    partition.FindEpochEnd: find_epoch_end,
    partition.FindOffset: find_offset,
    partition.FindProducers: find_producers,
    partition.IsrChanged: Partition._isr_changed,
    partition.CheckFollowers: Partition._check_followers,
    partition.ReadLog: read,
    partition.TruncateToEpochEnd: Partition._reconcile,
    partition.Replicate: Partition._replicate,
    partition.TruncateFullyAndStartAt: Partition._restart,
    partition.ContinueSearch: search_on,
    partition.CopyLog: Partition._copy,
    MoveReplica: Partition._move,
    StopPartition: Partition._stop,
    TransactionVerified: Partition._transaction_verified,
    partition.TrimLog: Partition._delete_records,
}

EVENTS = frozenset(_HANDLERS)
"""The classes of the events that a partition handles."""
