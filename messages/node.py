"""The settings of a node, and the first messages to its actors."""

from __future__ import annotations

from thespian.actors import ActorAddress

from messages.cluster import Endpoint
from messages.records import PRODUCER
from messages.vocabulary import Message, message


@message
class NodeSettings(Message):
    """The typed settings of a node; Kafka's settings have Kafka's names (with underscores) and Kafka's defaults.

    `node_id` is broker.id. `roles` is process.roles: "broker", "controller" or both. The node binds `listeners` and
    registers `advertised_listeners`. The name of each time setting ends with its unit.
    """

    node_id: int
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    log_dirs: tuple[str, ...]
    zookeeper_connect: str
    roles: tuple[str, ...] = ("broker", "controller")
    listener_security_protocol_map: str = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    inter_broker_listener_name: str = "PLAINTEXT"
    inter_broker_protocol_version: str = "2.6"
    control_plane_listener_name: str | None = None
    broker_rack: str | None = None
    zookeeper_session_timeout_ms: int = 18000
    zookeeper_connection_timeout_ms: int = 18000
    controller_socket_timeout_ms: int = 30000
    request_timeout_ms: int = 30000
    delete_topic_enable: bool = True
    validate_state: bool = False
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    controlled_shutdown_enable: bool = True
    controlled_shutdown_max_retries: int = 3
    controlled_shutdown_retry_backoff_ms: int = 5000
    log_segment_delete_delay_ms: int = 60000
    num_partitions: int = 1
    default_replication_factor: int = 1
    auto_create_topics_enable: bool = True
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 104857600
    offsets_commit_timeout_ms: int = 5000
    offsets_retention_minutes: int = 10080
    offsets_retention_check_interval_ms: int = 600000
    offset_metadata_max_bytes: int = 4096
    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 1800000
    group_initial_rebalance_delay_ms: int = 3000
    group_max_size: int = 2147483647
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_min_isr: int = 2
    transaction_state_log_segment_bytes: int = 104857600
    producer_id_expiration_ms: int = 86400000
    transaction_state_log_load_buffer_size: int = 5242880
    transaction_max_timeout_ms: int = 900000
    transactional_id_expiration_ms: int = 604800000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10000
    transaction_partition_verification_enable: bool = True
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3600000
    socket_request_max_bytes: int = 104857600
    max_connections: int = 2147483647
    max_incremental_fetch_session_cache_slots: int = 1000
    fetch_max_bytes: int = 57671680
    max_connections_per_ip: int = 2147483647
    max_connections_per_ip_overrides: tuple[tuple[str, int], ...] = ()
    connections_max_idle_ms: int = 600000
    queued_max_request_bytes: int = -1
    trace_client_request_max_bytes: int = 4194304
    trace_client_bytes_per_second: int = 4194304
    log_segment_bytes: int = 1073741824
    log_roll_ms: int | None = None
    log_roll_hours: int = 168
    log_index_size_max_bytes: int = 10485760
    log_index_interval_bytes: int = 4096
    log_retention_ms: int | None = None
    log_retention_minutes: int | None = None
    log_retention_hours: int = 168
    log_retention_bytes: int = -1
    log_retention_check_interval_ms: int = 300000
    log_initial_task_delay_ms: int = 30000
    log_flush_offset_checkpoint_interval_ms: int = 60000
    log_cleanup_policy: str = "delete"
    log_message_timestamp_type: str = "CreateTime"
    compression_type: str = PRODUCER
    log_message_timestamp_difference_max_ms: int = 2**63 - 1
    message_max_bytes: int = 1048588
    min_insync_replicas: int = 1
    replica_selector_class: str = ""
    num_replica_fetchers: int = 1
    replica_lag_time_max_ms: int = 30000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1048576
    replica_fetch_response_max_bytes: int = 10485760
    replica_fetch_backoff_ms: int = 1000
    replica_socket_timeout_ms: int = 30000
    replica_high_watermark_checkpoint_interval_ms: int = 5000
    trace_dir: str = ""
    trace_max_bytes: int = 1 << 30
    trace_free_bytes: int = 64 << 20
    trace_snapshot_segments: int = 1
    trace_detail: str = "full"
    trace_ring_deliveries: int = 100000
    trace_ring_slow_ms: int = 1000
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0


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
    """The first message to IsrKeeperActor; `metrics` receives the numbers of ISR shrinks and expansions."""

    bridge: ActorAddress
    metrics: ActorAddress | None = None


@message
class StartProducerIds(Message):
    """The first message to ProducerIdsActor."""

    broker_id: int
    bridge: ActorAddress


@message
class StartDynamicConfig(Message):
    """The first message to DynamicConfigActor, with the addresses of the bridge and of the subscribers to configs.

    `replica_manager` receives topic configs, `partition_requests` and `fetcher_manager` receive replication throttles,
    `node` receives advertised listeners.
    """

    settings: NodeSettings
    bridge: ActorAddress
    node: ActorAddress
    replica_manager: ActorAddress
    partition_requests: ActorAddress
    fetcher_manager: ActorAddress


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
