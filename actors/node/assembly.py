"""Node puts a node together from actors and from real or simulated I/O adapters.

Rule 1: a node has its own actor system (its base) and its own trace. Store, network, listener, clock and scheduler are
        parameters. So the same code runs as a process with sockets and a real ZooKeeper, or as several nodes on one
        loop with a ZooKeeper in memory. It also runs as any number of nodes in virtual time.
Rule 2: a stop has this order: controlled shutdown (NodeActor does it after StopNode), listener, actors, logs, outgoing
        connections, ZooKeeper session, metrics, trace. Logs are closed after the actors have stopped, because messages
        in flight need them. The ZooKeeper session is closed after the actors and the logs, when no actor uses the
        session any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from thespian.actors import ActorAddress

from actors.controller.channel import QUEUE_SIZE
from actors.core.security.access import Authorizer
from actors.gateway.limits import FileLimit
from actors.gateway.metric_table import COUNTERS
from actors.gateway.metrics import MetricsGateway, RequestMetrics, Row
from actors.gateway.store import StoreGateway
from actors.gateway.vault import Vault
from actors.node.adapters import ProcessAdapter, RandomAdapter, TimeAdapter
from actors.node.node import NodeActor
from actors.node.settings import ANY_ADDRESS
from actors.runtime import Clock, LocalBase, Scheduler, local_system
from actors.runtime.kernel.clock import RealClock
from actors.runtime.kernel.turns import MINUTE
from actors.runtime.trace.flight_recorder import FlightRecorder
from actors.runtime.trace.recorder import NullRecorder, Recorder
from actors.storage.disk import DiskAdapter
from actors.storage.log_directories import unlock_directories
from actors.storage.log_manager import LogManager
from messages import node
from messages.events import CONTROLLER_EVENTS
from messages.node_settings import keeps_topic_ids
from messages.partition import last_stable_offset
from messages.vocabulary import Message
from zk_bridge.store import Store

LOG_GAUGES = (
    *(f"kafka_log_log_{what}" for what in ("size", "logstartoffset", "logendoffset", "numlogsegments")),
    "kafka_cluster_partition_laststableoffsetlag",
)
PRODUCER_IDS = "kafka_server_replicamanager_produceridcount"
COPY_RATE = "kafka_server_alterlogdirsreplication_byte_rate"
CLEANER_RAN = "kafka_log_logcleanermanager_time_since_last_run_ms"
DAMAGED_LOGS = "kafka_actors_damaged_logs"
UNREADABLE_BATCHES = "kafka_actors_unreadable_batches"
LATE_TRANSACTIONS = "kafka_server_replicamanager_partitionswithlatetransactionscount"
LATE_TRANSACTION_MS = 5 * 60_000
"""Milliseconds after `transaction.max.timeout.ms` in which a coordinator aborts an open transaction."""

HANDLER_IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
NETWORK_IDLE = "kafka_network_socketserver_networkprocessoravgidle_percent"
"""This and HANDLER_IDLE have the same value, because one loop does the work of both pools of Kafka's threads."""
CONNECTIONS = ("kafka_server_socket_server_metrics_connection_count",)

_log = logging.getLogger("kafka_actors.node")

RING = "ring"
"""Value of trace.detail with which only the dumps of a flight recorder are written."""


class Network(Protocol):
    """The interface of outgoing connections, real or in memory."""

    address: ActorAddress

    async def stop(self) -> None:
        """Close all connections."""


