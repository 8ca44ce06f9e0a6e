"""A broker without ZooKeeper: request handler, replica manager and metadata cache on one base, with two drivers.

The test drives `Broker` on virtual time and sends requests directly to the request handler. `ServedBroker` has sockets,
and its loop runs in its own thread. In both, `disk` is a real directory that can fail on demand.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import threading
from pathlib import Path
from typing import Any

import attrs
from thespian.actors import ActorAddress

from actors.broker.fetcher_manager import ReplicaFetcherManagerActor
from actors.broker.isr_keeper import IsrKeeperActor
from actors.broker.metadata_cache import MetadataCacheActor
from actors.broker.partition_requests import PartitionRequestsActor
from actors.broker.replica_manager import ReplicaManagerActor
from actors.broker.request_handler import RequestHandlerActor
from actors.gateway.listener import ListenerGateway
from actors.node.adapters import TimeAdapter
from actors.runtime import LocalBase, RealClock, VirtualClock, local_system
from actors.storage.disk import DiskAdapter
from actors.storage.log_directories import unlock_directories
from actors.storage.log_manager import LogManager
from messages import node, zookeeper
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.metadata import MetadataRequest, MetadataResponse
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from messages.ask import Answer, Ask, Failure
from messages.cluster import ConfigEntry, Endpoint, TopicPartition
from messages.metrics import Counts, DropMetrics, Gauge, Gauges, ReplicasCounts
from messages.network import (
    ClientGone,
    ClientPart,
    ClientRequest,
    ClientRequests,
    ClientResponse,
    ClientResponses,
    WokenFetchSession,
)
from messages.parts import Part, cut, join_parts
from messages.store import OK
from messages.vocabulary import Message

CLUSTER_ID = "qOCh2TuhQcqxRBXk3PZ8Ng"
CONTROLLER = 100
DELAY_MS = 60_000
MAX_EPOCH = 2**31 - 1


class CountingRandom:
    """Return consecutive numbers instead of random UUIDs: 0...01, 0...02, ..."""

    def __init__(self) -> None:
        self._counter = itertools.count(1)

    def uuid_hex(self) -> str:
        return f"{next(self._counter):032x}"


class FaultyDisk(DiskAdapter):
    """Disk adapter that fails below the paths in `faults`: `faults[prefix] = errno`."""

    def __init__(self) -> None:
        self.faults: dict[str, int] = {}

    def check(self, path: str) -> None:
        for prefix, number in self.faults.items():
            if path.startswith(prefix):
                raise OSError(number, os.strerror(number), path)

    def make_directory(self, path: str, parents: bool = False) -> bool:
        self.check(path)
        return super().make_directory(path, parents)

    def rename(self, path: str, target: str) -> bool:
        self.check(path)
        return super().rename(path, target)

    def list_directories(self, path: str) -> tuple[str, ...]:
        self.check(path)
        return super().list_directories(path)


class FaultyLogs(LogManager):
    """Log manager on a `FaultyDisk`.

    Opening a log fails where the disk fails. Writing fails below the paths in its own `faults`.
    """

    def __init__(self, disk: FaultyDisk) -> None:
        super().__init__(TimeAdapter().wall_ms)
        self._disk = disk
        self.faults: dict[str, int] = {}

    def _check(self, path: str) -> None:
        for prefix, number in self.faults.items():
            if path.startswith(prefix):
                raise OSError(number, os.strerror(number), path)

    def append(self, path: str, *args: Any) -> tuple[int, ...]:
        self._check(path)
        return super().append(path, *args)

    def begin_epoch(self, path: str, epoch: int) -> None:
        self._check(path)
        super().begin_epoch(path, epoch)

    def append_marker(self, path: str, *args: Any) -> tuple[Any, ...]:
        self._check(path)
        return super().append_marker(path, *args)

    def open(self, path: str, is_new: bool, config: tuple[int, ...]) -> tuple[int, int, int, int, int]:
        self._disk.check(path)
        return super().open(path, is_new, config)


def order(topic: str, number: int = 0, leader: int = 0, epoch: int = 0, **fields: Any) -> LeaderAndIsrPartitionState:
    """Return one partition of a LeaderAndIsr request; by default broker 0 is its leader and only replica."""
    isr = fields.pop("isr", (leader,))
    defaults = {"controller_epoch": 1, "zk_version": 0, "replicas": (0,) if leader == 0 else (leader, 0)}
    return LeaderAndIsrPartitionState(
        TopicPartition(topic, number), leader=leader, leader_epoch=epoch, isr=isr, **{**defaults, **fields}
    )


def known(topic: str, number: int = 0, leader: int = 0, epoch: int = 0, **fields: Any) -> UpdateMetadataPartitionState:
    """Return one partition of an UpdateMetadata request."""
    isr = fields.pop("isr", (leader,))
    defaults = {"controller_epoch": 1, "zk_version": 0, "replicas": isr}
    return UpdateMetadataPartitionState(
        TopicPartition(topic, number), leader=leader, leader_epoch=epoch, isr=isr, **{**defaults, **fields}
    )


def alive(id: int, port: int = 9092, *listeners: str, rack: str | None = None) -> UpdateMetadataBroker:
    """Return a live broker on 127.0.0.1 with these listeners, by default PLAINTEXT."""
    endpoints = tuple(Endpoint(name, "127.0.0.1", port) for name in listeners or ("PLAINTEXT",))
    return UpdateMetadataBroker(id, endpoints, rack)


def settings(*log_dirs: Path | str, **fields: Any) -> node.NodeSettings:
    """Return the settings of broker 0 on a free port."""
    here = (Endpoint("PLAINTEXT", "127.0.0.1", 0),)
    defaults = {"log_segment_delete_delay_ms": DELAY_MS, "validate_state": True}
    places = {"listeners": here, "advertised_listeners": here}
    return node.NodeSettings(
        0, log_dirs=tuple(map(str, log_dirs)), zookeeper_connect="none", **{**places, **defaults, **fields}
    )


class Broker:
    """The actors of broker 0 on a base that the test drives."""

    def __init__(
        self,
        *log_dirs: Path | str,
        start: bool = True,
        clock: Any = None,
        observer: Any = None,
        counted: bool = False,
        **fields: Any,
    ) -> None:
        self.settings = settings(*log_dirs, **fields)
        self.clock = VirtualClock() if clock is None else clock
        self.disk = FaultyDisk()
        self.logs = FaultyLogs(self.disk)
        ports = {"disk": self.disk, "logs": self.logs, "random": CountingRandom(), "time": TimeAdapter()}
        self.base = LocalBase(clock=self.clock, observer=observer, ports=ports)
        self.system = local_system(self.base)
        self.gauges: dict[str, float] = {}
        self.replicas: dict[TopicPartition, int | None] = {}
        """The last published number of replicas of each partition."""
        self.counts: dict[tuple[str, str], int] = {}
        """(what was counted, of which topic or "") -> how often."""
        self.dropped: list[DropMetrics] = []
        self.started: list[Message] = []
        """Messages from the replica manager to the node."""
        self.answers: list[ClientResponse] = []
        self.parts: list[Part] = []
        """Parts received before the next response."""
        self.raw: list[ClientResponse | ClientPart] = []
        """Responses and parts of responses, in order of arrival."""
        self._metrics = self.base.external_endpoint("metrics", self._metered)
        self._node = self.base.external_endpoint("node", lambda message, sender: self.started.append(message))
        self._client = self.base.external_endpoint("client", self._answered)
        self.grants = False
        """Whether ISR writes succeed; otherwise they get no answer."""
        self.questions: list[Message] = []
        """Questions to ZooKeeper, except reads of topic configs and of the controller epoch."""
        self.elected: int | None = MAX_EPOCH
        """Value of /controller_epoch, by default the highest epoch; None if ZooKeeper is unavailable."""
        self.configs: dict[str, tuple[ConfigEntry, ...]] = {}
        """Topic configs in ZooKeeper."""
        self._bridge = self.base.external_endpoint("bridge", self._asked)
        self.transmitted: list[Message] = []
        """Messages from fetchers to the network."""
        self.network = self.base.external_endpoint("network", lambda message, sender: self.transmitted.append(message))
        self.coordinated: list[Message] = []
        """Messages to the coordinator."""
        self._coordinator = self.base.external_endpoint(
            "coordinator", lambda message, sender: self.coordinated.append(message)
        )
        self.verifier: ActorAddress | None = None
        """Actor that verifies transactions."""
        self.cache = self.system.createActor(MetadataCacheActor)
        self.manager = self.system.createActor(ReplicaManagerActor)
        self.handler = self.system.createActor(RequestHandlerActor)
        self.partition_requests = self.system.createActor(PartitionRequestsActor)
        self.isr_keeper = self.system.createActor(IsrKeeperActor)
        self.fetcher_manager = self.system.createActor(ReplicaFetcherManagerActor)
        self.base.inject(self.cache, node.StartMetadataCache(self.settings, CLUSTER_ID, self.partition_requests))
        figures = self._metrics if counted else None
        requests = node.StartPartitionRequests(self.settings, self.cache, figures, self._coordinator)
        self.base.inject(self.partition_requests, requests)
        self.base.inject(self.isr_keeper, node.StartIsrKeeper(self._bridge, self._metrics))
        self.base.inject(self.fetcher_manager, node.StartFetcherManager(self.settings, self.network, figures))
        self.base.inject(
            self.handler,
            node.StartRequestHandler(self.settings, self.cache, self.manager, None, self.partition_requests),
        )
        self._correlation_id = 0
        if start:
            self.start()

    def end(self) -> None:
        """Stop as a node does: first the actors, then their logs."""
        self.base.shutdown()
        self.base.ports["logs"].close_all()
        unlock_directories(self.base.ports["disk"], self.settings.log_dirs)

    def _metered(self, message: Gauges | Counts | DropMetrics | ReplicasCounts, sender: object) -> None:
        if isinstance(message, ReplicasCounts):
            self.replicas.update(message.counts)
            return
        if isinstance(message, DropMetrics):
            self.dropped.append(message)
            return
        for figure in message.values:
            name = figure.name.removeprefix("kafka_server_replicamanager_")
            if isinstance(figure, Gauge):
                self.gauges[name] = figure.value
            else:
                name = name.removeprefix("kafka_server_brokertopicmetrics_").removesuffix("_total")
                place = (name, dict(figure.labels).get("topic", ""))
                self.counts[place] = self.counts.get(place, 0) + figure.by

    def _answered(self, message: ClientResponse | ClientResponses | ClientPart, sender: object) -> None:
        if isinstance(message, ClientResponses):
            for response in message.responses:
                self._answered(response, sender)
            return
        self.raw.append(message)
        if isinstance(message, ClientPart):
            self.parts.append(message.part)
        elif isinstance(message, ClientResponse) and message.response is not None:
            if message.rest:  # no listener answers idle polls in this harness, so the session must not become idle
                woken = WokenFetchSession(message.response.session_id, message.rest, self.clock.now())
                self.base.inject(self.partition_requests, ClientRequests((), (woken,)), self._client)
            parts, self.parts = self.parts, []
            self.answers.append(attrs.evolve(message, response=join_parts(parts, message.response)))

    def _asked(self, message: Ask, sender: ActorAddress) -> None:
        """Answer reads of topic configs and of the controller epoch; record all other questions.

        With `grants`, ISR writes succeed.
        """
        if isinstance(message.question, zookeeper.GetTopicConfigs):
            configs = [zookeeper.TopicConfig(topic, self.configs.get(topic, ())) for topic in message.question.topics]
            self.base.inject(sender, Answer(message.id, zookeeper.TopicConfigs(tuple(configs))), self._bridge)
        elif isinstance(message.question, zookeeper.GetControllerEpoch):
            away = Failure("ConnectionLoss", "ZooKeeper is away")
            result = away if self.elected is None else zookeeper.ControllerEpochRead(self.elected)
            self.base.inject(sender, Answer(message.id, result), self._bridge)
        else:
            self.questions.append(message.question)
            if self.grants and isinstance(message.question, zookeeper.UpdatePartitionStates):
                states = message.question.states
                granted = tuple(
                    zookeeper.WriteResult(partition, OK, state.zk_version + 1) for partition, state in states
                )
                self.base.inject(sender, Answer(message.id, zookeeper.WriteResults(granted)), self._bridge)

    def start(self) -> None:
        """Start the replica manager."""
        start = node.StartReplicaManager(
            self.settings,
            CLUSTER_ID,
            self._bridge,
            self.cache,
            self._metrics,
            self.isr_keeper,
            self.fetcher_manager,
            self.partition_requests,
            (self._coordinator,),
            self.verifier,
        )
        self.base.inject(self.manager, start, self._node)

    def run(self) -> None:
        """Deliver all messages that are due."""
        self.base.run()

    def register(self, epoch: int) -> None:
        """Send the broker epoch: the czxid of its registration."""
        self.base.inject(self.manager, node.BrokerEpoch(epoch))

    def post(self, request: Message, listener: str = "PLAINTEXT", client: str = "test") -> int:
        """Send a request to the handler and return its correlation id."""
        self._correlation_id += 1
        parts, request = cut(request)
        for part in parts:
            self.base.inject(self.handler, ClientPart(1, part), self._client)
        message = ClientRequest(1, self._correlation_id, client, listener, request)
        self.base.inject(self.handler, message, self._client)
        return self._correlation_id

    def hang_up(self, connection: int = 1) -> None:
        """Close a client connection whose request may still wait."""
        self.base.inject(self.partition_requests, ClientGone(connection), self._client)
        self.run()

    @property
    def waiting_fetches(self) -> dict[int, Any]:
        """Return the unanswered fetches by number."""
        requests: PartitionRequestsActor = self.base.instance_of(self.partition_requests)
        return requests._fetching

    def ask(self, request: Message, listener: str = "PLAINTEXT") -> Any:
        """Send a request, run, and return the response."""
        id = self.post(request, listener)
        self.run()
        [answer] = [answer for answer in self.answers if answer.correlation_id == id]
        return answer.response

    def lead(self, *orders: LeaderAndIsrPartitionState, epoch: int = 1, broker_epoch: int = -1) -> LeaderAndIsrResponse:
        """Send LeaderAndIsr v4 and return the response."""
        return self.ask(LeaderAndIsrRequest(4, CONTROLLER, epoch, broker_epoch, orders, ()))

    def stop(self, *orders: tuple[str, int, int, bool], epoch: int = 1, broker_epoch: int = -1) -> StopReplicaResponse:
        """Send StopReplica v3 with (topic, partition, leader epoch, delete) and return the response."""
        states = tuple(StopReplicaPartitionState(TopicPartition(t, p), e, delete) for t, p, e, delete in orders)
        return self.ask(StopReplicaRequest(3, CONTROLLER, epoch, broker_epoch, states))

    def update(
        self,
        *states: UpdateMetadataPartitionState,
        live: tuple[UpdateMetadataBroker, ...] = (),
        epoch: int = 1,
        broker_epoch: int = -1,
        controller: int = CONTROLLER,
    ) -> UpdateMetadataResponse:
        """Send UpdateMetadata v6 and return the response."""
        return self.ask(UpdateMetadataRequest(6, controller, epoch, broker_epoch, states, live))

    def metadata(
        self, *topics: str, version: int = 8, everything: bool = False, listener: str = "PLAINTEXT"
    ) -> MetadataResponse:
        """Request metadata of these topics and return the response."""
        return self.ask(MetadataRequest(version, None if everything else topics, False), listener)


def codes(response: LeaderAndIsrResponse | StopReplicaResponse) -> dict[str, int]:
    """Return the error codes by partition name; the top-level error code must be 0."""
    assert response.error_code == 0
    return {str(error.partition): error.error_code for error in response.partition_errors}


class ServedBroker(Broker):
    """The same actors behind real sockets, on a loop in its own thread; use as a context manager."""

    def __init__(self, *log_dirs: Path | str, **fields: Any) -> None:
        super().__init__(*log_dirs, clock=RealClock(), **fields)
        self.loop = asyncio.new_event_loop()
        self.gateway = ListenerGateway(self.base, self.settings)
        self._thread = threading.Thread(target=self.loop.run_forever, name="broker", daemon=True)

    def __enter__(self) -> ServedBroker:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self.loop).result(10)
        return self

    async def _open(self) -> None:
        await self.gateway.bind()
        self.base.attach(self.loop)
        self.base.inject(self.gateway.address, node.ServeClients(self.handler, self.partition_requests))

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self.gateway.stop(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.base.shutdown()
        self.loop.close()

    @property
    def port(self) -> int:
        """Return the port of the first listener."""
        return next(iter(self.gateway.ports.values()))

    def ask(self, request: Message, listener: str = "PLAINTEXT") -> Any:
        """Send a request to the handler without a socket and return the response."""
        message = ClientRequest(0, 1, "test", listener, request)
        future = asyncio.run_coroutine_threadsafe(self.base.request(self.handler, message, 10), self.loop)
        return future.result(10).response


NO_SPACE = errno.ENOSPC
IO_ERROR = errno.EIO
