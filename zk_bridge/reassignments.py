"""ZooKeeper operations on the reassignments that admin tools request, and their data (controller.md 2.2, 7.7)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from messages import store
from messages.ask import BadZnode
from messages.cluster import TopicPartition
from messages.zookeeper import (
    GetReassignments,
    Reassignments,
    RemoveReassignments,
    RequestedReassignment,
)
from zk_bridge import conversations, paths, znodes

logger = logging.getLogger(__name__)


def encode_reassignments(requests: Iterable[RequestedReassignment]) -> bytes:
    """Encode partitions with their requested replicas."""
    return znodes.encode(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": number, "replicas": list(replicas)}
                for (topic, number), replicas in requests
            ],
        }
    )


def decode_reassignments(path: str, data: bytes | None) -> tuple[RequestedReassignment, ...]:
    """Decode partitions with their requested replicas. For a duplicate partition the last entry counts, as in Kafka."""

    def read(data: bytes | None) -> tuple[RequestedReassignment, ...]:
        found: dict[TopicPartition, tuple[int, ...]] = {}
        for each in znodes.member(znodes.parse(data), "partitions", list):
            if type(each) is not dict:
                raise znodes.InvalidValue(f"partitions holds {znodes.shortened_repr(each)}, expected objects")
            name = znodes.valid_text(znodes.member(each, "topic", str), "topic")
            partition = TopicPartition(name, znodes.number_member(each, "partition", least=0))
            found[partition] = znodes.broker_ids(znodes.member(each, "replicas", list), f"replicas of {partition}")
        return tuple(RequestedReassignment(*entry) for entry in found.items())

    requests: tuple[RequestedReassignment, ...] = znodes.naming(path, data, read)
    return requests


def get_reassignments(question: GetReassignments) -> conversations.Conversation:
    """Return the requested reassignments."""
    path = (paths.REASSIGNMENTS,)
    (node,) = yield from conversations.data_of(path, watches=store.Watches(exists=path if question.watch else ()))
    return Reassignments(node.code == store.OK, _requests(node))


def forget_reassignments(question: RemoveReassignments) -> conversations.Conversation:
    """Remove requests from the znode.

    The write checks the znode's version. After a concurrent change by an admin tool, the znode is read again.
    """
    done = frozenset(question.requests)
    while True:
        (node,) = yield from conversations.data_of((paths.REASSIGNMENTS,))
        if node.code == store.NO_NODE:
            return Reassignments(False)
        requests = _requests(node)
        left = tuple(each for each in requests if each not in done)
        if left and len(left) == len(requests):
            return Reassignments(True, left)
        data = encode_reassignments(left) if left else None
        op = store.WriteOp(store.SET if left else store.DELETE, paths.REASSIGNMENTS, data, node.version)
        ops = (*conversations.fence(question.epoch_zk_version), op)
        reply = yield from conversations.transact(ops, store.CONNECTION_LOSS, store.BAD_VERSION, store.NO_NODE)
        if reply.code == store.OK:
            return Reassignments(bool(left), left)


def _requests(node: store.Znode) -> tuple[RequestedReassignment, ...]:
    """The reassignments that the znode requests; empty if it is absent or unreadable."""
    try:
        return () if node.code == store.NO_NODE else decode_reassignments(paths.REASSIGNMENTS, node.data)
    except BadZnode as error:
        logger.warning("Ignoring an unreadable request for reassignments: %s", error)
        return ()


ANSWERS: dict[type, conversations.Starter] = {
    GetReassignments: get_reassignments,
    RemoveReassignments: forget_reassignments,
}
