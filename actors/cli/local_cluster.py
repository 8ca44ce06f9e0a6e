"""Run a cluster on this machine: a process for each node, and a ZooKeeper server unless the user names one.

Rule 1: A node is `kafka-actors broker DIR/node-N/server.properties`, and logs to DIR/node-N/node.log.
Rule 2: No child process outlives this process, however this process ends (zk_bridge.guardian). A Ctrl-C at the terminal
        reaches only this process, which stops the others in order: first all nodes except the controller, then the
        controller, then ZooKeeper.
Rule 3: An existing DIR is used again: its data and its properties files are kept. Only the addresses in the properties
        files are rewritten. More nodes have the protocol version of the first.
Rule 4: The process that runs the cluster holds DIR/lock, which contains its process id. DIR/cluster.json describes the
        running processes and is rewritten after each change. A file DIR/node-N/start requests the start of dead node N.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from actors.cli.admin_client import client_of
from actors.cli.app import FOLDER, CommandFailed
from actors.cli.cluster_file import CLIENT_PROPERTIES, read_cluster, write_cluster
from actors.cli.status import scrape
from actors.cli.zookeeper import zookeeper
from actors.node import memory_cluster
from actors.node.cluster_security import ClusterSecurity
from actors.node.free_ports import HOST, busy, free_ports
from actors.node.internal_topic_settings import internal_topic_settings
from actors.node.properties import read_properties, write_properties
from actors.node.settings_table import folder_text
from actors.public.operations import ClusterError
from messages.ask import AskFailed
from messages.vocabulary import AnyMessage
from messages.zookeeper import GetBrokers, GetController, GetNodes
from zk_bridge import guardian
from zk_bridge.embedded import EmbeddedZooKeeper, ZooKeeperStartFailed

if TYPE_CHECKING:
    from actors.page.controls import PageAction
    from actors.page.live import LivePage

COMMAND = [sys.executable, "-P", "-m", __name__.rpartition(".")[0]]
"""Start of the command line of each child process: `kafka-actors`, independent of the PATH and the folder."""
LOCK = "lock"
SESSION_TIMEOUT_MS = 6000
VACANCY_SECONDS = 2 * SESSION_TIMEOUT_MS / 1000
START_SECONDS = 60.0
STOP_SECONDS = 30.0
HASTE_SECONDS = 10.0
METADATA_SECONDS = 2.0
LOOK_SECONDS = 0.05

DEFAULTS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    # The back-off is short, because the last node of a cluster retries in vain: no other node can lead its partitions.
    "controlled.shutdown.retry.backoff.ms": "500",
}
"""Defaults of a node's settings, which its properties file can replace."""

OWN_SETTINGS = ("broker.id", "node.id", "listeners", "log.dirs", "zookeeper.connect")
"""Settings that are set per node, and cannot be overridden for all nodes."""

_GUARD = "signal" if sys.platform == "linux" else "pipe"


of_cluster = click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=FOLDER,
    required=True,
    help="The folder of the cluster.",
)
"""The option for a cluster of `up`."""


