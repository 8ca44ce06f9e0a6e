"""NodeActor: the root actor of a node; it creates the other actors and registers the broker.

Rule 1: order of a start (broker.md 7.1): ZooKeeper session, persistent paths, cluster id, log directories,
        registration, and only then clients and controller.
Rule 2: the node registers again in every new session. Its controller joins the election only after that (controller.md
        1.3). At the start, the node registers the addresses in this broker's config override, or those in its settings
        if there is no override. The registration is updated when DynamicConfigActor reports a change.
Rule 3: a clean stop first requests a controlled shutdown from the controller (broker.md 7.5). It continues without the
        controller after the last retry, or if the controller's id cannot be read from ZooKeeper within a session
        timeout. It waits for nothing else: a start or registration in progress is dropped.
Rule 4: `node_states` defines the handling of an event in each state.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, ClassVar

from thespian.actors import ActorAddress, WakeupMessage

from actors.broker.authorizer import AuthorizerActor
from actors.broker.auto_topic_creation import AutoTopicCreationActor
from actors.broker.config_requests import ConfigsActor
from actors.broker.delegation_tokens import DelegationTokensActor
from actors.broker.dynamic_config import DynamicConfigActor
from actors.broker.fetcher_manager import ReplicaFetcherManagerActor
from actors.broker.isr_keeper import IsrKeeperActor, find_controller
from actors.broker.log_cleaner import LogCleanerManagerActor
from actors.broker.metadata_cache import MetadataCacheActor
from actors.broker.partition_requests import PartitionRequestsActor
from actors.broker.producer_ids import ProducerIdsActor
from actors.broker.replica_manager import ReplicaManagerActor
from actors.broker.request_handler import RequestHandlerActor
from actors.controller.controller import ControllerActor
from actors.coordinator.coordinator_finder import CoordinatorFinderActor
from actors.coordinator.group_coordinator import GroupCoordinatorActor
from actors.coordinator.transaction_coordinator import TransactionCoordinatorActor
from actors.coordinator.transaction_verifier import TransactionVerifierActor
from actors.core.config.advertised_listeners import ADVERTISED_LISTENERS, advertised_listeners
from actors.core.illegal_transition import enter
from actors.core.refusal import Refused
from actors.node.node_states import BROKER_STATES, PREVIOUS, TABLES, NodeAction, NodeState
from actors.runtime import FlowActor
from messages import node, zookeeper
from messages.acls import AclsChanged
from messages.apis.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from messages.ask import AskFailed, SessionLost
from messages.cluster import Broker, Endpoint
from messages.delegation_tokens import DelegationTokensChanged
from messages.events import ControllerShutdown, Reelect, SessionEstablished, SessionExpired, Startup
from messages.flow.conversation import Flow, ask
from messages.metrics import Gauge, Gauges
from messages.network import CloseConnection, Received, Transmit
from messages.node_settings import authenticates_users, has_delegation_tokens
from messages.transactions import StartTransactionVerifier
from messages.vocabulary import AnyMessage, Message
from zk_bridge.core import ZkBridgeActor

_log = logging.getLogger("kafka_actors.node")

CONTROLLED_SHUTDOWN_VERSION = 3
CONTROLLED_SHUTDOWN_CHANNEL = "controlled-shutdown"
BROKER_STATE = "kafka_server_kafkaserver_brokerstate"
NEXT_TRY = "next try at controlled shutdown"
LOOKED_LONG_ENOUGH = "looked for the controller long enough"


_BROKER: dict[str, tuple[type, Any]] = {
    "topic_creation": (AutoTopicCreationActor, node.StartAutoTopicCreation),
    "metadata_cache": (MetadataCacheActor, node.StartMetadataCache),
    "partition_requests": (PartitionRequestsActor, node.StartPartitionRequests),
    "producer_ids": (ProducerIdsActor, node.StartProducerIds),
    "configs": (ConfigsActor, node.StartConfigs),
    "isr_keeper": (IsrKeeperActor, node.StartIsrKeeper),
    "fetcher_manager": (ReplicaFetcherManagerActor, node.StartFetcherManager),
    "coordinator_finder": (CoordinatorFinderActor, node.StartCoordinatorFinder),
    "group_coordinator": (GroupCoordinatorActor, node.StartGroupCoordinator),
    "transaction_coordinator": (TransactionCoordinatorActor, node.StartTransactionCoordinator),
    "verifier": (TransactionVerifierActor, StartTransactionVerifier),
    "replica_manager": (ReplicaManagerActor, node.StartReplicaManager),
    "log_cleaner": (LogCleanerManagerActor, node.StartLogCleaner),
    "dynamic_config": (DynamicConfigActor, node.StartDynamicConfig),
}
"""The actors of a broker in the order of their start, each with its start message.

