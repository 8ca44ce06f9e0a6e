"""A node's process: the one place where actor system, gateways, ZooKeeper and trace are put together.

Rule 1: this process owns the asyncio loop; the actor system only schedules its turns on it, other threads only inject.
Rule 2: order of a stop: controlled shutdown (NodeActor), listeners, actors, outgoing connections, ZooKeeper session,
        metrics, trace, loop (design 2.5). The session goes after the actors: nobody acts in its name any more.
Rule 3: what keeps a node from starting is one line for the user and exit code 1.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal

from thespian.actors import ActorAddress

from actors.controller.channel import QUEUE_SIZE
from actors.gateway.listener import ListenerGateway
from actors.gateway.metrics import MetricsGateway
from actors.gateway.network import NetworkGateway
from actors.gateway.store import StoreGateway
from actors.node.node import NodeActor
from actors.node.ports import ProcessPort, RandomPort, TimePort
from actors.runtime import LocalBase, RealClock, local_system
from actors.runtime.recorder import Recorder
from actors.storage.disk import DiskPort
from messages.node import NodeFailed, NodeReady, NodeSettings, NodeStopped, StartNode, StopNode
from messages.vocabulary import Message
from zk_bridge.kazoo_store import KazooStore
from zk_bridge.store import ZooKeeperUnavailable

_log = logging.getLogger("kafka_actors.process")

METRICS_HOST = "127.0.0.1"
GC_THRESHOLDS = (50_000, 20, 100)
"""Collections are rarer than Python's default: a hundred thousand actors are not garbage."""


class NodeProcess:
    """One node from its settings to its end. `run` once, on the process's loop."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._store = KazooStore(
            settings.zookeeper_connect,
            session_timeout=settings.zookeeper_session_timeout_ms / 1000,
            connection_timeout=settings.zookeeper_connection_timeout_ms / 1000,
            create_chroot=True,
        )
        self._clock = RealClock()
        self._recorder = Recorder(settings.trace_dir, settings.node_id, settings.roles, settings, now=self._clock.now)
        self._base = LocalBase(clock=self._clock, observer=self._recorder)
        self._ended: asyncio.Future[int]
        self._whereabouts = ""
        """Where the running node is to be found, for the user."""

    async def run(self) -> int:
        """Start, serve until told to stop, stop; the exit code."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        base, settings = self._base, self._settings
        process = base.outsider("process", self.receive)
        metrics = MetricsGateway(base)
        listener = ListenerGateway(base, settings)
        network = NetworkGateway(base)
        store = StoreGateway(base, self._store, process)
        try:
            await listener.bind()
            metrics_port = metrics.serve(METRICS_HOST, settings.metrics_port)
        except OSError as error:
            _log.error("node %d cannot start: %s", settings.node_id, error.strerror or error)
            await listener.stop()
            self._recorder.close()
            return 1
        self._whereabouts = self._say_where(listener.ports, metrics_port)
        metrics.watch(
            "kafka_controller_controllerchannelmanager_totalqueuesize",
            "Requests waiting in the controller's channels",
            lambda: metrics.total(QUEUE_SIZE),
        )
        metrics.watch("kafka_actors_mailbox_size", "Messages waiting in the node's queue", lambda: base.queued)
        metrics.watch("kafka_actors_trace_failed", "1 where the trace has ended", lambda: self._recorder.failed)
        base.ports |= {
            "disk": DiskPort(),
            "time": TimePort(),
            "random": RandomPort(),
            "process": ProcessPort(METRICS_HOST, metrics_port),
        }
        system = local_system(base)
        node = system.createActor(NodeActor)
        base.attach(loop)
        self._recorder.attach(loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, node)
        start = StartNode(settings, store.address, network.address, listener.address, metrics.address, process)
        base.inject(node, start, process)
        code = await self._ended
        await listener.stop()
        system.shutdown()
        await network.stop()
        await loop.run_in_executor(None, self._store.stop)
        metrics.stop()
        self._recorder.close()
        return code

    def _say_where(self, ports: dict[str, int], metrics_port: int) -> str:
        """Listeners, logs, trace and metrics, as the user finds them; a port 0 is what it became."""
        settings = self._settings
        listeners = (
            f"{each.listener}://{f'[{each.host}]' if ':' in each.host else each.host}:{ports[each.listener]}"
            for each in settings.listeners
        )
        return (
            f"listeners {', '.join(listeners)}; logs in {', '.join(settings.log_dirs)}; "
            + (f"no trace, {settings.trace_dir} failed" if self._recorder.failed else f"trace in {settings.trace_dir}")
            + f"; metrics http://{METRICS_HOST}:{metrics_port}/metrics"
        )

    def _stop(self, node: ActorAddress) -> None:
        """A signal: stop in order; a second one does not wait for the controller."""
        loop = asyncio.get_running_loop()
        self._base.inject(node, StopNode())
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, 0)

    def _end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """What the node has to say to its process."""
        match message:
            case NodeReady(broker_epoch, cluster_id):
                gc.collect()
                gc.freeze()
                _log.info(
                    "[Broker id=%d] started (%s), broker epoch %d, cluster %s; %s",
                    self._settings.node_id,
                    ", ".join(self._settings.roles),
                    broker_epoch,
                    cluster_id,
                    self._whereabouts,
                )
                _log.warning(
                    "[Broker id=%d] listeners are for trusted networks: whoever reaches them may do anything",
                    self._settings.node_id,
                )
            case NodeFailed(reason):
                _log.error("node %d: %s", self._settings.node_id, reason)
                self._end(1)
            case NodeStopped():
                self._end(0)
            case _:
                _log.error("the process knows no %s (from %s)", type(message).__name__, sender)


def run_node(settings: NodeSettings) -> int:
    """Run one node in this process until SIGTERM or SIGINT, or until it fails. 0 after a clean stop, else 1."""
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        process = NodeProcess(settings)
    except ZooKeeperUnavailable as error:
        _log.error("node %d: %s", settings.node_id, error)
        return 1
    return asyncio.run(process.run())
