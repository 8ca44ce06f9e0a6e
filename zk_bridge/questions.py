"""A table of the bridge's request classes, each with the generator function that handles its requests."""

from __future__ import annotations

from zk_bridge import (
    brokers,
    cluster,
    configs,
    controller,
    leader_elections,
    notifications,
    partition_states,
    reassignments,
    topic_deletion,
    topics,
    watches,
)
from zk_bridge.conversations import Starter

CONVERSATIONS: dict[type, Starter] = {
    **cluster.ANSWERS,
    **controller.ANSWERS,
    **watches.ANSWERS,
    **brokers.ANSWERS,
    **topics.ANSWERS,
    **configs.ANSWERS,
    **partition_states.ANSWERS,
    **topic_deletion.ANSWERS,
    **leader_elections.ANSWERS,
    **reassignments.ANSWERS,
    **notifications.ANSWERS,
}
"""Class of a request -> the generator function that handles it."""
