"""The state of a hosted partition, and how the controller's requests change it (broker.md 1.2, 1.5, 2.1).

Rule 1: the leader epoch only grows. An order with the epoch already known, or an older one, is stale (code 11).
Rule 2: a request for a partition without a replica on this broker is refused with code 3, and changes nothing.
Rule 3: an order that passes both, but carries an older zkVersion than the one known, is obeyed by doing nothing: the
        znode has moved on, and its newer state is on its way (Kafka 3.9). Not even a missing log is made for it.
Rule 4: a stop is obeyed from the known leader epoch on (Kafka >= 3.4), and always where it names none, or a deletion.

Kafka: `Partition`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from messages.cluster import EPOCH_DURING_DELETE, NO_EPOCH, NO_LEADER, TopicPartition
from messages.error_codes import FENCED_LEADER_EPOCH, NONE, STALE_CONTROLLER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION
from messages.probes import probe
from messages.requests import LeaderAndIsrPartitionState

NO_ROLE = "none"
LEADER = "leader"
FOLLOWER = "follower"
STOPPED = "stopped"
"""The role of a follower that a StopReplica without deletion stopped: it keeps its log, and appends nothing."""

TROUBLES = (
    UNDER_REPLICATED := "underreplicatedpartitions",
    "underminisrpartitioncount",
    "atminisrpartitioncount",
    "reassigningpartitions",
)
"""What may be the matter with a partition, by the gauges that count those (conventions.md 7): fewer in-sync replicas
than there were before a reassignment, fewer than min.insync.replicas, just as many; a reassignment is under way."""

_ALWAYS_OBEYED_STOPS = (EPOCH_DURING_DELETE, NO_EPOCH)


class ReplicaRole(NamedTuple):
    """The role of a hosted replica, as of the last controller request that the replica accepted.

    `controller_epoch` is that of the controller that decided the leadership (it goes into the state znode when this
    leader changes the ISR). `isr` is the leader's alone: a follower's is empty.
    """

    partition: TopicPartition
    broker_id: int
    name: str = NO_ROLE
    leader: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    controller_epoch: int = 0
    zk_version: int = 0
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def leads(self) -> bool:
        """Is this replica the leader?"""
        return self.name == LEADER

    @property
    def remote_replicas(self) -> tuple[int, ...]:
        """The other replicas, in assignment order."""
        return tuple(replica for replica in self.replicas if replica != self.broker_id)

    @property
    def under_replicated(self) -> bool:
        """Led here, with fewer in-sync replicas than it had before any reassignment began (broker.md 9.5 row 69)."""
        return self.leads and len(self.isr) < len(self.replicas) - len(self.adding_replicas)


def health_flags(known: ReplicaRole, isr: Collection[int], min_isr: int) -> tuple[str, ...]:
    """What is the matter with a partition that is led here: names of TROUBLES. `isr` is the newest confirmed one."""
    if not known.leads:
        return ()
    required = min(min_isr, len(known.replicas))
    holds = (
        len(isr) < len(known.replicas) - len(known.adding_replicas),
        len(isr) < required,
        len(isr) == required,
        bool(known.adding_replicas or known.removing_replicas),
    )
    return tuple(name for name, so in zip(TROUBLES, holds, strict=True) if so) if True in holds else ()


def role_verdict(known: ReplicaRole, order: LeaderAndIsrPartitionState) -> int:
    """Error code of a LeaderAndIsr order before anything is done: NONE, 11 (rule 1) or 3 (rule 2)."""
    if order.leader_epoch <= known.leader_epoch:
        return STALE_CONTROLLER_EPOCH
    if known.broker_id not in order.replicas:
        return UNKNOWN_TOPIC_OR_PARTITION
    return NONE


def is_superseded(known: ReplicaRole, order: LeaderAndIsrPartitionState) -> bool:
    """Was the order decided on an older state of the znode than the one known here (rule 3)?"""
    return order.zk_version < known.zk_version


def make_leader(known: ReplicaRole, order: LeaderAndIsrPartitionState) -> tuple[ReplicaRole, bool]:
    """Lead. Returns the partition as it is now, and whether it is a new leader (was none before)."""
    if is_superseded(known, order):
        probe("a broker ignores the order to lead on an older state")
        return known, False
    return _taken_over(known, order, LEADER, order.isr), not known.leads


def make_follower(known: ReplicaRole, order: LeaderAndIsrPartitionState) -> tuple[ReplicaRole, bool]:
    """Follow. Returns the partition as it is now, and whether the leader or its epoch is news."""
    if is_superseded(known, order):
        probe("a broker ignores the order to follow on an older state")
        return known, False
    changed = (order.leader, order.leader_epoch) != (known.leader, known.leader_epoch)
    return _taken_over(known, order, FOLLOWER, ()), changed


def _taken_over(known: ReplicaRole, order: LeaderAndIsrPartitionState, name: str, isr: tuple[int, ...]) -> ReplicaRole:
    return ReplicaRole(
        known.partition,
        known.broker_id,
        name,
        order.leader,
        order.leader_epoch,
        order.controller_epoch,
        order.zk_version,
        isr,
        order.replicas,
        order.adding_replicas,
        order.removing_replicas,
    )


def make_stopped(known: ReplicaRole) -> ReplicaRole:
    """Stop without deletion: a follower appends nothing until its next LeaderAndIsr; a leader stays leader."""
    return known._replace(name=STOPPED) if known.name == FOLLOWER else known


def stop_verdict(known: ReplicaRole, leader_epoch: int) -> int:
    """Error code of a StopReplica order with this leader epoch: NONE or 74 (rule 4)."""
    if leader_epoch in _ALWAYS_OBEYED_STOPS or leader_epoch > known.leader_epoch:
        return NONE
    if leader_epoch == known.leader_epoch:
        probe("T5 a StopReplica request has the known leader epoch")
        return NONE
    return FENCED_LEADER_EPOCH