class BrokerProcess:
    """The process of one node; `ended` is its exit code: None while it runs, negative after a signal."""

    def __init__(self, number: int, place: memory_cluster.NodePorts, directory: Path) -> None:
        self.id = number
        self.place = place
        self.directory = directory
        self.log = directory / "node.log"
        self.request = directory / "start"
        """File that requests the start of a dead node."""
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False

    @property
    def paused(self) -> bool:
        """Whether the process is suspended."""
        return self._paused and self.ended is None

    @property
    def trace_folder(self) -> Path:
        """The folder of the node's trace."""
        return Path(
            read_properties(self.directory / "server.properties").get("trace.dir", self.directory / "data.trace")
        )

    @property
    def pid(self) -> int | None:
        """Id of the process, or of the guardian process that runs it; None if the process does not run."""
        return self._process.pid if self._process is not None and self.ended is None else None

    @property
    def ended(self) -> int | None:
        """Exit code; None while the process runs."""
        return self._process.poll() if self._process is not None else None

    def configure(
        self,
        zookeeper_connect: str,
        listeners: Mapping[str, str],
        defaults: Mapping[str, str],
        overrides: Mapping[str, str],
    ) -> None:
        """Write server.properties. An earlier file's settings are kept, except for addresses and overrides."""
        file = self.directory / "server.properties"
        self.directory.mkdir(parents=True, exist_ok=True)
        present = read_properties(file) if file.exists() else {}
        if present:  # without the setting, its version is 2.6, and stays so
            defaults = {name: value for name, value in defaults.items() if name != memory_cluster.PROTOCOL_SETTING}
        if memory_cluster.CLIENTS in present.get("listeners", ""):  # of an earlier `up --host`
            names = [
                name
                for name, value in present.items()
                if memory_cluster.CLIENTS in value or f".{memory_cluster.CLIENTS.lower()}." in name
            ]
            present = {name: value for name, value in present.items() if name not in names}
        ours = {
            "broker.id": str(self.id),
            **listeners,
            "log.dirs": folder_text(str(self.directory / "data")),
            "zookeeper.connect": zookeeper_connect,
        }
        write_properties(file, {**defaults, **present, **overrides, **ours})

    def start(self) -> None:
        """Start the process. The calling thread must outlive the started process."""
        self.request.unlink(missing_ok=True)
        node = [*COMMAND, "broker", str(self.directory / "server.properties")]
        node += ["--logs", str(self.directory)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__, _GUARD, str(os.getpid()), *node],
                stdin=subprocess.PIPE if _GUARD == "pipe" else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def pause(self) -> None:
        """Suspend the process."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Let the process continue if it is suspended."""
        if self.paused and self._process is not None:
            self._process.send_signal(signal.SIGCONT)
        self._paused = False

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        self.resume()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    def wait(self, deadline: float) -> bool:
        """Wait until the process ends or time.monotonic() reaches `deadline`; return whether the process ended."""
        try:
            if self._process is not None:
                self._process.wait(max(0.0, deadline - time.monotonic()))
            return True
        except subprocess.TimeoutExpired:
            return False

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def last_words(self, lines: int = 5) -> str:
        """Return the last lines of the process's log."""
        with suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


