"""The cluster of processes on a real ZooKeeper: our nodes, Apache's, or brokers of one and controllers of the other.

Our nodes with replicas are brokers only. Our nodes that may become the controller are also brokers, as all of Apache's
are. The reason: a broker requests its controlled shutdown at the broker endpoint of the controller.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from messages.ask import AskFailed, Question
from messages.store import CREATE, DELETE, NO_NODE, OK, SET, WriteOp, Znode
from messages.vocabulary import Message
from tests.agreement.cluster import CONTROLLERS, NODES, ROLES, SETTINGS
from tests.cluster.processes import ApacheBroker, OurNode, Running, free_ports
from tests.wire_client import WireClient
from zk_bridge import paths
from zk_bridge.client import connect
from zk_bridge.controller import decode_controller
from zk_bridge.embedded import EmbeddedZooKeeper

OURS, APACHE = "ours", "apache"


@attrs.frozen
class Kind:
    """The implementation of the brokers, and that of the controllers."""

    brokers: str
    controllers: str

    def of(self, node_id: int) -> str:
        """Return the implementation of a node."""
        return self.controllers if node_id in CONTROLLERS else self.brokers


KINDS = {
    "ours": Kind(OURS, OURS),
    "apache": Kind(APACHE, APACHE),
    "apache-under-ours": Kind(APACHE, OURS),
    "ours-under-apache": Kind(OURS, APACHE),
}


class RealZooKeeper:
    """An admin's session with the ZooKeeper server."""

    up = True

    def __init__(self, connect_string: str) -> None:
        self.session = KazooClient(connect_string, timeout=30)
        self.session.start(20)

    def read(self, path: str) -> Znode:
        """See ZooKeeper.read."""
        try:
            data, stat = self.session.get(path)
        except NoNodeError:
            return Znode(NO_NODE)
        return Znode(OK, data, stat.version, stat.czxid, stat.ephemeralOwner)

    def nodes(self, top: str = "/") -> dict[str, Znode]:
        """Return every znode at and below `top` by its path; the requests of one level are sent together."""
        found: dict[str, Znode] = {}
        level = [top]
        while level:
            asked = [(path, self.session.get_async(path), self.session.get_children_async(path)) for path in level]
            level = []
            for path, reading, listing in asked:
                with contextlib.suppress(NoNodeError):
                    data, stat = reading.get()
                    found[path] = Znode(OK, data, stat.version, stat.czxid, stat.ephemeralOwner)
                    level += [f"{path.rstrip('/')}/{name}" for name in listing.get()]
        return found

    def walk(self, top: str = "/") -> Iterator[tuple[str, bytes | None]]:
        """See ZooKeeper.walk."""
        return ((path, node.data) for path, node in self.nodes(top).items())


