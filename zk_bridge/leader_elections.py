"""ZooKeeper operations on the leader elections that admin tools request (controller.md 2.2)."""

from __future__ import annotations

import logging

from messages.ask import BadZnode, Done
from messages.store import NO_NODE, Watches
from messages.zookeeper import DeletePreferredElections, GetPreferredElections, PreferredElections
from zk_bridge import conversations, paths
from zk_bridge.notifications import decoding_partitions

logger = logging.getLogger(__name__)


def get_preferred_elections(question: GetPreferredElections) -> conversations.Conversation:
    """Return the partitions for which a preferred leader election is requested.

    An unreadable request counts as a request without partitions.
    """
    path = (paths.PREFERRED_ELECTION,)
    (node,) = yield from conversations.data_of(path, watches=Watches(exists=path))
    if node.code == NO_NODE:
        return PreferredElections(False)
    try:
        found = yield from conversations.in_pauses(decoding_partitions(paths.PREFERRED_ELECTION, node.data))
    except BadZnode as error:
        logger.warning("Ignoring an unreadable request for preferred leader elections: %s", error)
        found = ()
    return PreferredElections(True, tuple(dict.fromkeys(found)))


def forget_preferred_elections(question: DeletePreferredElections) -> conversations.Conversation:
    """Delete the request for preferred leader elections, after the elections were held."""
    yield from conversations.delete_present((paths.PREFERRED_ELECTION,), question.epoch_zk_version)
    return Done()


ANSWERS: dict[type, conversations.Starter] = {
    GetPreferredElections: get_preferred_elections,
    DeletePreferredElections: forget_preferred_elections,
}
