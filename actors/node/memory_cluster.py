"""MemoryCluster runs complete nodes in one process, with real sockets and an in-memory ZooKeeper, without Java.

Rule 1: a node is the same as in its own process (`assembly.Node`): the same messages, log lines and files. A kill has
        the same effects as on a process: connections break, files are released without a flush, and the session
        expires.
Rule 2: an operation returns after its effect is visible to all nodes concerned. It raises ClusterError if it is
        impossible, or if it has no effect within PATIENCE seconds.
Rule 3: a failed node stops, as its process would. The other nodes continue.
Rule 4: the ZooKeeper data exists only as long as this object, so each cluster needs a new folder for the nodes' files.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from actors.broker.log_cleaner import LogCleanerManagerActor
from actors.broker.replica_manager import ReplicaManagerActor
from actors.core.security.access import Authorizer
from actors.core.topic.topic_name import GROUP_METADATA
from actors.gateway.listener import ListenerGateway
from actors.gateway.network import NetworkGateway
from actors.gateway.request_faults import KINDS as REQUEST_FAULTS
from actors.gateway.request_faults import OBSERVER, FaultError, RequestFault, RequestFaults
from actors.node.assembly import Node
from actors.node.cluster_security import ClusterSecurity, change_acls
from actors.node.free_ports import HOST, free_ports
from actors.node.internal_topic_settings import internal_topic_settings
from actors.node.node_faults import PAUSE, SESSION_EXPIRY, NodeFault, NodeFaults
from actors.node.settings import LoadedSettings, settings_of
from actors.node.settings_table import folder_text
from actors.public.operations import ClusterError, UnknownPartition
from actors.runtime import LocalBase, LoopScheduler, RealClock
from messages import errors
from messages.apis import fetch
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.alter_replica_log_dirs import AlterReplicaLogDirsRequest, ReplicaLogDir
from messages.apis.create_topics import CreatableConfig, CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from messages.apis.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from messages.apis.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from messages.apis.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from messages.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from messages.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from messages.apis.list_offsets import ListOffsetsRequest, ListOffsetsResponse, OffsetQuery
from messages.apis.metadata import MetadataRequest, MetadataResponse
from messages.apis.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from messages.cluster import Endpoint, TopicPartition, in_url
from messages.error_names import name_of
from messages.log_cleaner import CompactTopic
from messages.network import Received, Transmit
from messages.node import NodeFailed, NodeFaultInjected
from messages.partition import ApplyRetention
from messages.placement import slot
from messages.records import EARLIEST, LATEST
from messages.releases import RELEASES
from messages.store import DELETE, WriteOp
from messages.vocabulary import AnyMessage, Message, evolve
from messages.wire.control_batch import visible_records
from messages.wire.record_batch import whole_batches
from zk_bridge import paths
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper

_log = logging.getLogger("kafka_actors.process")

PATIENCE = 30.0
OBSERVATION = 2.0
"""Seconds in which a broker must respond to a request of a report."""
GLANCE = 0.002
"""Initial seconds between two checks. They grow to a tenth of a second."""
CLIENT = "kafka_actors.kafka_cluster"
METADATA_VERSION, CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION = 8, 5, 3
MOVE_VERSION, DESCRIBE_VERSION = 2, 2
LIST_OFFSETS_VERSION, LIST_GROUPS_VERSION, OFFSET_FETCH_VERSION, FETCH_VERSION = 5, 3, 5, 11
FETCH_BYTES = 1 << 20

PROTOCOL_SETTING = "inter.broker.protocol.version"
NEW_CLUSTERS_PROTOCOL = "2.8"
"""Protocol version of a new cluster, at which topics have ids. A properties file without the setting means 2.6."""

DEFAULTS = {
    "controlled.shutdown.retry.backoff.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    PROTOCOL_SETTING: NEW_CLUSTERS_PROTOCOL,
    "offsets.topic.num.partitions": "5",
    "replica.fetch.backoff.ms": "100",
    "transaction.state.log.num.partitions": "5",
}
"""Defaults of a cluster for tests: shorter delays than Kafka's, and a newer protocol version."""

SESSIONS_OF_LAG = 2
"""`replica.lag.time.max.ms` in ZooKeeper session timeouts. Kafka's defaults are 30 s and 18 s."""
LEAST_LAG_MS = 1000
"""Minimum of `replica.lag.time.max.ms`: idle followers fetch every `replica.fetch.wait.max.ms`, half a second."""

CLIENTS = "CLIENTS"
"""Name of the listener for clients. The listener of other nodes has the name of its protocol."""

OWN_SETTINGS = (
    *("broker.id", "node.id", "listeners", "advertised.listeners", "log.dirs", "trace.dir", "zookeeper.connect"),
)


class NodePorts(NamedTuple):
    """The ports of a node: `port` for clients and `internal` for other nodes."""

    port: int
    internal: int


def listener_settings(
    place: NodePorts, host: str, advertised_host: str, security: ClusterSecurity | None
) -> dict[str, str]:
    """Return the settings of a node that listens on `host` for clients, and on 127.0.0.1 for other nodes.

    If the two ports are the same, the node has one listener, on 127.0.0.1.
    """
    protocol = "PLAINTEXT" if security is None else security.protocol
    names = [protocol] if place.port == place.internal else [protocol, CLIENTS]
    settings = {} if security is None else security.properties(names)
    internal = f"{protocol}://{HOST}:{place.internal}"
    settings["listeners"] = internal
    if CLIENTS in names:
        bound, advertised = map(in_url, (host, advertised_host))
        settings |= {
            "listeners": f"{internal},{CLIENTS}://{bound}:{place.port}",
            "advertised.listeners": f"{internal},{CLIENTS}://{advertised}:{place.port}",
            "listener.security.protocol.map": f"{protocol}:{protocol},{CLIENTS}:{protocol}",
        }
    return settings


