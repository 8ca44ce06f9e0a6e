"""The first messages to the actors of a node."""

from __future__ import annotations

from thespian.actors import ActorAddress

from messages.node_settings import NodeSettings
from messages.vocabulary import Message, message


@message
class StartNode(Message):
    """The first message to NodeActor: the settings and adapters that it needs to start a node.

    The addresses are external endpoints: `store` is the ZooKeeper client, `network` the outgoing connections,
    `listener` the incoming ones, `metrics` the metrics gateway. `process` is the program that runs the node. It
    receives NodeReady, NodeFailed and NodeStopped.
    """

    settings: NodeSettings
    store: ActorAddress
    network: ActorAddress
    listener: ActorAddress
    metrics: ActorAddress
    process: ActorAddress


@message
class StartController(Message):
    """The first message to ControllerActor, which then waits for Startup."""

    settings: NodeSettings
    bridge: ActorAddress
    network: ActorAddress
    metrics: ActorAddress
    metadata_cache: ActorAddress
    cluster_id: str = ""


@message
class StartReplicaManager(Message):
    """The first message to ReplicaManagerActor, which loads the log directories; the reply is ReplicaManagerStarted.

    `coordinators` receive InternalTopicLeadership. `verifier` verifies transactions; it is None if verification is
    disabled.
    """

    settings: NodeSettings
    cluster_id: str
    bridge: ActorAddress
    metadata_cache: ActorAddress
    metrics: ActorAddress
    isr_keeper: ActorAddress
    fetcher_manager: ActorAddress
    partition_requests: ActorAddress
    coordinators: tuple[ActorAddress, ...] = ()
    verifier: ActorAddress | None = None


@message
class ReplicaManagerStarted(Message):
    """The reply to StartReplicaManager.

    It has the log directories that could not be loaded, or the reason why the broker cannot start.
    """

    offline_log_dirs: tuple[str, ...] = ()
    refused: str = ""


@message
class NodeFaultInjected(Message):
    """A message to NodeActor: a fault was injected into this node, took effect, or was removed.

    A test requested the fault (`actors.node.node_faults`). `change` is INJECTED, MET (the fault affected an operation
    for the first time) or REMOVED; `hits` is the number of affected operations so far.
    """

    fault: str
    value: float
    change: str
    hits: int


@message
class ReplicaManagerFailed(Message):
    """A message to NodeActor: the last log directory has failed, so the broker stops (broker.md 2.3)."""

    reason: str


@message
class StartMetadataCache(Message):
    """The first message to MetadataCacheActor, with the cluster id that Metadata responses contain.

    `partition_requests` receives the live brokers. On a broker, `topic_creation` creates topics on their first use.
    """

    settings: NodeSettings
    cluster_id: str
    partition_requests: ActorAddress | None = None
    topic_creation: ActorAddress | None = None


@message
class StartPartitionRequests(Message):
    """The first message to PartitionRequestsActor.

    `group_coordinator` is notified of the end of each transaction with offset commits.
    """

    settings: NodeSettings
    metadata_cache: ActorAddress
    metrics: ActorAddress | None = None
    group_coordinator: ActorAddress | None = None


@message
class StartAutoTopicCreation(Message):
    """The first message to AutoTopicCreationActor."""

    settings: NodeSettings
    bridge: ActorAddress
    metadata_cache: ActorAddress


@message
class StartIsrKeeper(Message):
    """The first message to IsrKeeperActor; `metrics` receives the numbers of ISR shrinks and expansions.

    From protocol version 2.7 on, the controller writes the ISR changes; it is reached through `network`.
    """

    bridge: ActorAddress
    metrics: ActorAddress | None = None
    network: ActorAddress | None = None
    settings: NodeSettings | None = None


@message
class StartProducerIds(Message):
    """The first message to ProducerIdsActor."""

    broker_id: int
    bridge: ActorAddress


@message
class StartAuthorizer(Message):
    """The first message to AuthorizerActor, with the addresses of the bridge and the listener."""

    settings: NodeSettings
    bridge: ActorAddress
    listener: ActorAddress


@message
class StartDelegationTokens(Message):
    """The first message to DelegationTokensActor, with the addresses of the bridge and the listener."""

    settings: NodeSettings
    bridge: ActorAddress
    listener: ActorAddress


