"""ZooKeeper operations that create Kafka's parent znodes, read the cluster id and register nodes (broker.md 7.1)."""

from __future__ import annotations

import logging

from messages import store, zookeeper
from messages.ask import BadZnode, Done
from zk_bridge import conversations, paths, znodes

logger = logging.getLogger(__name__)

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
            return zookeeper.ClusterId(znodes.decode_cluster_id(paths.CLUSTER_ID, node.data))
        yield from conversations.create_missing((paths.CLUSTER,))
        create = store.WriteOp(store.CREATE, paths.CLUSTER_ID, znodes.encode_cluster_id(question.proposed))
        yield from conversations.transact((create,), store.CONNECTION_LOSS, store.NODE_EXISTS)


def find_cluster_id(question: zookeeper.FindClusterId) -> conversations.Conversation:
    """Return the cluster id, or NoCluster if it is not set."""
    (node,) = yield from conversations.data_of((paths.CLUSTER_ID,))
    if node.code != store.OK:
        return zookeeper.NoCluster()
    return zookeeper.ClusterId(znodes.decode_cluster_id(paths.CLUSTER_ID, node.data))


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
        start = znodes.decode_producer_ids(paths.PRODUCER_IDS, node.data, PRODUCER_IDS_AT_ONCE)
        data = znodes.encode_producer_ids(question.broker_id, start, PRODUCER_IDS_AT_ONCE)
        take = store.WriteOp(store.SET, paths.PRODUCER_IDS, data, node.version)
        reply = yield from conversations.transact((take,), store.CONNECTION_LOSS, store.BAD_VERSION, store.NO_NODE)
        if reply.code == store.OK:
            return zookeeper.ProducerIds(start, start + PRODUCER_IDS_AT_ONCE)


def register_node(question: zookeeper.RegisterNode) -> conversations.Conversation:
    """Create this node's ephemeral registration. Replace one that was left by an earlier process with this id."""
    path = paths.our_node(question.node.id)
    create = store.WriteOp(store.CREATE_EPHEMERAL, path, znodes.encode_node(question.node))
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
            found.append(znodes.decode_node(path, node.data))
        except BadZnode as error:
            node_id = path.rpartition("/")[2]
            logger.error(
                "Ignoring node %s until its registration in %s can be read: %s", node_id, paths.OUR_NODES, error
            )
            unreadable.append(node_id)
    return zookeeper.Nodes(tuple(sorted(found, key=lambda node: node.id)), tuple(unreadable))


ANSWERS: dict[type, conversations.Starter] = {
    zookeeper.EnsurePaths: ensure_paths,
    zookeeper.FindClusterId: find_cluster_id,
    zookeeper.GetClusterId: get_cluster_id,
    zookeeper.RegisterNode: register_node,
    zookeeper.TakeProducerIds: take_producer_ids,
    zookeeper.GetNodes: get_nodes,
}
