"""A cluster at rest: what its brokers, its controller and ZooKeeper say of it is the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from actors.broker.partition import PartitionActor
from actors.controller.channel import BrokerChannelActor
from actors.core.controller.context import NO_ASSIGNMENT
from actors.core.controller.states import PartitionState, ReplicaState
from actors.core.controller.validation import inconsistencies
from actors.node.assembly import Node
from actors.simulation.monitors.monitor import Monitor, invariant, observes
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import BrokerUnregistered, ClusterAtRest, ClusterQueried
from messages.cluster import NO_LEADER, TopicPartition
from zk_bridge import paths


class ClusterInvariants(Monitor):
    """The rules for a cluster at rest: brokers, controller and ZooKeeper agree, and nothing is pending."""

    def __init__(self, observed: ObservedCluster) -> None:
        super().__init__(observed)
        self._lapsed: dict[int, Node | None] = {}
        """The process of each broker when its registration last ended."""

    @observes
    def _note_unregistration(self, fact: BrokerUnregistered) -> None:
        """Note the process of a broker whose registration ends."""
        if self.observed.is_simulated:
            self._lapsed[fact.broker] = self.cluster.machines[fact.broker].node

    @invariant("all brokers are registered with one active controller", "controller.md 7.1, broker.md 7.2")
    def _all_brokers_are_registered(self, fact: ClusterAtRest) -> Iterator[str]:
        up = self.nodes.connected_nodes()
        if sorted(self.registered) != up:
            yield f"registered brokers {sorted(self.registered)}, running {up}"
        if self.znodes.controller not in up:
            yield f"/controller has broker {self.znodes.controller}, running {up}"
        active = sorted(set(self.cluster.controllers()) & set(up))
        if active != [self.znodes.controller]:
            yield f"active controllers {active}; /controller has broker {self.znodes.controller}"

    @invariant("deleted topics are gone", "controller.md 6.1")
    def _deleted_topics_are_gone(self, fact: ClusterAtRest) -> Iterator[str]:
        """Check that only absent brokers delay a deletion, and that no partition in deletion has a leader.

        If a replica of a queued topic is absent when a controller is elected, the controller does not begin the
        deletion of this topic. As in Kafka, the deletion does not stop the replicas of a broker that is shutting down:
        such a leader leads on, also after its restart, as long as another broker has not answered.
        """
        for topic in self.deleting:
            if not self.nodes.waits_for_absent(topic):
                yield f"{topic} is still queued for deletion"
            elif self.znodes.was_queued_before_term(topic):
                continue
            for tp in self.znodes.topics.get(topic, {}).values():
                leader = self.states[tp].leader if tp in self.states else NO_LEADER
                if leader != NO_LEADER and self.znodes.unregistered_at.get(leader, 0.0) < self.deleting[topic]:
                    yield f"{tp} is queued for deletion and has leader {leader}"
        for path in self.cluster.zookeeper.nodes:
            parts = path.split("/")
            if path.startswith("/config/topics/") and parts[3] not in self.znodes.topics:
                yield f"{path} remains of a deleted topic"

    @invariant("partitions with a live ISR member have a leader", "controller.md 3.2, 7.5")
    def _partitions_have_a_leader(self, fact: ClusterAtRest) -> Iterator[str]:
        up, running = set(self.nodes.up_nodes()), self.nodes.connected_nodes()
        for partition, assigned in self.assigned.items():
            if partition.topic in self.deleting:
                continue
            state = self.states.get(partition)
            if state is None:
                # As in Kafka, a partition that never had a leader gets one only when a broker starts, not by a
                # reassignment.
                electable = set(assigned.replicas) & set(self.znodes.created_with[partition]) & up
                if electable:
                    yield f"{partition} has no state znode; replicas {sorted(electable)} are running"
                continue
            is_lost = self.observed.has_lost(state.leader, partition)
            if (state.leader not in running or is_lost) and set(state.isr) & up:
                yield (
                    f"{partition} has leader {state.leader}{', whose log directory has failed' if is_lost else ''};"
                    f" {sorted(set(state.isr) & up)} of the ISR {state.isr} are running"
                )

    @invariant("broker roles match ZooKeeper", "broker.md 2.1, KAFKA-14154")
    def _broker_roles_match_zookeeper(self, fact: ClusterAtRest) -> Iterator[str]:
        roles: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        running = self.nodes.connected_nodes()
        for tp, state in self.znodes.remaining.items():
            if state.leader not in running:
                continue  # a broker takes no role for a partition if the leader in LeaderAndIsr is not alive
            for replica in self.znodes.replicas_of(tp):
                roles.setdefault(replica, {})[tp] = state.leader, state.leader_epoch
        for node in self.nodes.controlled_nodes():
            machine = self.cluster.machines[node].node
            hosted = [] if machine is None else machine.base.actors(PartitionActor)
            true = roles.get(node, {})
            known = {
                actor.partition.role.partition: (actor.partition.role.leader, actor.partition.role.leader_epoch)
                for actor in hosted
            }
            # A broker may keep a replica that was reassigned to another broker (`LogInvariants`).
            described = {tp: role for tp, role in known.items() if tp in true}
            yield from _differences(f"roles of node {node}", described, true)

    @invariant("live replicas are in the ISR", "broker.md 3.2")
    def _live_replicas_are_in_the_isr(self, fact: ClusterAtRest) -> Iterator[str]:
        """Check that the ISR has all live replicas, and only replicas that run.

        For the partitions in `self.observed.resumed`, live replicas may be missing from the ISR. The leader of such a
        partition continued in its leader epoch after a power failure, and a follower may still have records that the
        leader lost. This follower refuses a batch that begins below the follower's log end offset, and stays out of the
        ISR.
        """
        able, running = set(self.nodes.controlled_nodes()), set(self.nodes.connected_nodes())
        for partition, state in self.znodes.remaining.items():
            if state.leader not in able:
                continue
            replicas = set(self.znodes.replicas_of(partition))
            must = {replica for replica in replicas & able if self.nodes.are_linked(state.leader, replica)}
            misses = partition not in self.observed.resumed and not must <= set(state.isr)
            if misses or not set(state.isr) <= replicas & running:
                yield f"{partition} has ISR {state.isr}; replicas {sorted(replicas & able)} are running"

    @invariant("only the controller has channels", "controller.md 7.3")
    def _only_the_controller_has_channels(self, fact: ClusterAtRest) -> Iterator[str]:
        for node in self.nodes.connected_nodes():
            process = self.cluster.machines[node].node
            channels = [] if process is None else process.base.actors(BrokerChannelActor)
            if channels and node != self.znodes.controller:
                yield f"node {node} has {len(channels)} channels to brokers; the controller is {self.znodes.controller}"

    @invariant("no request or reassignment is pending", "controller.md 1.5, 7.6, 7.7")
    def _no_request_or_reassignment_is_pending(self, fact: ClusterAtRest) -> Iterator[str]:
        able = set(self.nodes.controlled_nodes())
        done = [paths.PREFERRED_ELECTION]
        if not any(self.nodes.waits_for_fault(tp, able) for tp in self.assigned):
            done.append(paths.REASSIGNMENTS)
        for path in self.cluster.zookeeper.nodes:
            if path.startswith((f"{paths.ISR_CHANGES}/", f"{paths.LOG_DIR_EVENTS}/")) or path in done:
                yield f"{path} still exists"
        for partition, assigned in self.assigned.items():
            if (assigned.adding or assigned.removing) and not self.nodes.waits_for_fault(partition, able):
                yield f"{partition} is still being reassigned: {assigned}"

    @invariant("controller context matches ZooKeeper", "controller.md 7.2, trap T12")
    def _controller_context_matches_zookeeper(self, fact: ClusterAtRest) -> Iterator[str]:
        able = self.nodes.controlled_nodes()
        for node, context in self.cluster.controllers().items():
            if node not in self.nodes.connected_nodes():
                continue
            found = inconsistencies(context)
            yield from (f"controller {node}: {text}" for text in found)
            if context.shutting_down:
                yield f"controller {node} waits for the controlled shutdown of {sorted(context.shutting_down)}"
            if sorted(context.brokers) != sorted(self.registered):
                brokers = sorted(context.brokers)
                yield f"controller {node} has brokers {brokers}; registered are {sorted(self.registered)}"
            epochs = {broker.id: broker.epoch for broker in context.brokers.values()}
            if epochs != self.registered:
                yield f"controller {node} has broker epochs {epochs}; ZooKeeper has {self.registered}"
            yield from _differences(f"assignments of controller {node}", context.assignments, self.assigned)
            led = {tp: (s.leader, s.leader_epoch) for tp, s in context.leadership.items()}
            written = {tp: (s.leader, s.leader_epoch) for tp, s in self.states.items()}
            yield from _differences(f"leaders of controller {node}", led, written)
            for partition, state in self.znodes.remaining.items():
                expected = PartitionState.ONLINE if state.leader != NO_LEADER else PartitionState.OFFLINE
                if context.partition_state(partition) is not expected:
                    yield f"controller {node} has {partition} as {context.partition_state(partition).value}: {state}"
                replicas = self.assigned.get(partition, NO_ASSIGNMENT)
                waits = bool(replicas.replicas) and self.nodes.waits_for_fault(partition, able)
                for broker in replicas.replicas:
                    known = context.replica_state(broker, partition)
                    if known is ReplicaState.NEW and waits and broker in replicas.adding:
                        continue  # a reassignment sets new replicas online only when all are in the ISR
                    if broker in self.registered and broker in able and known is not ReplicaState.ONLINE:
                        yield f"controller {node} has replica {broker} of {partition} as {known.value}"

    @invariant("metadata responses match ZooKeeper", "broker.md 3.9")
    def _metadata_responses_match_zookeeper(self, fact: ClusterQueried) -> Iterator[str]:
        true = {
            tp: (state.leader, state.leader_epoch, state.isr, self.znodes.replicas_of(tp))
            for tp, state in self.znodes.remaining.items()
        }
        halted = {topic for topic in self.deleting if self.nodes.waits_for_absent(topic)}
        for node in self.nodes.controlled_nodes():
            answer = self.history.metadata.get(node)
            if answer is None:
                yield f"node {node} did not respond to a metadata request"
                continue
            sent_states = {
                TopicPartition(topic.name, each.partition): (each.leader, each.leader_epoch, each.isr, each.replicas)
                for topic in answer.topics
                for each in topic.partitions
            }
            if self._lapsed.get(node) is self.cluster.machines[node].node:
                # The controller sends only existing partitions to a broker that was disconnected. As in Kafka, the
                # broker keeps the metadata of partitions that were deleted meanwhile, even if the topic was created
                # again with fewer partitions.
                sent_states = {tp: state for tp, state in sent_states.items() if tp in true}
            # A deletion does not wait until its UpdateMetadata requests arrive, and the next controller does not know
            # the deleted topic. So a broker may never receive these requests. It may also keep the metadata of a topic
            # whose deletion does not begin, because the topic has an offline replica. Both are as in Kafka, so neither
            # is checked.
            sent_states = {
                tp: state
                for tp, state in sent_states.items()
                if not self.znodes.is_forgotten(tp.topic) and tp.topic not in halted
            }
            yield from _differences(f"metadata (leader, epoch, ISR, replicas) of node {node}", sent_states, true)
            brokers = sorted(broker.id for broker in answer.brokers)
            if brokers != sorted(self.registered):
                yield f"metadata of node {node} has brokers {brokers}; registered are {sorted(self.registered)}"
            if answer.controller_id != self.znodes.controller:
                yield f"metadata of node {node} has controller {answer.controller_id}; it is {self.znodes.controller}"


def _differences(what: str, described: Mapping[Any, Any], true: Mapping[Any, Any]) -> Iterator[str]:
    if described == true:
        return
    for key in sorted(set(described) | set(true)):
        if described.get(key) != true.get(key):
            yield f"{what} differ from ZooKeeper: {key}: {described.get(key)}, expected {true.get(key)}"
