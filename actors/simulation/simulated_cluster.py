"""A simulated cluster: nodes, network, disks and ZooKeeper in virtual time.

Rule 1: nodes are those of the real program (`actors.node.assembly`) with simulated I/O adapters.
Rule 2: time passes only in `run`, and all random choices come from one seed: the same calls give the same run on each
        machine, independent of its clock and hash seed.
Rule 3: a node whose process has ended stays down until it is started again. Its disks keep their data, but a power
        failure can destroy unflushed data.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from actors.controller.controller import ControllerActor
from actors.coordinator.group import GroupActor
from actors.coordinator.group_coordinator import GroupCoordinatorActor
from actors.coordinator.transaction_coordinator import TransactionCoordinatorActor
from actors.core.controller.context import ControllerContext
from actors.core.coordinator.group import Group
from actors.gateway.memory_network import MemoryNetwork
from actors.gateway.vault import Vault
from actors.node.assembly import Node, recorder_of
from actors.runtime import Delivery, DriftingClock, VirtualClock, VirtualScheduler
from actors.runtime.trace.flight_recorder import FlightRecorder
from actors.runtime.trace.recorder import NullRecorder, Recorder
from actors.simulation.disk import Disks
from actors.simulation.members import Members, Script
from actors.simulation.schedule import Schedule
from actors.simulation.wire import Wires
from actors.simulation.zookeeper_link import ZOOKEEPER, ZooKeeperLink
from messages.ask import AskFailed, Question
from messages.cluster import Endpoint, TopicPartition, partition_named
from messages.network import ChannelPart, Received, Transmit
from messages.node import NodeFailed, NodeSettings, NodeStopped
from messages.node_settings import keeps_topic_ids
from messages.parts import join_parts
from messages.security import Secret
from messages.store import StoreWrite, WriteOp
from messages.vocabulary import AnyMessage, Message
from zk_bridge import paths
from zk_bridge.client import Client
from zk_bridge.controller import decode_controller
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper

EPOCH_MS = 1_700_000_000_000
"""The wall clock of simulated machines at the start, in ms since 1970."""

PORT = 9092
DISKS = 2
"""Number of disks of each node."""
CLIENT = "client"
"""The host of external clients."""

UP, PAUSED, LEAVING, DOWN = "up", "paused", "leaving", "down"

RESTARTS = 1.0
"""Seconds between two tries to start a node that cannot start yet."""


def host_of(node_id: int) -> str:
    """Return a node's host."""
    return f"node-{node_id}"


def node_of(host: str) -> int:
    """Return the node of a host."""
    return int(host.removeprefix("node-"))


def endpoint_of(node_id: int) -> Endpoint:
    """Return the endpoint on which a node listens."""
    return Endpoint("PLAINTEXT", host_of(node_id), PORT)


def _wall_ms(clock: VirtualClock | DriftingClock) -> int:
    return EPOCH_MS + round(clock.now() * 1000)


@attrs.define
class Machine:
    """A simulated machine: the settings, disks and clock of one node, and the node's process while it runs."""

    id: int
    settings: NodeSettings
    disks: Disks
    clock: VirtualClock | DriftingClock
    state: str = DOWN
    wanted: bool = True
    """Whether the process should run; a failed start is retried."""
    node: Node | None = None
    link: ZooKeeperLink | None = None
    starts: int = 0
    loses: float = 0.0
    """The share of writes to ZooKeeper that are executed and lose their responses."""
    pace: float = 0.0
    """The time in seconds that each message of the process takes."""
    host: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.host = host_of(self.id)


