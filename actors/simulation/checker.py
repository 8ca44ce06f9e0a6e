"""The checker: sees every write to ZooKeeper, every request between hosts, every delivery; holds them to the law.

Rule 1: the law is a table (`actors.simulation.invariants`); here is what its rows look at, kept up to date with each
        step, so that a step costs what it changes.
Rule 2: nothing of the product's knowledge is believed: what is compared with it is read from the wire and the znodes.
Rule 3: the first violation of an invariant is kept, with the moment; those that follow from it tell little.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import attrs
from thespian.actors import WakeupMessage

from actors.controller.channel import BrokerChannelActor
from actors.controller.controller import ControllerActor
from actors.node.assembly import Node
from actors.runtime import DEAD_LETTER, Delivery, Effect
from actors.simulation.cluster import Cluster
from actors.simulation.members import Dealt
from actors.simulation.moves import Moved, Moves
from messages.cluster import LeaderIsrAndControllerEpoch, TopicPartition
from messages.events import AutoPreferredReplicaLeaderElection, BrokerChange, Event
from messages.partition import Replicate
from messages.requests import (
    ControllerRequest,
    MetadataResponse,
    UpdateMetadataRequest,
)
from messages.store import CREATE, CREATE_EPHEMERAL, DELETE, SET, WriteOp, Written
from messages.vocabulary import Message
from zk_bridge import paths
from zk_bridge.znodes.controller import decode_controller, decode_controller_epoch
from zk_bridge.znodes.partition_states import decode_state
from zk_bridge.znodes.topics import decode_config, decode_topic

_CONTROLLERS = (ControllerActor.__name__, BrokerChannelActor.__name__)

_AFRESH = ("open", "close", "truncate", "restart", "begin_epoch")
"""What ends what was known of a log's high watermark: a leader begins with that of the follower which it was."""

_FILLING = ("append", "replicate")
"""What writes to a log."""


class State(NamedTuple):
    """A partition's state znode: what it says, its version, and who made it last: a controller by its epoch."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int


class Assigned(NamedTuple):
    """A partition's replicas, those being added and those being removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@attrs.frozen
class StateWritten:
    """A partition's state was written, by a session; `before` is None for a new state."""

    partition: TopicPartition
    before: State | None
    after: State
    session: int


@attrs.frozen
class EpochWritten:
    """/controller_epoch was written."""

    before: int
    after: int
    session: int


@attrs.frozen
class Ordered:
    """A controller's request left a host."""

    source: str
    target: str
    request: Any


@attrs.frozen
class Failed:
    """A handler on a node failed."""

    node: int
    error: str
    message: str


@attrs.frozen
class ControllerDeleted:
    """/controller was deleted: whose it was, and which session did it (0: the server, when its owner's ended)."""

    owner: int
    session: int


@attrs.frozen
class Handled:
    """The active controller on a node has handled an event and is idle again: one of those in `LOOKED_AFTER`.

    `before` is the leadership of every partition as the controller knew it when the event came.
    """

    node: int
    event: Event
    process: Node
    controller: ControllerActor
    before: dict[TopicPartition, LeaderIsrAndControllerEpoch]
    at: float


LOOKED_AFTER = (BrokerChange, AutoPreferredReplicaLeaderElection)
"""The events after which invariants look at what the controller has made of them."""


@attrs.frozen
class Marked:
    """A leader's high watermark moved, in the same leadership."""

    node: int
    log: str
    before: int
    after: int


class Acknowledged(NamedTuple):
    """A record that a leader has acknowledged: of which life of the topic (the creating transaction), and when."""

    value: bytes
    born: int
    at: float


@attrs.frozen
class Rested:
    """The cluster was left alone for as long as it may take: everything that a row at rest looks at is in `law`."""


@attrs.frozen
class Answered:
    """As it rested, every node was asked for its metadata, every leader for its records, and every coordinator for its
    groups: `metadata`, `read` and the groups of the cluster's `members`.
    """


Change = (
    StateWritten
    | EpochWritten
    | Ordered
    | ControllerDeleted
    | Handled
    | Failed
    | Marked
    | Moved
    | Dealt
    | Rested
    | Answered
)


@attrs.frozen
class Violation:
    """An invariant that did not hold: its name, what was seen, and when (seconds of the run)."""

    invariant: str
    text: str
    at: float

    def __str__(self) -> str:
        return f"{self.at:.3f} s: {self.invariant}: {self.text}"


