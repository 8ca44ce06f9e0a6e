"""The states of partitions and replicas, and the moves between them that are legal, as data (controller.md 3.1, 3.3).

Rule 1: a partition or replica that nobody has heard of is in its NON_EXISTENT state.
Rule 2: a move is legal only from the states that the target's row names. An illegal one is logged with its subject,
        from and to, and that subject is left alone; the others of the same call go on.
Rule 3: what a move causes is told by the row as well; the flows that do it are in `leadership` and `replicas`.

The tables and diagrams of the documentation are drawn from this data.
"""

from __future__ import annotations

import enum
import logging

import attrs

log = logging.getLogger("state.change.logger")


class PartitionState(enum.Enum):
    """Where a partition stands; the value is Kafka's name."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaState(enum.Enum):
    """Where a replica stands; the value is Kafka's name."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


State = PartitionState | ReplicaState


@attrs.frozen
class Row:
    """A target state: from where it may be entered, what is done then, and which requests that causes."""

    previous: tuple[State, ...]
    action: str
    requests: str = "none"


_P = PartitionState
_R = ReplicaState

PARTITION_TABLE: dict[State, Row] = {
    _P.NON_EXISTENT: Row((_P.OFFLINE,), "forget the partition"),
    _P.NEW: Row((_P.NON_EXISTENT,), "none"),
    _P.ONLINE: Row(
        (_P.NEW, _P.ONLINE, _P.OFFLINE),
        "from New: create the state znode, led by the first live replica; else elect by the strategy",
        "LeaderAndIsr (isNew from New) to the ISR or the strategy's recipients, UpdateMetadata to all",
    ),
    _P.OFFLINE: Row((_P.NEW, _P.ONLINE, _P.OFFLINE), "none"),
}

REPLICA_TABLE: dict[State, Row] = {
    _R.NEW: Row(
        (_R.NON_EXISTENT,),
        "refused if the replica leads already",
        "LeaderAndIsr isNew to it where leadership is known",
    ),
    _R.ONLINE: Row(
        (_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE),
        "from New: make sure that it is assigned",
        "LeaderAndIsr to it where leadership is known, but not from New",
    ),
    _R.OFFLINE: Row(
        (_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE),
        "take it out of the ISR where leadership is known",
        "StopReplica to it, LeaderAndIsr to the others (not for a topic that is deleted); without leadership "
        "UpdateMetadata to all",
    ),
    _R.DELETION_STARTED: Row((_R.OFFLINE,), "none", "StopReplica delete=true to it"),
    _R.DELETION_SUCCESSFUL: Row((_R.DELETION_STARTED,), "none"),
    _R.DELETION_INELIGIBLE: Row((_R.DELETION_STARTED, _R.OFFLINE), "none"),
    _R.NON_EXISTENT: Row((_R.DELETION_SUCCESSFUL,), "take it out of the assignment in memory and forget it"),
}


def refuse(subject: object, current: State, target: State) -> None:
    """Log an illegal move: the subject, the states it would have to be in, and the one it is in (rule 2)."""
    row = PARTITION_TABLE.get(target) or REPLICA_TABLE[target]
    legal = ", ".join(state.value for state in row.previous)
    log.error(
        "Invalid state change: %s should be in one of the states %s before moving to %s; instead it is in %s",
        subject,
        legal,
        target.value,
        current.value,
    )
