"""Create Kafka's parent znodes, read the cluster id and register nodes; the data of these znodes (broker.md 7.1)."""

from __future__ import annotations

import logging

from messages import store, zookeeper
from messages.ask import BadZnode, Done
from messages.zookeeper import NodeRegistration
from zk_bridge import conversations, paths, znodes

logger = logging.getLogger(__name__)


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encode /cluster/id. Its version is text."""
    return znodes.encode({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, data: bytes | None) -> str:
    """Return the id in /cluster/id. Raises BadZnode."""
    read: str = znodes.naming(
        path, data, lambda data: znodes.valid_text(znodes.member(znodes.parse(data), "id", str), "id")
    )
    return read


def encode_producer_ids(broker_id: int, start: int, count: int) -> bytes:
    """Encode /latest_producer_id_block. Its block_start and block_end are text, and block_end is inclusive."""
    return znodes.encode(
        {"version": 1, "broker": broker_id, "block_start": str(start), "block_end": str(start + count - 1)}
    )


def decode_producer_ids(path: str, data: bytes | None, count: int) -> int:
    """Return the first id after the block in /latest_producer_id_block; 0 if no block exists.

    Raises:
        BadZnode: The data is invalid, or fewer than `count` ids of 64 bits are left.
    """
    if data is None:
        return 0

    def read(data: bytes | None) -> int:
        return znodes.number(
            znodes.decimal(znodes.member(znodes.parse(data), "block_end", str)),
            "block_end",
            least=0,
            most=znodes.INT64 - count,
        )

    end: int = znodes.naming(path, data, read)
    return end + 1


def encode_node(node: NodeRegistration) -> bytes:
    """Encode /kafka-actors/nodes/N, which Kafka does not have."""
    return znodes.encode(
        {
            "version": 1,
            "roles": list(node.roles),
            "metrics_host": node.metrics_host,
            "metrics_port": node.metrics_port,
            "pid": node.pid,
            "inter_broker_listener": node.inter_broker_listener,
        }
    )


def decode_node(path: str, data: bytes | None) -> NodeRegistration:
    """Decode the registration of one of our nodes. Its id is the last part of `path`. Raises BadZnode."""

    def read(data: bytes | None) -> NodeRegistration:
        members = znodes.parse(data)
        listener = znodes.member(members, "inter_broker_listener", str, "")
        return NodeRegistration(
            id=znodes.number(znodes.decimal(path.rpartition("/")[2]), "the node's name"),
            roles=tuple(znodes.valid_text(role, "roles") for role in znodes.member(members, "roles", list)),
            metrics_host=znodes.valid_text(znodes.member(members, "metrics_host", str), "metrics_host"),
            metrics_port=znodes.number_member(members, "metrics_port", least=0),
            pid=znodes.number_member(members, "pid", least=0),
            inter_broker_listener=znodes.valid_text(listener, "inter_broker_listener"),
        )

    node: NodeRegistration = znodes.naming(path, data, read)
    return node


DISABLED, ENABLED = 0, 1
"""The status in /feature: whether features have versions."""
PRODUCER_IDS_AT_ONCE = 1000
"""Number of producer ids in a broker's block."""


def ensure_paths(question: zookeeper.EnsurePaths) -> conversations.Conversation:
    """Create the persistent znodes that Kafka needs. Each node of the cluster does this when it starts."""
    yield from conversations.create_missing(paths.PERSISTENT)
    return Done()


def get_cluster_id(question: zookeeper.GetClusterId) -> conversations.Conversation:
    """Return the cluster id. If the znode is absent, create it with the proposed id; the first creation wins."""
    while True:
        (node,) = yield from conversations.data_of((paths.CLUSTER_ID,))
        if node.code == store.OK:
            return zookeeper.ClusterId(decode_cluster_id(paths.CLUSTER_ID, node.data))
        yield from conversations.create_missing((paths.CLUSTER,))
        create = store.WriteOp(store.CREATE, paths.CLUSTER_ID, encode_cluster_id(question.proposed))
        yield from conversations.transact((create,), store.CONNECTION_LOSS, store.NODE_EXISTS)


def find_cluster_id(question: zookeeper.FindClusterId) -> conversations.Conversation:
    """Return the cluster id, or NoCluster if it is not set."""
    (node,) = yield from conversations.data_of((paths.CLUSTER_ID,))
    if node.code != store.OK:
        return zookeeper.NoCluster()
    return zookeeper.ClusterId(decode_cluster_id(paths.CLUSTER_ID, node.data))