class Cluster:
    """The simulated cluster of a schedule, whose actions and settings are left to the caller; no node is started yet.

    The folder `root` has the disks and traces of the nodes.

    `settings` apply to every node. With `recorded`, each node keeps a trace in `<root>/node-N/trace`. The public
    attributes are `machines`, `zookeeper`, `wires`, `network`, `scheduler` and `members`. `observe` is called with a
    node's id and each of its deliveries.
    """

    def __init__(
        self,
        schedule: Schedule,
        root: Path,
        recorded: bool = False,
        settings: Mapping[str, Any] | None = None,
        observe: Callable[[int, Delivery], None] | None = None,
        heard: Callable[[str, str, Message], None] | None = None,
    ) -> None:
        brokers, racks = schedule.brokers, schedule.racks
        self.chance = random.Random(schedule.seed)
        self.scheduler = VirtualScheduler()
        self.wires = Wires(self.scheduler, self.chance, schedule.steady, schedule.latency)
        for one, other, seconds in schedule.distances:
            self.wires.set_distance(host_of(one), host_of(other), seconds)
        self.zookeeper = MemoryZooKeeper(self.scheduler.call_later)
        self.network = MemoryNetwork(self.scheduler, self.wires, heard)
        self.wires.disturbed = self.network.handle_wire_change
        self.admin = Client(MemoryStore(self.zookeeper))
        self._operator = MemoryStore(self.zookeeper)
        self._operator.start(lambda news: None)
        self.machines: dict[int, Machine] = {}
        self._recorded = recorded
        self._root = root
        self._observe = observe
        self._clients = 0
        self.delete_records: Callable[[TopicPartition], None] = lambda partition: None
        """Deletes the first records of a partition; the clients of a run set it."""
        self.burst: Callable[[TopicPartition, int, int], None] = lambda partition, batches, size: None
        """Produces many batches of a number of bytes to a partition; the producers of a run set it."""
        self.bury: Callable[[TopicPartition], None] = lambda partition: None
        """Produces a tombstone to a partition; the producers of a run set it."""
        self.start_stream: Callable[[TopicPartition], None] = lambda partition: None
        self.end_stream: Callable[[TopicPartition], None] = lambda partition: None
        """Start and end an idempotent producer of a partition; the producers of a run set both."""
        self.start_spending: Callable[[str, TopicPartition], None] = lambda user, partition: None
        self.end_spending: Callable[[str], None] = lambda user: None
        """Let a user use its quotas at a partition, and end this; the clients of a run set both."""
        self.start_transactions: Callable[[str], None] = lambda id: None
        self.end_transactions: Callable[[str], None] = lambda id: None
        """Start and end a producer with a transactional id; the producers of a run set both."""
        self.damaged: Callable[[int, TopicPartition], None] = lambda node_id, partition: None
        """Called after a bit of a log has flipped; the run sets it."""
        self.newest_producers: dict[str, tuple[int, int]] = {}
        """The newest (producer id, epoch) that a producer of each transactional id has received."""
        self.outside: set[int] = set()
        """The nodes with a fault that lasts to the end. At rest, only the other nodes, the core, are healed."""
        self.elects_uncleanly = False
        """Whether an override of all brokers has enabled unclean elections."""
        self.members = Members(self.ask, self.run_script, range(brokers), schedule.seed + 2)
        rates = dict(schedule.clocks)
        for node_id in range(brokers):
            there, virtual = root / host_of(node_id), self.scheduler.clock
            clock = DriftingClock(virtual, rates[node_id]) if node_id in rates else virtual
            kept = Disks(there, DISKS, partial(_wall_ms, clock), partial(self.stall, node_id))
            where = (endpoint_of(node_id),)
            options: dict[str, Any] = {"trace_dir": "/trace", "trace_max_bytes": -1, "trace_free_bytes": -1}
            options["broker_rack"] = f"rack-{node_id % racks}" if racks else None
            if (settings or {}).get("authorizer_class_name"):
                options["super_users"] = tuple(f"User:{each}" for each in (CLIENT, *map(host_of, range(brokers))))
            report = NodeSettings(node_id, where, where, kept.names, "memory", **{**options, **(settings or {})})
            self.machines[node_id] = Machine(node_id, report, kept, clock)

    # ---------------------------------------------------------------------------------------------- time

    @property
    def now(self) -> float:
        """Seconds of virtual time since the start."""
        return self.scheduler.clock.now()

    def wall_ms(self) -> int:
        """The wall clock in ms of a machine without clock drift."""
        return _wall_ms(self.scheduler.clock)

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.scheduler.run(seconds)

    def run_until(self, good: Callable[[], object], seconds: float) -> bool:
        """Let time pass until `good()` is true, but at most `seconds`. Return whether `good()` became true."""
        try:
            self.scheduler.run_until(good, seconds)
        except TimeoutError:
            return False
        return True

    # ---------------------------------------------------------------------------------------------- processes

    def start(self, node_id: int) -> None:
        """Start a node's process, unless it runs."""
        machine = self.machines[node_id]
        machine.wanted = True
        if machine.state != DOWN or node_id in self.outside:
            return
        machine.starts += 1
        settings = machine.settings
        link = ZooKeeperLink(
            host_of(node_id),
            self.zookeeper,
            self.wires,
            self.scheduler,
            settings.zookeeper_session_timeout_ms / 1000,
        )
        vault = Vault()
        vault.key = Secret(b"the same seals in each run")
        link.loses = lambda: self.chance.random() < machine.loses if machine.loses else False
        node = Node(
            settings,
            link,
            lambda base: self.network.network(base, host_of(node_id)),
            lambda base, settings: self.network.listener(base, settings, vault),
            machine.clock,
            self.scheduler,
            ports=machine.disks.ports(keeps_topic_ids(machine.settings))
            | dict.fromkeys(("time", "random", "process"), _MachineAdapters(self, machine)),
            notify=lambda message: self._node_received(machine, message),
            recorder=self._recorder(machine),
            vault=vault,
        )
        machine.node, machine.link, machine.state = node, link, UP
        if self._observe is not None:
            node.base.observer = _BothObservers(node.recorder, partial(self._observe, node_id))
        self.scheduler.finish(node.start())
        self._set_pace(machine)

    def kill(self, node_id: int, power: bool = False) -> None:
        """End a process at once; with `power`, its machine also loses unflushed data."""
        machine = self.machines[node_id]
        machine.wanted = False
        if machine.node is None or machine.link is None:
            return
        if machine.state != PAUSED:
            self.scheduler.remove(machine.node.base)
        machine.link.kill()
        self._remove_process(machine)
        machine.disks.release()
        if power:
            machine.disks.tear(self.chance)

    def flip(self, node_id: int) -> None:
        """Flip a bit on a disk of a node that is down."""
        machine = self.machines[node_id]
        log = machine.disks.flip(self.chance) if machine.state == DOWN else None
        partition = None if log is None else partition_named(log)
        if partition is not None:
            self.damaged(node_id, partition)

    def leave(self, node_id: int) -> None:
        """Begin a controlled shutdown of a node."""
        machine = self.machines[node_id]
        machine.wanted = False
        if machine.state == UP and machine.node is not None:
            machine.state = LEAVING
            machine.node.leave()

    def pause(self, node_id: int) -> None:
        """Suspend a process, as SIGSTOP does."""
        machine = self.machines[node_id]
        if machine.state == UP and machine.node is not None and machine.link is not None:
            machine.state = PAUSED
            self.scheduler.remove(machine.node.base)
            machine.link.pause()

    def resume(self, node_id: int) -> None:
        """Resume a suspended process."""
        machine = self.machines[node_id]
        if node_id in self.outside:
            return
        if machine.state == PAUSED and machine.node is not None and machine.link is not None:
            machine.state = UP
            self.scheduler.add(machine.node.base)
            self._set_pace(machine)
            machine.link.resume()

    def starve(self, node_id: int, seconds: float) -> None:
        """Add `seconds` (negative: less) to the time that a node's actors need to process each message."""
        machine = self.machines[node_id]
        machine.pace = round(machine.pace + seconds, 6)
        if machine.state != PAUSED:
            self._set_pace(machine)

    def _set_pace(self, machine: Machine) -> None:
        if machine.node is not None and machine.pace != self.scheduler.pace(machine.node.base):
            self.scheduler.set_pace(machine.node.base, machine.pace)

    def _node_received(self, machine: Machine, message: Message) -> None:
        """Handle a message that a process received from its node: end the process after NodeStopped or NodeFailed."""
        if isinstance(message, NodeStopped | NodeFailed):
            self.scheduler.call_later(0.0, partial(self._end, machine, machine.node))

    def _end(self, machine: Machine, node: Node | None) -> None:
        """End a process after its shutdown.

        If the process ended because of a failure, start it again, as a supervisor does.
        """
        if node is None or machine.node is not node:
            return
        if machine.state == PAUSED:
            if machine.id in self.outside:
                return
            self.resume(machine.id)
        self.scheduler.finish(node.stop())
        machine.node = machine.link = None
        machine.state = DOWN
        machine.disks.release()
        if machine.wanted:
            self.scheduler.call_later(RESTARTS, partial(self._again, machine))

    def _again(self, machine: Machine) -> None:
        if machine.wanted:
            self.start(machine.id)

    def _remove_process(self, machine: Machine) -> None:
        """Remove an ended process: its peers' connections to it break."""
        node = machine.node
        assert node is not None
        self.scheduler.finish(node.listener.stop())
        self.scheduler.finish(node.network.stop())
        node.recorder.abandon()
        machine.node = machine.link = None
        machine.state = DOWN

    def stall(self, node_id: int, seconds: float) -> None:
        """Stop a node for `seconds`, as a slow disk or a garbage collection does; its messages wait meanwhile."""
        machine = self.machines[node_id]
        if machine.node is not None and machine.state != PAUSED:
            self.scheduler.hold(machine.node.base, seconds)

    def is_stalled(self, machine: Machine) -> bool:
        """Return whether a slow disk or `stall` stops the machine's node now."""
        return machine.node is not None and machine.state != PAUSED and self.scheduler.is_held(machine.node.base)

    def _recorder(self, machine: Machine) -> Recorder | NullRecorder:
        if not self._recorded:
            return NullRecorder()
        folder = machine.disks.path(machine.settings.trace_dir)
        started = EPOCH_MS / 1000 + machine.clock.now()
        return recorder_of(machine.settings, machine.clock, folder, started, machine.starts)

    # -------------------------------------------------------------------------------------------- network

    def cut(self, source: str, target: str) -> None:
        """Block traffic from one host to another."""
        self.wires.cut(source, target)
        self._wire_changed(source, target)

    def mend(self, source: str, target: str) -> None:
        """End one `cut` in this direction. Traffic passes again when all cuts of this direction have ended."""
        self.wires.mend(source, target)
        self._wire_changed(source, target)

    def reset(self, one: str, other: str) -> None:
        """Break every connection between two hosts."""
        if ZOOKEEPER in (one, other):
            for link in self._links(one, other):
                link.reset()
        else:
            self.network.reset(one, other)

    def expire(self, node_id: int) -> None:
        """Expire the node's ZooKeeper session."""
        machine = self.machines[node_id]
        if machine.link is not None:
            machine.link.expire()

    def set_zookeeper(self, up: bool) -> None:
        """Stop the ZooKeeper server, or start it again with its data."""
        self.zookeeper.up = up
        for machine in self.machines.values():
            if machine.link is not None:
                machine.link.server_changed()

    def _wire_changed(self, source: str, target: str) -> None:
        if ZOOKEEPER in (source, target):
            for link in self._links(source, target):
                link.wire_changed()

    def _links(self, *hosts: str) -> list[ZooKeeperLink]:
        return [machine.link for machine in self.machines.values() if machine.link and machine.link.host in hosts]

    # ------------------------------------------------------------------------------------------ external clients

    def ask(
        self,
        node_id: int,
        request: Message,
        tell: Callable[[Message | None], None],
        timeout: float = 30.0,
        user: str = CLIENT,
    ) -> None:
        """Send a client's request to a node; `user` matters if the nodes have an authorizer: CLIENT is a super user.

        `tell` is called once, with the response or, if there is none, with None.
        """
        self._clients += 1
        transmit = Transmit(f"client-{self._clients}", endpoint_of(node_id), self._clients, CLIENT, request, timeout)
        parts: list[AnyMessage] = []

        def report(outcome: Message) -> None:
            if isinstance(outcome, ChannelPart):
                parts.append(outcome.part)
            else:
                tell(join_parts(parts, outcome.response) if isinstance(outcome, Received) else None)

        self.network.begin(CLIENT, transmit, report, user=user)

    def ask_controller(self, request: Message) -> None:
        """Send a request to the controller named in /controller, and ignore the response."""
        data = self.zookeeper.read(paths.CONTROLLER).data
        if data is not None:
            self.ask(decode_controller(paths.CONTROLLER, data), request, lambda response: None)

    def run_script(self, script: Script, patience: float = 10.0, user: str = CLIENT, received: object = None) -> None:
        """Run a client's script to its end; it waits `patience` seconds for a response, and has now `received` one."""
        go_on = partial(self.run_script, script, patience, user)
        try:
            wanted = script.send(received)
        except StopIteration:
            return
        if isinstance(wanted, float):
            self.scheduler.call_later(wanted, go_on)
        else:
            node_id, request = wanted
            self.ask(node_id, request, go_on, patience, user)

    def exists(self, path: str) -> bool:
        """Return whether a znode exists."""
        return path in self.zookeeper.nodes

    def has_log_of(self, topic: str) -> bool:
        """Return whether any disk has a log of a topic; logs that are being deleted do not count."""
        logs = (partition_named(log) for machine in self.machines.values() for log in machine.disks.logs())
        return any(log is not None and log.topic == topic for log in logs)

    def try_ask(self, question: Question[Any]) -> None:
        """Send a request to ZooKeeper as an admin tool does; errors are ignored."""
        with contextlib.suppress(AskFailed):
            self.admin.ask(question)

    def write(self, *ops: WriteOp) -> None:
        """Write to ZooKeeper in one transaction, as an admin tool does; errors are ignored."""
        self._operator.submit(StoreWrite(0, ops))

    def controllers(self) -> dict[int, ControllerContext]:
        """Return the controller context of each node that is an active controller."""
        found = {}
        for machine in self.machines.values():
            controller = self.actor(machine.id, ControllerActor)
            context = getattr(controller, "context", None)
            if context is not None and context.active:
                found[machine.id] = context
        return found

    def groups_at(self, node_id: int) -> dict[str, Group]:
        """Return the groups that a node coordinates, by name."""
        node = self.machines[node_id].node
        actors = () if node is None else node.base.actors(GroupActor)
        started = (getattr(actor, "group", None) for actor in actors)  # a new actor has none before its first message
        return {group.name: group for group in started if group is not None}

    def is_loading(self, node_id: int) -> bool:
        """Return whether a coordinator of a node is loading a partition."""
        coordinators = self.actor(node_id, GroupCoordinatorActor), self.actor(node_id, TransactionCoordinatorActor)
        return any(each is not None and each.is_loading for each in coordinators)

    def actor(self, node_id: int, kind: type) -> Any:
        """Return the first actor of a class on a node; None if the node has no such actor."""
        node = self.machines[node_id].node
        return None if node is None else next(iter(node.base.actors(kind)), None)

    def close(self) -> None:
        """Kill the processes of all nodes."""
        for node_id in self.machines:
            self.kill(node_id)


