"""ControllerContext is the state of the active controller; it is cleared when the controller resigns.

Rule 1: Tables that are looked up for one broker are indexed by broker id. So an event of one broker needs only the
        entries of this broker.
Rule 2: Collections that are iterated are dicts in insertion order, never bare sets, whose order could differ between
        two runs. Sets are used for membership tests only.
Rule 3: All entries of a removed topic are removed, including its states (controller.md, trap T12: Kafka keeps the
        states, and a topic that is created again inherits them).
Rule 4: The number of offline partitions is updated at each state change. Topics whose deletion has started are not
        counted.
Rule 5: A partition is imbalanced if its leader is not the preferred replica. The imbalanced partitions, and their
        number by topic, are updated whenever a leadership or an assignment changes. A gauge reads the number of
        imbalanced partitions before and after every event.
Rule 6: The state sent for a partition is cached while the partition's leadership and assignment stay the same (`batch`,
        rule 5).
Rule 7: Only the context's own methods change its tables, so that every change keeps these rules. Other modules read the
        tables as Mappings.

Kafka: `ControllerContext`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, compress
from typing import TypeAlias

from actors.core.controller.partition_table import PartitionTable, V
from actors.core.controller.states import History, PartitionState, ReplicaState
from messages import cluster
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState
from messages.apis.update_metadata import UpdateMetadataPartitionState
from messages.flow.conversation import Flow, for_each
from messages.node import NodeSettings
from messages.node_settings import keeps_topic_ids
from messages.parts import UpdateMetadataPart
from messages.probes import probe
from messages.topic_deletion import DeletingTopic, DeletionSets
from messages.vocabulary import AnyMessage, maker
from messages.zookeeper import TopicAssignment

ClearedTable: TypeAlias = dict[AnyMessage, AnyMessage] | list[AnyMessage]
"""A dict or a list of any type that is emptied entry by entry."""

ReplicasByBroker = dict[int, list[cluster.TopicPartition]]
"""Replicas grouped by broker, the argument of the replica state machine."""


_role, _metadata = maker(LeaderAndIsrPartitionState), maker(UpdateMetadataPartitionState)

NO_ASSIGNMENT = cluster.ReplicaAssignment(())
NO_DELETIONS = DeletionSets()

_DELETION_STATES = (
    ReplicaState.DELETION_STARTED,
    ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.DELETION_INELIGIBLE,
)


TOPIC_ID = re.compile("[A-Za-z0-9_-]{22}")
"""Matches the text of a topic id."""


class BrokerEndpointNotAvailable(Exception):
    """A registered broker has no endpoint for the inter-broker listener."""


def target_replicas(assignment: cluster.ReplicaAssignment) -> tuple[int, ...]:
    """Return the replicas after the ongoing reassignment, or all replicas if there is none (controller.md 7.7)."""
    return tuple(r for r in assignment.replicas if r not in assignment.removing)


def without_broker(assignment: cluster.ReplicaAssignment, broker_id: int) -> cluster.ReplicaAssignment:
    """Return the assignment without this broker in `replicas`, `adding` and `removing`."""
    parts = (assignment.replicas, assignment.adding, assignment.removing)
    return cluster.ReplicaAssignment(*[tuple([r for r in part if r != broker_id]) for part in parts])


def origin_replicas(assignment: cluster.ReplicaAssignment) -> tuple[int, ...]:
    """Return the replicas before the ongoing reassignment, or all replicas if there is none."""
    return tuple(r for r in assignment.replicas if r not in assignment.adding)


def assignment_during(assignment: cluster.ReplicaAssignment, target: tuple[int, ...]) -> cluster.ReplicaAssignment:
    """Return the assignment during a reassignment to `target` (controller.md 7.7).

    If another reassignment is ongoing, the result is computed from the replicas before that reassignment.
    """
    origin = origin_replicas(assignment)
    return cluster.ReplicaAssignment(
        tuple(dict.fromkeys((*target, *origin))),
        tuple(dict.fromkeys(r for r in target if r not in origin)),
        tuple(r for r in origin if r not in target),
    )


def is_imbalanced(assignment: cluster.ReplicaAssignment, state: cluster.LeaderIsrAndControllerEpoch) -> bool:
    """Return whether the leader is not the preferred replica.

    The result is false while the preferred replica is still being added and is not in the ISR yet.
    """
    replicas = assignment.replicas
    if not replicas or state.leader == replicas[0]:
        return False
    return replicas[0] not in assignment.adding or replicas[0] in state.isr


def _during_delete(state: UpdateMetadataPartitionState) -> UpdateMetadataPartitionState:
    """Return the state with the special leader of a deletion, leader epoch 0 and ZooKeeper version 0."""
    epoch, leader, replicas = state.controller_epoch, cluster.LEADER_DURING_DELETE, state.replicas
    return _metadata(state.partition, epoch, leader, 0, state.isr, 0, replicas, state.offline_replicas)


class LastSent:
    """The partition state that the controller last sent to brokers.

    A field is None before the first request, and again when the partition's leadership has changed.
    """

    __slots__ = ("assignment", "metadata", "role")

    def __init__(self, assignment: cluster.ReplicaAssignment) -> None:
        self.assignment = assignment
        self.role: LeaderAndIsrPartitionState | None = None
        self.metadata: UpdateMetadataPartitionState | None = None


class ControllerContext:
    """The state of the controller, set at its election and cleared by `reset`.

    `active` is whether this node considers itself the controller. A wrong value is safe, because each write checks the
    version of /controller_epoch.

    `reset` keeps the attributes `settings`, `cluster_id`, `backing_off` and `unclean_elections`. `backing_off` is true
    if this node lets other brokers be elected first because its last term failed to begin. `unclean_elections` is the
    number of unclean elections since the process started.
    """

    def __init__(self, settings: NodeSettings, cluster_id: str = "") -> None:
        self.settings, self._cluster_id = settings, cluster_id
        self.broker_id = settings.node_id
        self.backing_off = False
        self.unclean_elections = 0
        self.reset()

    def reset(self) -> None:
        """Clear all state of this node's term as controller (controller.md 7.3)."""
        self.active = False
        self.unclean_by_default = self.settings.unclean_leader_election_enable
        self.epoch = self.epoch_zk_version = 0
        self._brokers: dict[int, cluster.Broker] = {}
        self._shutting_down: dict[int, None] = {}
        self.online_brokers: frozenset[int] = frozenset()
        self._offline_dirs: dict[int, dict[cluster.TopicPartition, None]] = {}
        self._topics: dict[str, dict[int, cluster.TopicPartition]] = {}
        self._topic_ids: dict[str, str] = {}
        self._ids_made = 0
        """Number of topic ids made in this term."""
        self._topics_by_id: dict[str, list[str]] = {}
        numbers = self.dict_numbers = dict[str, int]()
        """The number of each topic's dict in the tables by partition (`partition_table`)."""
        self._assignments = PartitionTable[cluster.ReplicaAssignment](numbers)
        self._reassigning: dict[cluster.TopicPartition, None] = {}
        self._hosted: dict[int, PartitionTable[None]] = {}
        self._leadership = PartitionTable[cluster.LeaderIsrAndControllerEpoch](numbers)
        self._imbalanced_of_topic: dict[str, int] = {}
        self._imbalanced = PartitionTable[None](numbers)
        self._last_sent = PartitionTable[LastSent](numbers)
        self.last_metadata_parts: dict[int, UpdateMetadataPart] = {}
        """The parts last sent in UpdateMetadata requests, by index (rule 6)."""
        self._partition_states = PartitionTable[PartitionState](numbers)
        self._replica_states: dict[int, PartitionTable[ReplicaState]] = {}
        self._leaderless = PartitionTable[None](numbers)
        self.offline_count = 0
        self.history = History()
        self.set_deletions(NO_DELETIONS)

    def _table_of(self, tables: dict[int, PartitionTable[V]], broker_id: int) -> PartitionTable[V]:
        """Return a broker's table; add an empty one if there is none. A snapshot cannot have a defaultdict for this."""
        table = tables.get(broker_id)
        if table is None:
            table = tables[broker_id] = PartitionTable(self.dict_numbers)
        return table

    def tables(self) -> tuple[ClearedTable, ...]:
        """Return all dicts and lists with an entry per partition or replica."""
        tables: list[ClearedTable] = [*self._offline_dirs.values(), *self._topics.values(), *self.history.tables()]
        by_partition: list[PartitionTable[AnyMessage]] = [self._leadership, self._imbalanced, self._assignments]
        by_partition += [self._partition_states, self._leaderless, self._last_sent]
        by_partition += [*self._hosted.values(), *self._replica_states.values()]
        return (*tables, *chain.from_iterable(table.dicts.values() for table in by_partition))

    @property
    def tag(self) -> str:
        """Prefix of log lines, with this controller's id and epoch."""
        return f"[Controller id={self.broker_id} epoch={self.epoch}]"

    # ------------------------------------------------------------------------------------------------------- tables

    @property
    def brokers(self) -> Mapping[int, cluster.Broker]:
        """The registered brokers, ordered by id."""
        return self._brokers

    @property
    def shutting_down(self) -> Mapping[int, None]:
        """The live brokers that have requested a controlled shutdown."""
        return self._shutting_down

    @property
    def offline_dirs(self) -> Mapping[int, Mapping[cluster.TopicPartition, None]]:
        """The partitions whose log directory has failed, by broker."""
        return self._offline_dirs

    @property
    def topics(self) -> Mapping[str, Mapping[int, cluster.TopicPartition]]:
        """The partitions of each topic, by number."""
        return self._topics

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The id of each topic that has one."""
        return self._topic_ids

    @property
    def topics_by_id(self) -> Mapping[str, Sequence[str]]:
        """The topics of each id; several if a znode was copied."""
        return self._topics_by_id

    @property
    def assignments(self) -> PartitionTable[cluster.ReplicaAssignment]:
        """The assignment of each partition."""
        return self._assignments

    @property
    def reassigning(self) -> Mapping[cluster.TopicPartition, None]:
        """The partitions that are being reassigned."""
        return self._reassigning

    @property
    def hosted(self) -> Mapping[int, PartitionTable[None]]:
        """The partitions with a replica on each broker."""
        return self._hosted

    @property
    def leadership(self) -> PartitionTable[cluster.LeaderIsrAndControllerEpoch]:
        """The leadership of each partition whose state znode is known."""
        return self._leadership

    @property
    def imbalanced(self) -> PartitionTable[None]:
        """The imbalanced partitions (rule 5)."""
        return self._imbalanced

    @property
    def imbalanced_of_topic(self) -> Mapping[str, int]:
        """The number of imbalanced partitions of each topic that has some (rule 5)."""
        return self._imbalanced_of_topic

    @property
    def last_sent(self) -> PartitionTable[LastSent]:
        """The states last sent for partitions (rule 6)."""
        return self._last_sent

    @property
    def partition_states(self) -> PartitionTable[PartitionState]:
        """The state of each partition."""
        return self._partition_states

    @property
    def replica_states(self) -> Mapping[int, PartitionTable[ReplicaState]]:
        """The states of the replicas of each broker."""
        return self._replica_states

    @property
    def leaderless(self) -> PartitionTable[None]:
        """The partitions in the states NEW and OFFLINE."""
        return self._leaderless

    # ------------------------------------------------------------------------------------------------------- the term

    def begin_term(self, epoch: int, epoch_zk_version: int) -> None:
        """Store the epoch with which this controller was elected, and the znode version that every write checks."""
        self.active = True
        self.epoch, self.epoch_zk_version = epoch, epoch_zk_version

    def set_backing_off(self, backing_off: bool) -> None:
        """Set whether this node lets other brokers win the next election."""
        self.backing_off = backing_off

    def set_unclean_default(self, override: bool | None) -> None:
        """Set whether unclean elections are allowed by default; None for the value in server.properties."""
        self.unclean_by_default = self.settings.unclean_leader_election_enable if override is None else override

    def count_election(self, unclean: bool) -> None:
        """Count an election of a leader if it is unclean."""
        self.unclean_elections += unclean

    # ------------------------------------------------------------------------------------------------------- brokers

    def add_broker(self, broker: cluster.Broker) -> None:
        """Add a live broker, or replace its registration."""
        self._brokers[broker.id] = broker
        self._brokers = dict(sorted(self._brokers.items()))
        self._brokers_changed()

    def remove_broker(self, broker_id: int) -> None:
        """Remove a broker whose registration is gone.

        Also remove its shutting-down mark and its failed log directories.
        """
        self._brokers.pop(broker_id, None)
        self._shutting_down.pop(broker_id, None)
        self.set_offline_dirs(broker_id, {})
        self._brokers_changed()

    def begin_shutdown(self, broker_id: int) -> None:
        """Mark a broker as shutting down: its replicas count as offline, but it still receives requests."""
        self._shutting_down[broker_id] = None
        self._brokers_changed()

    def set_offline_dirs(self, broker_id: int, offline: dict[cluster.TopicPartition, None]) -> None:
        """Store the broker's partitions whose log directory has failed; remove the broker's entry if there are none."""
        if offline:
            self._offline_dirs[broker_id] = offline
        else:
            self._offline_dirs.pop(broker_id, None)

    def _brokers_changed(self) -> None:
        self.online_brokers = frozenset(b for b in self._brokers if b not in self._shutting_down)

    def racks(self) -> dict[int, str | None]:
        """Return the rack of each live broker, ordered by broker id."""
        return {broker_id: self._brokers[broker_id].rack for broker_id in sorted(self._brokers)}

    def endpoint(self, broker: cluster.Broker) -> cluster.Endpoint:
        """Return the endpoint at which the controller reaches `broker`.

        Raises:
            BrokerEndpointNotAvailable: The broker is registered without the controller's listener.
        """
        settings = self.settings
        return self._listener(broker, settings.control_plane_listener_name or settings.inter_broker_listener_name)

    def inter_broker_endpoint(self, broker: cluster.Broker) -> cluster.Endpoint:
        """Return the endpoint at which brokers reach `broker`.

        Raises:
            BrokerEndpointNotAvailable: The broker is registered without the inter-broker listener.
        """
        return self._listener(broker, self.settings.inter_broker_listener_name)

    @staticmethod
    def _listener(broker: cluster.Broker, wanted: str) -> cluster.Endpoint:
        for endpoint in broker.endpoints:
            if endpoint.listener == wanted:
                return endpoint
        raise BrokerEndpointNotAvailable(f"broker {broker.id} is registered without listener {wanted}")

    # ------------------------------------------------------------------------------------------------------- replicas

    def is_online(self, broker_id: int, partition: cluster.TopicPartition) -> bool:
        """Return whether a replica is online.

        A replica is online if its broker is alive and not shutting down, and the partition's log directory on that
        broker has not failed.
        """
        return broker_id in self.online_brokers and partition not in self._offline_dirs.get(broker_id, ())

    def online_for(self, partition: cluster.TopicPartition) -> frozenset[int]:
        """Return the brokers on which a replica of `partition` would be online."""
        if not self._offline_dirs:
            return self.online_brokers
        return frozenset(b for b in self.online_brokers if self.is_online(b, partition))

    def reachable_for(self, partition: cluster.TopicPartition) -> Collection[int]:
        """Return the brokers, including those shutting down, on which `partition` has no failed log directory."""
        if not self._offline_dirs:
            return self._brokers
        return frozenset(b for b in self._brokers if partition not in self._offline_dirs.get(b, ()))

    def all_online(self) -> bool:
        """Return whether every assigned replica is online, without a check of each replica."""
        return not self._offline_dirs and all(b in self.online_brokers for b, hosted in self._hosted.items() if hosted)

    def replicas_on(self, broker_ids: Iterable[int]) -> ReplicasByBroker:
        """Return all replicas assigned to these brokers."""
        return {b: list(self._hosted[b]) for b in broker_ids if self._hosted.get(b)}

    def offline_replicas(self) -> ReplicasByBroker:
        """Return all assigned replicas that are not online."""
        offline: ReplicasByBroker = {}
        for broker_id, hosted in self._hosted.items():
            if broker_id not in self.online_brokers:
                partitions = list(hosted)
            else:
                partitions = [tp for tp in self._offline_dirs.get(broker_id, ()) if tp in hosted]
            if partitions:
                offline[broker_id] = partitions
        return offline

    # ------------------------------------------------------------------------------------------------------- topics

    def assignment(self, partition: cluster.TopicPartition) -> cluster.ReplicaAssignment:
        """Return the partition's assignment; an empty assignment for an unknown partition."""
        return self._assignments.get(partition, NO_ASSIGNMENT)

    def topic_assignment(self, topic: str) -> TopicAssignment:
        """Return all partitions of a topic with their assignments, ordered by number, and the topic's id.

        An unknown topic has no partitions.
        """
        partitions = self._topics.get(topic, {})
        assigned = tuple(cluster.PartitionAssignment(n, self._assignments[partitions[n]]) for n in sorted(partitions))
        return TopicAssignment(topic, assigned, self._topic_ids.get(topic))

    def add_topic(self, topic: str) -> None:
        """Add a topic, before its assignment is read."""
        self._topics.setdefault(topic, {})

    def set_topic_id(self, topic: str, topic_id: str | None) -> tuple[str, ...]:
        """Store the id that a topic's znode has. An id that a tool has dropped from the znode stays, as in Kafka.

        Return the other topics with this id if the topic did not have it before.
        """
        if topic_id is None or topic not in self._topics or self._topic_ids.get(topic) == topic_id:
            return ()
        self._drop_topic_id(topic)
        self._topic_ids[topic] = topic_id
        topics = self._topics_by_id.setdefault(topic_id, [])
        others = tuple(topics)
        topics.append(topic)
        return others

    def topic_ids_of(self, topics: Iterable[str]) -> tuple[cluster.TopicId, ...]:
        """Return the ids of these topics, without topics whose znode has none that is valid."""
        known = ((topic, self._topic_ids.get(topic, "")) for topic in topics)
        return tuple(cluster.TopicId(topic, topic_id) for topic, topic_id in known if TOPIC_ID.fullmatch(topic_id))

    def new_topic_id(self, topic: str) -> str | None:
        """Return an id for a topic without one; None if the protocol version has no topic ids (KIP-516).

        It is unique, because no other cluster has this cluster's id, and no other term or call has these numbers.
        """
        if not keeps_topic_ids(self.settings):
            return None
        while True:
            self._ids_made += 1
            numbers = f"{self._cluster_id} {self.epoch} {self._ids_made} {topic}"
            digest = hashlib.sha256(numbers.encode()).digest()[:16]
            topic_id = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if not topic_id.startswith("-") and topic_id not in self._topics_by_id:
                return topic_id

    def _drop_topic_id(self, topic: str) -> None:
        topic_id = self._topic_ids.pop(topic, None)
        if topic_id is not None:
            self._topics_by_id[topic_id].remove(topic)
            if not self._topics_by_id[topic_id]:
                del self._topics_by_id[topic_id]

    def learn(self, topic: str, partitions: Iterable[cluster.PartitionAssignment]) -> list[cluster.TopicPartition]:
        """Store the assignments of partitions that are unknown here or whose stored assignment is empty.

        Return these partitions.
        """
        added, unknown = [], dict[cluster.TopicPartition, cluster.ReplicaAssignment]()
        hosted = defaultdict[int, dict[cluster.TopicPartition, None]](dict)
        known = self._topics.setdefault(topic, {})
        for number, assignment in partitions:
            if number not in known:
                partition = known[number] = cluster.TopicPartition(topic, number)
                unknown[partition] = assignment
                if assignment.adding or assignment.removing:
                    self._reassigning[partition] = None
                for broker_id in assignment.replicas:
                    hosted[broker_id][partition] = None
            elif self.is_new(topic, number, assignment):
                partition = known[number]
                self.set_assignment(partition, assignment)
            else:
                continue
            added.append(partition)
        self._assignments.update(unknown)
        for broker_id, some in hosted.items():
            self._table_of(self._hosted, broker_id).update(some)
        return added

    def is_new(self, topic: str, number: int, assignment: cluster.ReplicaAssignment) -> bool:
        """Return whether the partition is unknown, or gets its first replicas by this assignment."""
        known = self._topics.get(topic, {}).get(number)
        return known is None or (bool(assignment.replicas) and not self._assignments[known].replicas)

    def set_assignment(self, partition: cluster.TopicPartition, assignment: cluster.ReplicaAssignment) -> None:
        """Replace or add a partition's assignment."""
        old = self._assignments.get(partition)
        self._topics.setdefault(partition.topic, {})[partition.partition] = partition
        self._assignments[partition] = assignment
        if assignment.adding or assignment.removing:
            self._reassigning[partition] = None
        for broker_id in assignment.replicas:
            self._table_of(self._hosted, broker_id)[partition] = None
        if old is None:
            return
        self._last_sent.pop(partition, None)
        if not (assignment.adding or assignment.removing):
            self._reassigning.pop(partition, None)
        for broker_id in old.replicas:
            if broker_id not in assignment.replicas:
                self._table_of(self._hosted, broker_id).pop(partition, None)
        leadership = self._leadership.get(partition)
        if leadership is not None:
            self._set_imbalanced(partition, is_imbalanced(assignment, leadership))

    def remove_replicas(self, broker_id: int, partitions: Iterable[cluster.TopicPartition]) -> None:
        """Remove the broker's replicas of these partitions from the assignments and the replica states (rule 3)."""
        hosted = self._table_of(self._hosted, broker_id)
        states = self._table_of(self._replica_states, broker_id)
        known: dict[tuple[tuple[int, ...], ...], cluster.ReplicaAssignment] = {}
        """Assignment -> the assignment without the broker; many partitions share one."""
        for partition in partitions:
            states.pop(partition, None)
            old = self._assignments.get(partition, NO_ASSIGNMENT)
            key = old.replicas, old.adding, old.removing
            rest = known.get(key)
            if rest is None:
                rest = known[key] = without_broker(old, broker_id)
            if old.adding or old.removing or not old.replicas:
                self.set_assignment(partition, rest)
                continue
            self._assignments[partition] = rest
            self._last_sent.pop(partition, None)
            hosted.pop(partition, None)
            leadership = self._leadership.get(partition)
            if leadership is not None:
                self._set_imbalanced(partition, is_imbalanced(rest, leadership))

    def remove_partitions(self, partitions: Iterable[cluster.TopicPartition]) -> None:
        """Remove all entries of these partitions (rule 3)."""
        for partition in partitions:
            self._topics[partition.topic].pop(partition.partition, None)
            assignment = self._assignments.pop(partition, NO_ASSIGNMENT)
            for broker_id in assignment.replicas:
                self._table_of(self._hosted, broker_id).pop(partition, None)
            for states in self._replica_states.values():
                states.pop(partition, None)
            for offline in self._offline_dirs.values():
                offline.pop(partition, None)
            self._leadership.pop(partition, None)
            self._last_sent.pop(partition, None)
            self._set_imbalanced(partition, False)
            self._leaderless.pop(partition, None)
            self._reassigning.pop(partition, None)
            state = self._partition_states.pop(partition, None)
            if state is PartitionState.OFFLINE and partition.topic not in self.started:
                self.offline_count -= 1
        self._offline_dirs = {broker_id: offline for broker_id, offline in self._offline_dirs.items() if offline}

    def remove_topics(self, topics: Iterable[str]) -> Flow[None]:
        """Remove these topics and all their partitions."""
        for topic in topics:
            partitions = tuple(self._topics.get(topic, {}).values())
            if partitions and topic not in self.queued:
                probe("T12 a topic that was removed by hand leaves no states behind")
            yield from for_each(partitions, self.remove_partitions)
            self._topics.pop(topic, None)
            self.dict_numbers.pop(topic, None)
            self._drop_topic_id(topic)

    # ------------------------------------------------------------------------------------------------------- states

    def partition_state(self, partition: cluster.TopicPartition) -> PartitionState:
        """Return the partition's state; NON_EXISTENT for an unknown partition."""
        return self._partition_states.get(partition, PartitionState.NON_EXISTENT)

    def set_partition_state(self, partition: cluster.TopicPartition, state: PartitionState) -> None:
        """Set a partition's state without a check of the transition, and update the count of rule 4."""
        old = self._partition_states.get(partition)
        self._partition_states[partition] = state
        if state is PartitionState.NEW or state is PartitionState.OFFLINE:
            self._leaderless[partition] = None
        else:
            self._leaderless.pop(partition, None)
        if (old is PartitionState.OFFLINE) is not (state is PartitionState.OFFLINE) and (
            partition.topic not in self.started
        ):
            self.offline_count += 1 if state is PartitionState.OFFLINE else -1

    def set_partitions_online(self, partitions: Sequence[cluster.TopicPartition]) -> None:
        """Set the states of these partitions to ONLINE; this is fast while no partition is leaderless."""
        if not self._leaderless:
            self._partition_states.update(dict.fromkeys(partitions, PartitionState.ONLINE))
            return
        for partition in partitions:
            self.set_partition_state(partition, PartitionState.ONLINE)

    def replica_state(self, broker_id: int, partition: cluster.TopicPartition) -> ReplicaState:
        """Return the replica's state; NON_EXISTENT for an unknown replica."""
        return self.replica_states_of(broker_id, (partition,))[0]

    def replica_states_of(self, broker_id: int, partitions: Sequence[cluster.TopicPartition]) -> list[ReplicaState]:
        """Return the states of a broker's replicas of these partitions; NON_EXISTENT for unknown replicas."""
        states = self._replica_states.get(broker_id)
        unknown = ReplicaState.NON_EXISTENT
        return [unknown] * len(partitions) if states is None else states.find(partitions, unknown)

    def set_replica_states(
        self, broker_id: int, partitions: Iterable[cluster.TopicPartition], state: ReplicaState
    ) -> None:
        """Set the states of a broker's replicas without a check of the transition."""
        self._table_of(self._replica_states, broker_id).update(dict.fromkeys(partitions, state))

    def learn_leaderships(self, leaderships: Iterable[cluster.Leadership]) -> None:
        """Store the leaderships that were read from state znodes, or written."""
        states = dict(leaderships)
        self._leadership.update(states)
        partitions = tuple(states)
        for last_sent in filter(None, self._last_sent.find(partitions, None)):
            last_sent.role = last_sent.metadata = None
        assignments = self._assignments.find(partitions, NO_ASSIGNMENT)
        imbalanced = list(map(is_imbalanced, assignments, states.values()))
        if self._imbalanced or any(imbalanced):
            for partition, is_one in zip(states, imbalanced, strict=True):
                self._set_imbalanced(partition, is_one)

    def lead(self, partition: cluster.TopicPartition, state: cluster.LeaderIsrAndControllerEpoch) -> None:
        """Store a partition's leadership."""
        self.learn_leaderships((cluster.Leadership(partition, state),))

    def last_sent_for(self, partition: cluster.TopicPartition, assignment: cluster.ReplicaAssignment) -> LastSent:
        """Return the state last sent for a partition with known leadership (rule 6)."""
        last_sent = self._last_sent.get(partition)
        if last_sent is None or last_sent.assignment is not assignment:
            last_sent = self._last_sent[partition] = LastSent(assignment)
        return last_sent

    def role_to_send(
        self,
        partition: cluster.TopicPartition,
        leadership: cluster.LeaderIsrAndControllerEpoch,
        assignment: cluster.ReplicaAssignment,
        is_new: bool,
    ) -> LeaderAndIsrPartitionState:
        """Return the LeaderAndIsr state last sent for a partition if it is the same, otherwise a new state (rule 6)."""
        last_sent = self.last_sent_for(partition, assignment)
        role = last_sent.role
        if role is None or role.is_new is not is_new:
            role = last_sent.role = _role(
                partition,
                leadership.controller_epoch,
                leadership.leader,
                leadership.leader_epoch,
                leadership.isr,
                leadership.zk_version,
                assignment.replicas,
                assignment.adding,
                assignment.removing,
                is_new,
            )
        return role

    def metadata_to_send(self, partitions: Sequence[cluster.TopicPartition]) -> list[UpdateMetadataPartitionState]:
        """Return the UpdateMetadata states last sent if they are the same, otherwise new states (rule 6).

        Partitions without a known leadership are left out. A state of a topic that is being deleted is not stored.
        """
        known = list(filter(None, self._last_sent.find(partitions, None)))
        if len(known) < len(partitions):
            partitions = list(compress(partitions, self._leadership.find(partitions, None)))
            known = [self.last_sent_for(partition, self.assignment(partition)) for partition in partitions]
        offline = self._offline_of(partitions, known)
        states = [last_sent.metadata for last_sent in known if last_sent.metadata is not None]
        if len(states) < len(known) or [state.offline_replicas for state in states] != offline:
            leaderships = filter(None, self._leadership.find(partitions, None))
            states = [
                _metadata(
                    partition,
                    led.controller_epoch,
                    led.leader,
                    led.leader_epoch,
                    led.isr,
                    led.zk_version,
                    last_sent.assignment.replicas,
                    replicas,
                )
                for partition, led, last_sent, replicas in zip(partitions, leaderships, known, offline, strict=True)
            ]
            for last_sent, state in zip(known, states, strict=True):
                last_sent.metadata = state
        if self.queued:
            return [_during_delete(state) if state.partition.topic in self.queued else state for state in states]
        return states

    def _offline_of(
        self, partitions: Sequence[cluster.TopicPartition], known: Sequence[LastSent]
    ) -> list[tuple[int, ...]]:
        """Return the replicas of each partition that are not online."""
        if self.all_online():
            return [()] * len(known)
        replicas = [last_sent.assignment.replicas for last_sent in known]
        if self._offline_dirs:
            return [
                tuple(b for b in ids if not self.is_online(b, partition))
                for partition, ids in zip(partitions, replicas, strict=True)
            ]
        offline = {ids: tuple(b for b in ids if b not in self.online_brokers) for ids in set(replicas)}
        return list(map(offline.__getitem__, replicas))

    def metadata_part(self, number: int, states: tuple[UpdateMetadataPartitionState, ...]) -> UpdateMetadataPart:
        """Return the part last sent at index `number` if it has these states, otherwise a new part (rule 6)."""
        part = self.last_metadata_parts.get(number)
        if part is None or part.entries != states:
            part = self.last_metadata_parts[number] = UpdateMetadataPart(states)
        return part

    def _set_imbalanced(self, partition: cluster.TopicPartition, imbalanced: bool) -> None:
        """Update the imbalanced partitions after a change of a partition's leadership or assignment (rule 5)."""
        if imbalanced is (partition in self._imbalanced):
            return
        topic = partition.topic
        if imbalanced:
            self._imbalanced[partition] = None
            self._imbalanced_of_topic[topic] = self._imbalanced_of_topic.get(topic, 0) + 1
        else:
            self._imbalanced.pop(partition, None)
            self._imbalanced_of_topic[topic] -= 1
            if not self._imbalanced_of_topic[topic]:
                del self._imbalanced_of_topic[topic]

    def imbalance(self) -> int:
        """Return the number of imbalanced partitions, without those of topics queued for deletion."""
        return len(self._imbalanced) - sum(self._imbalanced_of_topic.get(topic, 0) for topic in self.deletions.queued)

    # ------------------------------------------------------------------------------------------------------- deletions

    def set_deletions(self, sets: DeletionSets) -> None:
        """Store the sets of topics that TopicDeletionActor has sent."""
        self.deletions = sets
        self.queued = frozenset(sets.queued)
        self.started = frozenset(sets.started)

    def is_queued_for_deletion(self, partition: cluster.TopicPartition) -> bool:
        """Return whether the partition's topic is queued for deletion.

        No leader is elected for such a partition, and none of its replicas moves to Online.
        """
        return partition.topic in self.queued

    def deleting_topic(self, topic: str, partitions: Iterable[cluster.TopicPartition] | None = None) -> DeletingTopic:
        """Return the deletion states of a topic's replicas from the state tables, which are authoritative.

        Args:
            partitions: Partitions to include; None for all partitions of the topic.
        """
        replicas: list[cluster.PartitionReplica] = []
        by_state: dict[ReplicaState, list[cluster.PartitionReplica]] = {state: [] for state in _DELETION_STATES}
        for partition in self._topics.get(topic, {}).values() if partitions is None else partitions:
            for broker_id in self._assignments[partition].replicas:
                replica = cluster.PartitionReplica(partition, broker_id)
                replicas.append(replica)
                state = self.replica_state(broker_id, partition)
                if state in _DELETION_STATES:
                    by_state[state].append(replica)
        started, successful, ineligible = (tuple(by_state[state]) for state in _DELETION_STATES)
        return DeletingTopic(topic, tuple(replicas), started, successful, ineligible)


Handler: TypeAlias = Callable[[ControllerContext, AnyMessage], Flow[None]]
"""A function that handles the events of one class."""
