"""Handle the election, the failover and the resignation of the controller (controller.md 7.1-7.3).

Rule 1: the active controller is who won the election in ZooKeeper, and only as long as it believes so itself: a
        /controller that names our id from an earlier term or process does not make us active.
Rule 2: a term begins with nothing known: everything is read from ZooKeeper, in an order that sets every watch before
        what it guards is read.
Rule 3: a term ends with everything forgotten. What ends it: another's election, an expired session, a write whose
        outcome is unknown, a beginning that fails, an event with an unexpected error (`failures`).
Rule 4: /controller belongs to its session. A node that finds its own session's znode there, and is not
        active, deletes it: a term given up or taken away ends in an election, at once or, where ZooKeeper cannot be
        reached, as soon as /controller is looked at again.
Rule 5: a node that could not begin a term backs off for a second. Kafka does not: where what hinders it stays, such as
        a broker without the inter-broker listener, its candidates take turns without a pause.
"""

from __future__ import annotations

import logging

from actors.core.controller import (
    deletion_steps,
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
from actors.core.controller.context import ControllerContext
from actors.core.controller.instructions import CloseAllChannels, Enqueue, OpenChannel
from actors.core.controller.slicing import drop
from messages.cluster import NO_CONTROLLER
from messages.conversation import AskFailed, ControllerMoved, Flow, SessionLost, ask
from messages.events import EVENTS, Reelect
from messages.probes import probe
from messages.zookeeper import (
    ControllerRead,
    DeleteIsrChangeNotifications,
    DeleteLogDirEvents,
    Elect,
    GetBrokers,
    GetController,
    GetIsrChangeNotifications,
    GetLogDirEvents,
    GetTopicDeletions,
    GetTopics,
    NotElected,
    ResignController,
    StartWatching,
    StopWatching,
    WatchBrokers,
)

log = logging.getLogger("kafka.controller")

HOLD_BACK_SECONDS = 1.0

TERM_EVENTS = tuple(event.__name__ for event in EVENTS if event.watch is not None and event.watch.of_term)
"""Names of the events whose watches begin and end with a term."""


def elect(context: ControllerContext, timestamp_ms: int) -> Flow[None]:
    """Look at /controller: resign if it is another's, become the controller if there is none.

    Also after a ControllerChange, where Kafka only resigns: the elected controller may be gone again by now, and that
    it went fires no watch. `timestamp_ms` goes into /controller.
    """
    current = yield from ask(GetController())
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
    elif not context.holding_back:
        yield from _stand(context, timestamp_ms)


def deposed(context: ControllerContext) -> Flow[None]:
    """A fence failed: another controller was elected, whatever /controller says by now; or another client raised the
    epoch.

    In that case /controller is still ours, and no other controller would be elected: it is deleted (rule 4), and its
    watch makes all candidates elect above the raised epoch. Apache's controllers stay without a leader there.
    """
    yield from resign(context)
    yield from _clear(context, (yield from ask(GetController())))


def expired(context: ControllerContext) -> Flow[None]:
    """The session is dead, and /controller with it: nothing is left to give up."""
    yield from resign(context)


def give_up(context: ControllerContext) -> Flow[None]:
    """triggerControllerMove: resign and delete /controller; the next controller, maybe this node, starts afresh."""
    if not context.active:
        return
    yield from resign(context)
    try:
        yield from _clear(context, (yield from ask(GetController())))
    except AskFailed as error:
        log.warning("%s Failed to delete /controller, retrying later: %s", context.tag, error)


def reload(context: ControllerContext, timestamp_ms: int) -> Flow[None]:
    """Resign and join the election at once, before other candidates: the reason is known here."""
    yield from resign(context)
    current = yield from _clear(context, (yield from ask(GetController())))
    if current.broker_id == NO_CONTROLLER:
        yield from _stand(context, timestamp_ms)


def resign(context: ControllerContext) -> Flow[None]:
    """onControllerResignation: forget the term. Asks ZooKeeper's bridge only to stop watching; safe when not active."""
    was_active = context.active
    if was_active:
        log.info("%s Resigned", context.tag)
    tables = context.tables()
    context.reset()
    yield CloseAllChannels()
    if was_active:
        yield from deletion_steps.end(context)
        yield from ask(StopWatching(TERM_EVENTS))
    yield from drop(*tables)


def _clear(context: ControllerContext, current: ControllerRead) -> Flow[ControllerRead]:
    """Who is in /controller after we have deleted it where our session made it for a term that is over (rule 4)."""
    if context.active or not current.ours:
        return current
    probe("a controller deletes its own /controller after its term")
    try:
        yield from ask(ResignController())
    except ControllerMoved:
        log.warning("%s /controller was already deleted", context.tag)
        return current
    return ControllerRead(NO_CONTROLLER, current.epoch)


def _stand(context: ControllerContext, timestamp_ms: int) -> Flow[None]:
    """Join the election, and begin the term if it is won."""
    outcome = yield from ask(Elect(context.broker_id, timestamp_ms))
    if isinstance(outcome, NotElected):
        log.debug(
            "%s Broker %d was elected as controller instead of broker %d",
            *(context.tag, outcome.broker_id, context.broker_id),
        )
        return
    context.active = True
    context.epoch, context.epoch_zk_version = outcome.epoch, outcome.epoch_zk_version
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
        context.holding_back = True
        yield Enqueue(Reelect(), HOLD_BACK_SECONDS)
        yield from give_up(context)


def _begin(context: ControllerContext) -> Flow[None]:
    """onControllerFailover, in Kafka's order (7.2)."""
    yield from ask(StartWatching(TERM_EVENTS))
    log_dirs = yield from ask(GetLogDirEvents())
    if log_dirs.names:
        yield from ask(DeleteLogDirEvents(log_dirs.names, context.epoch_zk_version))
    isr_changes = yield from ask(GetIsrChangeNotifications())
    if isr_changes.names:
        yield from ask(DeleteIsrChangeNotifications(isr_changes.names, context.epoch_zk_version))
    yield from unclean_election.learn_default(context)
    yield from _load(context)
    requested = yield from ask(GetTopicDeletions())
    yield from _begin_deletions(context, requested.topics)
    # Before any LeaderAndIsr: the brokers must know one another before they follow one another.
    yield from announce(context)
    if not (yield from replica_state_machine.start(context)):
        yield from deletion_steps.correct(context, context.deletions.queued)
    yield from partition_state_machine.start(context)
    yield from reassignment.begin(context)
    log.info("%s Ready to serve as the new controller with epoch %d", context.tag, context.epoch)
    yield from deletion_steps.resume(context)
    yield from leader_balance.begin(context)


def _load(context: ControllerContext) -> Flow[None]:
    """Brokers, topics, assignments, leaderships; and a channel to each broker."""
    registered = yield from ask(GetBrokers())
    for broker in registered.brokers:
        context.add_broker(broker)
    names = yield from ask(GetTopics())
    for topic in names.topics:
        context.add_topic(topic)
    yield from topic_changes.learn_assignments(context, names.topics)
    yield from ask(WatchBrokers((*context.brokers, *registered.unreadable)))
    # Tables that are filled all at once later on: young ones would be looked through by the collector of garbage.
    context.replica_states.update((broker_id, {}) for broker_id in context.hosted)
    if context.assignments:
        yield from notifications.refresh(context, context.assignments)
    for broker in context.brokers.values():
        yield OpenChannel(broker.id, context.endpoint(broker))
    log.info("%s Currently active brokers in the cluster: %s", context.tag, log_text.listed(tuple(context.brokers)))
    log.info("%s Current list of topics in the cluster: %s", context.tag, log_text.listed(tuple(context.topics)))


def _begin_deletions(context: ControllerContext, requested: tuple[str, ...]) -> Flow[None]:
    """Queue the topics that ZooKeeper has requests for. Topics with an offline replica are halted (controller.md 6.1).

    A topic whose reassignment ends here is not halted: a target that never comes would halt it for ever.
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