class _MachineAdapters:
    """A simulated machine's I/O adapters: for time, for random numbers, and for ending its process."""

    def __init__(self, cluster: Cluster, machine: Machine) -> None:
        self._cluster = cluster
        self._machine = machine
        self._identity = ("", 0, 1000 * machine.id + machine.starts)

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return _wall_ms(self._machine.clock)

    def uuid_hex(self) -> str:
        """Return a unique string of 32 hexadecimal digits."""
        return uuid.UUID(int=self._cluster.chance.getrandbits(128), version=4).hex

    def cluster_id(self) -> str:
        """Return a cluster id of 22 characters."""
        return "simulated-" + "".join(self._cluster.chance.choices("abcdefghijklmnopqrstuvwxyz", k=12))

    def identity(self) -> tuple[str, int, int]:
        """Return (metrics host, metrics port, process id)."""
        return self._identity


class _BothObservers:
    """An observer that passes each delivered message to two other observers."""

    def __init__(self, recorder: Recorder | FlightRecorder | NullRecorder, show: Callable[[Delivery], None]) -> None:
        self._recorder = None if isinstance(recorder, NullRecorder) else recorder
        self._show = show

    def observe_delivery(self, delivery: Delivery) -> None:
        """See Observer.observe_delivery."""
        self._show(delivery)
        if self._recorder is not None:
            self._recorder.observe_delivery(delivery)

    def record_creation(self, address: object, actor_class: type, n: int) -> None:
        """Notify only the recorder when an actor is created from outside; `show` takes only deliveries."""
        if self._recorder is not None:
            self._recorder.record_creation(address, actor_class, n)
