"""The checker observes a simulated cluster (ZooKeeper writes, requests, deliveries) and checks the invariants.

Rule 1: the invariants are a table (`actors.simulation.invariants`). After each step of the cluster, only the values
        that the step affects are updated, so that the cost of a check depends only on what the step changed.
Rule 2: expected values come from the requests and the znodes, never from the state of the checked actors.
Rule 3: only the first violation is kept, with its time; later violations are often its consequences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import attrs
from thespian.actors import WakeupMessage

from actors.controller.channel import BrokerChannelActor
from actors.controller.controller import ControllerActor
from actors.coordinator.group import GroupActor
from actors.node.assembly import Node
from actors.runtime import DEAD_LETTER, AdapterCall, Delivery
from actors.simulation.exchanges import Exchanges, ResponseSent
from actors.simulation.members import AssignmentReceived
from actors.simulation.recorded_changes import StateChanges
from actors.simulation.replicas import Replicas
from actors.simulation.simulated_cluster import CLIENT, Cluster, host_of, node_of
from actors.simulation.simulated_transactions import (
    CommittedView,
    SimulatedTransaction,
    StableOffsetSeen,
    TransactionBroken,
)
from actors.simulation.streams import ProducerStream, StreamBroken
from messages import errors, store
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.metadata import MetadataResponse
from messages.apis.update_metadata import ControllerRequest, UpdateMetadataRequest
from messages.cluster import NO_LEADER, LeaderIsrAndControllerEpoch, TopicPartition
from messages.events import AutoPreferredReplicaLeaderElection, BrokerChange, Event
from messages.groups import LoadedGroup, StartGroup
from messages.node import NodeSettings
from messages.partition import BatchesAppended, LogMoved, LogRead, Replicate
from messages.vocabulary import Message
from zk_bridge import paths
from zk_bridge.configs import decode_config
from zk_bridge.controller import decode_controller, decode_controller_epoch
from zk_bridge.partition_states import decode_state
from zk_bridge.topics import decode_topic

_CONTROLLERS = (ControllerActor.__name__, BrokerChannelActor.__name__)

_AFRESH = ("open", "close", "truncate", "restart", "begin_epoch")
"""Calls that end a log's recorded high watermark: a new leader begins with that of its former follower."""

_FILLING = ("append", "append_as_coordinator", "append_marker", "replicate")
"""Calls that write to a log."""


