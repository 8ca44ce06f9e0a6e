"""Compute which nodes and partitions work despite the faults that last to the end of a run.

The results are live nodes, pairs of nodes that reach each other, and partitions that can commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.topic.topic_name import TRANSACTION_STATE
from actors.simulation.simulated_cluster import UP, host_of
from actors.simulation.zookeeper_link import ZOOKEEPER
from messages.cluster import TopicPartition

if TYPE_CHECKING:
    from actors.simulation.checker import Checker


def connected(law: Checker) -> list[int]:
    """Return the nodes that run and reach ZooKeeper.

    In an idle cluster, each node that is not returned has a lasting fault.
    """
    machines = law.cluster.machines.values()
    return [machine.id for machine in machines if machine.state == UP and linked(law, machine.id, ZOOKEEPER)]


def up_nodes(law: Checker) -> list[int]:
    """Return the nodes that run, reach ZooKeeper, and have no full or failing disk.

    In an idle cluster, each node that is not returned has a lasting fault.
    """
    return [node for node in connected(law) if not law.cluster.machines[node].disks.faults]


def linked(law: Checker, node: int, other: int | str) -> bool:
    """Return whether messages pass between a node and another host, in both directions."""
    one, two = host_of(node), host_of(other) if isinstance(other, int) else other
    return node == other or not (law.cluster.wires.is_cut(one, two) or law.cluster.wires.is_cut(two, one))


def controlled(law: Checker) -> list[int]:
    """Return the fault-free nodes that can exchange messages with the controller."""
    return [node for node in up_nodes(law) if linked(law, node, law.controller)]


def can_commit(law: Checker, partition: TopicPartition) -> bool:
    """Return whether the leader of a partition can commit records in spite of the lasting faults."""
    state, able = law.states.get(partition), controlled(law)
    return (
        state is not None
        and state.leader in able
        and set(state.isr) <= set(able)
        and len(state.isr) >= law.least_insync(partition)
        and all(linked(law, state.leader, replica) for replica in state.isr)
    )


def can_receive_markers(law: Checker, partition: TopicPartition) -> bool:
    """Return whether the markers of all coordinators can reach a partition despite the lasting faults."""
    logs = [each for each in law.states if each.topic == TRANSACTION_STATE]
    return can_commit(law, partition) and all(
        can_commit(law, log) and linked(law, law.states[log].leader, law.states[partition].leader) for log in logs
    )
