"""HostedReplica holds the state of a hosted replica, and computes the effects of a change of that state.

Rule 1: a disk error makes the controller's order or the client's request fail with error code 56. The replica manager
        is notified, and takes the whole log directory offline.
Rule 2: a reader receives the log's state with the data. It receives a notification (`LogMoved`) when a value of this
        state changes for the first time after the read. An unchanged partition therefore needs no message.

Kafka: the fields of `Partition`; requests that wait are `DelayedProduce` and `DelayedDeleteRecords`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from actors.core.broker import partition_effects
from actors.core.broker.leader import CompleteProduce, Leader, ToDo, WriteIsr
from actors.core.broker.partition_effects import Address, Send
from actors.core.broker.replica_log import ReplicaLog
from actors.core.broker.replica_role import ReplicaRole, health_flags
from actors.core.broker.state_changes import changing_isr
from actors.core.broker.verification import TransactionVerification
from messages import errors, partition
from messages.apis.delete_records import DeletedRecords
from messages.broker import LogFailed, PartitionHealth
from messages.cluster import TopicPartition
from messages.partition import LogTrimmed, TrimLog
from messages.probes import probe
from messages.vocabulary import changed

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


def low_watermark(log: ReplicaLog, leader: Leader) -> int:
    """Return the least log start offset of all replicas."""
    return min((log.start, *[follower.log_start_offset for follower in leader.followers.values()]))


def deletion_verdict(request: TrimLog, deadline: float, log_start: int, low: int, now: float) -> int | None:
    """Return the response's error code (the code NONE means success), or None while the request waits."""
    if low >= (log_start if request.offset == HIGH_WATERMARK else request.offset):
        return errors.NONE
    return errors.REQUEST_TIMED_OUT if deadline <= now else None


def deleted(partition: TopicPartition, sender: Address, request: TrimLog, error_code: int, low: int = -1) -> Send:
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
        *("address", "alarm", "delayed_deletes", "health_flags", "isr_keeper", "isr_writes", "leader", "log"),
        *("look_at", "manager", "reader", "role", "settings", "verification", "verifier"),
    )

    def __init__(self) -> None:
        self.address: partition_effects.Address = None
        """The address of the partition's actor, for replies."""
        self.role = _NO_ROLE
        self.settings = _DEFAULTS
        self.log = ReplicaLog()
        self.leader: Leader | None = None
        """The followers, the ISR and the delayed produces while this replica leads."""
        self.delayed_deletes: tuple[DelayedDeleteRecords, ...] = ()
        self.verification: Verifying | None = None
        """The transactions of producers while this replica leads; None before the first transaction."""
        self.manager: partition_effects.Address = None
        self.isr_keeper: partition_effects.Address = None
        self.verifier: partition_effects.Address = None
        self.health_flags: tuple[str, ...] = ()
        """The health flags last sent to the replica manager."""
        self.reader: tuple[partition_effects.Address, partition.LogState, partition.LogState] | None = None
        """The last reader of the log, its state at that read, and the changes sent since (rule 2)."""
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
        yield from _released(step for step in to_do if isinstance(step, CompleteProduce))
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
                            self.isr_keeper, partition.ScheduleFollowerCheck(look_at, (self.address,))
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
            self.isr_keeper,
            partition.ChangeIsr(role.partition, write.number, *epochs, write.isr, write.zk_version, grows, *lag),
        )

    def log_state(self) -> partition.LogState:
        """Return the log's state for readers."""
        role, log = self.role, self.log
        offsets = log.start, log.high_watermark, log.last_stable_offset, log.end
        return tuple.__new__(partition.LogState, (role.leader_epoch, role.leads, *offsets))

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
        return (partition_effects.Send(self.manager, PartitionHealth(self.role.partition, found)),)

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
        low, effects = low_watermark(self.log, leader), list[partition_effects.Send | partition_effects.WakeAt]()
        waiting, self.delayed_deletes = self.delayed_deletes, ()
        for delayed in waiting:
            sender, request, deadline = delayed
            error_code = deletion_verdict(request, deadline, self.log.start, low, now)
            if error_code is not None:
                reached = low if error_code == errors.NONE else -1
                effects.append(deleted(self.role.partition, sender, request, error_code, reached))
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
            yield partition_effects.Send(self.manager, LogFailed(self.role.partition, error.failure))
        return errors.KAFKA_STORAGE_ERROR


def _released(released: Iterable[CompleteProduce]) -> Iterable[partition_effects.Send]:
    """Respond to delayed produces."""
    for sender, of_sender in groupby(released, lambda release: release.token[0]):
        done = []
        for release in of_sender:
            _, request, index, result = release.token
            if release.error_code != result.error_code:
                result = changed(result, error_code=release.error_code)
            done.append(partition.BatchAppended(request, index, result))
        yield partition_effects.send((sender, partition.batches_appended(tuple(done))))