class FaultInEffect(NamedTuple):
    """Something that is broken, and the operation with its arguments that ends it; "" if there is none."""

    text: str
    operation: str = ""
    arguments: dict[str, Any] = {}  # noqa: RUF012  (never changed)


def _removal(number: int | None) -> tuple[str, dict[str, Any]]:
    """Return the operation that removes the fault with this number."""
    return ("", {}) if number is None else ("remove_fault", {"number": number})


class _Member(NamedTuple):
    """A running node of the in-memory cluster, with its ZooKeeper session."""

    node: Node
    store: MemoryStore


class ZooKeeperView:
    """What the ZooKeeper of a cluster for tests says about controller, topics and partitions."""

    def __init__(self, zookeeper: MemoryZooKeeper) -> None:
        self._zookeeper = zookeeper

    @property
    def all_topics(self) -> list[str]:
        """The names of all topics in ZooKeeper, sorted, including internal topics."""
        return sorted(self._zookeeper.children(paths.TOPICS).names)

    @property
    def topics(self) -> list[str]:
        """The names of all topics but the internal ones."""
        return [name for name in self.all_topics if not name.startswith("__")]

    @property
    def controller_id(self) -> int | None:
        """The id of the controller in ZooKeeper; None if there is none."""
        data = self._zookeeper.read(paths.CONTROLLER).data
        return None if data is None else int(json.loads(data)["brokerid"])

    def state_of(self, topic: str, partition: int = 0) -> dict[str, Any]:
        """Return a partition's leader (-1: none) and its ISR in ZooKeeper. Raises UnknownPartition."""
        data = self._zookeeper.read(paths.partition_state(TopicPartition(topic, partition))).data
        if data is None:
            raise UnknownPartition(f"partition {topic}-{partition} does not exist or never had a leader")
        state = json.loads(data)
        return {"leader": int(state["leader"]), "isr": [int(replica) for replica in state["isr"]]}

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """Return a partition's leader in ZooKeeper; None if it has none."""
        leader: int = self.state_of(topic, partition)["leader"]
        return None if leader < 0 else leader

    def isr_of(self, topic: str, partition: int = 0) -> list[int]:
        """Return a partition's ISR in ZooKeeper."""
        isr: list[int] = self.state_of(topic, partition)["isr"]
        return isr

    def has_leader(self, topic: str, partition: int, live: Container[int] | None = None) -> bool:
        """Return whether a partition has a leader, which is one of `live`."""
        try:
            leader = self.leader_of(topic, partition)
        except UnknownPartition:
            return False
        return leader is not None and (live is None or leader in live)


