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
Rule 6: a reader is notified of changes of the log's state (`hosted_replica`, rule 2).

Kafka: `Partition`; requests that wait are `DelayedProduce` and `DelayedDeleteRecords` in their purgatories.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import lru_cache

from actors.core.broker import partition_effects, replica_role
from actors.core.broker.delayed_delete_records import HIGH_WATERMARK, DelayedDeleteRecords, delete_verdict, deleted
from actors.core.broker.hosted_replica import HostedReplica
from actors.core.broker.leader import Leader
from actors.core.broker.partition_appends import (
    append_batches,
    append_markers,
    forget_transactions,
    transaction_verified,
)
from actors.core.broker.partition_reads import find_epoch_end, find_offset, find_producers, read, search_on
from actors.core.broker.replica_log import NO_LOG
from actors.core.broker.state_changes import changed_isr
from actors.core.config.log_settings import log_config
from messages import errors, partition
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState
from messages.broker import BecomeFollower, BecomeLeader, PartitionStopped, RoleTaken, StopPartition
from messages.probes import probe
from messages.transactions import TransactionVerified
from messages.vocabulary import AnyMessage

log = logging.getLogger("kafka.cluster.Partition")

Transition = Callable[[replica_role.ReplicaRole, LeaderAndIsrPartitionState], tuple[replica_role.ReplicaRole, bool]]

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
        self.settings = message.settings
        if self.log.path:
            yield self.log.call("configure", log_config(self.settings))
        if self.leader is not None:
            self.leader.configured(self.settings.lag, self.settings.min_insync_replicas, now)
            yield from self.carry_out(self.leader, now)
            yield from self.changed_health()

    def _become_leader(
        self, order: BecomeLeader, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        return self._take_role(order, replica_role.make_leader, now)

    def _become_follower(
        self, order: BecomeFollower, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        return self._take_role(order, replica_role.make_follower if order.leader_alive else _await_leader, now)

    def _take_role(
        self, asked: BecomeLeader | BecomeFollower, transition: Transition, now: float
    ) -> partition_effects.Effects[None]:
        order, host, log = asked.state, asked.host, self.log
        if host is not None:
            self.role = replica_role.no_role(order.partition, host.broker_id)
            self.settings, self.manager = host.settings, host.manager
            self.isr_keeper, self.verifier = host.isr_keeper, host.verifier
        before = self.role
        error_code, storage_error, changed = replica_role.role_verdict(before, order), "", False
        try:
            if (
                error_code == errors.NONE
                and not log.path
                and (transition is _await_leader or not replica_role.is_superseded(before, order))
            ):
                if asked.log is None:
                    error_code = errors.KAFKA_STORAGE_ERROR
                else:
                    config = log_config(self.settings) if host is None else host.log_config
                    yield from log.open(asked.log, config)
            if error_code == errors.NONE and transition is replica_role.make_leader and log.lacks_committed:
                error_code = self._verdict_on_loss(before, order)
            if error_code == errors.NONE:
                self.role, changed = transition(before, order)
                if self.role is not before:
                    yield from self._enter_role(order, now)
        except partition_effects.StorageError as error:
            error_code, storage_error = errors.KAFKA_STORAGE_ERROR, error.failure
        self.health_flags = self.find_health_flags()
        role, look_at = self.role, None if self.leader is None else self.next_check(self.leader, now)
        yield _role_taken(
            *(
                error_code,
                changed,
                role.name == replica_role.LEADER,
                self.health_flags,
                log.path != NO_LOG,
                storage_error,
            ),
            *(log.end, log.high_watermark, log.latest_epoch, role.leader_epoch, look_at),
        )

    def _verdict_on_loss(self, role: replica_role.ReplicaRole, order: LeaderAndIsrPartitionState) -> int:
        """Return NONE if this replica may lead without some committed records, otherwise code 56 (rule 5)."""
        if replica_role.is_superseded(role, order):
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
            log.latest_epoch = (yield log.call("latest_epoch")) if log.end else -1
            return
        if log.end:
            yield log.call("begin_epoch", role.leader_epoch)
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
        yield from forget_transactions(self)
        waiting, self.delayed_deletes = self.delayed_deletes, ()
        for sender, request, _ in waiting:
            yield deleted(self.role.partition, sender, request, errors.NOT_LEADER_OR_FOLLOWER)
        yield from self.log_moved()

    def _stop(
        self, order: StopPartition, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        yield (yield from self._stopped(order, now))

    def _stopped(self, order: StopPartition, now: float) -> partition_effects.Effects[PartitionStopped]:
        error_code = replica_role.stop_verdict(self.role, order.leader_epoch)
        if error_code != errors.NONE:
            return PartitionStopped(error_code, leader_epoch=self.role.leader_epoch)
        if not order.delete:
            if self.leader is not None:
                self.leader.end()
                yield from self.carry_out(self.leader, now)
            yield from forget_transactions(self)
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
            yield deleted(self.role.partition, sender, message, error_code)
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
        log, error_code = self.log, self._fenced(message.leader_epoch)
        if error_code == errors.NONE and message.body.size and message.fetch_offset != log.end:
            error_code = errors.CORRUPT_MESSAGE
        if error_code == errors.NONE:
            try:
                error_code = yield from log.replicate(message)
            except partition_effects.StorageError as error:
                error_code = yield from self.log_failed(error)
            log.move_high_watermark(min(max(message.high_watermark, log.start), log.end))
            yield from log.note_high_watermark()
        yield from self._replicated(sender, message.leader_epoch, error_code)

    def _reconcile(
        self, message: partition.TruncateToEpochEnd, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Truncate the log to the offset at which it and the leader's log diverge (broker.md 4.4)."""
        error_code, ask = self._fenced(message.leader_epoch), -1
        if error_code == errors.NONE:
            try:
                ask = yield from self.log.truncate(message)
            except partition_effects.StorageError as error:
                error_code = yield from self.log_failed(error)
        yield from self._replicated(sender, message.leader_epoch, error_code, ask)

    def _restart(
        self, message: partition.TruncateFullyAndStartAt, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Delete the log's records, none of which are in the leader's log any more, and start at the given offset."""
        error_code = self._fenced(message.leader_epoch)
        if error_code == errors.NONE:
            probe("a follower begins its log anew")
            try:
                yield from self.log.restart(message.offset)
            except partition_effects.StorageError as error:
                error_code = yield from self.log_failed(error)
        yield from self._replicated(sender, message.leader_epoch, error_code)

    def _fenced(self, leader_epoch: int) -> int:
        """Return NONE, or code 74 for data of a leader epoch that this replica does not follow.

        When the partition changes its role or is stopped, its fetcher is stopped only later. So messages of the fetcher
        may arrive after the change.
        """
        if leader_epoch != self.role.leader_epoch or self.role.name != replica_role.FOLLOWER:
            probe("a follower refuses data of another leader epoch")
            return errors.FENCED_LEADER_EPOCH
        return errors.NONE

    def _replicated(
        self, sender: partition_effects.Address, leader_epoch: int, error_code: int, ask: int = -1
    ) -> Iterable[partition_effects.Send]:
        replicated = partition.Replicated(self.role.partition, leader_epoch, error_code, self.log.end, ask)
        return (partition_effects.Send(sender, replicated), *self.log_moved())

    def _isr_changed(
        self, message: partition.IsrChanged, sender: partition_effects.Address, now: float
    ) -> partition_effects.Effects[None]:
        """Process the outcome of an ISR write."""
        self.isr_writes -= 1
        leader = self.leader
        if leader is not None and message.leader_epoch == leader.leader_epoch:
            written = message.zk_version >= 0
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

    def expire(self, now: float) -> partition_effects.Effects[None]:
        """Respond to requests whose deadline has passed."""
        self.alarm = None
        leader = self.leader
        if leader is not None:
            leader.expire(now)
            yield from self.complete_deletes(leader, now)
            yield from self.carry_out(leader, now)


def _await_leader(
    role: replica_role.ReplicaRole, order: LeaderAndIsrPartitionState
) -> tuple[replica_role.ReplicaRole, bool]:
    """Return the unchanged role, and False for "not changed", because the leader is not alive.

    The order's leader epoch is not stored, so a later order with the same epoch still applies (broker.md 1.4).
    """
    return role, False


_HANDLERS: dict[
    type,
    Callable[
        [Partition, AnyMessage, partition_effects.Address, float], partition_effects.Effects[partition_effects.Result]
    ],
] = {
    partition.AppendBatches: append_batches,
    partition.AppendMarkers: append_markers,
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
    StopPartition: Partition._stop,
    TransactionVerified: transaction_verified,
    partition.TrimLog: Partition._delete_records,
}

EVENTS = frozenset(_HANDLERS)
"""The classes of the events that a partition handles."""
