"""ZooKeeper operations on the reassignments that admin tools request (controller.md 2.2, 7.7)."""

from __future__ import annotations

import logging

from messages.ask import BadZnode, Done
from messages.store import BAD_VERSION, CONNECTION_LOSS, CREATE, DELETE, NO_NODE, NODE_EXISTS, OK, SET, WriteOp, Znode
from messages.zookeeper import (
    GetReassignments,
    Reassignments,
    RemoveReassignments,
    RequestedReassignment,
    RequestReassignments,
)
from zk_bridge import paths, znodes
from zk_bridge.conversations import Arm, Conversation, Starter, create_missing, data_of, fence, transact

logger = logging.getLogger(__name__)


def get_reassignments(question: GetReassignments) -> Conversation:
    """Return the requested reassignments."""
    if question.watch:
        yield Arm(exists=(paths.REASSIGNMENTS,))
    (node,) = yield from data_of((paths.REASSIGNMENTS,))
    return Reassignments(node.code == OK, _requests(node))


def request_reassignments(question: RequestReassignments) -> Conversation:
    """Request reassignments, if the znode is absent.

    If the znode has the requested data, an earlier attempt wrote it and only the answer was lost.

    Returns:
        Done, or Reassignments with the request that exists already.
    """
    data = znodes.encode_reassignments(question.requests)
    while True:
        reply = yield from transact((WriteOp(CREATE, paths.REASSIGNMENTS, data),), NODE_EXISTS, NO_NODE)
        if reply.code == OK:
            return Done()
        if reply.code == NO_NODE:
            yield from create_missing(paths.ancestors(paths.REASSIGNMENTS))
            continue
        (node,) = yield from data_of((paths.REASSIGNMENTS,))
        if node.code == OK:
            return Done() if node.data == data else Reassignments(True, _requests(node))


def forget_reassignments(question: RemoveReassignments) -> Conversation:
    """Remove requests from the znode.

    The write checks the znode's version. After a concurrent change by an admin tool, the znode is read again.
    """
    done = frozenset(question.requests)
    while True:
        (node,) = yield from data_of((paths.REASSIGNMENTS,))
        if node.code == NO_NODE:
            return Reassignments(False)
        requests = _requests(node)
        left = tuple(each for each in requests if each not in done)
        if left and len(left) == len(requests):
            return Reassignments(True, left)
        data = znodes.encode_reassignments(left) if left else None
        op = WriteOp(SET if left else DELETE, paths.REASSIGNMENTS, data, node.version)
        ops = (*fence(question.epoch_zk_version), op)
        reply = yield from transact(ops, CONNECTION_LOSS, BAD_VERSION, NO_NODE)
        if reply.code == OK:
            return Reassignments(bool(left), left)


def _requests(node: Znode) -> tuple[RequestedReassignment, ...]:
    """The reassignments that the znode requests; empty if it is absent or unreadable."""
    try:
        return () if node.code == NO_NODE else znodes.decode_reassignments(paths.REASSIGNMENTS, node.data)
    except BadZnode as error:
        logger.warning("Ignoring an unreadable request for reassignments: %s", error)
        return ()


ANSWERS: dict[type, Starter] = {
    GetReassignments: get_reassignments,
    RequestReassignments: request_reassignments,
    RemoveReassignments: forget_reassignments,
}
