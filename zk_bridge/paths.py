"""The ZooKeeper paths that Kafka uses (controller.md 2.2), and the expected sizes of their data.

Rule 1: each path is defined in one place. A path whose changes cause a controller event is taken from the event's
declaration (`messages.events`). All other paths are defined here.
Rule 2: with zookeeper.set.acl the creator of a znode may do everything and others may read it, as in Kafka. Others may
        not read SENSITIVE, and may do everything with CONSUMERS.
"""

from __future__ import annotations

from messages import events
from messages.client_quotas import QuotaEntity
from messages.cluster import TopicPartition

CONTROLLER = events.ControllerChange.watch.path
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER = "/cluster"
CLUSTER_ID = "/cluster/id"
PRODUCER_IDS = "/latest_producer_id_block"
BROKER_IDS = events.BrokerChange.watch.path
TOPICS = events.TopicChange.watch.path
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
USER_CONFIGS = "/config/users"
CLIENT_CONFIGS = "/config/clients"
CONFIG_CHANGES = events.ConfigChangeNotification.watch.path
DELETE_TOPICS = events.TopicDeletion.watch.path
REASSIGNMENTS = events.ZkPartitionReassignment.watch.path
PREFERRED_ELECTION = events.PreferredReplicaLeaderElection.watch.path
ISR_CHANGES = events.IsrChangeNotification.watch.path
LOG_DIR_EVENTS = events.LogDirEventNotification.watch.path
FEATURE = "/feature"
BROKER_SEQUENCE = "/brokers/seqid"
DELEGATION_TOKENS = "/delegation_token/tokens"
OUR_NODES = "/kafka-actors/nodes"

CONFIG_CHANGE_PREFIX = f"{CONFIG_CHANGES}/config_change_"
ISR_CHANGE_PREFIX = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENT_PREFIX = f"{LOG_DIR_EVENTS}/log_dir_event_"

CONSUMERS = "/consumers"
SENSITIVE = (USER_CONFIGS, BROKER_CONFIGS, DELEGATION_TOKENS)
"""Prefixes of the paths that contain secrets (Kafka: `ZkData.SensitiveRootPaths`)."""

PERSISTENT = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_IDS,
    LOG_DIR_EVENTS,
    TOPIC_CONFIGS,
    CLIENT_CONFIGS,
    USER_CONFIGS,
    BROKER_CONFIGS,
)
"""Paths that every node creates at its start, with null data (controller.md 2.1, broker.md 7.1)."""


def broker(broker_id: int) -> str:
    """Return the path of a broker's registration."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """Return the path of a topic's assignment."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """Return the path of the parent of a topic's partitions."""
    return f"{TOPICS}/{name}/partitions"


def partition(tp: TopicPartition) -> str:
    """Return the path of a partition's znode, the parent of its state znode."""
    return f"{TOPICS}/{tp[0]}/partitions/{tp[1]}"


def partition_state(tp: TopicPartition) -> str:
    """Return the path of a partition's state."""
    return f"{TOPICS}/{tp[0]}/partitions/{tp[1]}/state"


def topic_config(name: str) -> str:
    """Return the path of a topic's configuration overrides."""
    return f"{TOPIC_CONFIGS}/{name}"


def broker_config(name: str) -> str:
    """Return the path of a broker's configuration overrides, or of the defaults of all brokers."""
    return f"{BROKER_CONFIGS}/{name}"


def client_quotas(entity: QuotaEntity) -> str:
    """Return the path of an entity's client quotas, and of its other configs."""
    return f"/config/{entity}"


def delete_topic(name: str) -> str:
    """Return the path of the request to delete a topic."""
    return f"{DELETE_TOPICS}/{name}"


def isr_change(name: str) -> str:
    """Return the path of an ISR change notification."""
    return f"{ISR_CHANGES}/{name}"


def config_change(number: int) -> str:
    """Return the path of a config change notification."""
    return f"{CONFIG_CHANGE_PREFIX}{number:010d}"


def log_dir_event(name: str) -> str:
    """Return the path of a log directory failure notification."""
    return f"{LOG_DIR_EVENTS}/{name}"


def our_node(node_id: int) -> str:
    """Return the path of the registration of a kafka-actors node. The registration has the node's metrics address."""
    return f"{OUR_NODES}/{node_id}"


def ancestors(path: str) -> tuple[str, ...]:
    """Return all ancestors of `path`, the topmost first, without the root."""
    parts = path.split("/")[1:-1]
    return tuple("/" + "/".join(parts[: n + 1]) for n in range(len(parts)))


def expected_bytes(path: str) -> int:
    """Return the estimated size in bytes of the data and the stat in the response to a read of `path`.

    The estimate depends on the kind of node. It keeps a batch of reads well below jute.maxbuffer. Pulsar counted only
    the bytes of the requests in a batch, and lost its session again and again (zookeeper.md 4).
    """
    if path.endswith("/state"):
        return 256
    return 4096 if path.startswith(TOPICS) else 1024
