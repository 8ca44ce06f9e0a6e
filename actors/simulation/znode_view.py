"""The content of ZooKeeper, as its transactions show it: partition states, assignments, brokers, the controller.

Rule: a recorded trace has the writes and the reads of brokers, and lacks the writes of other clients and the ends of
sessions. So a read also shows a state, and a write that does not follow the last known state is no transition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from actors.core.controller.context import NO_ASSIGNMENT
from actors.simulation import observed_facts
from messages import store
from messages.cluster import NO_LEADER, LeaderIsrAndControllerEpoch, ReplicaAssignment, TopicPartition
from zk_bridge import paths
from zk_bridge.configs import decode_config
from zk_bridge.controller import decode_controller, decode_controller_epoch
from zk_bridge.partition_states import decode_state
from zk_bridge.topics import decode_topic

LATELY = 30.0
"""Seconds after which every node acts on a changed configuration."""

LOADING = 2.0
"""Seconds within which an elected controller loads its context."""

_MIN_INSYNC, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


class ZnodeView:
    """The values in ZooKeeper, and when they were written.

    Args:
        now: Returns the time in seconds.
        min_insync: The default of min.insync.replicas.
        elects_uncleanly: Returns the default of unclean.leader.election.enable.
    """

    def __init__(self, now: Callable[[], float], min_insync: int, elects_uncleanly: Callable[[], bool]) -> None:
        self._now = now
        self._default_min_insync = min_insync
        self._elects_uncleanly = elects_uncleanly
        self.states: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        self.assigned: dict[TopicPartition, ReplicaAssignment] = {}
        self.created_with: dict[TopicPartition, tuple[int, ...]] = {}
        """The first replicas of each partition."""
        self.topics: dict[str, dict[int, TopicPartition]] = {}
        self.deleting: dict[str, float] = {}
        """The time at which each topic was queued for deletion."""
        self.registered: dict[int, int] = {}
        """Broker id -> czxid of the registered brokers."""
        self.unregistered_at: dict[int, float] = {}
        """The time at which each broker's registration last ended."""
        self.controller = -1
        self.controller_session = 0
        """The session that owns /controller."""
        self.epoch = 0
        self.epoch_session: int | None = 0
        """The session that wrote the controller epoch; None if a trace has only a read of the epoch."""
        self._epoch_version = -1
        self.written: dict[TopicPartition, dict[int, set[LeaderIsrAndControllerEpoch]]] = {}
        """All states that were ever written, by partition and version: a topic may be created again."""
        self.written_at: dict[TopicPartition, float] = {}
        """When each partition state was last written."""
        self.born: dict[str, int] = {}
        """Topic -> the ZooKeeper transaction that created it."""
        self.deleted_at: dict[str, float] = {}
        """When each topic's deletion ended."""
        self.in_sync_since: dict[tuple[int, TopicPartition], float] = {}
        """When each replica last entered the ISR."""
        self.free_at: dict[tuple[int, TopicPartition], float] = {}
        """The time at which each former replica was last assigned or being removed."""
        self.moved_away: dict[tuple[int, TopicPartition], float] = {}
        """The time at which a reassignment removed each replica."""
        self.led_uncleanly: dict[TopicPartition, None] = {}
        """Partitions whose leader was not in the ISR when it was elected."""
        self.changes = 0
        """Number of changes of leaders and registrations."""
        self.overrides: dict[str, dict[str, set[str]]] = {}
        """All values that each topic's overrides have had, by topic and name."""
        self._min_insync: dict[str, int] = {}
        """The smallest min.insync.replicas that each topic has had."""
        self._unclean: dict[str, bool] = {}
        """The overrides of unclean.leader.election.enable."""
        self._unclean_until: dict[str, float] = {}
        """The time until which each topic allowed unclean elections."""
        self._born_at: dict[str, float] = {}
        self._ids: dict[str, str | None] = {}
        """Topic -> the topic id in its znode."""
        self._controlled_at = 0.0
        """When /controller was last created."""

    # ---------------------------------------------------------------------------------------------------- queries

    @property
    def remaining(self) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        """The states of the partitions whose topics are not queued for deletion."""
        return {tp: state for tp, state in self.states.items() if tp.topic not in self.deleting}

    def replicas_of(self, partition: TopicPartition) -> tuple[int, ...]:
        """Return the assigned replicas of a partition; none if it does not exist."""
        return self.assigned[partition].replicas if partition in self.assigned else ()

    def controlled_for(self) -> float:
        """Return for how many seconds the same broker has been the controller."""
        return self._now() - self._controlled_at

    def may_control(self, session: int) -> bool:
        """Return whether a session may have written the present controller epoch."""
        return self.epoch_session in (session, None)

    def is_forgotten(self, topic: str) -> bool:
        """Return whether the topic was deleted before the present controller was elected."""
        return topic not in self.topics and self.deleted_at.get(topic, math.inf) < self._controlled_at

    def born_at(self, topic: str) -> float:
        """Return when a topic was created."""
        return self._born_at.get(topic, 0.0)

    def was_assigned(self, node: int, partition: TopicPartition) -> bool:
        """Return whether a reassignment removed this replica less than LATELY seconds ago.

        The leader possibly still treats the node as a replica.
        """
        return self._now() - self.moved_away.get((node, partition), -math.inf) < LATELY

    def was_deleted_since(self, topic: str, moment: float) -> bool:
        """Return whether a topic is queued for deletion, or was deleted (and perhaps recreated) after that moment."""
        return topic not in self.topics or topic in self.deleting or self.born_at(topic) > moment

    def was_queued_before_term(self, topic: str) -> bool:
        """Return whether a topic was queued for deletion before the present controller had loaded its context."""
        return self.deleting[topic] < self._controlled_at + LOADING

    def least_insync(self, partition: TopicPartition) -> int:
        """Return the smallest number of in-sync replicas with which the leader may commit records.

        During a reassignment the leader may have the old or the new set of replicas; the smaller set counts.
        """
        assigned = self.assigned.get(partition, NO_ASSIGNMENT)
        settled = len(assigned.replicas) - max(len(assigned.adding), len(assigned.removing))
        return min(self._min_insync.get(partition.topic, self._default_min_insync), max(settled, 1))

    def is_compacted(self, topic: str) -> bool:
        """Return whether the topic's cleanup.policy has, or had, compact."""
        return any("compact" in policy for policy in self.overrides.get(topic, {}).get("cleanup.policy", ()))

    def least(self, topic: str, name: str, default: int) -> int:
        """Return the smallest value that a topic config has had, with its default."""
        return min((default, *map(int, self.overrides.get(topic, {}).get(name, ()))))

    def may_elect_uncleanly(self, topic: str) -> bool:
        """Return whether unclean elections of the topic are enabled, or were enabled a moment ago."""
        return self._allows_unclean(topic) or self._unclean_until.get(topic, -LATELY) > self._now() - LATELY

    def _allows_unclean(self, topic: str) -> bool:
        configured = self._unclean.get(topic)
        return self._elects_uncleanly() if configured is None else configured

    # ---------------------------------------------------------------------------------------------------- changes

    def transaction(
        self, ops: tuple[store.WriteOp, ...], results: tuple[store.Written, ...], session: int, zxid: int
    ) -> Iterator[object]:
        """Process a ZooKeeper transaction, and yield its facts."""
        for op, result in zip(ops, results, strict=True):
            kind, path = op.kind, op.path
            if path.startswith("/brokers/topics/"):
                yield from self._topic_written(op, result, path.split("/"), session, zxid)
            elif path == paths.CONTROLLER_EPOCH and kind in (store.SET, store.CREATE):
                before, self.epoch = self.epoch, decode_controller_epoch(path, op.data)
                self.epoch_session = session
                version, self._epoch_version = self._epoch_version, result.version if kind == store.SET else 0
                if kind == store.SET and self._epoch_version == version + 1:
                    yield observed_facts.ControllerEpochWritten(before, self.epoch, session)
            elif path == paths.CONTROLLER and kind in (store.CREATE_EPHEMERAL, store.DELETE):
                owner, is_new = self.controller_session, kind == store.CREATE_EPHEMERAL
                self.controller_session = session if is_new else 0
                self.controller = decode_controller(path, op.data) if is_new else -1
                self._controlled_at = self._now()
                yield (
                    observed_facts.ControllerWritten(session)
                    if is_new
                    else observed_facts.ControllerDeleted(owner, session)
                )
            elif path.startswith("/admin/delete_topics/"):
                topic = path.rpartition("/")[2]
                if kind == store.CREATE:
                    self.deleting[topic] = self._now()
                elif kind == store.DELETE:
                    self.deleting.pop(topic, None)
                    self.deleted_at[topic] = self._now()
            elif path.startswith("/config/topics/") and kind in (store.CREATE, store.SET):
                self._apply_overrides(path.rpartition("/")[2], dict(decode_config(path, op.data)))
            elif path.startswith("/brokers/ids/"):
                self.changes += 1
                broker = int(path.rpartition("/")[2])
                if kind == store.DELETE:
                    self.registered.pop(broker, None)
                    self.unregistered_at[broker] = self._now()
                    yield observed_facts.BrokerUnregistered(broker)
                elif kind == store.CREATE_EPHEMERAL:
                    self.registered[broker] = zxid

    def was_read(self, path: str, data: bytes | None, version: int, zxid: int) -> None:
        """Process the data of a znode that a node has read; only a recorded trace needs this (the module's rule)."""
        parts = path.split("/")
        if path.startswith("/config/topics/"):
            self._apply_overrides(parts[3], dict(decode_config(path, data)))
        elif path == paths.CONTROLLER_EPOCH:
            if version > self._epoch_version:
                self.epoch, self._epoch_version = decode_controller_epoch(path, data), version
                self.epoch_session = None
        elif path.startswith("/brokers/topics/") and len(parts) == 4:
            if parts[3] not in self.topics:
                self.born[parts[3]], self._born_at[parts[3]] = zxid, self._now()
            self._assign(parts[3], path, data)
        elif path.startswith("/brokers/topics/") and len(parts) == 7:
            partition, state = TopicPartition(parts[3], int(parts[5])), decode_state(path, data, version)
            self.written.setdefault(partition, {}).setdefault(version, set()).add(state)
            known = self.states.get(partition)
            if known is None or known.zk_version < version:
                self._learn(partition, state)

    def was_listed(self, path: str, names: tuple[str, ...]) -> None:
        """Process the names of a znode's children that a node has read: the topics that are queued for deletion."""
        if path == paths.DELETE_TOPICS:
            for topic in names:
                self.deleting.setdefault(topic, self._now())

    def _topic_written(
        self, op: store.WriteOp, result: store.Written, parts: list[str], session: int, zxid: int
    ) -> Iterator[object]:
        topic = parts[3]
        if len(parts) == 4:
            last_id = self._ids.get(topic)
            if op.kind in (store.CREATE, store.SET):
                self._ids[topic] = decode_topic(op.path, op.data).topic_id
            if op.kind in (store.SET, store.DELETE):
                lost = last_id if op.kind == store.SET and last_id != self._ids[topic] else None
                yield observed_facts.TopicWritten(topic, session, lost)
            if op.kind == store.DELETE:
                self.changes += 1
                partitions = self.topics.pop(topic, {}).values()
                had = {each: self.assigned[each].replicas for each in partitions if each in self.assigned}
                yield observed_facts.TopicDeleted(topic, had, topic in self.deleting)
                for partition in partitions:
                    self.assigned.pop(partition, None)
                    self.states.pop(partition, None)
            elif op.kind in (store.CREATE, store.SET):
                if op.kind == store.CREATE:
                    self.born[topic], self._born_at[topic] = zxid, self._now()
                self._assign(topic, op.path, op.data)
        elif len(parts) == 7 and parts[6] == "state":
            partition = TopicPartition(topic, int(parts[5]))
            if op.kind == store.DELETE:
                self.changes += 1
                self.states.pop(partition, None)
            elif op.kind in (store.CREATE, store.SET):
                version = result.version if op.kind == store.SET else 0
                after = decode_state(op.path, op.data, version)
                before = self._learn(partition, after)
                self.written.setdefault(partition, {}).setdefault(version, set()).add(after)
                if (version and before is None) or (before is not None and before.zk_version != version - 1):
                    return  # the write before it is not known
                yield observed_facts.PartitionStateWritten(partition, before, after, session)

    def _learn(
        self, partition: TopicPartition, after: LeaderIsrAndControllerEpoch
    ) -> LeaderIsrAndControllerEpoch | None:
        """Note the new state of a partition; return the state before."""
        before, now = self.states.get(partition), self._now()
        self.states[partition] = after
        self.written_at[partition] = now
        self.changes += 1
        for replica in set(after.isr).difference(() if before is None else before.isr):
            self.in_sync_since[replica, partition] = now
        if before is None:
            self.led_uncleanly.pop(partition, None)
        elif after.leader != NO_LEADER and after.leader not in before.isr:
            self.led_uncleanly[partition] = None
        return before

    def _assign(self, topic: str, path: str, data: bytes | None) -> None:
        """Process the assignments in the znode of a topic."""
        known, now = self.topics.setdefault(topic, {}), self._now()
        there = decode_topic(path, data).partitions
        for number in known.keys() - {number for number, _ in there}:
            self.assigned.pop(known.pop(number), None)
        for number, each in there:
            partition = known.setdefault(number, TopicPartition(topic, number))
            if partition not in self.assigned:
                self.created_with[partition] = each.replicas
            before = self.assigned.get(partition, NO_ASSIGNMENT)
            self.assigned[partition] = each
            for broker in each.replicas if before.replicas else ():
                if broker not in before.replicas or broker in before.removing:
                    self.free_at[broker, partition] = now
            gone = (broker for broker in before.replicas if broker not in each.replicas)
            self.moved_away.update(((broker, partition), now) for broker in gone)

    def _apply_overrides(self, topic: str, config: Mapping[str, str]) -> None:
        """Process new overrides of a topic.

        Overrides that are written when the topic is created apply from its creation on.
        """
        for name, value in config.items():
            self.overrides.setdefault(topic, {}).setdefault(name, set()).add(value)
        if self._allows_unclean(topic):
            self._unclean_until[topic] = self._now()
        self._unclean.pop(topic, None)
        if _UNCLEAN in config:
            self._unclean[topic] = config[_UNCLEAN] == "true"
        required = int(config.get(_MIN_INSYNC, self._default_min_insync))
        if self._born_at.get(topic) != self._now():
            required = min(required, self._min_insync.get(topic, self._default_min_insync))
        self._min_insync[topic] = required
