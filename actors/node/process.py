"""The process of a node: it runs one node with real I/O adapters, and handles signals.

Rule 1: this process owns the asyncio loop. The actor system only schedules its turns on this loop, and other threads
        only inject messages.
Rule 2: logs that were not closed cleanly are recovered before the loop starts, because recovery may take long.
Rule 3: an error that prevents the start is logged in one line, and the exit code is 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from actors.gateway.limits import MAX_LOG_FILES, RESERVED_FILES, FileLimit
from actors.gateway.listener import ListenerGateway
from actors.gateway.network import NetworkGateway
from actors.node.adapters import TimeAdapter
from actors.node.assembly import Node
from actors.node.settings import LoadedSettings
from actors.runtime import LoopScheduler, RealClock
from actors.storage.log_directories import META_FILE, parse_properties
from actors.storage.log_manager import number_of_logs, recover
from messages.ask import AskFailed
from messages.cluster import in_url
from messages.node import NodeFailed, NodeReady, NodeSettings, NodeStopped
from messages.node_settings import keeps_topic_ids
from messages.vocabulary import Message, evolve
from messages.zookeeper import TakeBrokerSequence
from zk_bridge.client import Client
from zk_bridge.kazoo_store import KazooStore
from zk_bridge.store import ZooKeeperUnavailable

MINIMUM = 64
"""Minimum limit: below it a node has no files for ZooKeeper, other brokers and its trace."""

LACKING = {"PLAINTEXT": "authentication or encryption", "SASL_PLAINTEXT": "encryption"}
"""What connections of a security protocol lack."""


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard limit, if the system permits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_limit(files: FileLimit, log_dirs: Sequence[str]) -> bool:
    """Log a warning if the limit is too low for the logs in the log directories. Return whether a node can start."""
    if files.limit < MINIMUM:
        _log.error(
            "The open file limit is %d, but a node needs at least %d. Raise it with ulimit -n.",
            files.limit,
            MINIMUM,
        )
        return False
    if files.logs < MAX_LOG_FILES:
        partitions = number_of_logs(log_dirs)
        if partitions > files.logs // 2:
            _log.warning(
                "The open file limit is %d. It leaves %d for connections and %d for log files, which is too few for %d"
                " partitions. Log files are closed and reopened as needed, which is slow."
                " Raise the limit to %d with ulimit -n.",
                *(files.limit, files.all, files.logs, partitions),
                RESERVED_FILES + 4 * partitions,
            )
    return True


YOUNG = 10_000
OFTEN = 0
NEVER = 1_000_000_000
MUCH = 1_000
SWITCH_SECONDS = 0.0005
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""
KEPT, MAPPED = 16 << 20, 4 << 20
"""Bytes that this process keeps after it has freed them, and size from which on an object has its own mapping."""


def tame() -> None:
    """Set how this process collects garbage, by the rules of GarbageCollectionSchedule, and shares time with threads.

    With KEPT, the pages of a request of 1 MB are not returned to the system and got again for the next request, which
    took a third of a broker's CPU of such a request.

    After each system call the loop waits for the thread that runs then, for Python's 5 ms by default. While /metrics of
    100,000 partitions was served, 1 % of the requests waited 110 to 230 ms for that; with SWITCH_SECONDS 23 to 29 ms.
    """
    gc.set_threshold(YOUNG, OFTEN, NEVER)
    sys.setswitchinterval(SWITCH_SECONDS)
    with contextlib.suppress(AttributeError):  # the C library is not glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_TRIM_THRESHOLD, KEPT)
        mallopt(M_MMAP_THRESHOLD, MAPPED)


class GarbageCollectionSchedule:
    """Runs Python's garbage collector between two turns of the event loop, so that no request waits (actors.md 3).

    Rule 1: reference counting frees nearly all objects immediately. The collector is needed only for cycles, mostly
            errors with their tracebacks, which become garbage when they are young.
    Rule 2: a collection runs when the number of new objects exceeds YOUNG. It examines 10,000 to 20,000 objects and
            takes a millisecond. Every second collection also examines the objects that survived the previous one
            (OFTEN). Before this second examination, most temporary objects of one slice of a large task are freed. If
            YOUNG were a fifth of its value, creating 100,000 leaderships would take a tenth longer. YOUNG is not
            larger, because examining a tuple of 100,000 partitions takes ten milliseconds, and two such tuples must not
            be examined together.
    Rule 3: objects that also survive this second examination are not examined again (NEVER). Examining 100,000
            partitions takes half a second and finds no garbage. A cycle that becomes garbage at that age stays in
            memory.
    Rule 4: if more than MUCH objects were created since the end of the last turn, most are assumed to be tables and
            states of many partitions, which stay in use. Later collections do not examine the objects that exist at
            this time. Before this rule, a collection that ran while such objects were created examined several tables
            of 100,000 entries and took 60 ms. This rule shortened the longest turn of a failover from 63 ms to less
            than 20 ms.
    Rule 5: gc.callbacks are not used. While Python runs a callback, other threads run too. The running collection does
            not examine the objects that these threads create, and the next collection would examine all of them at
            once.
    """

    def __init__(self) -> None:
        gc.disable()
        self._young = 0
        self._generation = 0

    def __call__(self) -> None:
        """Run a collection if it is due."""
        young = gc.get_count()[0]
        made, self._young = young - self._young, young
        if made > MUCH:
            gc.freeze()
            self._young = 0
        elif young > YOUNG:
            gc.collect(self._generation)
            self._generation = 1 - self._generation
            self._young = 0


def leave() -> None:
    """Skip the last garbage collection of this process, which would examine all objects."""
    gc.freeze()


_log = logging.getLogger("kafka_actors.process")
_server_log = logging.getLogger("kafka.server.KafkaServer")
"""Kafka's log lines about the start and stop of a broker, which tools read."""