class Listener(Protocol):
    """The interface of incoming connections, real or in memory."""

    address: ActorAddress
    request_metrics: RequestMetrics | None
    """The request metrics; None if requests are not counted."""
    authorizer: Authorizer | None
    """Judges requests; None if every client may do everything."""

    def connection_counts(self) -> Iterable[Row]:
        """Return the number of open connections of each listener."""

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener by name, once bound."""

    @property
    def region_from(self) -> int | None:
        """Minimum size in bytes of records that are sent directly from their file.

        None if records are always passed as bytes.
        """

    async def bind(self) -> None:
        """Bind the listeners, so that connections queue up. Raises OSError if a port is not available."""

    async def stop(self) -> None:
        """Close all connections."""


def recorder_of(
    settings: node.NodeSettings,
    clock: Clock,
    folder: str = "",
    started: float | None = None,
    process: int | None = None,
) -> Recorder:
    """Return the trace recorder for a node's settings.

    Args:
        settings: The node's settings.
        clock: The node's clock.
        folder: Folder of the trace; "" means the folder in the settings.
        started: Start time in seconds since 1970; None for this machine's current time.
        process: Process id in the trace; None for this process's id.
    """
    return Recorder(
        folder or settings.trace_dir,
        settings.node_id,
        settings.roles,
        settings,
        now=clock.now,
        max_bytes=settings.trace_max_bytes,
        free_bytes=settings.trace_free_bytes,
        snapshot_segments=settings.trace_snapshot_segments,
        detail=settings.trace_detail,
        events=CONTROLLER_EVENTS,
        started=started,
        process=process,
    )


class Node:
    """A real or simulated node, with its actor system and I/O adapters.

    Call `start` and wait for `ready`. To end the node, call `leave`, wait for `ended`, and call `stop`.

    Args:
        settings: The node's settings.
        store: The node's ZooKeeper session, not started.
        network: Makes the gateway for outgoing connections, given the node's actor system (its base).
        listener: Makes the gateway for incoming connections, given the node's base.
        clock: The clock of the node's base.
        scheduler: Runs the node's base.
        ports: I/O adapters that replace those of the machine, by name.
        notify: Called with NodeReady, NodeFailed and NodeStopped.
        recorder: Records the node's trace; None means a recorder that trace.detail selects.
        vault: Keeps the credentials of users; None if no listener needs them.
    """

    def __init__(
        self,
        settings: node.NodeSettings,
        store: Store,
        network: Callable[[LocalBase], Network],
        listener: Callable[[LocalBase, node.NodeSettings], Listener],
        clock: Clock,
        scheduler: Scheduler,
        ports: Mapping[str, Any] | None = None,
        notify: Callable[[Message], None] | None = None,
        recorder: Recorder | FlightRecorder | NullRecorder | None = None,
        vault: Vault | None = None,
    ) -> None:
        self.settings = settings
        self.recorder = recorder = _recorder(settings, clock) if recorder is None else recorder
        self.base = base = LocalBase(clock=clock, observer=None if isinstance(recorder, NullRecorder) else recorder)
        self.metrics = MetricsGateway(base)
        self.network = network(base)
        self.listener = listener(base, settings)
        self.listener.request_metrics = RequestMetrics(self.metrics, clock.now)
        self.ready: node.NodeReady | None = None
        self.ended: node.NodeFailed | node.NodeStopped | None = None
        """The message with which the node ended or failed. `stop` must still be called."""
        self._scheduler = scheduler
        self._notify = notify
        self._system = local_system(base)
        self._process = base.external_endpoint("process", self._process_received)
        self._store_gateway = StoreGateway(base, store, self._process, vault)
        self._actor: ActorAddress | None = None
        own = {"time": TimeAdapter(), "disk": DiskAdapter(), **(ports or {})}
        if "logs" not in own:
            flusher, open_files = ThreadPoolExecutor(1, "fsync"), FileLimit.of_process().logs
            own["logs"] = LogManager(
                own["time"].wall_ms,
                self.listener.region_from,
                flusher,
                open_files,
                settings.producer_id_expiration_ms,
                keeps_topic_ids=keeps_topic_ids(settings),
                copy_window=(
                    settings.alter_log_dirs_replication_quota_window_num,
                    settings.alter_log_dirs_replication_quota_window_size_seconds,
                ),
                usage=lambda: (RealClock.now(), RealClock.cpu()),
            )
        self.ports: dict[str, Any] = own
        """The I/O adapters of its actors by name. They may be wrapped until `start`."""
        self._disk, self._logs = own["disk"], own["logs"]
        self._watch_metrics()

    @property
    def metrics_address(self) -> tuple[str, int]:
        """Host and port of /metrics.

        If /metrics is served on all interfaces, the host of the first advertised listener is returned.
        """
        host, port = self.metrics.served_at
        everywhere = bool(port) and host in ("", *ANY_ADDRESS)
        return (self.settings.advertised_listeners[0].host if everywhere else host), port

    async def start(self) -> None:
        """Bind the listener and start the actors.

        Raises:
            OSError: A port is not available; only `stop` may be called then.
        """
        await self.listener.bind()
        base = self.base
        base.ports |= {
            "random": RandomAdapter(),
            "process": ProcessAdapter(*self.metrics_address),
            **self.ports,
        }
        self._actor = self._system.createActor(NodeActor)
        self._scheduler.add(base)
        start = node.StartNode(
            self.settings,
            self._store_gateway.address,
            self.network.address,
            self.listener.address,
            self.metrics.address,
            self._process,
        )
        base.inject(self._actor, start, self._process)

    def leave(self) -> None:
        """Start a clean shutdown of the node. NodeStopped follows."""
        self.base.inject(self._actor, node.StopNode())

    def notify(self, message: Message) -> None:
        """Send a message to NodeActor."""
        self.base.inject(self._actor, message)

    def dump(self) -> None:
        """Write the messages in the flight recorder's memory to the trace."""
        if isinstance(self.recorder, FlightRecorder):
            self.recorder.dump()
        else:
            _log.warning(
                "[KafkaServer id=%d] There is no flight recorder to dump, because trace.detail is not ring."
                " Set trace.detail=ring and restart the node.",
                self.settings.node_id,
            )

    async def stop(self) -> None:
        """Close everything, in the order of rule 2. Return when the ZooKeeper session is closed."""
        await self.listener.stop()
        await self.base.wind_down()
        if self._actor is not None:
            self._scheduler.remove(self.base)
        self._logs.close_all()
        unlock_directories(self._disk, self.settings.log_dirs)
        await self.network.stop()
        await self._store_gateway.stop()
        self.metrics.stop()
        self.recorder.close()

    async def vanish(self) -> None:
        """Stop like a killed process.

        Connections break, files and locks are released without a flush, and no actor is notified.

        The caller ends the ZooKeeper session (`MemoryStore.abandon`).
        """
        if self._actor is not None:
            self._scheduler.remove(self.base)
        await self.listener.stop()
        await self.network.stop()
        self._logs.abandon()
        unlock_directories(self._disk, self.settings.log_dirs)
        self.metrics.stop()
        self.recorder.abandon()

    def _process_received(self, message: Message, sender: ActorAddress) -> None:
        """Pass a message from NodeActor or the ZooKeeper gateway to the node's process.

        NodeReady is also stored as `ready`, and the first NodeFailed or NodeStopped as `ended`.
        """
        if isinstance(message, node.NodeReady):
            self.ready = message
        elif isinstance(message, node.NodeFailed | node.NodeStopped):
            self.ended = self.ended or message
        if self._notify is not None:
            self._notify(message)

    def _watch_metrics(self) -> None:
        """Register the metrics that are read at each scrape."""
        metrics, base, recorder = self.metrics, self.base, self.recorder
        metrics.watch("kafka_controller_controllerchannelmanager_totalqueuesize", lambda: metrics.total(QUEUE_SIZE))
        metrics.watch("kafka_actors_mailbox_size", lambda: base.queued)
        loop, now = base.loop, base.clock.now
        metrics.watch("kafka_actors_turn_seconds_max", lambda: loop.turns.longest(now()))
        metrics.watch("kafka_actors_turns_over_20ms", lambda: loop.turns.over)
        metrics.watch("kafka_actors_turns", lambda: loop.turns.count)
        metrics.watch("kafka_actors_between_turns_seconds_max", lambda: loop.between.longest(now()))
        for name in (HANDLER_IDLE, NETWORK_IDLE):
            metrics.watch(name, lambda: max(0.0, 1 - (loop.turns.busy(now()) + loop.between.busy(now())) / MINUTE))
        metrics.watch_table(CONNECTIONS, ("listener",), self.listener.connection_counts)
        metrics.watch_process()
        metrics.begin(COUNTERS)
        metrics.watch_table(LOG_GAUGES, ("topic", "partition"), self._log_metrics)
        metrics.watch(PRODUCER_IDS, self._logs.producer_count)
        metrics.watch(DAMAGED_LOGS, self._logs.damaged_logs)
        metrics.watch(COPY_RATE, self._logs.copied_per_second)
        if self.settings.log_cleaner_enable:
            metrics.watch(CLEANER_RAN, self._logs.cleaner_ran_before)
        metrics.watch(UNREADABLE_BATCHES, lambda: self._logs.unreadable_batches)
        longest = self.settings.transaction_max_timeout_ms + LATE_TRANSACTION_MS
        metrics.watch(LATE_TRANSACTIONS, lambda: self._logs.late_transactions(longest))
        metrics.watch_reason("kafka_actors_trace_failed", lambda: recorder.reason)

    def _log_metrics(self) -> Iterator[tuple[tuple[str, str], tuple[int, ...]]]:
        for place, (size, start, end, segments, high_watermark, first_unstable) in self._logs.log_metrics():
            lag = high_watermark - last_stable_offset(first_unstable, start, high_watermark)
            yield place, (size, start, end, segments, lag)


def _recorder(settings: node.NodeSettings, clock: Clock) -> Recorder | FlightRecorder:
    """Return the recorder that trace.detail selects."""
    if settings.trace_detail != RING:
        return recorder_of(settings, clock)
    return FlightRecorder(
        settings.trace_dir,
        settings.node_id,
        settings.roles,
        settings,
        now=clock.now,
        max_bytes=settings.trace_max_bytes,
        free_bytes=settings.trace_free_bytes,
        events=CONTROLLER_EVENTS,
        deliveries=settings.trace_ring_deliveries,
        slow_seconds=settings.trace_ring_slow_ms / 1000,
    )
