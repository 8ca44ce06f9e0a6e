"""What a cluster does, as facts for monitors, and what these facts together say: znodes, logs, epochs and losses.

Rule 1: a simulated cluster and a recorded trace use the same methods here, so that both give the same facts.
Rule 2: expected values come from the requests, the znodes and the calls of I/O adapters, never from actors' state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from actors.runtime import DEAD_LETTER
from actors.simulation.client_history import ClientHistory
from actors.simulation.exchanges import Exchanges
from actors.simulation.observed_facts import HandlerFailed, LogCalled, LogCopied, Process, RequestSent, ResponseSent
from actors.simulation.reachability import Reachability
from actors.simulation.replicas import Replicas
from actors.simulation.simulated_cluster import Cluster, host_of
from actors.simulation.znode_view import ZnodeView
from messages import store
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.cluster import TopicPartition, partition_of_log
from messages.vocabulary import Message

COPYING = frozenset(("limit_copies", "begin_copy", "copy"))
"""Calls of the I/O adapter "logs" that copy a log to another directory."""


class ObservedCluster:
    """A cluster as its facts show it.

    Args:
        now: Returns the time in seconds.
        settings: The settings of a node, by the names of `NodeSettings`.
        cluster: The simulated cluster; None for a recorded trace.

    Attributes:
        emit: Receives each fact after this class has processed it.
    """

    def __init__(self, now: Callable[[], float], settings: Any, cluster: Cluster | None = None) -> None:
        self.now = now
        self._cluster = cluster
        self.emit: Callable[[object], None] = lambda fact: None
        self.is_whole = True
        """Whether each node was observed since its first start."""
        self.traced: set[int] | None = None
        """The nodes of which there is a trace; None for all nodes."""
        self.started: dict[int, int] = {}
        """How often each node has started."""
        self.pending: dict[int, Callable[[], Iterable[object]]] = {}
        """Functions that return facts about a node, each called after the node's deliveries until it is removed."""
        self.sessions: dict[int, int] = {}
        """ZooKeeper session -> node."""
        self.znodes = ZnodeView(
            now,
            settings.min_insync_replicas,
            lambda: settings.unclean_leader_election_enable or (cluster is not None and cluster.elects_uncleanly),
        )
        self.replicas = Replicas()
        partitions = settings.offsets_topic_num_partitions
        self.exchanges = Exchanges(self.znodes.states, self.replicas, partitions, cluster is not None)
        self.history = ClientHistory()
        self._nodes = None if cluster is None else Reachability(cluster, self.znodes)
        self.power_failed = False
        """Whether a machine has lost unflushed data."""
        self.power_failed_at: dict[int, float] = {}
        """When each machine last lost unflushed data."""
        self.damaged: dict[TopicPartition, None] = {}
        """Partitions of which a replica had a flipped bit."""
        self.lost: dict[TopicPartition, None] = {}
        """Partitions of which the only replica in sync had a flipped bit."""
        self.mixed: dict[TopicPartition, None] = {}
        """Partitions of which a follower keeps records that its leader does not know to be of an earlier epoch."""
        self._epoch_gaps: dict[TopicPartition, list[tuple[int, int]]] = {}
        """Partition -> the log end offsets of followers, and where they think that the next leader epoch began."""
        self.resumed: dict[TopicPartition, None] = {}
        """Partitions that continued in the same leader epoch after a power failure of their leader."""
        self._copies: dict[tuple[int, str], tuple[str, int]] = {}
        """Node and folder of a log -> the folder of its copy, and the bytes there."""
        self._copy_rates: dict[Process, int] = {}
        self._led_at_power_failure: dict[str, dict[TopicPartition, int]] = {}

    # ---------------------------------------------------------------------------------------------------- what happens

    def transaction(
        self, ops: tuple[store.WriteOp, ...], results: tuple[store.Written, ...], session: int, zxid: int
    ) -> None:
        """Process a ZooKeeper transaction."""
        for fact in self.znodes.transaction(ops, results, session, zxid):
            self.history.take(fact)
            self.emit(fact)

    def take(self, fact: object) -> None:
        """Process a fact that needs no other processing."""
        self.emit(fact)

    def request_sent(self, source: str, target: str, request: object) -> None:
        """Process a request of a controller that leaves a host."""
        self.emit(RequestSent(source, target, request))
        epochs = self._led_at_power_failure.get(target)
        if epochs is not None and isinstance(request, LeaderAndIsrRequest):
            for state in request.partition_states:
                if host_of(state.leader) == target and epochs.get(state.partition) == state.leader_epoch:
                    self.resumed[state.partition] = None

    def handle_request(self, connection: Hashable, process: Process, request: Message) -> None:
        """Process a request that arrives at a node."""
        self.exchanges.handle_request(connection, process, request, self.now())

    def handle_response(self, connection: Hashable, response: Message | None) -> None:
        """Process a response that leaves a node."""
        fact = self.exchanges.handle_response(connection, response, self.now())
        if fact is not None:
            self._note_losses(fact)
            self.emit(fact)

    def _note_losses(self, fact: ResponseSent) -> None:
        """Note the partitions that a replica without committed records leads, because it is alone in the ISR."""
        for partition, isr in self.replicas.leads_without_records(fact.node, fact.request, fact.response):
            if set(isr) == {fact.node} and partition in self.damaged:
                self.lost[partition] = None

    def handle_delivery(self, process: Process, message: str, effects: tuple[Any, ...], error: str | None) -> None:
        """Process the adapter calls and the failure of the handler of a `message`."""
        for effect in effects:
            if effect.port == "logs":
                if self.is_simulated and effect.method == "replicate" and not effect.error:
                    self._note_late_epoch(process[0], effect.args[0])
                for fact in self.replicas.handle_call(process, effect, message, self.now()):
                    if not self.is_simulated and isinstance(fact, LogCalled):
                        self._note_shorter_log(fact)
                    self.emit(fact)
                if self.is_simulated and effect.method in COPYING:
                    self._handle_copy(process, effect)
        if error is not None and error != DEAD_LETTER:
            self.emit(HandlerFailed(process[0], error, message))

    def _note_shorter_log(self, fact: LogCalled) -> None:
        """Infer that a machine lost unflushed data from a log that has become shorter while no process had it open.

        A trace does not say so; a killed process leaves all that it has written.
        """
        before = fact.opened_before
        if before is not None and before.folder == fact.view.folder and fact.view.end < fact.end_before:
            self.power_fails(fact.node)

    def _note_late_epoch(self, node: int, path: str) -> None:
        """Note a partition of which a follower keeps records that the leader of a later epoch never had.

        If the first batches of an epoch were cleaned away, a follower takes the first one that it gets for the epoch's
        beginning, as in Kafka (`LeaderEpochFileCache.assign`). When it leads, it lets others truncate only to there.
        """
        partition = partition_of_log(path.rpartition("/")[2])
        view = self.replicas.log(node, partition)
        start = self.cluster.machines[node].disks.start_of_latest_epoch(path)
        if view is None or start < view.end:
            return
        gaps = self._epoch_gaps.setdefault(partition, [])
        if any(begins < view.end <= late for begins, late in gaps):
            self.mixed[partition] = None
        if start > view.end:
            gaps.append((view.end, start))

    def _handle_copy(self, process: Process, effect: Any) -> None:
        """Process a call that copies a log to another directory, or that sets the rate of such copies."""
        (node, _), path = process, effect.args[0]
        if effect.method == "limit_copies":
            self._copy_rates[process] = path
        elif effect.method == "begin_copy":
            self._copies[node, path] = effect.args[1], 0
        elif (node, path) in self._copies:
            folder, before = self._copies[node, path]
            disks = self.cluster.machines[node].disks
            there = f"{folder.rpartition('/')[0]}/{path.rpartition('/')[2]}"  # its name if it was complete
            size = disks.size_of(folder) or disks.size_of(there)
            self._copies[node, path] = folder, size
            if size > before:
                self.emit(LogCopied(node, size - before, self._copy_rates.get(process)))

    def power_fails(self, node: int) -> None:
        """Process a power failure, which loses unflushed data."""
        self.power_failed = True
        self.power_failed_at[node] = self.now()
        led = {partition: state.leader_epoch for partition, state in self.znodes.states.items() if state.leader == node}
        self._led_at_power_failure.setdefault(host_of(node), {}).update(led)

    def log_damaged(self, node: int, partition: TopicPartition) -> None:
        """Process a flipped bit in a log, whose committed records are then missing on this node until it fetches them.

        The node's other logs are whole, but the invariants that allow for a power failure of the node also apply here.
        """
        self.damaged[partition] = None
        self.power_failed_at[node] = self.now()

    # ---------------------------------------------------------------------------------------------------- queries

    @property
    def is_simulated(self) -> bool:
        """Whether the cluster is simulated, and not read from a trace."""
        return self._cluster is not None

    @property
    def cluster(self) -> Cluster:
        """The simulated cluster, for its clients and for a look at its nodes."""
        assert self._cluster is not None
        return self._cluster

    @property
    def nodes(self) -> Reachability:
        """The faults of the simulated cluster."""
        assert self._nodes is not None
        return self._nodes

    def starts(self, node: int) -> int:
        """Return how often a node has started."""
        return self.cluster.machines[node].starts if self.is_simulated else self.started.get(node, 0)

    def node_of_session(self, session: int) -> int | None:
        """Return the node that has a ZooKeeper session; None for other clients."""
        if not self.is_simulated:
            return self.sessions.get(session)
        machines = self.cluster.machines.values()
        return next((m.id for m in machines if m.link is not None and m.link.session_id == session), None)

    def leader_of(self, partition: TopicPartition) -> int | None:
        """Return the node of the simulated cluster that leads a partition; None if there is none."""
        state = self.znodes.states.get(partition)
        return None if state is None or state.leader not in self.cluster.machines else state.leader

    def healthy_for(self, node: int) -> float:
        """Return for how many seconds a node has had no fault; 0.0 if this is not known."""
        return 0.0 if self._nodes is None else self._nodes.healthy_for(node)

    def holders(self, partition: TopicPartition, offset: int) -> list[int]:
        """Return the nodes whose logs reach this offset, with those replicas that are not observed."""
        traced, replicas = self.traced, self.znodes.replicas_of(partition)
        unknown = [] if traced is None else [node for node in replicas if node not in traced]
        return [*self.replicas.holders(partition, offset), *unknown]

    def is_hurt(self, node: int) -> bool:
        """Return whether the process of a node may treat one of its disks as failed."""
        return self.is_simulated and self.cluster.machines[node].disks.hurt

    def led_for(self, node: int, partition: TopicPartition) -> float:
        """Return for how many seconds a node has known the current leader epoch; 0.0 if the node does not know it."""
        accepted = self.exchanges.accepted.get((node, self.starts(node)))
        state = self.znodes.states.get(partition)
        if accepted is None or state is None or accepted.leader_epochs.get(partition) != state.leader_epoch:
            return 0.0
        return self.now() - accepted.led_since[partition]

    def was_led_before(self, node: int, partition: TopicPartition) -> bool:
        """Return whether the node has led this partition since before the topic was created.

        The node then still leads the partition of an earlier, deleted topic of the same name, in an equal leader epoch.
        """
        return self.led_for(node, partition) > self.now() - self.znodes.born_at(partition.topic)

    def leads_intact(self, node: int, partition: TopicPartition) -> bool:
        """Return whether a leader has lost no unflushed data since it became the leader."""
        return self.led_for(node, partition) < self.now() - self.power_failed_at.get(node, -math.inf)

    def first_offset(self, partition: TopicPartition) -> int:
        """Return the offset before which the partition's records may be deleted.

        This is the larger of the leader's log start offset and the largest offset in a DeleteRecords request.
        """
        state = self.znodes.states.get(partition)
        log = None if state is None else self.replicas.log(state.leader, partition)
        return max(self.history.deleted.get(partition, 0), 0 if log is None else log.start)

    def is_lossy(self, partition: TopicPartition) -> bool:
        """Return whether the partition may lose committed records.

        The cause is a power failure, an unclean election, flipped bits in the only replica that is in sync, or a leader
        epoch whose beginning was cleaned away (`mixed`).
        """
        if partition in self.lost or partition in self.mixed:
            return True
        return self.power_failed or partition in self.znodes.led_uncleanly

    def may_lack(self, partition: TopicPartition) -> bool:
        """Return whether a replica of the partition may lack committed records, although others have them."""
        return partition in self.damaged or self.is_lossy(partition)

    def has_lost(self, node: int, partition: TopicPartition) -> bool:
        """Return whether the process of a node took the log directory of a partition offline."""
        log = self.replicas.log(node, partition)
        return log is not None and self.replicas.lost_directories.get((node, log.directory)) == self.starts(node)