class NodeProcess:
    """Runs a node, from reading its settings until its exit; call `run` once, on the event loop of the process."""

    def __init__(self, loaded: LoadedSettings) -> None:
        self._loaded, self._settings = loaded, loaded.settings
        self._store = _store_of(loaded)
        self._ended: asyncio.Future[int]
        self._whereabouts = ""
        """Addresses and folders of the running node, for a log line."""

    async def run(self) -> int:
        """Start, serve until a signal, and stop. Return the exit code."""
        _server_log.info("starting")
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        loaded, settings, scheduler = self._loaded, self._settings, LoopScheduler(loop)
        node = Node(
            settings,
            self._store,
            partial(NetworkGateway, security=loaded.security),
            partial(ListenerGateway, security=loaded.security, vault=loaded.vault),
            RealClock(),
            scheduler,
            ports={"tls": loaded.stores},
            notify=self._process_received,
            vault=loaded.vault,
        )
        try:
            node.metrics.serve(settings.metrics_host, settings.metrics_port)
            await node.start()
        except OSError as error:
            _log.error("[KafkaServer id=%d] Fatal error during startup: %s", settings.node_id, error.strerror or error)
            self._end(1)
        else:
            self._whereabouts = _whereabouts(node)
            node.recorder.attach(loop)
            node.base.loop.after_turn = GarbageCollectionSchedule()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._leave, node)
            loop.add_signal_handler(signal.SIGUSR1, node.dump)
        code = await self._ended
        await node.stop()
        if code == 0:  # after a failure, the last line of this logger states the reason for the exit
            _server_log.info("[KafkaServer id=%d] shut down completed", settings.node_id)
        return code

    def _leave(self, node: Node) -> None:
        """Start a clean shutdown after a signal.

        After a second signal the node stops without waiting for the controller.
        """
        node.leave()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, 0)

    def _end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)

    def _process_received(self, message: Message) -> None:
        """Handle a message that the node sent to its process."""
        match message:
            case NodeReady(broker_epoch, cluster_id):
                _server_log.info("[KafkaServer id=%d] started", self._settings.node_id)
                _log.info(
                    "[Broker id=%d] started as %s, broker epoch %d, cluster %s; %s",
                    self._settings.node_id,
                    " and ".join(self._settings.roles),
                    broker_epoch,
                    cluster_id,
                    self._whereabouts,
                )
                lacking = ", ".join(
                    f"{each.listener} has no {LACKING[each.security_protocol]}"
                    for each in self._settings.listeners
                    if each.security_protocol in LACKING
                )
                if lacking:
                    _log.warning(
                        "[Broker id=%d] Use these listeners in trusted networks only: %s",
                        *(self._settings.node_id, lacking),
                    )
            case NodeFailed(reason):
                _log.error("[KafkaServer id=%d] Stopping after a fatal error: %s", self._settings.node_id, reason)
                self._end(1)
            case NodeStopped():
                self._end(0)
            case _:
                _log.error("The gateway of this process ignores an unexpected %s message", type(message).__name__)


