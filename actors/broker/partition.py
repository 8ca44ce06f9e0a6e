"""PartitionActor: one hosted partition. It keeps the replica's role and owns the directory of its log.

The rules are `actors.core.broker.partition`'s. A disk error makes the order fail with code 56 and leaves the role as it
was; what becomes of the log directory is the replica manager's to decide.
"""

from __future__ import annotations

from collections.abc import Callable

from thespian.actors import ActorAddress

from actors.core.broker.partition import (
    Partition,
    is_superseded,
    make_follower,
    make_leader,
    role_verdict,
    stop_verdict,
)
from actors.runtime import Answerer
from actors.storage.log_directories import deleted_path
from messages.broker import (
    BecomeFollower,
    BecomeLeader,
    HostPartition,
    LogPlace,
    PartitionStopped,
    RoleTaken,
    StopPartition,
)
from messages.errors import KAFKA_STORAGE_ERROR, NONE
from messages.requests import LeaderAndIsrPartitionState
from messages.vocabulary import Message

Transition = Callable[[Partition, LeaderAndIsrPartitionState], tuple[Partition, bool]]


class PartitionActor(Answerer):
    """Answers every Ask of the replica manager; see the module."""

    def __init__(self) -> None:
        super().__init__()
        self._known: Partition
        self._log_path = ""

    def receiveMsg_HostPartition(self, message: HostPartition, sender: ActorAddress) -> None:
        """Which replica this is."""
        self._known = Partition(message.partition, message.broker_id)

    def answer(self, question: Message) -> Message:
        """Obey one order of the replica manager."""
        match question:
            case BecomeLeader(state, log):
                return self._take_role(state, log, make_leader)
            case BecomeFollower(state, log, leader_alive):
                return self._take_role(state, log, make_follower if leader_alive else _await_leader)
            case StopPartition(leader_epoch, delete):
                return self._stop(leader_epoch, delete)
        raise TypeError(f"{type(question).__name__} is no order for a partition")

    def _take_role(self, order: LeaderAndIsrPartitionState, log: LogPlace | None, transition: Transition) -> RoleTaken:
        error_code, storage_error, changed = role_verdict(self._known, order), "", False
        if error_code == NONE and (transition is _await_leader or not is_superseded(self._known, order)):
            error_code, storage_error = self._open_log(log)
        if error_code == NONE:
            self._known, changed = transition(self._known, order)
        known = self._known
        return RoleTaken(error_code, changed, known.leads, known.under_replicated, self._log_path != "", storage_error)

    def _open_log(self, log: LogPlace | None) -> tuple[int, str]:
        """Make sure that there is a log. (error code, the disk's words)"""
        if self._log_path:
            return NONE, ""
        if log is None:
            return KAFKA_STORAGE_ERROR, ""
        if log.missing:
            try:
                self.port("disk").make_directory(log.path, False)
            except OSError as error:
                return KAFKA_STORAGE_ERROR, error.strerror or str(error)
        self._log_path = log.path
        return NONE, ""

    def _stop(self, leader_epoch: int, delete: bool) -> PartitionStopped:
        error_code = stop_verdict(self._known, leader_epoch)
        if error_code != NONE or not delete:
            return PartitionStopped(error_code)
        path, self._log_path = self._log_path, ""
        self._known = Partition(self._known.partition, self._known.broker_id)
        if not path:
            return PartitionStopped(NONE)
        deleted = deleted_path(path, self.port("random").uuid_hex())
        try:
            renamed = self.port("disk").rename(path, deleted)
        except OSError as error:
            return PartitionStopped(KAFKA_STORAGE_ERROR, storage_error=error.strerror or str(error))
        return PartitionStopped(NONE, deleted if renamed else "")


def _await_leader(known: Partition, order: LeaderAndIsrPartitionState) -> tuple[Partition, bool]:
    """The leader is not alive: the log stands, the order is not taken over, so it can come again (broker.md 1.4)."""
    return known, False