class LocalCluster:
    """A cluster with its files in `directory`; the context manager `running` starts and stops it.

    `overrides` are settings for all nodes, which are written to their properties files.
    """

    def __init__(
        self,
        directory: Path,
        ports: Sequence[int],
        zookeeper_connect: str | None,
        overrides: Mapping[str, str] | None = None,
        host: str = HOST,
        advertised_host: str = HOST,
        security: ClusterSecurity | None = None,
    ) -> None:
        self.directory = directory
        self._host, self._advertised_host = host, advertised_host
        self._security = security
        self._overrides = overrides or {}
        internal = ports if host == advertised_host == HOST else free_ports(len(ports), besides=ports)
        self.nodes = [
            BrokerProcess(number, place, directory / f"node-{number}")
            for number, place in enumerate(map(memory_cluster.NodePorts, ports, internal))
        ]
        self.zookeeper = zookeeper_connect or ""
        self.server: EmbeddedZooKeeper | None = None
        if zookeeper_connect is None:
            self.server = EmbeddedZooKeeper(directory / "zookeeper", port=self._earlier_zookeeper_port())
        self._ask: Callable[[AnyMessage], Any]
        self._page: LivePage | None = None

    @contextmanager
    def running(self, stopping: Callable[[], bool], print_line: Callable[[str], None]) -> Iterator[None]:
        """Start all processes and wait until they serve.

        Stop them at the end. `print_line` prints each step, and the nodes that had to be killed.

        If `stopping` returns true, the wait ends before the processes serve.

        Raises:
            CommandFailed: A process does not start.
        """
        with ExitStack() as stack:
            self.directory.mkdir(parents=True, exist_ok=True)
            stack.enter_context(only_user_of(self.directory))
            if self.server is not None:
                print_line("starting ZooKeeper")
                try:
                    self.server.start()
                except ZooKeeperStartFailed as error:
                    raise CommandFailed(str(error)) from error
                stack.callback(self.server.stop)
                self.zookeeper = self.server.connect_string
            self._ask = stack.enter_context(zookeeper(self.zookeeper, empty=True))
            self._await_vacancy(stopping)
            for question in () if self._security is None else self._security.questions():
                self._ask(question)
            stack.callback(self.write_down, None)
            stack.callback(self._stop_nodes, print_line)
            print_line(f"starting {len(self.nodes)} nodes")
            self.configure_nodes()
            for node in self.nodes:
                node.start()
            self._await_ready(stopping)
            self.write_down(os.getpid())
            yield

    def configure_nodes(self) -> None:
        """Write the properties file of each node."""
        defaults = {**DEFAULTS, **internal_topic_settings(len(self.nodes)), **self._protocol()}
        for node in self.nodes:
            listeners = memory_cluster.listener_settings(node.place, self._host, self._advertised_host, self._security)
            node.configure(self.zookeeper, listeners, defaults, self._overrides)

    @property
    def _client_properties(self) -> Path | None:
        return None if self._security is None else self.directory / CLIENT_PROPERTIES

    def description(self, pid: int | None) -> dict[str, Any]:
        """Return the description that cluster.json and --json contain (actors.cli.cluster_file).

        Args:
            pid: Id of this process; None after the cluster has stopped.
        """
        brokers = [
            {"id": node.id, "host": self._advertised_host, **node.place._asdict(), "pid": node.pid}
            for node in self.nodes
        ]
        page = {} if self._page is None else {"ui": self._page.url}
        return {"zookeeper": self.zookeeper, "dir": str(self.directory), "pid": pid, "brokers": brokers, **page}

    @contextmanager
    def page(self, address: tuple[str, int] | None) -> Iterator[None]:
        """Serve the page of the running cluster on this host and port; without an address, none."""
        if address is None:
            yield
            return
        from actors.page.live import LivePage

        self._page = LivePage(str(self.directory), [node.trace_folder for node in self.nodes], self, *address)
        self.write_down(os.getpid())
        try:
            yield
        finally:
            self._page.stop()
            self._page = None

    @property
    def actions(self) -> tuple[PageAction, ...]:
        """The buttons of the page."""
        from actors.page.controls import KILL, PAUSE, START, STOP

        return KILL, START, PAUSE, STOP

    def effects(self) -> list[memory_cluster.FaultInEffect]:
        """Return the nodes that are paused or do not run, each with the operation that ends this."""
        return [
            memory_cluster.FaultInEffect(f"broker {node.id} is {what}", operation, {"broker_id": node.id})
            for node in self.nodes
            for is_so, what, operation in (
                (node.paused, "paused", "resume"),
                (node.ended is not None, "not running", "start_broker"),
            )
            if is_so
        ]

    def do(self, operation: str, arguments: Mapping[str, Any]) -> None:
        """Execute an operation that the page asks for. A started node begins when its last session has expired."""
        node = next((node for node in self.nodes if node.id == arguments["broker_id"]), None)
        if node is None or (node.ended is None) == (operation == "start_broker"):
            raise ClusterError(f"broker {arguments['broker_id']} cannot do this now: {operation}")
        operations = {"kill": node.kill, "stop_broker": node.terminate, "start_broker": node.request.touch}
        {**operations, "pause": node.pause, "resume": node.resume}[operation]()

    def write_down(self, pid: int | None) -> None:
        """Update cluster.json."""
        write_cluster(self.directory, self.description(pid))

    def not_recording(self) -> dict[int, str]:
        """Return why nodes do not record a trace, by node id; empty while ZooKeeper does not respond."""
        with suppress(AskFailed):
            brokers = self._ask(GetBrokers(watch=False)).brokers
            found = {node.id: scrape(node, brokers).not_recording for node in self._ask(GetNodes()).nodes}
            return {node: reason for node, reason in found.items() if reason}
        return {}

    def is_registered(self, node: BrokerProcess) -> bool:
        """Return whether the node is registered in ZooKeeper.

        A killed node stays registered until its session expires.
        """
        return node.id in {broker.id for broker in self._ask(GetBrokers(watch=False)).brokers}

    # ------------------------------------------------------------------------------------------------- details

    def _protocol(self) -> dict[str, str]:
        """Return the setting of a node's protocol version: as in an earlier use of the directory, or for new clusters.

        Empty if the nodes of the directory have no such setting.
        """
        for file in sorted(self.directory.glob("node-*/server.properties")):
            return {
                name: value for name, value in read_properties(file).items() if name == memory_cluster.PROTOCOL_SETTING
            }
        return {memory_cluster.PROTOCOL_SETTING: memory_cluster.NEW_CLUSTERS_PROTOCOL}

    def _earlier_zookeeper_port(self) -> int:
        """Return the port of the embedded ZooKeeper at the last use of the directory.

        If that port is unknown or in use, return 0 (any free port).
        """
        try:
            port = int(read_cluster(self.directory)["zookeeper"].rpartition(":")[2])
        except (CommandFailed, OSError, ValueError):
            return 0
        return 0 if busy([port]) else port

    def _await_vacancy(self, stopping: Callable[[], bool]) -> None:
        """Wait until ZooKeeper has no registration with the id of any node of this cluster.

        A killed broker stays registered until its session expires.
        """
        deadline = time.monotonic() + VACANCY_SECONDS
        while not stopping() and (taken := [node for node in self.nodes if self.is_registered(node)]):
            if time.monotonic() > deadline:
                ids = ", ".join(str(node.id) for node in taken)
                raise CommandFailed(f"ZooKeeper at {self.zookeeper} already has live brokers with these ids: {ids}")
            time.sleep(LOOK_SECONDS)

    def _await_ready(self, stopping: Callable[[], bool]) -> None:
        """Wait until all nodes are registered and their Metadata responses contain a controller and all brokers."""
        deadline = time.monotonic() + START_SECONDS
        while not stopping():
            for node in self.nodes:
                if node.ended is not None:
                    raise CommandFailed(f"node {node.id} did not start (exit code {node.ended}):\n{node.last_words()}")
            if self._ready():
                return
            if time.monotonic() > deadline:
                words = "\n".join(f"node {node.id}: {node.last_words(1)}" for node in self.nodes)
                raise CommandFailed(
                    f"the cluster was not ready after {START_SECONDS:.0f} s; last lines of its log:\n{words}"
                )
            time.sleep(LOOK_SECONDS)

    def _ready(self) -> bool:
        ids = {node.id for node in self.nodes}
        if not ids <= {broker.id for broker in self._ask(GetBrokers(watch=False)).brokers}:
            return False
        controller = self._ask(GetController(watch=False)).broker_id
        for node in self.nodes:
            try:
                metadata = client_of(
                    f"{HOST}:{node.place.internal}", None, None, METADATA_SECONDS, self._client_properties
                ).metadata()
            except CommandFailed:
                return False
            if metadata.controller_id != controller or not ids <= {broker.id for broker in metadata.brokers}:
                return False
        return True

    def _stop_nodes(self, print_line: Callable[[str], None]) -> None:
        """Stop the nodes. The controller is stopped last, because it moves the leaderships of the other nodes."""
        running = [node for node in self.nodes if node.ended is None]
        if self.server is not None and self.server.pid is None:  # without ZooKeeper, no controller can move leaderships
            _stop(running, 1.0, print_line)
            return
        with suppress(AskFailed):  # if ZooKeeper does not respond, the nodes stop in any order
            controller = self._ask(GetController(watch=False)).broker_id
            _stop([node for node in running if node.id != controller], STOP_SECONDS, print_line)
        _stop([node for node in running if node.ended is None], STOP_SECONDS, print_line)


