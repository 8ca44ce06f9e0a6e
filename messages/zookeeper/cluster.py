"""The cluster as a whole: Kafka's persistent parents, the cluster id, and this project's nodes."""

from __future__ import annotations

from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


@message
class EnsurePaths(BridgeQuestion[Done]):
    """Create Kafka's persistent parents where missing, with null data (controller.md 2.1). -> Done"""


@message
class GetClusterId(BridgeQuestion["ClusterId"]):
    """Read /cluster/id, or create it with `proposed` where it is missing. -> ClusterId"""

    proposed: str


@message
class FindClusterId(BridgeQuestion["ClusterId | NoCluster"]):
    """Read /cluster/id without creating it. -> ClusterId, or NoCluster if no broker has ever started"""


@message
class NoCluster:
    """/cluster/id is missing: no cluster uses this chroot."""


@message
class ClusterId:
    """The cluster's id: 22 characters of url-safe base64."""

    id: str


@message
class TakeProducerIds(BridgeQuestion["ProducerIds"]):
    """Broker: take the next block of /latest_producer_id_block. -> ProducerIds"""

    broker_id: int


@message
class ProducerIds:
    """Producer ids from `start` on, up to but without `end`, unique in the cluster."""

    start: int
    end: int


@message
class RegisterNode(BridgeQuestion[Done]):
    """Create ephemeral /kafka-actors/nodes/N: where this node's metrics are served, which roles it has. -> Done

    Ours alone: Kafka's tools never look there. A node of the same id left by an earlier session is replaced.
    """

    node: NodeRegistration


@message
class NodeRegistration:
    """What `kafka-actors status` needs to find a node, and the listener on which it, as controller, talks to brokers
    ("" where that is not said)."""

    id: int
    roles: tuple[str, ...]
    metrics_host: str
    metrics_port: int
    pid: int
    inter_broker_listener: str = ""


@message
class GetNodes(BridgeQuestion["Nodes"]):
    """Read /kafka-actors/nodes. -> Nodes"""


@message
class Nodes:
    """Our own nodes that are alive; `unreadable` names those with a torn registration (logged by the bridge)."""

    nodes: tuple[NodeRegistration, ...]
    unreadable: tuple[str, ...] = ()
