"""Which nodes and partitions work despite the present faults, and for how long each node has had no fault.

In an idle cluster, the present faults are those that last to the end of a run.
"""

from __future__ import annotations

from collections.abc import Collection

from actors.core.topic.topic_name import TRANSACTION_STATE
from actors.simulation.simulated_cluster import UP, Cluster, host_of
from actors.simulation.znode_view import ZnodeView
from actors.simulation.zookeeper_link import ZOOKEEPER
from messages.cluster import TopicPartition

SLACK = 4.0
"""Seconds that a rule allows beyond its time: for writes to ZooKeeper, slow messages and the drift of clocks."""


class Reachability:
    """The faults of a simulated cluster's nodes and connections.

    A node is healthy while it runs, its disks work, and nothing delays it or its connection to ZooKeeper. Invariants
    with a time limit apply only to nodes that were healthy for that whole time.
    """

    def __init__(self, cluster: Cluster, znodes: ZnodeView) -> None:
        self.unhealthy_at: dict[int, float] = {}
        """When each node was last unhealthy."""
        self._uncontrolled_at: dict[int, float] = {}
        """When each node last could not exchange messages with the controller."""
        self._cluster = cluster
        self._znodes = znodes
        self._registered: dict[int, int] = {}

    # ---------------------------------------------------------------------------------------------------- health

    def note_unhealthy(self) -> None:
        """Note which nodes are unhealthy now, also those whose registration has changed."""
        now, registered = self._cluster.now, self._znodes.registered
        for node in self._cluster.machines:
            if not self._is_well(node):
                self.unhealthy_at[node] = now
            if not self.are_linked(node, self._znodes.controller):
                self._uncontrolled_at[node] = now
        if registered != self._registered:
            for node in self._cluster.machines:
                if registered.get(node) != self._registered.get(node):
                    self.unhealthy_at[node] = now
            self._registered = dict(registered)

    def healthy_for(self, node: int) -> float:
        """Return for how many seconds a node has been healthy; 0.0 if the node is unhealthy now.

        A fault counts even if it began after the last `note_unhealthy`.
        """
        if node not in self._cluster.machines or not self._is_well(node):
            return 0.0
        return self._cluster.now - self.unhealthy_at.get(node, 0.0)

    def controlled_for(self, node: int) -> float:
        """Return for how many seconds a node has been able to exchange messages with the controller."""
        return self._cluster.now - self._uncontrolled_at.get(node, 0.0)

    def _is_well(self, node: int) -> bool:
        cluster = self._cluster
        machine = cluster.machines[node]
        disks = machine.disks
        return (
            machine.state == UP
            and not (machine.pace or machine.loses or disks.faults or disks.delays or disks.hurt)
            and cluster.zookeeper.up
            and cluster.wires.is_steady(machine.host, ZOOKEEPER)
            and not cluster.is_stalled(machine)
        )

    # ---------------------------------------------------------------------------------------------------- nodes

    def connected_nodes(self) -> list[int]:
        """Return the nodes that run and reach ZooKeeper."""
        machines = self._cluster.machines.values()
        return [machine.id for machine in machines if machine.state == UP and self.are_linked(machine.id, ZOOKEEPER)]

    def up_nodes(self) -> list[int]:
        """Return the nodes that run, reach ZooKeeper, and have no full or failing disk."""
        return [node for node in self.connected_nodes() if not self._cluster.machines[node].disks.faults]

    def are_linked(self, node: int, other: int | str) -> bool:
        """Return whether messages pass between a node and another host, in both directions."""
        wires, one, two = self._cluster.wires, host_of(node), host_of(other) if isinstance(other, int) else other
        return node == other or not (wires.is_cut(one, two) or wires.is_cut(two, one))

    def controlled_nodes(self) -> list[int]:
        """Return the fault-free nodes that can exchange messages with the controller."""
        return [node for node in self.up_nodes() if self.are_linked(node, self._znodes.controller)]

    # ---------------------------------------------------------------------------------------------------- partitions

    def can_commit(self, partition: TopicPartition) -> bool:
        """Return whether the leader of a partition can commit records."""
        state, able = self._znodes.states.get(partition), self.controlled_nodes()
        return (
            state is not None
            and state.leader in able
            and set(state.isr) <= set(able)
            and len(state.isr) >= self._znodes.least_insync(partition)
            and all(self.are_linked(state.leader, replica) for replica in state.isr)
        )

    def can_receive_markers(self, partition: TopicPartition) -> bool:
        """Return whether the markers of all coordinators can reach a partition."""
        states = self._znodes.states
        logs = [each for each in states if each.topic == TRANSACTION_STATE]
        return self.can_commit(partition) and all(
            self.can_commit(log) and self.are_linked(states[log].leader, states[partition].leader) for log in logs
        )

    def waits_for_absent(self, topic: str) -> bool:
        """Return whether a replica of the topic is on a broker that does not exist or that has a fault."""
        up, znodes = set(self.controlled_nodes()), self._znodes
        return any(not set(znodes.replicas_of(tp)) <= up for tp in znodes.topics.get(topic, {}).values())

    def waits_for_fault(self, partition: TopicPartition, able: Collection[int]) -> bool:
        """Return whether a fault prevents the end of a reassignment; `able` are the nodes without a fault."""
        replicas, state = self._znodes.replicas_of(partition), self._znodes.states.get(partition)
        leader = replicas[0] if state is None else state.leader
        return not set(replicas) <= set(able) or not all(self.are_linked(leader, each) for each in replicas)
