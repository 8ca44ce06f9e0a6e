"""Handle the election, the failover and the resignation of the controller (controller.md 7.1-7.3).

Rule 1: The controller is active from its election in ZooKeeper until it resigns. This period is its term. A /controller
        with this node's id from an earlier term or process does not make this node active.
Rule 2: A term begins without any state. All state is read from ZooKeeper, and each watch is set before its data is
        read.
Rule 3: All state is cleared at the end of a term. A term ends with another controller's election, an expired session, a
        write with an unknown outcome, a failure to begin the term, or an unexpected error in an event (`failures`).
Rule 4: /controller belongs to the ZooKeeper session that created it. An inactive node deletes a /controller of its own
        session, and the deletion starts an election. The node deletes it at the end of the term or, if ZooKeeper cannot
        be reached then, at its next read of /controller.
Rule 5: A node that fails to begin a term backs off for one second. Kafka does not back off: if the cause persists, such
        as a broker without the inter-broker listener, all candidates are elected in turn without a pause.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import repeat

from actors.core.controller import (
    deletion_steps,
    features,
    leader_balance,
    log_text,
    notifications,
    partition_state_machine,
    reassignment,
    replica_state_machine,
    topic_changes,
    unclean_election,
)
from actors.core.controller.batch import announce
from actors.core.controller.context import ClearedTable, ControllerContext
from actors.core.controller.instructions import CloseAllChannels, Enqueue, OpenChannel
from messages import zookeeper
from messages.ask import AskFailed, ControllerMoved, SessionLost
from messages.cluster import NO_CONTROLLER
from messages.events import EVENTS, Reelect
from messages.flow.conversation import SLICE, Flow, ask, for_each
from messages.probes import probe

log = logging.getLogger("kafka.controller")

HOLD_BACK_SECONDS = 1.0

CLEARED = 20_000
"""Number of partitions whose entries of a table are freed at once, in at most 5 ms."""

TERM_EVENTS = tuple(event.__name__ for event in EVENTS if event.watch is not None and event.watch.of_term)
"""Names of the events that are watched during a term only."""


def elect(context: ControllerContext, timestamp_ms: int) -> Flow[None]:
    """Resign if /controller is not of this term; join the election if the znode is absent and no back-off runs.

    After a ControllerChange, Kafka resigns and does nothing else. Here the node also joins the election: the elected
    controller's znode may be deleted before this node reads it, and that deletion fires no watch.

    Args:
        timestamp_ms: Timestamp for /controller, in milliseconds.
    """
    current = yield from ask(zookeeper.GetController())
    if context.active:
        if (current.broker_id, current.epoch) == (context.broker_id, context.epoch):
            return
        yield from resign(context)
    current = yield from _clear(context, current)
    if current.broker_id != NO_CONTROLLER:
        log.debug(
            "%s Broker %d has been elected as the controller, so stopping the election process.",
            *(context.tag, current.broker_id),
        )
    elif not context.backing_off:
        yield from _join_election(context, timestamp_ms)


def resign_after_refusal(context: ControllerContext) -> Flow[None]:
    """Resign after a write was refused because /controller_epoch had changed.

    Another controller was elected, or another client raised the epoch.

    If another client raised the epoch, /controller still has this node's id, and no controller would be elected. The
    znode is therefore deleted (rule 4). The watch on /controller then starts an election. The winner's epoch is above
    the raised epoch. Apache's brokers stay without a controller in this case.
    """
    yield from resign(context)
    yield from _clear(context, (yield from ask(zookeeper.GetController())))


def resign_after_expiry(context: ControllerContext) -> Flow[None]:
    """Resign after the session expired, which deleted /controller."""
    yield from resign(context)


def trigger_controller_move(context: ControllerContext) -> Flow[None]:
    """Resign and delete /controller (Kafka's triggerControllerMove).

    The next controller, possibly this node, loads all state.
    """
    if not context.active:
        return
    yield from resign(context)
    try:
        yield from _clear(context, (yield from ask(zookeeper.GetController())))
    except AskFailed as error:
        log.warning("%s Failed to delete /controller, retrying later: %s", context.tag, error)


def reload(context: ControllerContext, timestamp_ms: int) -> Flow[None]:
    """Resign and join the election at once, before other candidates.

    The caller has already logged the unexpected error and counted it in a gauge of this node.
    """
    yield from resign(context)
    current = yield from _clear(context, (yield from ask(zookeeper.GetController())))
    if current.broker_id == NO_CONTROLLER:
        yield from _join_election(context, timestamp_ms)


def resign(context: ControllerContext) -> Flow[None]:
    """Clear the state of the term (Kafka's onControllerResignation).

    The only message that is sent to the ZooKeeper bridge is StopWatching. The call is also safe if this node is not
    active.
    """
    was_active = context.active
    if was_active:
        log.info("%s Resigned", context.tag)
    tables, parts = context.tables(), context.last_metadata_parts
    context.reset()
    yield CloseAllChannels()
    if was_active:
        yield from deletion_steps.end(context)
        yield from ask(zookeeper.StopWatching(TERM_EVENTS))
    for table, partitions in ((parts, SLICE), *zip(tables, repeat(1))):
        yield from _free(table, partitions)


def _free(table: ClearedTable, partitions: int) -> Flow[None]:
    """Empty an unused table in parts, because freeing 100,000 entries at once takes 20 ms or more.

    The last entries are freed at once, which takes a fifth of the time.

    Args:
        partitions: Number of partitions of an entry.
    """
    remove = table.pop if isinstance(table, list) else table.popitem

    def free(part: Sequence[None]) -> None:
        if len(table) * partitions <= CLEARED:
            table.clear()
        else:
            for _ in part:
                remove()

    yield from for_each(repeat(None, len(table)), free, SLICE // partitions)


def _clear(context: ControllerContext, current: zookeeper.ControllerRead) -> Flow[zookeeper.ControllerRead]:
    """Delete /controller if this session created it for an ended term (rule 4).

    Returns:
        A read without a controller if this call deleted /controller, otherwise `current`.
    """
    if context.active or not current.ours:
        return current
    probe("a controller deletes its own /controller after its term")
    try:
        yield from ask(zookeeper.ResignController())
    except ControllerMoved:
        log.warning("%s Failed to delete /controller: it was already deleted", context.tag)
        return current
    return zookeeper.ControllerRead(NO_CONTROLLER, current.epoch)


def _join_election(context: ControllerContext, timestamp_ms: int) -> Flow[None]:
    """Join the election, and begin the term if this node wins."""
    outcome = yield from ask(zookeeper.Elect(context.broker_id, timestamp_ms))
    if isinstance(outcome, zookeeper.NotElected):
        log.debug(
            "%s Broker %d was elected as controller instead of broker %d",
            *(context.tag, outcome.broker_id, context.broker_id),
        )
        return
    context.begin_term(outcome.epoch, outcome.epoch_zk_version)
    log.info(
        "%s %d successfully elected as the controller. Epoch incremented to %d and epoch zk version is now %d",
        *(context.tag, context.broker_id, context.epoch, context.epoch_zk_version),
    )
    try:
        yield from _begin(context)
    except (ControllerMoved, SessionLost):
        raise
    except Exception as error:
        probe("the term of a controller cannot begin")
        log.error(
            "%s Error while electing or becoming controller. Trigger controller movement immediately: %s",
            context.tag,
            error,
            exc_info=error,
        )
        context.set_backing_off(True)
        yield Enqueue(Reelect(), HOLD_BACK_SECONDS)
        yield from trigger_controller_move(context)


def _begin(context: ControllerContext) -> Flow[None]:
    """Begin the term in the order of Kafka's onControllerFailover (controller.md 7.2)."""
    yield from ask(zookeeper.StartWatching(TERM_EVENTS))
    yield from features.set_versioning(context)
    log_dirs = yield from ask(zookeeper.GetLogDirEvents())
    if log_dirs.names:
        yield from ask(zookeeper.DeleteLogDirEvents(log_dirs.names, context.epoch_zk_version))
    isr_changes = yield from ask(zookeeper.GetIsrChangeNotifications())
    if isr_changes.names:
        yield from ask(zookeeper.DeleteIsrChangeNotifications(isr_changes.names, context.epoch_zk_version))
    yield from unclean_election.learn_default(context)
    yield from _load(context)
    requested = yield from ask(zookeeper.GetTopicDeletions())
    yield from _begin_deletions(context, requested.topics)
    # Before any LeaderAndIsr: a follower finds its leader's address in the broker list of UpdateMetadata.
    yield from announce(context)
    if not (yield from replica_state_machine.start(context)):
        yield from deletion_steps.correct(context, context.deletions.queued)
    yield from partition_state_machine.start(context)
    yield from reassignment.begin(context)
    log.info("%s Ready to serve as the new controller with epoch %d", context.tag, context.epoch)
    yield from deletion_steps.resume(context)
    yield from leader_balance.begin(context)


def _load(context: ControllerContext) -> Flow[None]:
    """Load brokers, topics, assignments and leaderships, and open a channel to each broker."""
    registered = yield from ask(zookeeper.GetBrokers())
    for broker in registered.brokers:
        context.add_broker(broker)
    names = yield from ask(zookeeper.GetTopics())
    for topic in names.topics:
        context.add_topic(topic)
    yield from topic_changes.learn_assignments(context, names.topics)
    yield from ask(zookeeper.WatchBrokers((*context.brokers, *registered.unreadable)))
    if context.assignments:
        yield from notifications.refresh(context, context.assignments)
    for broker in context.brokers.values():
        yield OpenChannel(broker.id, context.endpoint(broker))
    log.info(
        "%s Currently active brokers in the cluster: %s", context.tag, log_text.scala_collection(tuple(context.brokers))
    )
    log.info(
        "%s Current list of topics in the cluster: %s", context.tag, log_text.scala_collection(tuple(context.topics))
    )


def _begin_deletions(context: ControllerContext, requested: tuple[str, ...]) -> Flow[None]:
    """Queue the topics of /admin/delete_topics. Topics with an offline replica are ineligible (controller.md 6.1).

    The deletion of a topic ends the topic's reassignments. So a topic that is being reassigned is eligible, even with
    an offline replica. Otherwise no replica of it would be deleted while a target broker is down.
    """
    if not context.settings.delete_topic_enable:
        probe("T15 a controller begins its term where deletion is disabled")
        yield from deletion_steps.forget_requests(context, requested)
        return
    ended = yield from reassignment.end_for_deletion(context, requested)
    offline = {tp.topic: None for partitions in context.offline_replicas().values() for tp in partitions}
    if requested and offline.keys() & set(requested):
        probe("a controller begins its term with a deletion that waits for a broker")
    yield from deletion_steps.begin(context, requested, [topic for topic in offline if topic not in ended])