The fields of a start message name what the actor needs.
"""

_ACTORS: dict[str, tuple[type, Any]] = {
    **_BROKER,
    "controller": (ControllerActor, node.StartController),
    "authorizer": (AuthorizerActor, node.StartAuthorizer),
    "delegation_tokens": (DelegationTokensActor, node.StartDelegationTokens),
    "request_handler": (RequestHandlerActor, node.StartRequestHandler),
}

_COORDINATORS = "group_coordinator", "transaction_coordinator"


class NodeActor(FlowActor):
    """This actor starts, registers and stops a node; it is the parent of the node's other actors."""

    answer_deadline: ClassVar[float] = 3600.0
    """The bridge holds requests while ZooKeeper is unavailable. A node that waits for it has not failed."""

    def __init__(self) -> None:
        super().__init__()
        self._start: node.StartNode
        self._generation = 0
        self._advertised: tuple[Endpoint, ...]
        """The current addresses of this broker (rule 2)."""
        self._state = NodeState.STARTING
        self._loaded = node.ReplicaManagerStarted()
        self._actors: dict[str, Any] = dict.fromkeys(_ACTORS)
        """What start messages need, by the names of their fields: this node's actors, None if absent, and settings."""
        self._shutdown_attempts = 0
        self._correlation_id = 0

    @property
    def _settings(self) -> node.NodeSettings:
        return self._start.settings

    def receiveMsg_StartNode(self, message: node.StartNode, sender: ActorAddress) -> None:
        """Create ZkBridgeActor, the bridge to ZooKeeper. Its message SessionEstablished starts the other actors."""
        self._start = message
        self._publish_state()
        self._advertised = message.settings.advertised_listeners
        bridge = self.createActor(ZkBridgeActor)
        self.peers = {"bridge": bridge, "network": message.network}
        settings = message.settings
        self._actors |= {"settings": settings, "node_id": settings.node_id, "broker_id": settings.node_id}
        self._actors |= {"request_timeout_ms": settings.request_timeout_ms, "metrics": message.metrics}
        self._actors |= {"node": self.myAddress, "listener": message.listener, **self.peers}
        self.send(bridge, node.StartBridge(message.store, self.myAddress))
        self.send(message.store, node.OpenStore(bridge))

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Retry the controlled shutdown, or stop without it if no controller was found in time."""
        if message.payload == NEXT_TRY:
            self.send(self.myAddress, node.StopNode())
        elif message.payload == LOOKED_LONG_ENOUGH:
            self._begin_stop()

    def receiveMsg_NodeFaultInjected(self, message: node.NodeFaultInjected, sender: ActorAddress) -> None:
        """Log that a fault was injected or removed."""
        _log.info(
            "[KafkaServer id=%d] Fault %s (value %g) was %s; it affected %d operations",
            *(self._settings.node_id, message.fault, message.value, message.change, message.hits),
        )

    def flow(self, message: AnyMessage) -> Flow[None] | None:
        """Return the flow (a generator) that handles an event of the node; None if the event is already handled."""
        match message:
            case SessionExpired():
                return None
            case node.ReplicaManagerFailed(reason):
                self.send(self._start.process, node.NodeFailed(reason))
                return None
            case SessionEstablished(generation):
                self._generation = generation
        table = TABLES.get(type(message))
        if table is None:
            return super().flow(message)
        match table[self._state]:
            case NodeAction.JOIN:
                return self._join()
            case NodeAction.SERVE:
                return self._serve(message)
            case NodeAction.REJOIN:
                return self._rejoin()
            case NodeAction.STORE:
                self._apply(message.listeners)
            case NodeAction.ADVERTISE:
                return self._advertise(message.listeners)
            case NodeAction.LEAVE:
                return self._shut_down()
            case NodeAction.STOP:
                self._begin_stop()
        return None

    def _enter(self, state: NodeState) -> None:
        before, self._state = self._state, enter(f"node {self._settings.node_id}", self._state, state, PREVIOUS)
        if BROKER_STATES[state] != BROKER_STATES[before]:
            self._publish_state()

    def _publish_state(self) -> None:
        self.send(self._start.metrics, Gauges((Gauge(BROKER_STATE, BROKER_STATES[self._state]),)))

    def preempts(self, message: Message) -> bool:
        """Return whether this event aborts the handling of the event in progress and drops all waiting events.

        SessionExpired does, because the requests of the session fail and SessionEstablished follows. StopNode does,
        unless a controlled shutdown is in progress.
        """
        return isinstance(message, SessionExpired) or (
            isinstance(message, node.StopNode) and self._state is not NodeState.LEAVING
        )

    def handle_dropped(self, dropped: list[tuple[Message, ActorAddress]]) -> None:
        """Keep the effects of dropped events: the loaded logs, and the request to stop."""
        for message, _ in dropped:
            if isinstance(message, node.ReplicaManagerStarted):
                self._load(message)
            elif isinstance(message, node.StopNode):
                self._begin_stop()

    def event_failed(self, event: Message, error: Exception) -> None:
        """Handle a failed event.

        If the handling of StopNode fails, the node stops without a controlled shutdown. If the session was lost, the
        node waits for the next session. Any other failure ends the node.
        """
        if isinstance(event, node.StopNode):
            self._begin_stop()
        elif not isinstance(error, SessionLost):
            reason = f"{type(event).__name__} failed with {type(error).__name__} ({error})"
            self.send(self._start.process, node.NodeFailed(reason))

    def _load(self, started: node.ReplicaManagerStarted) -> None:
        """Store the loaded logs. Next the node registers: in this session, or in a new session if this one expires."""
        if self._state is NodeState.LOADING:
            self._loaded = started
            self._enter(NodeState.REGISTERING)

    def _join(self) -> Flow[None]:
        """Do the first part of the node's start, when the first session is established.

        Create the persistent paths, read the cluster id, and create the broker's actors.
        """
        yield from ask(zookeeper.EnsurePaths())
        cluster = yield from ask(zookeeper.GetClusterId(proposed=self.port("random").cluster_id()))
        self._actors["cluster_id"] = cluster.id
        settings = self._settings
        if "broker" in settings.roles:
            (own,) = (yield from ask(zookeeper.GetBrokerConfigs((str(settings.node_id),)))).brokers
            self._apply(dict(own.entries).get(ADVERTISED_LISTENERS))
        self._enter(NodeState.LOADING)
        if "broker" in settings.roles:
            verifies = settings.transaction_partition_verification_enable
            self._create(*(name for name in _BROKER if verifies or name != "verifier"))
        else:
            self._create("metadata_cache")
            yield from self._serve(node.ReplicaManagerStarted())

    def _create(self, *names: str) -> None:
        """Create actors, and then send each its start message, in this order."""
        actors = self._actors
        actors.update((name, self.createActor(_ACTORS[name][0])) for name in names)
        actors["finder"], actors["coordinators"] = actors["coordinator_finder"], tuple(map(actors.get, _COORDINATORS))
        for name in names:
            message = _ACTORS[name][1]
            self.send(actors[name], message(*(actors[need] for need in message.__match_args__)))

    def _serve(self, event: Message) -> Flow[None]:
        """Register after the logs are loaded, then serve clients and let the controller join the election.

        Args:
            event: ReplicaManagerStarted, or SessionEstablished if the session of the first registration expired.
        """
        if isinstance(event, node.ReplicaManagerStarted):
            self._load(event)
        start, started = self._start, self._loaded
        if started.refused:
            self.send(start.process, node.NodeFailed(started.refused))
            return
        for directory in started.offline_log_dirs:
            _log.error("[Broker id=%d] Log directory %s is offline", start.settings.node_id, directory)
        epoch = yield from self._register()
        if epoch is None:
            return
        if "controller" in start.settings.roles:
            self._create("controller")
        if start.settings.authorizer_class_name:
            yield from self._load_acls()
            self._create("authorizer")
        if has_delegation_tokens(start.settings):
            yield from self._load_tokens()
            self._create("delegation_tokens")
        self._create("request_handler")
        if authenticates_users(start.settings):  # the gateway to ZooKeeper keeps the credentials it reads
            yield from ask(zookeeper.GetUserConfigs())
        handler, requests, manager = map(self._actors.get, ("request_handler", "partition_requests", "replica_manager"))
        self.send(start.listener, node.ServeClients(handler, requests, manager))
        if self._actors["controller"] is not None:
            self.send(self._actors["controller"], Startup())
        self._enter(NodeState.RUNNING)
        self.send(start.process, node.NodeReady(epoch, self._actors["cluster_id"]))
        yield from self._check_controller_listener()

    def _load_acls(self) -> Flow[None]:
        """Read all ACLs before the node serves clients; the listener makes the decisions."""
        yield from ask(zookeeper.EnsureAclPaths())
        acls = yield from ask(zookeeper.GetAcls())
        self.send(self._start.listener, AclsChanged(acls.resources, all=True))

    def _load_tokens(self) -> Flow[None]:
        """Read all delegation tokens before the node serves clients; the listener authenticates by them."""
        yield from ask(zookeeper.EnsureTokenPaths())
        tokens = yield from ask(zookeeper.GetTokens())
        self.send(self._start.listener, DelegationTokensChanged(tokens.tokens, all=True))

    def _rejoin(self) -> Flow[None]:
        """Register again after an expiry, and only then join the election."""
        epoch = yield from self._register()
        if epoch is not None and self._actors["controller"] is not None:
            self.send(self._actors["controller"], Reelect(self._generation))
        yield from self._check_controller_listener()

    def _check_controller_listener(self) -> Flow[None]:
        """Log an error if the controller cannot reach this broker.

        This happens if the controller uses a listener that the broker does not advertise.

        The check is skipped for Kafka's own controllers, because only controllers of this project publish their
        listener. A failed read of ZooKeeper is ignored.
        """
        if self._actors["replica_manager"] is None:
            return
        try:
            controller = (yield from ask(zookeeper.GetController(watch=False))).broker_id
            nodes = (yield from ask(zookeeper.GetNodes())).nodes
        except AskFailed:
            return
        listener = next((each.inter_broker_listener for each in nodes if each.id == controller), "")
        advertised = [endpoint.listener for endpoint in self._advertised]
        if listener and listener not in advertised:
            _log.error(
                "[Broker id=%d] Controller %d uses listener %s, but this broker advertises only %s, so this"
                " broker gets no partitions. Correct inter.broker.listener.name or advertised.listeners.",
                self._settings.node_id,
                controller,
                listener,
                ", ".join(advertised),
            )

    def _register(self) -> Flow[int | None]:
        """Register this node in ZooKeeper.

        Return the broker epoch (-1 without the broker role); None if another session owns the registration.
        """
        settings = self._settings
        epoch = -1
        if self._actors["replica_manager"] is not None:
            answer = yield from ask(zookeeper.RegisterBroker(*self._registration()))
            if isinstance(answer, zookeeper.RegistrationRefused):
                reason = (
                    f"/brokers/ids/{settings.node_id} is owned by session {answer.owner:#x}: another broker with this "
                    f"id runs, or its last session has not expired yet ({settings.zookeeper_session_timeout_ms} ms)"
                )
                self.send(self._start.process, node.NodeFailed(reason))
                return None
            epoch = answer.epoch
            self.send(self._actors["replica_manager"], node.BrokerEpoch(epoch))
        host, port, pid = self.port("process").identity()
        listener = settings.inter_broker_listener_name
        yield from ask(
            zookeeper.RegisterNode(
                zookeeper.NodeRegistration(settings.node_id, settings.roles, host, port, pid, listener)
            )
        )
        return epoch

    def _registration(self) -> tuple[Broker, int, str]:
        """Return this broker's registration, the time (ms since 1970) and the inter-broker protocol version."""
        settings = self._settings
        broker = Broker(settings.node_id, self._advertised, rack=settings.broker_rack)
        return broker, self.port("time").wall_ms(), settings.inter_broker_protocol_version

    def _apply(self, override: str | None) -> None:
        """Store the advertised listeners. An invalid value is logged and ignored, as in Kafka.

        Args:
            override: The override of advertised.listeners; None if there is none.
        """
        settings = self._settings
        try:
            self._advertised = (
                settings.advertised_listeners if override is None else advertised_listeners(settings, override)
            )
        except Refused as refused:
            _log.error("[Broker id=%d] Ignoring %s=%s: %s", settings.node_id, ADVERTISED_LISTENERS, override, refused)

    def _advertise(self, override: str | None) -> Flow[None]:
        """Store the advertised listeners; if they changed, update the registration.

        The controller then notifies all brokers.
        """
        before = self._advertised
        self._apply(override)
        if self._advertised != before:
            yield from ask(zookeeper.UpdateBroker(*self._registration()))

    def _shut_down(self) -> Flow[None]:
        """Try a controlled shutdown once. Then stop, or wait for the next try."""
        settings = self._settings
        if self._actors["replica_manager"] is not None and settings.controlled_shutdown_enable:
            if self._shutdown_attempts == 0:
                self.send(self._actors["replica_manager"], node.ShuttingDown())
            self._shutdown_attempts += 1
            self._enter(NodeState.LEAVING)
            relieved = yield from self._request_controlled_shutdown()
            if self._state is NodeState.STOPPING:
                return
            if not relieved and self._shutdown_attempts < settings.controlled_shutdown_max_retries:
                self._enter(NodeState.RETRYING)
                backoff = timedelta(milliseconds=settings.controlled_shutdown_retry_backoff_ms)
                self.wakeupAfter(backoff, NEXT_TRY)
                return
        self._begin_stop()

    def _request_controlled_shutdown(self) -> Flow[bool]:
        """Send ControlledShutdown to the controller. Return True if this broker leads no partition any more."""
        settings = self._settings
        self.set_timer(LOOKED_LONG_ENOUGH, settings.zookeeper_session_timeout_ms / 1000, LOOKED_LONG_ENOUGH)
        try:
            endpoint, broker_epoch = yield from find_controller(settings)
        except (AskFailed, LookupError) as error:
            _log.warning("[KafkaServer id=%d] Error during controlled shutdown: %s", settings.node_id, error)
            return False
        finally:
            self.cancel_timer(LOOKED_LONG_ENOUGH)
        self._correlation_id += 1
        outcome = yield from ask(
            Transmit(
                CONTROLLED_SHUTDOWN_CHANNEL,
                endpoint,
                self._correlation_id,
                str(settings.node_id),
                ControlledShutdownRequest(CONTROLLED_SHUTDOWN_VERSION, settings.node_id, broker_epoch),
                settings.controller_socket_timeout_ms / 1000,
            )
        )
        self.send(self._start.network, CloseConnection(CONTROLLED_SHUTDOWN_CHANNEL))
        match outcome:
            case Received(_, _, ControlledShutdownResponse(0, ())):
                return True
        _log.warning("[KafkaServer id=%d] Controlled shutdown request failed: %s", settings.node_id, outcome)
        return False

    def _begin_stop(self) -> None:
        self._enter(NodeState.STOPPING)
        if self._actors["controller"] is not None:
            self.send(self._actors["controller"], ControllerShutdown())
        self.send(self._start.process, node.NodeStopped())