class Processes:
    """Five processes and their own ZooKeeper, with all files below `place`; Apache's nodes run from `jars`."""

    looks = 0.1

    def __init__(
        self, place: Path, kind: Kind, jars: Path | None = None, settings: tuple[tuple[str, str], ...] = ()
    ) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self._place, self._kind, self._jars = place, kind, jars
        self._settings = {name.replace("_", "__"): value for name, value in {**SETTINGS, **dict(settings)}.items()}
        self._server = EmbeddedZooKeeper(place / "zookeeper", force_sync=False)
        self._server.start()
        self.connect_string = f"127.0.0.1:{self._server.port}"
        self.zookeeper = RealZooKeeper(self.connect_string)
        self._admin = connect(self.connect_string)
        self.ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        self.nodes: dict[int, Running] = {}
        self._paused: set[int] = set()
        self._asking: list[WireClient] = []

    def begin(self) -> None:
        """Start all nodes, the first controller before the others, and wait until they are registered."""
        self.start(CONTROLLERS[0])
        assert self.until(lambda: self.exists(paths.CONTROLLER), 60), "no node is the controller"
        others = [node_id for node_id in NODES if node_id != CONTROLLERS[0]]
        for node_id in others:
            self.start(node_id)
        assert self.until(lambda: all(self.registered(each) for each in others), 90), "not all came"

    def end(self) -> None:
        """Kill all nodes and stop ZooKeeper."""
        for node in self.nodes.values():
            node.kill()
        for client in self._asking:
            client.close()
        self._admin.close()
        self.zookeeper.session.stop()
        self.zookeeper.session.close()
        self._server.stop()

    # ---------------------------------------------------------------------------------------------- processes

    def start(self, node_id: int) -> None:
        """Start a node after its last process has ended and its znodes are deleted."""
        if node_id in self.nodes:
            self.nodes[node_id].process.wait(60)
            assert self.until(lambda: not self._names(node_id), 30), f"node {node_id} is still registered"
        folder, port = self._place / f"{node_id}", self.ports[node_id]
        folder.mkdir(exist_ok=True)
        if self._kind.of(node_id) == APACHE:
            assert self._jars is not None
            node: Running = ApacheBroker(self._jars, folder, node_id, port, self.connect_string, **self._settings)
        else:
            roles = ROLES[node_id in CONTROLLERS]
            node = OurNode(folder, node_id, port, self.connect_string, process__roles=",".join(roles), **self._settings)
        self.nodes[node_id] = node

    def kill(self, node_id: int) -> None:
        """See ScenarioCluster.kill. Delete the session's znodes now; ZooKeeper would wait for its timeout."""
        self.nodes[node_id].kill()
        self._paused.discard(node_id)
        owners = {self.zookeeper.read(path).owner for path in self._names(node_id)} - {0}
        held = [path for path, node in self.zookeeper.nodes().items() if node.owner in owners]
        self.write(*(WriteOp(DELETE, path) for path in held))

    def leave(self, node_id: int) -> None:
        """Send SIGTERM to the process."""
        self.nodes[node_id].process.terminate()

    def pause(self, node_id: int) -> None:
        """Send SIGSTOP to the process and wait until all its threads have stopped."""
        self.nodes[node_id].send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.nodes[node_id].process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self._paused.add(node_id)

    def resume(self, node_id: int) -> None:
        """Send SIGCONT to the process."""
        self._paused.discard(node_id)
        self.nodes[node_id].send(signal.SIGCONT)

    def registered(self, node_id: int) -> bool:
        """See ScenarioCluster.registered."""
        return self.exists(paths.broker(node_id))

    def candidates(self) -> list[int]:
        """See ScenarioCluster.candidates. If the brokers are Apache's, all nodes are candidates."""
        stand = NODES if self._kind.brokers == APACHE else CONTROLLERS
        return [each for each in stand if each not in self._paused and self.nodes[each].process.poll() is None]

    def _names(self, node_id: int) -> list[str]:
        """Return the existing znodes that belong to the node by their names or content."""
        found = [path for path in (paths.our_node(node_id), paths.broker(node_id)) if self.exists(path)]
        data = self.zookeeper.read(paths.CONTROLLER).data
        if data and decode_controller(paths.CONTROLLER, data) == node_id:
            found.append(paths.CONTROLLER)
        return found

    # ---------------------------------------------------------------------------------------------- clients

    def exists(self, path: str) -> bool:
        """Return whether a znode exists."""
        return self.zookeeper.session.exists(path) is not None

    def has_log_of(self, topic: str) -> bool:
        """Return whether any node has a log of a topic; logs that are being deleted do not count."""
        found = self._place.glob(f"*/**/{topic}-*")
        return any(path.name.removeprefix(f"{topic}-").isdecimal() for path in found)

    def try_ask(self, question: Question[Any]) -> None:
        """Send a request to ZooKeeper as an admin tool does; errors are ignored."""
        with contextlib.suppress(AskFailed):
            self._admin.ask(question)

    def write(self, *ops: WriteOp) -> None:
        """Write to ZooKeeper in one transaction; errors of its operations are ignored."""
        transaction = self.zookeeper.session.transaction()
        for op in ops:
            if op.kind == CREATE:
                transaction.create(op.path, op.data or b"")
            elif op.kind == SET:
                transaction.set_data(op.path, op.data or b"", op.version)
            elif op.kind == DELETE:
                transaction.delete(op.path, op.version)
        transaction.commit()

    def ask_controller(self, request: Message) -> None:
        """Send a request to the controller, without waiting for the response."""
        data = self.zookeeper.read(paths.CONTROLLER).data
        if data:
            client = WireClient("127.0.0.1", self.ports[decode_controller(paths.CONTROLLER, data)])
            client.send(request)
            self._asking.append(client)

    def call(self, node_id: int, request: Message) -> Message | None:
        """See ScenarioCluster.call."""
        try:
            with WireClient("127.0.0.1", self.ports[node_id], timeout=15) as client:
                return client.call(request)
        except OSError:
            return None

    def run(self, seconds: float) -> None:
        """See ScenarioCluster.run."""
        ends = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= ends, seconds)

    def until(self, good: Callable[[], bool], seconds: float) -> bool:
        """See ScenarioCluster.until."""
        ends = time.monotonic() + seconds
        while not good():
            if time.monotonic() > ends:
                return False
            time.sleep(self.looks)
        return True


class ClusterPool:
    """A pool of one cluster, which consecutive scenarios of the same kind and settings share."""

    def __init__(self, place: Path, jars: Path | None = None) -> None:
        self._place, self._jars = place, jars
        self._wanted: tuple[object, ...] = ()
        self._cluster: Processes | None = None
        self._count = 0

    @contextlib.contextmanager
    def on(self, kind: str, settings: tuple[tuple[str, str], ...] = ()) -> Iterator[Processes]:
        """Yield a cluster of this kind: the current one if it fits and nothing failed on it, otherwise a new one."""
        if self._cluster is None or self._wanted != (kind, settings):
            self.end()
            self._count += 1
            self._cluster = Processes(self._place / f"{self._count}", KINDS[kind], self._jars, settings)
            self._wanted = (kind, settings)
            self._cluster.begin()
        try:
            yield self._cluster
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """End the current cluster, if there is one."""
        if self._cluster is not None:
            self._cluster.end()
        self._cluster = None