def _stop(nodes: Sequence[BrokerProcess], patience: float, print_line: Callable[[str], None]) -> None:
    """Send SIGTERM to these nodes, again after `patience` seconds, and SIGKILL after HASTE_SECONDS more.

    `print_line` prints a line for each node that had to be killed.
    """
    for node in nodes:
        node.terminate()
    deadline = time.monotonic() + patience
    late = [node for node in nodes if not node.wait(deadline)]
    for node in late:
        node.terminate()  # a node ends at the second SIGTERM without waiting for the controller
    deadline = time.monotonic() + HASTE_SECONDS
    for node in late:
        if not node.wait(deadline):
            node.kill()
            print_line(f"node {node.id} did not stop and was killed")


def exit_reason(code: int) -> str:
    """Return the description of an exit code."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


@contextmanager
def only_user_of(directory: Path) -> Iterator[None]:
    """Hold the directory's lock.

    Raises:
        CommandFailed: Another process holds the lock.
    """
    with (directory / LOCK).open("a+") as lock:
        if not _try_lock(lock):
            raise CommandFailed(f"{directory} is in use by another `kafka-actors up`")
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def runner(directory: Path) -> int | None:
    """Return the id of the process that runs the cluster in this folder; None if no process does.

    Raises:
        CommandFailed: The folder is not a cluster folder.
    """
    try:
        with (directory / LOCK).open("r") as lock:
            return None if _try_lock(lock) else int(lock.read())
    except (FileNotFoundError, NotADirectoryError):
        raise CommandFailed(
            f"{directory} is not a cluster folder: it contains no {LOCK}. Give the folder passed to `up --dir`."
        ) from None
    except ValueError:
        raise CommandFailed(
            f"{directory / LOCK} is locked by an unknown program: the file contains no process id. Stop that program."
        ) from None


def _try_lock(lock: IO[str]) -> bool:
    """Try to take the lock; return whether the lock was free. It is held until the file is closed."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
