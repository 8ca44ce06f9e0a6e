"""Format values as Kafka's controller log does, so that tools for Kafka's logs can parse this controller's log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from messages.cluster import LeaderIsrAndControllerEpoch, ReplicaAssignment

MOST = 100
"""Maximum number of elements in a line; Kafka writes all elements."""


def join_values(values: Iterable[object]) -> str:
    """Return the values separated by commas: 1,2,3."""
    return ",".join(map(str, values))


def scala_collection(values: Sequence[object], kind: str = "Set") -> str:
    """Return the values as Scala prints a collection: Set(a, b)."""
    rest = (f"... and {len(values) - MOST} more",) if len(values) > MOST else ()
    return f"{kind}({', '.join(map(str, (*values[:MOST], *rest)))})"


def assignment(of: ReplicaAssignment) -> str:
    """Return the replicas of a partition as Kafka's ReplicaAssignment prints them."""
    return (
        f"ReplicaAssignment(replicas={join_values(of.replicas)}, addingReplicas={join_values(of.adding)},"
        f" removingReplicas={join_values(of.removing)})"
    )


def leader_and_isr(state: LeaderIsrAndControllerEpoch) -> str:
    """Return leader, leader epoch and ISR of a partition as Kafka's LeaderAndIsr prints them."""
    isr = scala_collection([f"BrokerState(brokerId={broker_id}, brokerEpoch=-1)" for broker_id in state.isr], "List")
    return (
        f"LeaderAndIsr(leader={state.leader}, leaderEpoch={state.leader_epoch}, isrWithBrokerEpoch={isr},"
        f" leaderRecoveryState=RECOVERED, partitionEpoch={state.zk_version})"
    )


def isr_left(state: LeaderIsrAndControllerEpoch, replica: int) -> str:
    """Return the text for a partition's new state after this replica was removed from its ISR, as Kafka logs it."""
    return (
        f"(Leader:{state.leader},ISR:{join_values(state.isr)},LeaderRecoveryState:RECOVERED,LeaderEpoch:{state.leader_epoch},"
        f"ZkVersion:{state.zk_version},ControllerEpoch:{state.controller_epoch}) after removing replica {replica} from"
        " the ISR as part of transition to OfflineReplica"
    )