class Checker:
    """Observations of one cluster. `cluster` is set by the creator of both; `rows` are the checked invariants.

    For invariants: `states`, `assigned`, `configs` (by topic), `deleting`, `registered` (id -> czxid), `controller`,
    `epoch` and `epoch_session` as ZooKeeper has them; `written`: every state that ever was written.
    """

    def __init__(self, rows: Iterable[Any]) -> None:
        self.cluster: Cluster
        self.violations: list[Violation] = []
        self.states: dict[TopicPartition, State] = {}
        self.assigned: dict[TopicPartition, Assigned] = {}
        self.topics: dict[str, dict[int, TopicPartition]] = {}
        self.moved_away: dict[tuple[int, TopicPartition], None] = {}
        """Replicas that a reassignment ended."""
        self.configs: dict[str, dict[str, str]] = {}
        self.deleting: dict[str, None] = {}
        self.registered: dict[int, int] = {}
        self.lapsed: dict[int, Node | None] = {}
        """Which process a broker was when its registration last went."""
        self.controller = -1
        self.controller_session = 0
        """Whose /controller is."""
        self.epoch = 0
        self.epoch_session = 0
        self.epochs_of: dict[int, int] = {}
        """Controller epoch -> the id under which requests of it came."""
        self.sent_states: dict[str, dict[TopicPartition, tuple[int, int, int]]] = {}
        """The state last sent to each host for a partition: its controller epoch, the topic's generation (`born`),
        and which leader epoch."""
        self.written: dict[TopicPartition, dict[int, set[State]]] = {}
        """By partition and version: topics may be made anew."""
        self.born: dict[str, int] = {}
        """Topic -> the transaction that made it."""
        self.acknowledged: dict[TopicPartition, dict[int, Acknowledged]] = {}
        """Acknowledged records, by offset."""
        self.deleted: dict[TopicPartition, int] = {}
        """Up to which offset a client asked for records to be deleted."""
        self.read: dict[TopicPartition, dict[int, bytes]] = {}
        """What was read back when the cluster was last asked, by offset."""
        self.announced: dict[tuple[int, int], tuple[int, ...]] = {}
        """The live brokers that each node's controller last sent to each broker, by the broker's epoch."""
        self._begun: dict[int, Handled] = {}
        self._moves = Moves()
        self.power_failed = False
        """Whether a machine has lost what was not durable."""
        self.filled: dict[str, None] = {}
        """The logs to which anybody has ever written, by the names of their directories."""
        self._marks: dict[tuple[int, str], int] = {}
        self.metadata: dict[int, MetadataResponse | None] = {}
        """What each node that is up answered when it was last asked of all topics."""
        self.deliveries = 0
        self.requests = 0
        self._rows: dict[type, list[Any]] = {}
        self._places: dict[str, int] = {}
        for place, row in enumerate(rows):
            self._places[row.name] = place
            self._rows.setdefault(row.on, []).append(row)

    # ------------------------------------------------------------------------------------------------ what happens

    def observe(self, node: int, delivery: Delivery) -> None:
        """A message was delivered on a node."""
        self.deliveries += 1
        if node in self._begun:
            self._settle(self._begun[node])
        if delivery.actor_class in _CONTROLLERS:
            self._controlled(node, delivery)
        for effect in delivery.effects:
            if effect.port == "logs":
                self._log_touched(node, effect, isinstance(delivery.message, Replicate))
        if delivery.error is not None and delivery.error != DEAD_LETTER:
            self._look(Failed(node, delivery.error, type(delivery.message).__name__))

    def heard(self, source: str, target: str, request: Message) -> None:
        """A request leaves a host."""
        self.requests += 1
        if isinstance(request, ControllerRequest):
            self._look(Ordered(source, target, request))

    def transaction(self, ops: tuple[WriteOp, ...], results: tuple[Written, ...], session: int) -> None:
        """ZooKeeper has carried out a transaction."""
        for op, result in zip(ops, results, strict=True):
            path = op.path
            if path.startswith("/brokers/topics/"):
                self._topic_written(op, result, path.split("/"), session)
            elif path == paths.CONTROLLER_EPOCH and op.kind in (SET, CREATE):
                before, self.epoch = self.epoch, decode_controller_epoch(path, op.data)
                self.epoch_session = session
                if op.kind == SET:
                    self._look(EpochWritten(before, self.epoch, session))
            elif path == paths.CONTROLLER:
                owner, self.controller_session = self.controller_session, session if op.kind == CREATE_EPHEMERAL else 0
                self.controller = decode_controller(path, op.data) if op.kind == CREATE_EPHEMERAL else -1
                if op.kind == DELETE:
                    self._look(ControllerDeleted(owner, session))
            elif path.startswith("/admin/delete_topics/"):
                topic = path.rpartition("/")[2]
                if op.kind == CREATE:
                    self.deleting[topic] = None
                elif op.kind == DELETE:
                    self.deleting.pop(topic, None)
            elif path.startswith("/config/topics/") and op.kind in (CREATE, SET):
                self.configs[path.rpartition("/")[2]] = dict(decode_config(path, op.data))
            elif path.startswith("/brokers/ids/"):
                if op.kind == DELETE:
                    broker = int(path.rpartition("/")[2])
                    self.registered.pop(broker, None)
                    self.lapsed[broker] = self.cluster.machines[broker].node
                elif op.kind == CREATE_EPHEMERAL:
                    self.registered[int(path.rpartition("/")[2])] = self.cluster.zookeeper.zxid

    def dealt(self, change: Dealt) -> None:
        """A member of a group received its assignment."""
        self._look(change)

    def at_rest(self, asked: bool = False) -> list[Violation]:
        """What is wrong with a cluster that should be at rest, and with what it answers where it was `asked`."""
        found = self._found(Rested()) + (self._found(Answered()) if asked else [])
        return sorted(found, key=lambda violation: self._places[violation.invariant])

    def delete_up_to(self, partition: TopicPartition, offset: int) -> None:
        """A client asked for the deletion of the records before `offset`: they may be there or not."""
        self.deleted[partition] = max(offset, self.deleted.get(partition, 0))
        known = self.acknowledged.get(partition, {})
        for gone in [each for each in known if each < offset]:
            del known[gone]

    def is_written(self, partition: TopicPartition) -> bool:
        """Whether anybody has ever written to a log of it."""
        return str(partition) in self.filled

    # ------------------------------------------------------------------------------------------------ between

    def _controlled(self, node: int, delivery: Delivery) -> None:
        """A controller got an event, or one of its channels a request."""
        message = delivery.message
        controller = getattr(delivery.receiver, "actor", None)
        if isinstance(controller, ControllerActor):
            for moved in self._moves.made(node, controller, self.born):
                self._look(moved)
        if isinstance(message, UpdateMetadataRequest):
            self.announced[node, message.broker_epoch] = tuple(broker.id for broker in message.live_brokers)
        event = message.payload if isinstance(message, WakeupMessage) else message
        if isinstance(event, LOOKED_AFTER):
            process, controller = self.cluster.machines[node].node, self.cluster.actor(node, ControllerActor)
            before = dict(controller.context.leadership)
            assert process is not None
            self._begun[node] = Handled(node, event, process, controller, before, self.cluster.now)

    def _settle(self, handled: Handled) -> None:
        """Look at what became of an event once its mail has arrived, a moment later, and nothing else is under way."""
        if self.cluster.machines[handled.node].node is not handled.process:
            del self._begun[handled.node]
        elif self.cluster.now > handled.at and not handled.controller.busy:
            del self._begun[handled.node]
            if handled.controller.context.active:
                self._look(handled)

    def _log_touched(self, node: int, effect: Effect, following: bool) -> None:
        """A partition did something to its log: what matters is whether it wrote, and a leader's high watermark."""
        if effect.method in _FILLING:
            self.filled[effect.args[0].rpartition("/")[2]] = None
        if effect.method == "note_high_watermark" and not following:
            path, after = effect.args
            before = self._marks.get((node, path), after)
            self._marks[node, path] = after
            if after != before:
                self._look(Marked(node, path, before, after))
        elif following or effect.method in _AFRESH:
            self._marks.pop((node, effect.args[0]), None)

    def _topic_written(self, op: WriteOp, result: Written, parts: list[str], session: int) -> None:
        topic = parts[3]
        if len(parts) == 4:
            if op.kind == DELETE:
                for partition in self.topics.pop(topic, {}).values():
                    self.acknowledged.pop(partition, None)
                    if topic in self.deleting:  # one that is removed by hand keeps its logs
                        self.deleted.pop(partition, None)
                    self.assigned.pop(partition, None)
                    self.states.pop(partition, None)
            elif op.kind in (CREATE, SET):
                if op.kind == CREATE:
                    self.born[topic] = self.cluster.zookeeper.zxid
                known = self.topics.setdefault(topic, {})
                there = decode_topic(op.path, op.data)
                for number in known.keys() - {number for number, _ in there}:
                    self.assigned.pop(known.pop(number), None)
                for number, each in there:
                    partition = known.setdefault(number, TopicPartition(topic, number))
                    had = self.assigned.get(partition, Assigned(())).replicas
                    self.assigned[partition] = Assigned(each.replicas, each.adding, each.removing)
                    gone = [broker for broker in had if broker not in each.replicas]
                    self.moved_away.update(dict.fromkeys((broker, partition) for broker in gone))
        elif len(parts) == 7 and parts[6] == "state":
            partition = TopicPartition(topic, int(parts[5]))
            if op.kind == DELETE:
                self.states.pop(partition, None)
            elif op.kind in (CREATE, SET):
                version = result.version if op.kind == SET else 0
                read = decode_state(op.path, op.data, version)
                after = State(read.leader, read.leader_epoch, read.isr, read.controller_epoch, version)
                before = self.states.get(partition)
                self.states[partition] = after
                self.written.setdefault(partition, {}).setdefault(version, set()).add(after)
                self._look(StateWritten(partition, before, after, session))

    def _look(self, change: Change) -> None:
        if not self.violations:
            self.violations += self._found(change)

    def _found(self, change: Change) -> list[Violation]:
        now = self.cluster.now
        return [
            Violation(row.name, text, now)
            for row in self._rows.get(type(change), ())
            for text in row.check(self, change)
        ]