class MemoryCluster(ZooKeeperView):
    """A cluster of nodes 0, 1, ... in this process. Call `start` and all other methods on one event loop.

    Clients have their own listener. Nodes use another one, on 127.0.0.1.

    Args:
        directory: Folder of the nodes' files.
        ports: Port of each node for clients.
        overrides: Kafka's broker settings for all nodes.
        session_seconds: Session timeout, after which a session of a killed node expires.
        host: Address on which nodes listen for clients.
        advertised_host: Host that nodes advertise to clients; None means `host`.
        log_dirs: Number of log directories of each node.
        security: The security of all listeners; None if they are PLAINTEXT.

    Raises:
        SettingsError: A setting has an invalid value.
        ClusterError: A setting is unknown or one of OWN_SETTINGS, or `ports` is empty.
        OSError: No ports are free for the nodes' own listeners.
    """

    def __init__(
        self,
        directory: Path,
        ports: Sequence[int],
        overrides: Mapping[str, str] | None = None,
        session_seconds: float = 1.0,
        host: str = HOST,
        advertised_host: str | None = None,
        log_dirs: int = 1,
        security: ClusterSecurity | None = None,
    ) -> None:
        if not ports:
            raise ClusterError("A cluster needs at least one broker")
        for name in OWN_SETTINGS:
            if name in (overrides or {}):
                raise ClusterError(
                    f"{name} cannot be overridden: the cluster sets it for each node. Remove it from the settings."
                )
        self.directory = directory
        self.trace_dir = directory / "trace"
        self._host = host
        self._advertised_host = advertised_host or host
        self._log_dirs = ("data", *(f"data-{number}" for number in range(1, log_dirs)))
        self._session_seconds = session_seconds
        self._overrides = {
            **internal_topic_settings(len(ports)),
            **(overrides or {}),
        }
        self.security = security
        self._protocol = "PLAINTEXT" if self.security is None else self.security.protocol
        self._places: list[NodePorts] = []
        self._settings: list[LoadedSettings] = []
        self._add(ports)
        self._faults: dict[int, RequestFault | NodeFault] = {}
        """All injected faults, by number; removed ones included."""
        self._request_faults = RequestFaults(time.time)
        self._node_faults = NodeFaults(self._block, self._report_fault)
        self._members: dict[int, _Member] = {}
        self._failed: dict[int, str] = {}
        """Failed node -> the reason."""
        self._ending: dict[int, asyncio.Task[None]] = {}
        self._paused: set[int] = set()
        self._cut: set[frozenset[int]] = set()
        """Pairs of nodes that cannot reach each other."""
        self._without_clients: set[int] = set()
        """Nodes that clients cannot reach."""
        self._removed: set[int] = set()
        self._scheduler: LoopScheduler

    @property
    def ports(self) -> list[int]:
        """The client port of each node, in the order of the node ids."""
        return [self._places[id].port for id in self._ids]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The id, host and ports of each node; `internal` is for tools on this machine."""
        host = self._advertised_host
        return [
            {"id": id, "host": host, "port": port, "internal": port if host == HOST else internal}
            for id, (port, internal) in enumerate(self._places)
            if id not in self._removed
        ]

    @property
    def _ids(self) -> list[int]:
        """The ids of all nodes that were not removed."""
        return [id for id in range(len(self._places)) if id not in self._removed]

    def _add(self, ports: Sequence[int]) -> None:
        """Add settings for more nodes, with these client ports."""
        for place in map(NodePorts, ports, free_ports(len(ports), besides=ports)):
            self._settings.append(self._settings_of(len(self._settings), place))
            self._places.append(place)

    def _settings_of(self, id: int, place: NodePorts) -> LoadedSettings:
        own = {
            "broker.id": str(id),
            "broker.id.generation.enable": "false",
            **listener_settings(place, self._host, self._advertised_host, self.security),
            "log.dirs": ",".join(folder_text(str(self.directory / f"node-{id}" / name)) for name in self._log_dirs),
            "trace.dir": str(self.trace_dir / f"node-{id}"),
            "zookeeper.connect": "memory",
        }
        lag = max(LEAST_LAG_MS, int(self._session_seconds * 1000 * SESSIONS_OF_LAG))
        loaded = settings_of({**DEFAULTS, "replica.lag.time.max.ms": str(lag), **self._overrides, **own})
        if loaded.unknown:
            raise ClusterError("; ".join(loaded.unknown))
        if id == 0:  # all nodes have the same
            for warning in loaded.warnings:
                logging.getLogger("kafka_actors.settings").warning(warning)
        return loaded

    # ------------------------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Start every node. Return when all nodes have found each other and the controller."""
        if any(self.directory.glob("node-*")):
            raise ClusterError(
                f"{self.directory} contains the data of a cluster. A new cluster with an in-memory ZooKeeper cannot "
                "use this folder: choose an empty one."
            )
        self._scheduler = LoopScheduler(asyncio.get_running_loop())
        self._zookeeper = MemoryZooKeeper(self._scheduler.call_later)
        if self.security is not None:
            self._write_to_zookeeper(self.security.questions())
        for id in range(len(self._places)):
            await self._start(id)
        everyone = range(len(self._places))
        await self._wait_until(self._all_agree, "the brokers did not find each other and a controller", everyone)

    async def stop(self) -> None:
        """Stop every node at once, without moving leaders, because no other broker would remain."""
        await self.clear_faults()
        for id in sorted(self._paused):
            await self.resume(id)
        for id in self.live_brokers:
            await self._members.pop(id).node.stop()
        await asyncio.gather(*self._ending.values())

    def client_config(self, user: str, client: str = "librdkafka") -> dict[str, Any]:
        """Return the settings with which a client connects as a user."""
        host = in_url(self._advertised_host)
        return self._secured.client_config(user, client, ",".join(f"{host}:{port}" for port in self.ports))

    @property
    def _secured(self) -> ClusterSecurity:
        if self.security is None:
            raise ClusterError("the cluster is not secured: start it with security='SASL_SSL', for example")
        return self.security

    async def add_user(self, user: str, password: str) -> None:
        """Add a user, or change its password. Return when all nodes accept it."""
        security = self._secured
        added = security.add_user(user, password)
        if added is None:
            return
        credential, question = added
        self._write_to_zookeeper((question,))
        vaults = [self._settings[id].vault.credentials[security.mechanism] for id in self._responsive]
        await self._wait_until(
            lambda: all(vault.get(user) == credential for vault in vaults), f"not all brokers accept {user}"
        )

    async def add_acls(self, acls: Sequence[Mapping[str, Any]]) -> None:
        """Add ACLs. Return when all nodes apply them."""
        await self._change_acls(acls, removed=False)

    async def remove_acls(self, acls: Sequence[Mapping[str, Any]]) -> None:
        """Remove ACLs. Return when no node applies them."""
        await self._change_acls(acls, removed=True)

    async def _change_acls(self, entries: Sequence[Mapping[str, Any]], removed: bool) -> None:
        def authorizers() -> list[Authorizer | None]:
            return [_gateways(self._members[id].node)[1].authorizer for id in self._responsive]

        with Client(MemoryStore(self._zookeeper)) as client:
            applied = change_acls(client, entries, removed, authorizers)
        await self._wait_until(applied, "not all brokers know the ACLs")

    def _write_to_zookeeper(self, questions: Iterable[AnyMessage]) -> None:
        with Client(MemoryStore(self._zookeeper)) as client:
            for question in questions:
                client.ask(question)

    async def add_broker(self) -> dict[str, object]:
        """Start one more node with the next id. When all nodes have found it, return its id and all addresses."""
        self._add(free_ports(1, self._host))
        id = len(self._places) - 1
        await self._start(id)
        await self._wait_until(self._all_agree, f"broker {id} and the others did not find each other", (id,))
        return {"broker_id": id, **self.addresses()}

    def addresses(self) -> dict[str, object]:
        """Return the host and the ports for clients, and the folder of the traces."""
        return {"host": self._advertised_host, "ports": self.ports, "trace_dir": str(self.trace_dir)}

    async def remove_broker(self, broker_id: int) -> dict[str, object]:
        """Move a node's replicas to other nodes, stop it cleanly, and forget it. Return all addresses."""
        self._running(broker_id)
        others = [id for id in self._responsive if id != broker_id]
        if not others:
            raise ClusterError(f"broker {broker_id} is the only running broker")
        replicas = {each: self._replicas(each) for each in self._partitions()}
        load: Counter[int | None] = Counter(id for hosts in replicas.values() for id in hosts)
        targets = {}
        for partition, hosts in replicas.items():
            if broker_id in hosts:
                spare = min((id for id in others if id not in hosts), key=lambda id: (load[id], id), default=None)
                load[spare] += 1
                new = [spare if id == broker_id else id for id in hosts]
                targets[partition] = tuple(id for id in new if id is not None)
        await self._reassign(targets)
        await self.stop_broker(broker_id)
        self._removed.add(broker_id)
        return self.addresses()

    async def restart(self, broker_id: int, speaks: str | None = None) -> None:
        """Stop a node cleanly, and start it again, with the API versions of this release if one is given."""
        if speaks not in (None, *RELEASES):
            raise ClusterError(f"speaks={speaks!r} must be one of {', '.join(RELEASES)}")
        await self.stop_broker(broker_id)
        if speaks is not None:
            loaded = self._settings[broker_id]
            self._settings[broker_id] = loaded._replace(settings=evolve(loaded.settings, api_versions_max=speaks))
        await self.start_broker(broker_id)

    async def start_broker(self, broker_id: int) -> None:
        """Start a stopped or killed node with its data, as soon as its last session has expired."""
        self._check_exists(broker_id)
        if broker_id in self._members:
            raise ClusterError(f"broker {broker_id} is already running")
        await self._wait_until(
            lambda: not self._is_registered(broker_id), f"the last session of broker {broker_id} has not expired"
        )
        await self._start(broker_id)
        await self._wait_until(
            partial(self._sees_controller, broker_id),
            f"broker {broker_id} did not connect to the controller",
            (broker_id,),
        )

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a node cleanly: its leaderships are moved to other brokers first."""
        node = self._running(broker_id).node
        node.leave()
        await self._wait_until(lambda: node.ended, f"broker {broker_id} did not stop")
        if broker_id in self._members:
            del self._members[broker_id]
            await node.stop()

    async def kill(self, broker_id: int) -> None:
        """Kill a node as kill -9 does.

        Its session expires after its timeout, and only then do other nodes notice that the node is gone.
        """
        node, store = self._member(broker_id)
        del self._members[broker_id]
        self._paused.discard(broker_id)
        store.abandon()
        await node.vanish()

    async def pause(self, broker_id: int) -> None:
        """Pause a node as SIGSTOP does: it handles and sends nothing. Its session expires after its timeout."""
        node, store = self._running(broker_id)
        self._paused.add(broker_id)
        store.pause()
        self._scheduler.remove(node.base)
        for gateway in _gateways(node):
            gateway.pause()

    async def resume(self, broker_id: int) -> None:
        """Resume a paused node. It then handles everything that happened meanwhile, such as the end of its session."""
        node, store = self._member(broker_id)
        if broker_id not in self._paused:
            raise ClusterError(f"broker {broker_id} is not paused")
        self._paused.discard(broker_id)
        self._scheduler.add(node.base)
        _, listener = _gateways(node)
        listener.resume()  # `node.network` has no resume: the next request to a peer clears `interrupted`
        store.resume()

    async def _start(self, id: int) -> None:
        if id in self._ending:
            await self._ending.pop(id)
        self._failed.pop(id, None)
        loaded, store = self._settings[id], MemoryStore(self._zookeeper, self._session_seconds)
        settings = loaded.settings
        node = Node(
            settings,
            store,
            partial(self._network, id),
            partial(ListenerGateway, security=loaded.security, vault=loaded.vault),
            RealClock(),
            self._scheduler,
            ports={"time": self._node_faults.clock(id, settings.log_dirs), "tls": loaded.stores},
            notify=partial(self._node_received, id),
            vault=loaded.vault,
        )
        self._node_faults.wrap(id, node)
        _, listener = _gateways(node)
        listener.faults = self._request_faults
        self._members[id] = _Member(node, store)
        try:
            await node.start()
            if id in self._without_clients:
                listener.cut(CLIENTS)
        except OSError as error:
            del self._members[id]
            await node.stop()
            raise ClusterError(f"broker {id} cannot start: {error.strerror or error}") from error
        node.recorder.attach(asyncio.get_running_loop())
        await self._wait_until(lambda: node.ready, f"broker {id} did not start", (id,))

    def _node_received(self, id: int, message: Message) -> None:
        """Handle a message that a node sends to the program that runs it. Here the cluster is that program.

        A failed node is stopped.
        """
        if isinstance(message, NodeFailed) and id in self._members:
            _log.error("[KafkaServer id=%d] Stopping after a fatal error: %s", id, message.reason)
            self._failed[id] = message.reason
            self._paused.discard(id)
            node = self._members.pop(id).node
            self._ending[id] = asyncio.get_running_loop().create_task(node.stop())

    def _network(self, id: int, base: LocalBase) -> NetworkGateway:
        def passage(endpoint: Endpoint, outgoing: bool) -> Awaitable[None]:
            other = self._by_port(endpoint.port)
            return self._node_faults.passage(*((id, other) if outgoing else (other, id)))

        def reachable(endpoint: Endpoint) -> bool:
            return self._reach(id, self._by_port(endpoint.port))

        return NetworkGateway(base, reachable, passage, self._settings[id].security)

    def _by_port(self, port: int) -> int:
        """Return the id of the node whose listener for other nodes has this port."""
        return next(id for id, place in enumerate(self._places) if place.internal == port)

    # ------------------------------------------------------------------------------------------------ operations

    async def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic at the controller.

        Return when all nodes that the controller reaches know the leaders of the topic's partitions.
        """
        controller = self.controller_id
        if controller is None:
            raise ClusterError("no controller is active")
        configs = tuple(CreatableConfig(*entry) for entry in (config or {}).items())
        if replication_factor is None:
            replication_factor = min(3, len(self._ids))
        creatable = CreatableTopic(topic, partitions, replication_factor, configs=configs)
        request = CreateTopicsRequest(CREATE_TOPICS_VERSION, (creatable,), int(PATIENCE * 1000))
        response = await self._response_to(controller, request)
        if not isinstance(response, CreateTopicsResponse):
            raise ClusterError(f"topic {topic} was not created: {response}")
        (created,) = response.topics
        if created.error_code != errors.NONE:
            raise ClusterError(
                f"topic {topic} was not created: {created.error_message} ({name_of(created.error_code)})"
            )

        async def has_leaders() -> bool:
            views = [
                await self._metadata(id, (topic,)) for id in self._responsive if self._are_connected(controller, id)
            ]
            led = [p.leader for view in views if view for found in view.topics for p in found.partitions]
            return len(led) == partitions * len(views) and min(led) >= 0

        await self._wait_until(has_leaders, f"not all partitions of {topic} got a leader that all brokers know")

    def _active_controller(self) -> int:
        """Return the controller's id. Raises ClusterError if there is none."""
        controller = self.controller_id
        if controller is None:
            raise ClusterError("there is no controller")
        return controller

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic at the controller, and wait until ZooKeeper has no znode of it.

        All brokers with replicas of the topic must be running.
        """
        controller = self._active_controller()
        response = await self._response_to(
            controller, DeleteTopicsRequest(DELETE_TOPICS_VERSION, (topic,), int(PATIENCE * 1000))
        )
        if not isinstance(response, DeleteTopicsResponse):
            raise ClusterError(f"topic {topic} was not deleted: {response}")
        (deleted,) = response.topics
        if deleted.error_code == errors.UNKNOWN_TOPIC_OR_PARTITION:
            raise ClusterError(f"topic {topic} does not exist; the topics are {', '.join(self.topics) or 'none'}")
        if deleted.error_code != errors.NONE:
            raise ClusterError(f"topic {topic} was not deleted: {name_of(deleted.error_code)}")
        await self._wait_until(lambda: topic not in self.all_topics, f"topic {topic} was not deleted")

    async def compact(self, topic: str) -> None:
        """Clean all replicas of a topic. Return when everything that was written before the call is cleaned."""
        self._check_led(topic)
        nodes = self._responsive
        replies = await asyncio.gather(
            *(self._ask_actor(id, LogCleanerManagerActor, CompactTopic(topic, PATIENCE - 1)) for id in nodes)
        )
        for id, log in ((id, log) for id, reply in zip(nodes, replies, strict=True) for log in reply.logs):
            if not log.compacted:
                raise ClusterError(f"topic {topic} is not compacted: its cleanup.policy has no compact")
            if log.reason or log.clean_to < log.end:
                reason = log.reason or f"it is clean up to offset {log.clean_to} of {log.end}"
                raise ClusterError(f"{log.name} on broker {id} was not cleaned within {PATIENCE:g} s: {reason}")

    async def apply_retention(self, topic: str) -> None:
        """Delete the segments of a topic that exceed its retention, on each node that is not paused."""
        self._check_led(topic)
        for id in self._responsive:
            await self._ask_actor(id, ReplicaManagerActor, ApplyRetention(topic))

    async def log_dirs_of(self, broker_id: int) -> list[str]:
        """Return the paths of a node's log directories."""
        return list(self._member(broker_id).node.settings.log_dirs)

    async def move_replica(self, topic: str, partition: int, directory: str) -> None:
        """Move a replica to this log directory of its broker. Return when it is there."""
        ids = [id for id in self._responsive if directory in self._settings[id].settings.log_dirs]
        if not ids:
            raise ClusterError(f"no running broker has the log directory {directory}")
        [id], tp = ids, TopicPartition(topic, partition)
        request = AlterReplicaLogDirsRequest(MOVE_VERSION, (ReplicaLogDir(directory, (tp,)),))
        response = await self._response_to(id, request)
        codes = [each.error_code for each in getattr(response, "partitions", ())]
        if codes != [errors.NONE]:
            reason = name_of(codes[0]) if codes else str(response)
            raise ClusterError(f"{tp} on broker {id} was not moved to {directory}: {reason}")

        async def is_moved() -> bool:
            question = DescribeLogDirsRequest(DESCRIBE_VERSION, (DescribableLogDirTopic(topic, (partition,)),))
            answer = await self._response_to(id, question)
            return any(
                found.log_dir == directory and not log.is_future_key
                for found in getattr(answer, "results", ())
                for described in found.topics
                for log in described.partitions
            )

        await self._wait_until(is_moved, f"{tp} on broker {id} was not moved to {directory}", (id,))

    def _check_led(self, topic: str) -> None:
        """Raise ClusterError if a topic does not exist, or one of its partitions has no leader that responds."""
        partitions = [each for each in self._partitions() if each.topic == topic]
        if not partitions:
            raise ClusterError(f"topic {topic} does not exist; the topics are {', '.join(self.topics) or 'none'}")
        for each in partitions:
            if not self.has_leader(*each, self._responsive):
                raise ClusterError(f"partition {each} has no live leader")

    async def _ask_actor(self, id: int, kind: type, message: Message) -> Any:
        """Send a message to the only actor of a class on a node, and return the reply."""
        base = self._member(id).node.base
        [actor] = base.actors(kind)
        try:
            return await base.request(actor.myAddress, message, PATIENCE)
        except TimeoutError:
            raise ClusterError(f"broker {id} did not reply within {PATIENCE:g} s") from None

    async def move_controller(self) -> int:
        """Make another node the controller by disconnecting the old one from ZooKeeper for a while.

        Return the new controller's id.
        """
        old = self.controller_id
        if old is None or len(self._responsive) < 2:
            raise ClusterError("no other running broker can become controller")
        store = self._member(old).store
        store.disconnect()
        try:
            self._zookeeper.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
            await self._wait_until(lambda: self.controller_id is not None, "no other broker became controller")
        finally:
            store.reconnect()
        await self._wait_until(self._all_agree, "not all brokers heard of the new controller")
        new = self.controller_id
        assert new is not None
        return new

    async def move_leader(self, topic: str, to: int, partition: int = 0) -> None:
        """Make an in-sync replica the preferred leader of a partition, and elect it."""
        tp = TopicPartition(topic, partition)
        isr = self.isr_of(topic, partition)
        if to not in isr:
            raise ClusterError(f"broker {to} is not an in-sync replica of {tp}: {isr}")
        await self._reassign({tp: (to, *[each for each in self._replicas(tp) if each != to])})
        await self.elect_preferred()
        await self._wait_until(
            lambda: self.leader_of(topic, partition) == to, f"broker {to} did not become leader of {tp}"
        )

    def _replicas(self, partition: TopicPartition) -> list[int]:
        """Return a partition's replicas in ZooKeeper, those of a reassignment included."""
        replicas: list[int] = json.loads(self._zookeeper.read(paths.topic(partition.topic)).data or "{}")["partitions"][
            str(partition.partition)
        ]
        return replicas

    async def _reassign(self, replicas: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """Reassign partitions, and wait until their replicas are these, and in sync."""
        controller, topics = self._active_controller(), dict[str, list[ReassignablePartition]]()
        for (topic, partition), order in replicas.items():
            topics.setdefault(topic, []).append(ReassignablePartition(partition, order))
        moved = tuple(ReassignableTopic(topic, tuple(partitions)) for topic, partitions in topics.items())
        request = AlterPartitionReassignmentsRequest(0, int(PATIENCE * 1000), moved)
        response = await self._response_to(controller, request)
        if not isinstance(response, AlterPartitionReassignmentsResponse) or response.error_code != errors.NONE:
            raise ClusterError(f"the partitions were not reassigned: {response}")
        await self._wait_until(
            lambda: all(
                self._replicas(each) == [*order] and {*self.isr_of(*each)} <= {*order}
                for each, order in replicas.items()
            ),
            f"the replicas of {', '.join(map(str, replicas))} were not moved",
        )

    async def elect_preferred(self) -> None:
        """Let the controller elect the preferred leader of each partition for which it is in sync."""
        controller = self._active_controller()
        response = await self._response_to(controller, ElectLeadersRequest(2, None, int(PATIENCE * 1000)))
        if not isinstance(response, ElectLeadersResponse) or response.error_code != errors.NONE:
            raise ClusterError(f"the preferred leaders were not elected: {response}")

    async def coordinator_of(self, group: str) -> int:
        """Return the broker that coordinates a group; the topic of the groups is created if necessary."""
        found: list[int] = []

        async def find() -> bool:
            id = self._responsive[0]
            response = await self._response_to(id, FindCoordinatorRequest(3, group))
            if isinstance(response, FindCoordinatorResponse) and response.error_code == errors.NONE:
                found.append(response.node_id)
            return bool(found)

        await self._wait_until(find, f"group {group} has no coordinator")
        return found[0]

    async def move_coordinator(self, group: str, to: int) -> None:
        """Make an in-sync replica of a group's partition of __consumer_offsets the coordinator of the group."""
        await self.coordinator_of(group)  # it creates the topic
        count = sum(each.topic == GROUP_METADATA for each in self._partitions())
        await self.move_leader(GROUP_METADATA, to, slot(group) % count)

        async def is_moved() -> bool:
            return await self.coordinator_of(group) == to

        await self._wait_until(is_moved, f"broker {to} did not become coordinator of {group}")

    async def end_offsets(self, topic: str) -> list[int]:
        """Return the high watermark of each partition of a topic, as the leaders report them."""
        return [await self._offset(each, LATEST) for each in self._partitions_of(topic)]

    def _partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic, in order. Raises UnknownPartition if there are none."""
        found = sorted(each for each in self._partitions() if each.topic == topic)
        if not found:
            raise UnknownPartition(f"topic {topic} does not exist")
        return found

    async def _offset(self, partition: TopicPartition, which: int) -> int:
        """Return a partition's first or last offset, as the leader reports it."""
        leader = self.leader_of(*partition)
        query = ListOffsetsRequest(LIST_OFFSETS_VERSION, fetch.NO_REPLICA, (OffsetQuery(partition, which),))
        response: Any = leader is not None and await self._response_to(leader, query)
        if not isinstance(response, ListOffsetsResponse) or response.partitions[0].error_code != errors.NONE:
            raise ClusterError(f"the leader of {partition} did not report its offsets: {response}")
        return response.partitions[0].offset

    async def records(self, topic: str, read_committed: bool = False) -> list[dict[str, Any]]:
        """Return the records of a topic by partition and offset; keys, values and headers are in base64."""
        found = []
        for partition in self._partitions_of(topic):
            offset, end = await self._offset(partition, EARLIEST), await self._offset(partition, LATEST)
            while offset < end:
                leader = self.leader_of(*partition)
                isolation = fetch.READ_COMMITTED if read_committed else fetch.READ_UNCOMMITTED
                request = fetch.FetchRequest(
                    *(FETCH_VERSION, fetch.NO_REPLICA, 0, 0, (fetch.FetchPartition(partition, offset, FETCH_BYTES),)),
                    *(FETCH_BYTES, isolation),
                )
                response: Any = leader is not None and await self._response_to(leader, request)
                if not isinstance(response, fetch.FetchResponse) or response.partitions[0].error_code != errors.NONE:
                    raise ClusterError(f"the leader of {partition} did not return its records: {response}")
                fetched = response.partitions[0]
                data = bytes(fetched.body.data)
                visible = visible_records(data, fetched.aborted_transactions or ())
                found += [
                    {
                        "partition": partition.partition,
                        "offset": record.offset,
                        "timestamp": record.timestamp,
                        "key": _base64(record.key),
                        "value": _base64(record.value),
                        "headers": [(name, _base64(value)) for name, value in record.headers],
                    }
                    for record in visible
                    if offset <= record.offset < end
                ]
                offset = max((header.next_offset for _, header in whole_batches(data)), default=end)
        return found

    async def expire_session(self, broker_id: int) -> None:
        """Expire a node's ZooKeeper session at the server. Return when the node has registered again."""
        self._member(broker_id).store.expire()
        await self._wait_until(
            lambda: self._is_registered(broker_id), f"broker {broker_id} did not register again", (broker_id,)
        )

    async def partition_network(self, a: int, b: int) -> None:
        """Partition two nodes from each other: requests in flight fail. ZooKeeper and clients still reach both."""
        for id in (a, b):
            self._check_exists(id)
        if a == b:
            raise ClusterError(f"broker {a} cannot be partitioned from itself")
        self._cut.add(frozenset((a, b)))
        for id in (a, b):
            if id in self._members:
                network, _ = _gateways(self._members[id].node)
                network.sever()

    async def cut_clients(self, broker_id: int) -> None:
        """Make a node unreachable for clients: their connections are silent, and new ones time out."""
        self._check_exists(broker_id)
        self._without_clients.add(broker_id)
        if broker_id in self._members:
            _gateways(self._members[broker_id].node)[1].cut(CLIENTS)

    async def heal_network(self) -> None:
        """Restore all connections."""
        self._cut.clear()
        for id in self._without_clients & self._members.keys():
            _gateways(self._members[id].node)[1].restore()
        self._without_clients.clear()

    def requests(
        self, api: str | None = None, client_id: str | None = None, since: float = 0.0
    ) -> list[dict[str, Any]]:
        """Return the requests of clients that nodes have received, in this order."""
        try:
            return self._request_faults.requests(api, client_id, since)
        except FaultError as error:
            raise ClusterError(f"requests: {error}") from None

    def flush_traces(self) -> None:
        """For each running node, write all messages that the node has handled so far to its trace."""
        for id in self.live_brokers:
            self._members[id].node.recorder.flush()

    # ------------------------------------------------------------------------------------------------ faults

    async def inject_fault(self, kind: str, **options: Any) -> int:
        """Inject a fault, given by the fields of `RequestFault` or `NodeFault`, and return its number."""
        try:
            fault = (RequestFault if kind in REQUEST_FAULTS else NodeFault)(kind, **options)
        except (FaultError, TypeError) as error:
            raise ClusterError(f"{kind}: {error}") from None
        if isinstance(fault, RequestFault):
            self._request_faults.active.append(fault)
        else:
            await self._inject_into_node(fault)
        number = len(self._faults) + 1
        self._faults[number] = fault
        return number

    async def _inject_into_node(self, fault: NodeFault) -> None:
        for id in (fault.broker, fault.to):
            if id is not None:
                self._check_exists(id)
        if fault.kind in (PAUSE, SESSION_EXPIRY):
            node = self._running(fault.broker).node
            self._node_faults.inject(fault)
            self._node_faults.hit(fault)
            await self._wait_until_handled(node)
            await (self.pause if fault.kind == PAUSE else self.expire_session)(fault.broker)
        else:
            self._node_faults.inject(fault)

    async def _wait_until_handled(self, node: Node) -> None:
        """Wait until a node has handled all messages that were sent to it before this call."""
        last = node.base.n + node.base.queued
        await self._wait_until(lambda: node.base.n >= last or node.ended, "the broker is too busy to be paused")

    def _report_fault(self, fault: NodeFault, change: str) -> None:
        """Notify the node of a change of its fault."""
        if fault.broker in self._members:
            notice = NodeFaultInjected(fault.kind, fault.value, change, fault.hits)
            self._members[fault.broker].node.notify(notice)

    def _block(self, id: int, seconds: float) -> None:
        """Block a node for `seconds`, to simulate a slow disk."""
        if id in self._members:
            self._scheduler.hold(self._members[id].node.base, seconds)

    def fault(self, number: int) -> dict[str, int]:
        """Return the counts of a fault."""
        fault = self._fault(number)
        return {"calls": fault.calls, "hits": fault.hits}

    async def remove_fault(self, number: int) -> None:
        """Remove a fault. Its counts are kept."""
        await self._remove(self._fault(number))

    async def clear_faults(self) -> None:
        """Remove all faults."""
        for fault in self._faults.values():
            await self._remove(fault)

    @property
    def in_effect(self) -> list[str]:
        """What is broken now: injected faults, cut connections, and brokers that do not run."""
        return [each.text for each in self.effects]

    @property
    def effects(self) -> list[FaultInEffect]:
        """What is broken now, each with the operation that ends it."""
        numbers = {id(fault): number for number, fault in self._faults.items()}
        faults: list[RequestFault | NodeFault] = [fault for fault in self._request_faults.active if not fault.over]
        faults += [fault for fault in self._node_faults.active if fault.kind not in (PAUSE, SESSION_EXPIRY)]
        pauses = {fault.broker: fault for fault in self._node_faults.active if fault.kind == PAUSE}
        ends = {broker: _removal(numbers.get(id(fault))) for broker, fault in pauses.items()}
        return [
            *(FaultInEffect(f"{fault}, {fault.hits} affected", *_removal(numbers.get(id(fault)))) for fault in faults),
            *(
                FaultInEffect(f"no network between brokers {a} and {b}", "heal_network")
                for a, b in sorted(sorted(pair) for pair in self._cut)
            ),
            *(
                FaultInEffect(f"no network between clients and broker {id}", "heal_network")
                for id in sorted(self._without_clients)
            ),
            *(FaultInEffect(f"broker {id} is paused", *ends.get(id, ())) for id in sorted(self._paused)),
            *(
                FaultInEffect(
                    f"broker {id} is not running" + (f": {self._failed[id]}" if id in self._failed else ""),
                    "start_broker",
                    {"broker_id": id},
                )
                for id in self._ids
                if id not in self._members
            ),
        ]

    def faults_never_met(self) -> list[str]:
        """Return the descriptions of faults without hits."""
        return [str(fault) for fault in self._faults.values() if not fault.hits]

    async def _remove(self, fault: RequestFault | NodeFault) -> None:
        if isinstance(fault, NodeFault):
            if fault.kind == PAUSE and not fault.removed.is_set() and fault.broker in self._paused:
                await self.resume(fault.broker)
            self._node_faults.remove(fault)
        elif fault in self._request_faults.active:
            self._request_faults.active.remove(fault)

    def _fault(self, number: int) -> RequestFault | NodeFault:
        if number not in self._faults:
            raise ClusterError(f"there is no injected fault with number {number}")
        return self._faults[number]

    # ------------------------------------------------------------------------------------------------ sights

    @property
    def live_brokers(self) -> list[int]:
        """The ids of the running nodes, including paused nodes."""
        return sorted(self._members)

    @property
    def _responsive(self) -> list[int]:
        """The ids of the running nodes that are not paused."""
        return [id for id in self.live_brokers if id not in self._paused]

    def sight(self) -> dict[str, Any]:
        """Return the controller, the running nodes, all topics, the partitions without a leader, and what is broken."""
        return {
            "controller_id": self.controller_id,
            "live_brokers": self.live_brokers,
            "topics": self.all_topics,
            "offline_partitions": [
                str(each) for each in self._partitions() if not self.has_leader(*each, self._members)
            ],
            "in_effect": self.in_effect,
        }

    def _partitions(self) -> list[TopicPartition]:
        """Return all partitions in ZooKeeper; those of internal topics are last."""
        return [
            TopicPartition(topic, int(number))
            for topic in sorted(self.all_topics, key=lambda topic: (topic not in self.topics, topic))
            for number in json.loads(self._zookeeper.read(paths.topic(topic)).data or "{}").get("partitions", ())
        ]

    async def offsets(self) -> dict[str, Any]:
        """Return the offsets of the partitions of users' topics, as leaders and groups' coordinators report them.

        Each has `end`, its high watermark (None if unknown), and `committed`, the committed offset of each group. A
        broker that does not respond within OBSERVATION seconds is left out.
        """
        mine = [each for each in self._partitions() if each.topic in self.topics]
        found: dict[str, Any] = {str(partition): {"end": None, "committed": {}} for partition in mine}
        leaders = {each: self.leader_of(*each) for each in mine if self.has_leader(*each, self._members)}

        async def read(id: int) -> None:
            async def ask(request: Message) -> Message:
                return await self._response_to(id, request, OBSERVER, OBSERVATION)

            led = tuple(OffsetQuery(partition, LATEST) for partition, leader in leaders.items() if leader == id)
            listed = await ask(ListOffsetsRequest(LIST_OFFSETS_VERSION, fetch.NO_REPLICA, led))
            if not isinstance(listed, ListOffsetsResponse):
                return
            for end in listed.partitions:
                if end.error_code == errors.NONE:
                    found[str(end.partition)]["end"] = end.offset
            groups = await ask(ListGroupsRequest(LIST_GROUPS_VERSION))
            for group in groups.groups if isinstance(groups, ListGroupsResponse) else ():
                fetched = await ask(OffsetFetchRequest(OFFSET_FETCH_VERSION, group.group_id, None))
                for each in fetched.partitions if isinstance(fetched, OffsetFetchResponse) else ():
                    if each.partition in mine:
                        found[str(each.partition)]["committed"][group.group_id] = each.committed_offset

        await asyncio.gather(*map(read, self._responsive))
        return found

    def _check_exists(self, id: int) -> None:
        """Raise ClusterError if no node has this id."""
        if id not in self._ids:
            raise ClusterError(f"broker {id} does not exist; brokers: {', '.join(map(str, self._ids))}")

    def _running(self, id: int) -> _Member:
        """Return the node with this id. Raises ClusterError if the node is stopped or paused."""
        if id in self._paused:
            raise ClusterError(f"broker {id} is paused; resume it first")
        return self._member(id)

    def _member(self, id: int) -> _Member:
        if id not in self._members:
            why = f" (it failed: {self._failed[id]})" if id in self._failed else ""
            raise ClusterError(
                f"broker {id} is not running{why}; running brokers: {', '.join(map(str, self.live_brokers)) or 'none'}"
            )
        return self._members[id]

    def _is_registered(self, id: int) -> bool:
        return paths.broker(id) in self._zookeeper.nodes

    def _reach(self, a: int, b: int) -> bool:
        return frozenset((a, b)) not in self._cut

    def _are_connected(self, a: int, b: int) -> bool:
        """Return whether two nodes reach each other and no fault delays the messages between them."""
        return self._reach(a, b) and not (self._node_faults.silences(a, b) or self._node_faults.silences(b, a))

    async def _all_agree(self) -> bool:
        """Return whether each node that the controller reaches has found the controller and all running nodes."""
        return all([await self._sees_controller(id) for id in self._responsive])

    async def _sees_controller(self, id: int) -> bool:
        controller = self.controller_id
        if controller not in self._responsive:
            return False
        if not self._are_connected(id, controller):
            return True
        view = await self._metadata(id, ())
        return (
            view is not None
            and view.controller_id == controller
            and {broker.id for broker in view.brokers} >= set(self._responsive)
        )

    async def _metadata(self, id: int, topics: tuple[str, ...]) -> MetadataResponse | None:
        response = await self._response_to(id, MetadataRequest(METADATA_VERSION, topics, False))
        return response if isinstance(response, MetadataResponse) else None

    async def _response_to(self, id: int, request: Message, client: str = CLIENT, seconds: float = PATIENCE) -> Message:
        """Return a node's response to a client's request."""
        node = self._member(id).node
        endpoint = Endpoint(self._protocol, HOST, self._places[id].internal, self._protocol)
        transmit = Transmit(client, endpoint, 1, client, request, seconds)
        outcome = await node.base.request(node.network.address, transmit, seconds)
        return outcome.response if isinstance(outcome, Received) else outcome

    async def _wait_until(self, good: Callable[[], object], otherwise: str, nodes: Iterable[int] = ()) -> None:
        """Wait until `good()` is true. Raises ClusterError after PATIENCE seconds, or when one of `nodes` failed."""
        deadline, pause = asyncio.get_running_loop().time() + PATIENCE, GLANCE
        while True:
            seen = good()
            if asyncio.iscoroutine(seen):
                seen = await seen
            if seen:
                return
            for id in nodes:
                if id in self._failed:
                    raise ClusterError(f"broker {id}: {self._failed[id]}")
            if asyncio.get_running_loop().time() > deadline:
                raise ClusterError(f"{otherwise} within {PATIENCE:g} s")
            await asyncio.sleep(pause)
            pause = min(pause * 1.2, 0.1)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _gateways(node: Node) -> tuple[NetworkGateway, ListenerGateway]:
    """Return the network gateway and the listener gateway of a node; both use real sockets."""
    assert isinstance(node.network, NetworkGateway)
    assert isinstance(node.listener, ListenerGateway)
    return node.network, node.listener
