"""Requests to the ZooKeeper bridge about the whole cluster.

The requests create Kafka's parent znodes, read the cluster id, and register nodes of kafka-actors.
"""

from __future__ import annotations

from messages.ask import Done
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion


@message
class EnsurePaths(BridgeQuestion[Done]):
    """A request to create Kafka's persistent parent znodes that are missing (controller.md 2.1); the reply is Done."""


@message
class GetClusterId(BridgeQuestion["ClusterId"]):
    """A request to read /cluster/id, or to create it with the id `proposed`; the reply is ClusterId."""

    proposed: str


@message
class FindClusterId(BridgeQuestion["ClusterId | NoCluster"]):
    """A request to read /cluster/id without creating it; the reply is ClusterId or NoCluster."""


@message
class NoCluster(Message):
    """The reply to FindClusterId if /cluster/id is missing: no broker has used this ZooKeeper yet."""


@message
class ClusterId(Message):
    """The cluster id: 22 characters of url-safe base64."""

    id: str


@message
class TakeProducerIds(BridgeQuestion["ProducerIds"]):
    """A broker's request to reserve the next block of producer ids in ZooKeeper; the reply is ProducerIds."""

    broker_id: int


@message
class ProducerIds(Message):
    """A block of producer ids, from `start` up to but not including `end`; each is unique in the cluster."""

    start: int
    end: int


@message
class SetFeatureVersioning(BridgeQuestion[Done]):
    """A controller's request to enable or disable the versioning of features in /feature (KIP-584); the reply is Done.

    Nothing is written if /feature has that status.
    """

    enabled: bool
    epoch_zk_version: int | None


@message
class TakeBrokerSequence(BridgeQuestion["BrokerSequence"]):
    """A request for the next number of /brokers/seqid, for a broker without an id; the reply is BrokerSequence."""


@message
class BrokerSequence(Message):
    """The version of /brokers/seqid after a write: 1, 2, ...; each is unique in the cluster."""

    number: int


@message
class RegisterNode(BridgeQuestion[Done]):
    """A request to create the ephemeral znode /kafka-actors/nodes/N with the node's metrics address and roles.

    The reply is Done. Kafka and its tools do not use this znode. A znode of the same id from an earlier session is
    replaced.
    """

    node: NodeRegistration


@message
class NodeRegistration(Message):
    """The content of /kafka-actors/nodes/N.

    It has the address of a node's metrics, the node's roles, and the listener to which the controller connects ("" if
    unknown). `kafka-actors status` reads it.
    """

    id: int
    roles: tuple[str, ...]
    metrics_host: str
    metrics_port: int
    pid: int
    inter_broker_listener: str = ""


@message
class GetNodes(BridgeQuestion["Nodes"]):
    """A request to read /kafka-actors/nodes; the reply is Nodes."""


@message
class Nodes(Message):
    """The registered nodes of kafka-actors; `unreadable` names those with an invalid registration.

    The bridge logs invalid registrations.
    """

    nodes: tuple[NodeRegistration, ...]
    unreadable: tuple[str, ...] = ()