PERHAPS_APPENDED = (errors.REQUEST_TIMED_OUT, errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""Error codes of a produce whose batch may be in the log nevertheless."""


class State(NamedTuple):
    """The content of a partition's state znode, with the version of the znode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int


class Assigned(NamedTuple):
    """The assignment of a partition: all its replicas, and which of them are being added or removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@attrs.frozen
class PartitionStateWritten:
    """A partition's state was written; `before` is None for a new znode."""

    partition: TopicPartition
    before: State | None
    after: State
    session: int


@attrs.frozen
class TopicDeleted:
    """The controller deleted the znode of a topic; `replicas` are those of the topic."""

    topic: str
    replicas: Mapping[TopicPartition, tuple[int, ...]]


@attrs.frozen
class TopicWritten:
    """The znode of a topic was changed or deleted by a ZooKeeper session."""

    topic: str
    session: int


@attrs.frozen
class ControllerEpochWritten:
    """/controller_epoch was written to ZooKeeper."""

    before: int
    after: int
    session: int


@attrs.frozen
class RequestSent:
    """A controller sent a request to a broker."""

    source: str
    target: str
    request: Any


@attrs.frozen
class HandlerFailed:
    """An actor's message handler raised an exception."""

    node: int
    error: str
    message: str


@attrs.frozen
class ControllerDeleted:
    """/controller was deleted.

    It was deleted by its owner, by another session, or by the server (session 0), because the owner's session expired.
    """

    owner: int
    session: int


@attrs.frozen
class EventHandled:
    """The active controller has handled one of the `CHECKED_EVENTS`, and is now idle.

    `before` is the controller's cached leadership of each partition when the event arrived.
    """

    node: int
    event: Event
    process: Node
    controller: ControllerActor
    before: dict[TopicPartition, LeaderIsrAndControllerEpoch]
    at: float


CHECKED_EVENTS = (BrokerChange, AutoPreferredReplicaLeaderElection)
"""The events after which invariants check the controller's result."""


@attrs.frozen
class HighWatermarkMoved:
    """The high watermark of a leader changed within one leader epoch."""

    node: int
    log: str
    before: int
    after: int


@attrs.frozen
class PointsWritten:
    """A node wrote the recovery points and log start offsets of its logs."""

    node: int


class Acknowledged(NamedTuple):
    """An acknowledged record, the time of the acknowledgement, and the zxid of the topic's creation."""

    value: bytes
    born: int
    at: float


@attrs.frozen
class ClusterAtRest:
    """No fault or action has occurred for some time, so all brokers must agree."""


@attrs.frozen
class ClusterQueried:
    """An idle cluster returned its metadata, records and consumer groups."""


@attrs.frozen
class Ticked:
    """Half a second has passed; invariants check how long states last."""


LATELY = 30.0
"""Seconds after which every node acts on a changed configuration."""

LOADING = 2.0
"""Seconds within which an elected controller loads its context."""


@attrs.frozen
class Violation:
    """A violated invariant: its name, what was observed, and the time in seconds since the start of the run."""

    invariant: str
    text: str
    at: float

    def __str__(self) -> str:
        return f"{self.at:.3f} s: {self.invariant}: {self.text}"


class Checker:
    """Observes a simulated cluster, and checks the invariants.

    The creator sets `cluster`; `rows` are the invariants. The following attributes have the values in ZooKeeper:
    `states`, `assigned`, `configs` (by topic), `deleting`, `registered` (id -> czxid), `controller`, `epoch` and
    `epoch_session`. `written` has all states that were ever written.
    """

    def __init__(self, rows: Iterable[Any]) -> None:
        self.cluster: Cluster
        self.violations: list[Violation] = []
        self.states: dict[TopicPartition, State] = {}
        self.assigned: dict[TopicPartition, Assigned] = {}
        self.created_with: dict[TopicPartition, tuple[int, ...]] = {}
        """The first replicas of each partition."""
        self.topics: dict[str, dict[int, TopicPartition]] = {}
        self.moved_away: dict[tuple[int, TopicPartition], float] = {}
        """The time at which a reassignment removed each replica."""
        self.configs: dict[str, dict[str, str]] = {}
        self.deleting: dict[str, float] = {}
        """The time at which each topic was queued for deletion."""
        self.registered: dict[int, int] = {}
        self.unregistered_at: dict[int, float] = {}
        """The time at which each broker's registration last ended."""
        self.balanced_at: dict[int, float] = {}
        """The time at which each node, as controller, last checked for imbalanced leaders."""
        self.lapsed: dict[int, Node | None] = {}
        """The process of each broker when its registration last ended."""
        self.controller = -1
        self.controller_session = 0
        """The session that owns /controller."""
        self.has_begun = False
        """Whether the broker in /controller has begun its term."""
        self.epoch = 0
        self.epoch_session = 0
        self.epochs_of: dict[int, int] = {}
        """Controller epoch -> broker id in the requests with this epoch."""
        self.sent_states: dict[str, dict[TopicPartition, tuple[int, int, int]]] = {}
        """The state last sent to each host for a partition: controller epoch, topic creation (`born`), leader epoch."""
        self.written: dict[TopicPartition, dict[int, set[State]]] = {}
        """All written states by partition and version: a topic may be created again."""
        self.born: dict[str, int] = {}
        """Topic -> the ZooKeeper transaction that created it."""
        self.acknowledged: dict[TopicPartition, dict[int, Acknowledged]] = {}
        """Acknowledged records, by offset."""
        self.deleted: dict[TopicPartition, int] = {}
        """The largest offset up to which a client requested the deletion of records."""
        self.read: dict[TopicPartition, dict[int, bytes]] = {}
        """Records that the last check of the idle cluster read, by offset."""
        self.announced: dict[tuple[int, int], tuple[int, ...]] = {}
        """The live brokers that each node's controller last sent to each broker, by the broker's epoch."""
        self.seen: dict[TopicPartition, dict[int, bytes]] = {}
        """Records that consumers have read, by offset."""
        self.streams: dict[int, ProducerStream] = {}
        """The batches that idempotent producers have written, by producer id."""
        self.transactions: dict[str, SimulatedTransaction] = {}
        """All transactions by name."""
        self.stable_offsets: dict[tuple[int, int, TopicPartition, int, int], int] = {}
        """The largest last stable offset of each leader, by node, process, creation of the topic and leader epoch."""
        self.read_committed: dict[TopicPartition, CommittedView] = {}
        """Records that readers of committed data got at the last check of the idle cluster."""
        self.unsure_groups: set[tuple[int, str]] = set()
        """(node, group) pairs whose append to the log failed after it had begun."""
        self.replicas = Replicas()
        self.exchanges = Exchanges()
        self.written_at: dict[TopicPartition, float] = {}
        """When each partition state was last written."""
        self.in_sync_since: dict[tuple[int, TopicPartition], float] = {}
        """When each replica last entered the ISR."""
        self.free_at: dict[tuple[int, TopicPartition], float] = {}
        """The time at which each former replica was last assigned or being removed."""
        self.deleted_at: dict[str, float] = {}
        """When each topic's deletion ended."""
        self.led_uncleanly: dict[TopicPartition, None] = {}
        """Partitions whose leader was not in the ISR when it was elected."""
        self._min_insync: dict[str, int] = {}
        """The smallest min.insync.replicas that each topic has had."""
        self._born_at: dict[str, float] = {}
        self._unclean_until: dict[str, float] = {}
        """The time until which each topic allowed unclean elections."""
        self.leaderless_since: dict[TopicPartition, float] = {}
        """Partition -> since when its leader has not been a registered broker."""
        self._uncontrolled_at: float | None = 0.0
        """The time since which the controller is not registered."""
        self._controlled_at = 0.0
        """When /controller was last created."""
        self._begun: dict[int, EventHandled] = {}
        self._moves = StateChanges()
        self.power_failed = False
        """Whether a machine has lost unflushed data."""
        self.power_failed_at: dict[int, float] = {}
        """When each machine last lost unflushed data."""
        self.damaged: dict[TopicPartition, None] = {}
        """Partitions of which a replica had a flipped bit."""
        self.lost: dict[TopicPartition, None] = {}
        """Partitions of which the only replica in sync had a flipped bit."""
        self.resumed: dict[TopicPartition, None] = {}
        """Partitions that continued in the same leader epoch after a power failure of their leader."""
        self._led_at_power_failure: dict[str, dict[TopicPartition, int]] = {}
        self.opened: dict[tuple[int, str], int] = {}
        """Node and log directory -> the process start (`Machine.starts`) that last opened a log there."""
        self.lost_directories: dict[tuple[int, str], int] = {}
        """Node and log directory -> the process start that last took it offline."""
        self.filled: dict[str, None] = {}
        """The logs that were ever written to, by directory name."""
        self._high_watermarks: dict[tuple[int, str], int] = {}
        self.metadata: dict[int, MetadataResponse | None] = {}
        """Each running node's response about all topics at the last check."""
        self.deliveries = 0
        self.requests = 0
        self._rows: dict[str, list[Any]] = {}
        self._places: dict[str, int] = {}
        for row in rows:
            self.watch(row)

    def watch(self, row: Any) -> None:
        """Check the invariant `row` after each later change whose class has the name `row.on`."""
        self._places[row.name] = len(self._places)
        self._rows.setdefault(row.on, []).append(row)

    # ------------------------------------------------------------------------------------------------ observations

    def observe(self, node: int, delivery: Delivery) -> None:
        """Process the delivery of a message on a node."""
        self.deliveries += 1
        if node in self._begun:
            self._check_handled(self._begun[node])
        if delivery.actor_class in _CONTROLLERS:
            self._controlled(node, delivery)
        if isinstance(delivery.message, StartGroup | BatchesAppended):
            self._group_stored(node, delivery)
        if isinstance(delivery.message, LogRead | LogMoved):
            self._check(StableOffsetSeen(node, self.cluster.machines[node].starts, delivery.message))
        for effect in delivery.effects:
            if effect.port == "logs":
                for change in self.replicas.touched(self.cluster, node, effect, delivery.message):
                    self._check(change)
                if effect.method == "checkpoint":
                    self._check(PointsWritten(node))
                self._log_touched(node, effect, isinstance(delivery.message, Replicate))
        if delivery.error is not None and delivery.error != DEAD_LETTER:
            self._check(HandlerFailed(node, delivery.error, type(delivery.message).__name__))

    def request_sent(self, source: str, target: str, request: Message) -> None:
        """Process a request that leaves a host."""
        self.requests += 1
        if isinstance(request, ControllerRequest) and source != CLIENT:
            self._check(RequestSent(source, target, request))
            if isinstance(request, LeaderAndIsrRequest):
                epochs = self._led_at_power_failure.get(target, {})
                for state in request.partition_states:
                    if host_of(state.leader) == target and epochs.get(state.partition) == state.leader_epoch:
                        self.resumed[state.partition] = None

    def power_fails(self, node: int) -> None:
        """Process a power failure, which loses unflushed data."""
        self.power_failed = True
        self.power_failed_at[node] = self.cluster.now
        led = {partition: state.leader_epoch for partition, state in self.states.items() if state.leader == node}
        self._led_at_power_failure.setdefault(host_of(node), {}).update(led)

    def log_damaged(self, node: int, partition: TopicPartition) -> None:
        """Process a flipped bit in a log, whose committed records are then missing on this node until it fetches them.

        The node's other logs are whole, but the invariants that allow for a power failure of the node also apply here.
        """
        self.damaged[partition] = None
        self.power_failed_at[node] = self.cluster.now

    def arrived(self, connection: int, host: str, request: Message) -> None:
        """Process a request that arrives at a host."""
        node = node_of(host)
        process = node, self.cluster.machines[node].starts
        self.exchanges.arrived(connection, process, request, self.cluster.now, self.states, self.replicas)

    def responded(self, connection: int, host: str, request: Message, response: Message | None) -> None:
        """Process a response that leaves a host."""
        change = self.exchanges.responded(connection, request, response, self.cluster.now)
        if change is not None:
            self._note_losses(change)
            self._check(change)

    def _note_losses(self, change: ResponseSent) -> None:
        """Note the partitions that a replica without committed records leads, because it is alone in the ISR."""
        for partition, isr in self.replicas.leads_without_records(change.node, change.request, change.response):
            if set(isr) == {change.node} and partition in self.damaged:
                self.lost[partition] = None

    def tick(self) -> None:
        """Process the passing of time."""
        cluster, now = self.cluster, self.cluster.now
        self.replicas.note_unhealthy(cluster, self.registered)
        if self.controller in self.registered:
            self._uncontrolled_at = None
        elif self._uncontrolled_at is None:
            self._uncontrolled_at = now
        before = self.leaderless_since
        self.leaderless_since = {
            partition: before.get(partition, now)
            for partition, state in self.states.items()
            if state.leader not in self.registered
        }
        self._check(Ticked())

    def transaction(self, ops: tuple[store.WriteOp, ...], results: tuple[store.Written, ...], session: int) -> None:
        """Process a ZooKeeper transaction."""
        for op, result in zip(ops, results, strict=True):
            path = op.path
            if path.startswith("/brokers/topics/"):
                self._topic_written(op, result, path.split("/"), session)
            elif path == paths.CONTROLLER_EPOCH and op.kind in (store.SET, store.CREATE):
                before, self.epoch = self.epoch, decode_controller_epoch(path, op.data)
                self.epoch_session = session
                if op.kind == store.SET:
                    self._check(ControllerEpochWritten(before, self.epoch, session))
            elif path == paths.CONTROLLER and op.kind in (store.CREATE_EPHEMERAL, store.DELETE):
                owner, self.controller_session = (
                    self.controller_session,
                    session if op.kind == store.CREATE_EPHEMERAL else 0,
                )
                self.controller = decode_controller(path, op.data) if op.kind == store.CREATE_EPHEMERAL else -1
                self._controlled_at = self.cluster.now
                if op.kind == store.DELETE:
                    self._check(ControllerDeleted(owner, session))
                self.has_begun = False
            elif path.startswith("/admin/delete_topics/"):
                topic = path.rpartition("/")[2]
                if op.kind == store.CREATE:
                    self.deleting[topic] = self.cluster.now
                elif op.kind == store.DELETE:
                    self.deleting.pop(topic, None)
                    self.deleted_at[topic] = self.cluster.now
            elif path.startswith("/config/topics/") and op.kind in (store.CREATE, store.SET):
                self._configured(path.rpartition("/")[2], dict(decode_config(path, op.data)))
            elif path.startswith("/brokers/ids/"):
                if op.kind == store.DELETE:
                    broker = int(path.rpartition("/")[2])
                    self.registered.pop(broker, None)
                    self.unregistered_at[broker] = self.cluster.now
                    self.lapsed[broker] = self.cluster.machines[broker].node
                elif op.kind == store.CREATE_EPHEMERAL:
                    self.registered[int(path.rpartition("/")[2])] = self.cluster.zookeeper.zxid

    def dealt(self, change: AssignmentReceived) -> None:
        """Process an assignment that a group member received."""
        self._check(change)

    def stream_began(self, stream: ProducerStream) -> None:
        """Process a new producer id of a stream."""
        before = self.streams.setdefault(stream.producer_id, stream)
        if before is not stream:
            self._check(StreamBroken(f"{stream.name} has producer id {stream.producer_id}, as {before.name} has"))

    def stream_broke(self, change: StreamBroken) -> None:
        """Process a response that contradicts what a producer has sent."""
        self._check(change)

    def transaction_broke(self, change: TransactionBroken) -> None:
        """Process a response that a transactional producer must not receive."""
        self._check(change)

    def idle_violations(self, asked: bool = False) -> list[Violation]:
        """Return the violations of invariants in an idle cluster.

        `asked` means that the cluster was queried; its responses are then checked as well.
        """
        found = self._found(ClusterAtRest()) + (self._found(ClusterQueried()) if asked else [])
        return sorted(found, key=lambda violation: self._places[violation.invariant])

    def delete_up_to(self, partition: TopicPartition, offset: int) -> None:
        """Note a client's request to delete the records before `offset`: they may be deleted from now on."""
        self.deleted[partition] = max(offset, self.deleted.get(partition, 0))
        known = self.acknowledged.get(partition, {})
        for gone in [each for each in known if each < offset]:
            del known[gone]

    # ----------------------------------------------------------------------------------------- queries of invariants

    def led_for(self, node: int, partition: TopicPartition) -> float:
        """Return for how many seconds a node has known the current leader epoch; 0.0 if the node does not know it."""
        accepted = self.exchanges.accepted.get((node, self.cluster.machines[node].starts))
        state = self.states.get(partition)
        if accepted is None or state is None or accepted.leader_epochs.get(partition) != state.leader_epoch:
            return 0.0
        return self.cluster.now - accepted.led_since[partition]

    def leads_intact(self, node: int, partition: TopicPartition) -> bool:
        """Return whether a leader has lost no unflushed data since it became the leader."""
        return self.led_for(node, partition) < self.cluster.now - self.power_failed_at.get(node, -math.inf)

    def uncontrolled_for(self) -> float:
        """Return for how many seconds no registered broker has been the controller."""
        return 0.0 if self._uncontrolled_at is None else self.cluster.now - self._uncontrolled_at

    def controlled_for(self) -> float:
        """Return for how many seconds the same broker has been the controller."""
        return self.cluster.now - self._controlled_at

    def first_offset(self, partition: TopicPartition) -> int:
        """Return the offset before which the partition's records may be deleted.

        This is the larger of the leader's log start offset and the largest offset in a DeleteRecords request.
        """
        state = self.states.get(partition)
        log = None if state is None else self.replicas.log(state.leader, partition)
        return max(self.deleted.get(partition, 0), 0 if log is None else log.start)

    def is_forgotten(self, topic: str) -> bool:
        """Return whether the topic was deleted before the present controller was elected."""
        return topic not in self.topics and self.deleted_at.get(topic, math.inf) < self._controlled_at

    def was_led_before(self, node: int, partition: TopicPartition) -> bool:
        """Return whether the node has led this partition since before the topic was created.

        The node then still leads the partition of an earlier, deleted topic of the same name, in an equal leader epoch.
        """
        return self.led_for(node, partition) > self.cluster.now - self._born_at.get(partition.topic, 0.0)

    def was_assigned(self, node: int, partition: TopicPartition) -> bool:
        """Return whether a reassignment removed this replica less than LATELY seconds ago.

        The leader possibly still treats the node as a replica.
        """
        return self.cluster.now - self.moved_away.get((node, partition), -math.inf) < LATELY

    def was_deleted_since(self, topic: str, moment: float) -> bool:
        """Return whether a topic is queued for deletion, or was deleted (and perhaps recreated) after that moment."""
        return topic not in self.topics or topic in self.deleting or self._born_at.get(topic, 0.0) > moment

    def was_queued_before_term(self, topic: str) -> bool:
        """Return whether a topic was queued for deletion before the present controller had loaded its context."""
        return self.deleting[topic] < self._controlled_at + LOADING

    def least_insync(self, partition: TopicPartition) -> int:
        """Return the smallest number of in-sync replicas with which the leader may commit records.

        During a reassignment the leader may have the old or the new set of replicas; the smaller set counts.
        """
        assigned = self.assigned.get(partition, Assigned(()))
        settled = len(assigned.replicas) - max(len(assigned.adding), len(assigned.removing))
        return min(self._min_insync.get(partition.topic, self._settings.min_insync_replicas), max(settled, 1))

    def may_elect_uncleanly(self, topic: str) -> bool:
        """Return whether unclean elections of the topic are enabled, or were enabled a moment ago."""
        return self._allows_unclean(topic) or self._unclean_until.get(topic, -LATELY) > self.cluster.now - LATELY

    def is_lossy(self, partition: TopicPartition) -> bool:
        """Return whether the partition may lose committed records.

        The cause is a power failure, an unclean election, or flipped bits in the only replica that is in sync.
        """
        return self.power_failed or partition in self.led_uncleanly or partition in self.lost

    def may_lack(self, partition: TopicPartition) -> bool:
        """Return whether a replica of the partition may lack committed records, although others have them."""
        return partition in self.damaged or self.is_lossy(partition)

    @property
    def _settings(self) -> NodeSettings:
        return self.cluster.machines[0].settings

    def _allows_unclean(self, topic: str) -> bool:
        configured = self.configs.get(topic, {}).get("unclean.leader.election.enable")
        if configured is None:
            return self._settings.unclean_leader_election_enable or self.cluster.elects_uncleanly
        return configured == "true"

    def has_lost(self, node: int, partition: TopicPartition) -> bool:
        """Return whether the process of a node took the log directory of a partition offline."""
        log, machine = self.replicas.log(node, partition), self.cluster.machines.get(node)
        if log is None or machine is None:
            return False
        return self.lost_directories.get((node, f"/{log.folder.parent.name}")) == machine.starts

    def is_written(self, partition: TopicPartition) -> bool:
        """Return whether a log of the partition was ever written to."""
        return str(partition) in self.filled

    # ----------------------------------------------------------------------------------------- internal steps

    def _controlled(self, node: int, delivery: Delivery) -> None:
        """Process an event of a controller, or a request that a controller sends to a broker."""
        message = delivery.message
        controller = getattr(delivery.receiver, "actor", None)
        if isinstance(controller, ControllerActor):
            if node == self.controller and controller.context.active:
                self.has_begun = True
            for moved in self._moves.made(node, controller, self.born):
                self._check(moved)
        if isinstance(message, UpdateMetadataRequest):
            self.announced[node, message.broker_epoch] = tuple(broker.id for broker in message.live_brokers)
        event = message.payload if isinstance(message, WakeupMessage) else message
        if isinstance(event, AutoPreferredReplicaLeaderElection):
            self.balanced_at[node] = self.cluster.now
        if isinstance(event, CHECKED_EVENTS):
            process, controller = self.cluster.machines[node].node, self.cluster.actor(node, ControllerActor)
            before = dict(controller.context.leadership)
            assert process is not None
            self._begun[node] = EventHandled(node, event, process, controller, before, self.cluster.now)

    def _group_stored(self, node: int, delivery: Delivery) -> None:
        """Update `unsure_groups` after a group was loaded or created, or after the result of an append.

        A batch whose append timed out may be in the log nevertheless. A group that is loaded from the log is no longer
        unsure. A group that is created empty stays unsure, because the log may still have the batch.
        """
        actor = getattr(delivery.receiver, "actor", None)
        if not isinstance(actor, GroupActor):
            return
        key = node, actor.group.name
        if isinstance(delivery.message, StartGroup):
            if delivery.message.loaded != LoadedGroup(actor.group.name):
                self.unsure_groups.discard(key)
        elif any(result.error_code in PERHAPS_APPENDED for _, _, result in delivery.message.results):
            self.unsure_groups.add(key)

    def _check_handled(self, handled: EventHandled) -> None:
        """Check the result of an event once its messages have arrived and the controller is idle."""
        if self.cluster.machines[handled.node].node is not handled.process:
            del self._begun[handled.node]
        elif self.cluster.now > handled.at and not handled.controller.busy:
            del self._begun[handled.node]
            if handled.controller.context.active:
                self._check(handled)

    def _log_touched(self, node: int, effect: AdapterCall, following: bool) -> None:
        """Process a call to a partition's log. `following`: whether a follower makes the call."""
        is_opened = not effect.args[1] if effect.method == "open" else effect.method in _FILLING
        if is_opened and not effect.error:  # a new log is empty until its first record, and needs no recovery
            self.opened[node, effect.args[0].rpartition("/")[0]] = self.cluster.machines[node].starts
        if effect.method == "lose":
            self.lost_directories[node, effect.args[0]] = self.cluster.machines[node].starts
        if effect.method in _FILLING:
            self.filled[effect.args[0].rpartition("/")[2]] = None
        if effect.method == "note_high_watermark" and not following:
            path, after = effect.args
            before = self._high_watermarks.get((node, path), after)
            self._high_watermarks[node, path] = after
            if after != before:
                self._check(HighWatermarkMoved(node, path, before, after))
        elif following or effect.method in _AFRESH:
            self._high_watermarks.pop((node, effect.args[0]), None)

    def _topic_written(self, op: store.WriteOp, result: store.Written, parts: list[str], session: int) -> None:
        topic = parts[3]
        if len(parts) == 4:
            if op.kind != store.CREATE:
                self._check(TopicWritten(topic, session))
            if op.kind == store.DELETE:
                partitions = self.topics.pop(topic, {})
                if topic in self.deleting:
                    had = {each: self.assigned[each].replicas for each in partitions.values() if each in self.assigned}
                    self._check(TopicDeleted(topic, had))
                for partition in partitions.values():
                    self.acknowledged.pop(partition, None)
                    self.seen.pop(partition, None)
                    if topic in self.deleting:  # only then: a topic whose znodes were removed by hand keeps its logs
                        self.deleted.pop(partition, None)
                    self.assigned.pop(partition, None)
                    self.states.pop(partition, None)
            elif op.kind in (store.CREATE, store.SET):
                if op.kind == store.CREATE:
                    self.born[topic] = self.cluster.zookeeper.zxid
                    self._born_at[topic] = self.cluster.now
                known = self.topics.setdefault(topic, {})
                there = decode_topic(op.path, op.data).partitions
                for number in known.keys() - {number for number, _ in there}:
                    self.assigned.pop(known.pop(number), None)
                for number, each in there:
                    partition = known.setdefault(number, TopicPartition(topic, number))
                    if partition not in self.assigned:
                        self.created_with[partition] = each.replicas
                    owners, removing = self.assigned.get(partition, Assigned(()))[::2]
                    self.assigned[partition] = Assigned(each.replicas, each.adding, each.removing)
                    for broker in each.replicas if owners else ():
                        if broker not in owners or broker in removing:
                            self.free_at[broker, partition] = self.cluster.now
                    gone = [broker for broker in owners if broker not in each.replicas]
                    self.moved_away.update(((broker, partition), self.cluster.now) for broker in gone)
        elif len(parts) == 7 and parts[6] == "state":
            partition = TopicPartition(topic, int(parts[5]))
            if op.kind == store.DELETE:
                self.states.pop(partition, None)
            elif op.kind in (store.CREATE, store.SET):
                version = result.version if op.kind == store.SET else 0
                read = decode_state(op.path, op.data, version)
                after = State(read.leader, read.leader_epoch, read.isr, read.controller_epoch, version)
                before = self.states.get(partition)
                self.states[partition] = after
                self.written_at[partition] = self.cluster.now
                for replica in set(after.isr).difference(() if before is None else before.isr):
                    self.in_sync_since[replica, partition] = self.cluster.now
                if before is None:
                    self.led_uncleanly.pop(partition, None)
                elif after.leader != NO_LEADER and after.leader not in before.isr:
                    self.led_uncleanly[partition] = None
                    self.acknowledged.pop(partition, None)
                    self.seen.pop(partition, None)
                self.written.setdefault(partition, {}).setdefault(version, set()).add(after)
                self._check(PartitionStateWritten(partition, before, after, session))

    def _configured(self, topic: str, config: dict[str, str]) -> None:
        """Process new overrides of a topic.

        Overrides that are written when the topic is created apply from its creation on.
        """
        if self._allows_unclean(topic):
            self._unclean_until[topic] = self.cluster.now
        self.configs[topic] = config
        required = int(config.get("min.insync.replicas", self._settings.min_insync_replicas))
        if self._born_at.get(topic) != self.cluster.now:
            required = min(required, self._min_insync.get(topic, self._settings.min_insync_replicas))
        self._min_insync[topic] = required

    def _check(self, change: object) -> None:
        if not self.violations:
            self.violations += self._found(change)

    def _found(self, change: object) -> list[Violation]:
        now = self.cluster.now
        return [
            Violation(row.name, text, now)
            for row in self._rows.get(type(change).__name__, ())
            for text in row.check(self, change)
        ]