def take_producer_ids(question: zookeeper.TakeProducerIds) -> conversations.Conversation:
    """Take the block of producer ids that follows the last block taken by any broker.

    Retry as long as another broker writes first.

    If the answer to a successful write is lost, another block is taken. The lost block stays unused, which is harmless.
    """
    while True:
        (node,) = yield from conversations.data_of((paths.PRODUCER_IDS,))
        if node.code != store.OK:
            yield from conversations.create_missing((paths.PRODUCER_IDS,))
            continue
        start = decode_producer_ids(paths.PRODUCER_IDS, node.data, PRODUCER_IDS_AT_ONCE)
        data = encode_producer_ids(question.broker_id, start, PRODUCER_IDS_AT_ONCE)
        take = store.WriteOp(store.SET, paths.PRODUCER_IDS, data, node.version)
        reply = yield from conversations.transact((take,), store.CONNECTION_LOSS, store.BAD_VERSION, store.NO_NODE)
        if reply.code == store.OK:
            return zookeeper.ProducerIds(start, start + PRODUCER_IDS_AT_ONCE)


def register_node(question: zookeeper.RegisterNode) -> conversations.Conversation:
    """Create this node's ephemeral registration. Replace one that was left by an earlier process with this id."""
    path = paths.our_node(question.node.id)
    create = store.WriteOp(store.CREATE_EPHEMERAL, path, encode_node(question.node))
    yield from conversations.create_missing((paths.OUR_NODES,))
    while True:
        session = yield conversations.GetSessionIds()
        (node,) = yield from conversations.data_of((path,))
        if node.code == store.OK and node.owner == session.current and node.data == create.data:
            return Done()
        clear = (store.WriteOp(store.DELETE, path, None, store.ANY_VERSION),) if node.code == store.OK else ()
        reply = yield from conversations.transact(
            (*clear, create), store.CONNECTION_LOSS, store.NODE_EXISTS, store.NO_NODE
        )
        if reply.code == store.OK:
            return Done()


def get_nodes(question: zookeeper.GetNodes) -> conversations.Conversation:
    """Return the live nodes of this project, sorted by id.

    An unreadable registration is logged, and its id is in `unreadable`.
    """
    (names,) = yield from conversations.children_of((paths.OUR_NODES,))
    node_paths = tuple(f"{paths.OUR_NODES}/{name}" for name in names or ())
    found: list[zookeeper.NodeRegistration] = []
    unreadable: list[str] = []
    for path, node in zip(node_paths, (yield from conversations.data_of(node_paths)), strict=True):
        if node.code == store.NO_NODE:
            continue
        try:
            found.append(decode_node(path, node.data))
        except BadZnode as error:
            node_id = path.rpartition("/")[2]
            logger.error(
                "Ignoring node %s until its registration in %s can be read: %s", node_id, paths.OUR_NODES, error
            )
            unreadable.append(node_id)
    return zookeeper.Nodes(tuple(sorted(found, key=lambda node: node.id)), tuple(unreadable))


def set_feature_versioning(question: zookeeper.SetFeatureVersioning) -> conversations.Conversation:
    """Create /feature, or change its status; no feature exists in ZooKeeper mode.

    Kafka: `KafkaController.enableFeatureVersioning`, `disableFeatureVersioning`.
    """
    status = ENABLED if question.enabled else DISABLED
    while True:
        (node,) = yield from conversations.data_of((paths.FEATURE,))
        if node.code == store.OK:
            try:
                members = znodes.naming(paths.FEATURE, node.data, znodes.parse)
                if members.get("status") == status:
                    return Done()
            except BadZnode as error:
                logger.warning("Replacing a znode that cannot be read: %s", error)
        kind, version = (store.SET, node.version) if node.code == store.OK else (store.CREATE, store.ANY_VERSION)
        data = znodes.encode({"version": 1, "status": status, "features": {}})
        write = store.WriteOp(kind, paths.FEATURE, data, version)
        expected = store.CONNECTION_LOSS, store.NODE_EXISTS, store.NO_NODE, store.BAD_VERSION
        reply = yield from conversations.transact((*conversations.fence(question.epoch_zk_version), write), *expected)
        if reply.code == store.OK:
            return Done()


def take_broker_sequence(question: zookeeper.TakeBrokerSequence) -> conversations.Conversation:
    """Write /brokers/seqid, and return its version. After a lost answer another number is taken, which is harmless."""
    yield from conversations.create_missing((paths.BROKER_SEQUENCE,))
    reply = yield from conversations.transact((store.WriteOp(store.SET, paths.BROKER_SEQUENCE, b""),))
    return zookeeper.BrokerSequence(reply.results[-1].version)


ANSWERS: dict[type, conversations.Starter] = {
    zookeeper.EnsurePaths: ensure_paths,
    zookeeper.FindClusterId: find_cluster_id,
    zookeeper.GetClusterId: get_cluster_id,
    zookeeper.RegisterNode: register_node,
    zookeeper.TakeProducerIds: take_producer_ids,
    zookeeper.SetFeatureVersioning: set_feature_versioning,
    zookeeper.TakeBrokerSequence: take_broker_sequence,
    zookeeper.GetNodes: get_nodes,
}
