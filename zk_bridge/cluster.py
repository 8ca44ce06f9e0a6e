"""ZooKeeper operations that create Kafka's parent znodes, read the cluster id and register nodes (broker.md 7.1)."""

from __future__ import annotations

import logging

from messages.ask import BadZnode, Done
from messages.store import (
    ANY_VERSION,
    BAD_VERSION,
    CONNECTION_LOSS,
    CREATE,
    CREATE_EPHEMERAL,
    DELETE,
    NO_NODE,
    NODE_EXISTS,
    OK,
    SET,
    WriteOp,
)
from messages.zookeeper import (
    ClusterId,
    EnsurePaths,
    FindClusterId,
    GetClusterId,
    GetNodes,
    NoCluster,
    NodeRegistration,
    Nodes,
    ProducerIds,
    RegisterNode,
    TakeProducerIds,
)
from zk_bridge import paths, znodes
from zk_bridge.conversations import Conversation, GetSessionIds, Starter, children_of, create_missing, data_of, transact

logger = logging.getLogger(__name__)

PRODUCER_IDS_AT_ONCE = 1000
"""Number of producer ids in a broker's block."""


def ensure_paths(question: EnsurePaths) -> Conversation:
    """Create the persistent znodes that Kafka needs. Each node of the cluster does this when it starts."""
    yield from create_missing(paths.PERSISTENT)
    return Done()


def get_cluster_id(question: GetClusterId) -> Conversation:
    """Return the cluster id. If the znode is absent, create it with the proposed id; the first creation wins."""
    while True:
        (node,) = yield from data_of((paths.CLUSTER_ID,))
        if node.code == OK:
            return ClusterId(znodes.decode_cluster_id(paths.CLUSTER_ID, node.data))
        yield from create_missing((paths.CLUSTER,))
        create = WriteOp(CREATE, paths.CLUSTER_ID, znodes.encode_cluster_id(question.proposed))
        yield from transact((create,), CONNECTION_LOSS, NODE_EXISTS)


def find_cluster_id(question: FindClusterId) -> Conversation:
    """Return the cluster id, or NoCluster if it is not set."""
    (node,) = yield from data_of((paths.CLUSTER_ID,))
    if node.code != OK:
        return NoCluster()
    return ClusterId(znodes.decode_cluster_id(paths.CLUSTER_ID, node.data))


def take_producer_ids(question: TakeProducerIds) -> Conversation:
    """Take the block of producer ids that follows the last block taken by any broker.

    Retry as long as another broker writes first.

    If the answer to a successful write is lost, another block is taken. The lost block stays unused, which is harmless.
    """
    while True:
        (node,) = yield from data_of((paths.PRODUCER_IDS,))
        if node.code != OK:
            yield from create_missing((paths.PRODUCER_IDS,))
            continue
        start = znodes.decode_producer_ids(paths.PRODUCER_IDS, node.data, PRODUCER_IDS_AT_ONCE)
        data = znodes.encode_producer_ids(question.broker_id, start, PRODUCER_IDS_AT_ONCE)
        take = WriteOp(SET, paths.PRODUCER_IDS, data, node.version)
        reply = yield from transact((take,), CONNECTION_LOSS, BAD_VERSION, NO_NODE)
        if reply.code == OK:
            return ProducerIds(start, start + PRODUCER_IDS_AT_ONCE)


def register_node(question: RegisterNode) -> Conversation:
    """Create this node's ephemeral registration. Replace one that was left by an earlier process with this id."""
    path = paths.our_node(question.node.id)
    create = WriteOp(CREATE_EPHEMERAL, path, znodes.encode_node(question.node))
    yield from create_missing((paths.OUR_NODES,))
    while True:
        session = yield GetSessionIds()
        (node,) = yield from data_of((path,))
        if node.code == OK and node.owner == session.current and node.data == create.data:
            return Done()
        clear = (WriteOp(DELETE, path, None, ANY_VERSION),) if node.code == OK else ()
        reply = yield from transact((*clear, create), CONNECTION_LOSS, NODE_EXISTS, NO_NODE)
        if reply.code == OK:
            return Done()


def get_nodes(question: GetNodes) -> Conversation:
    """Return the live nodes of this project, sorted by id.

    An unreadable registration is logged, and its id is in `unreadable`.
    """
    (names,) = yield from children_of((paths.OUR_NODES,))
    node_paths = tuple(f"{paths.OUR_NODES}/{name}" for name in names or ())
    found: list[NodeRegistration] = []
    unreadable: list[str] = []
    for path, node in zip(node_paths, (yield from data_of(node_paths)), strict=True):
        if node.code == NO_NODE:
            continue
        try:
            found.append(znodes.decode_node(path, node.data))
        except BadZnode as error:
            node_id = path.rpartition("/")[2]
            logger.error(
                "Ignoring node %s until its registration in %s can be read: %s", node_id, paths.OUR_NODES, error
            )
            unreadable.append(node_id)
    return Nodes(tuple(sorted(found, key=lambda node: node.id)), tuple(unreadable))


ANSWERS: dict[type, Starter] = {
    EnsurePaths: ensure_paths,
    FindClusterId: find_cluster_id,
    GetClusterId: get_cluster_id,
    RegisterNode: register_node,
    TakeProducerIds: take_producer_ids,
    GetNodes: get_nodes,
}