def _whereabouts(node: Node) -> str:
    """Return listeners, logs, trace and metrics of the node, with the bound ports, for a log line."""
    settings, ports = node.settings, node.listener.ports
    listeners = (f"{each.listener}://{in_url(each.host)}:{ports[each.listener]}" for each in settings.listeners)
    host, port = node.metrics_address
    return (
        f"listeners {', '.join(listeners)}; logs in {', '.join(settings.log_dirs)}; "
        + (node.recorder.reason or f"trace in {settings.trace_dir}")
        + f"; metrics http://{in_url(host)}:{port}/metrics"
    )


def _store_of(loaded: LoadedSettings) -> KazooStore:
    settings = loaded.settings
    return KazooStore(
        settings.zookeeper_connect,
        session_timeout=settings.zookeeper_session_timeout_ms / 1000,
        connection_timeout=settings.zookeeper_connection_timeout_ms / 1000,
        create_chroot=True,
        security=loaded.zookeeper,
    )


class NoBrokerId(Exception):
    """A broker without broker.id cannot get an id; the text is the reason."""


def with_broker_id(settings: NodeSettings, client: Callable[[], Client]) -> NodeSettings:
    """Return the settings with an id: that in meta.properties, or else a new one above reserved.broker.max.id.

    Kafka `KafkaServer.getOrGenerateBrokerId`. `client` connects to ZooKeeper.

    Raises:
        NoBrokerId: The log directories have different ids, or ZooKeeper gives none.
    """
    stored: dict[int, str] = {}
    for directory in settings.log_dirs:
        with contextlib.suppress(OSError, KeyError, ValueError):
            stored[int(parse_properties(Path(directory, META_FILE).read_text("iso-8859-1"))["broker.id"])] = directory
    if len(stored) > 1:
        raise NoBrokerId(f"the log directories belong to different brokers: {stored}. Set broker.id")
    try:
        if not stored:
            with client() as zookeeper:
                stored[settings.reserved_broker_max_id + zookeeper.ask(TakeBrokerSequence()).number] = ""
    except (AskFailed, ZooKeeperUnavailable) as error:
        raise NoBrokerId(f"ZooKeeper gave no broker id: {error}") from error
    (id,) = stored
    return evolve(settings, node_id=id)


def run_node(loaded: LoadedSettings) -> int:
    """Run one node in this process until SIGTERM, SIGINT or a failure. Return 0 after a clean stop, else 1."""
    settings = loaded.settings
    gc.freeze()  # otherwise `tame` causes a collection of all that the imports created: 10 % of the start's CPU time
    tame()
    raise_limit()
    files = FileLimit.of_process()
    if not check_limit(files, settings.log_dirs):
        return 1
    if "broker" in settings.roles:
        recover(settings.log_dirs, TimeAdapter().wall_ms, files.logs, keeps_topic_ids(settings))
    try:
        if settings.node_id < 0:
            timeout = settings.zookeeper_connection_timeout_ms / 1000
            settings = with_broker_id(settings, partial(Client, _store_of(loaded), timeout))
            loaded = loaded._replace(settings=settings)
        process = NodeProcess(loaded)
    except (NoBrokerId, ZooKeeperUnavailable) as error:
        _log.error("[KafkaServer id=%d] Fatal error during startup: %s", settings.node_id, error)
        return 1
    try:
        return asyncio.run(process.run())
    finally:
        leave()