@message
class StartDynamicConfig(Message):
    """The first message to DynamicConfigActor, with the addresses of the bridge and of the subscribers to configs.

    `replica_manager` receives topic configs, `partition_requests` and `fetcher_manager` receive replication throttles,
    `node` receives advertised listeners, `listener` receives client quotas, and `log_cleaner` receives the settings.
    """

    settings: NodeSettings
    bridge: ActorAddress
    node: ActorAddress
    listener: ActorAddress
    replica_manager: ActorAddress
    partition_requests: ActorAddress
    fetcher_manager: ActorAddress
    log_cleaner: ActorAddress


@message
class StartLogCleaner(Message):
    """The first message to LogCleanerManagerActor.

    `replica_manager` receives LogFileFailed, and `metrics` the gauges.
    """

    settings: NodeSettings
    replica_manager: ActorAddress
    metrics: ActorAddress | None = None


@message
class Advertise(Message):
    """A message to NodeActor: the new value of this broker's dynamic config `advertised.listeners`.

    `listeners` is None if the config was removed.
    """

    listeners: str | None


@message
class StartConfigs(Message):
    """The first message to ConfigsActor."""

    settings: NodeSettings
    bridge: ActorAddress
    metadata_cache: ActorAddress


@message
class StartGroupCoordinator(Message):
    """The first message to GroupCoordinatorActor.

    `finder` is CoordinatorFinderActor, which has the number of partitions of __consumer_offsets.
    """

    settings: NodeSettings
    metadata_cache: ActorAddress
    finder: ActorAddress


@message
class StartTransactionCoordinator(Message):
    """The first message to TransactionCoordinatorActor.

    `finder` is CoordinatorFinderActor, which has the partition counts of internal topics; `producer_ids` assigns
    producer ids.
    """

    settings: NodeSettings
    bridge: ActorAddress
    metadata_cache: ActorAddress
    finder: ActorAddress
    producer_ids: ActorAddress
    network: ActorAddress
    metrics: ActorAddress


@message
class StartCoordinatorFinder(Message):
    """The first message to CoordinatorFinderActor.

    `topic_creation` is the actor that creates an internal topic at its first use.
    """

    bridge: ActorAddress
    metadata_cache: ActorAddress
    topic_creation: ActorAddress


@message
class StartFetcherManager(Message):
    """The first message to ReplicaFetcherManagerActor."""

    settings: NodeSettings
    network: ActorAddress
    metrics: ActorAddress | None = None


@message
class StartRequestHandler(Message):
    """The first message to RequestHandlerActor, with the addresses of the actors that handle the requests.

    `controller` is None on nodes without the role of a controller.
    """

    settings: NodeSettings
    metadata_cache: ActorAddress
    replica_manager: ActorAddress | None
    controller: ActorAddress | None
    partition_requests: ActorAddress | None = None
    configs: ActorAddress | None = None
    group_coordinator: ActorAddress | None = None
    coordinator_finder: ActorAddress | None = None
    transaction_coordinator: ActorAddress | None = None
    metrics: ActorAddress | None = None
    authorizer: ActorAddress | None = None
    delegation_tokens: ActorAddress | None = None


@message
class BrokerEpoch(Message):
    """A message to ReplicaManagerActor: the broker epoch, which is the czxid of the newest registration."""

    epoch: int


@message
class ShuttingDown(Message):
    """A message to ReplicaManagerActor: this broker is shutting down, so no more fetchers are started."""


@message
class StartBridge(Message):
    """The first message to ZkBridgeActor, with the actor address of the ZooKeeper client.

    `subscriber` receives SessionEstablished when the first session begins, SessionExpired when a session expires, and
    SessionEstablished again when the next session begins. Each actor with armed watches also receives SessionExpired.
    """

    store: ActorAddress
    subscriber: ActorAddress


@message
class OpenStore(Message):
    """A message to the ZooKeeper client: connect, and send events to `bridge`."""

    bridge: ActorAddress


@message
class StopNode(Message):
    """A message to NodeActor: stop the node by controlled shutdown, and report with NodeStopped when it has stopped."""


@message
class NodeReady(Message):
    """A message to the program that runs the node: the node serves requests; the broker epoch is -1 for non-brokers."""

    broker_epoch: int
    cluster_id: str


@message
class ServeClients(Message):
    """A message to the listener gateway: accept connections of clients.

    Requests with records go to the actor `records`, all others to `handler`. `logs` receives LogFileFailed if a file
    cannot be read during a send.
    """

    handler: ActorAddress
    records: ActorAddress | None = None
    logs: ActorAddress | None = None


@message
class NodeFailed(Message):
    """A message to the program that runs the node: the node cannot start or continue, for this `reason`."""

    reason: str


@message
class NodeStopped(Message):
    """A message to the program that runs the node: the node has stopped."""
