"""Handle the notifications that brokers write to ZooKeeper: ISR changes and failed log directories (controller.md 1.4).

Rule: After the notifications are handled, exactly the znodes that were read are deleted. They are deleted also if the
      handling failed with an error after which the controller continues.

Kafka: `KafkaController.processIsrChangeNotification`, `processLogDirEventNotification`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from actors.core.controller import broker_changes, log_text
from actors.core.controller.batch import announce
from actors.core.controller.context import ControllerContext, Handler
from actors.core.controller.failures import passing
from actors.core.controller.leadership import refuse
from messages.ask import AskFailed
from messages.cluster import Leadership, TopicPartition
from messages.events import (
    READ_STATE,
    IsrChangeNotification,
    LogDirEventNotification,
)
from messages.flow.conversation import SLICE, Flow, ask, for_each
from messages.zookeeper import (
    DeleteIsrChangeNotifications,
    DeleteLogDirEvents,
    GetIsrChangeNotifications,
    GetLogDirEvents,
    GetPartitionStates,
)

log = logging.getLogger("kafka.controller")

STATES_READ = 2 * SLICE
"""Number of leaderships in one read, at about 1.5 microseconds each to store."""


def isr_changed(context: ControllerContext, event: IsrChangeNotification) -> Flow[None]:
    """Read the states of the partitions whose ISR a broker has changed, and send them to all brokers."""
    changes = yield from ask(GetIsrChangeNotifications())
    known = tuple(tp for tp in changes.partitions if tp in context.assignments)
    try:
        if known:
            yield from refresh(context, known)
        if changes.partitions:
            yield from announce(context, partitions=dict.fromkeys(known))
    except AskFailed as error:
        log.error("%s Failed to read ISR change notifications: %s", context.tag, passing(error))
    if changes.names:
        yield from ask(DeleteIsrChangeNotifications(changes.names, context.epoch_zk_version))


def refresh(context: ControllerContext, partitions: Iterable[TopicPartition]) -> Flow[None]:
    """Read and cache the leaderships of these partitions; if a read fails, the cached leadership is kept."""

    def learn(part: Sequence[TopicPartition]) -> Flow[None]:
        read = yield from ask(GetPartitionStates(tuple(part)))
        yield from refuse(context, READ_STATE, {tp: error for tp, _, error in read.states if error})
        context.learn_leaderships(Leadership(tp, state) for tp, state, _ in read.states if state is not None)

    yield from for_each(partitions, learn, STATES_READ)


def log_dirs_failed(context: ControllerContext, event: LogDirEventNotification) -> Flow[None]:
    """Handle failed log directories: send each affected broker LeaderAndIsr for all its replicas.

    The responses report which replicas are offline.
    """
    events = yield from ask(GetLogDirEvents())
    log.info("%s Handling log directory failure for brokers %s", context.tag, log_text.join_values(events.broker_ids))
    try:
        yield from broker_changes.replicas_came_online(context, events.broker_ids)
    except AskFailed as error:
        log.error("%s Failed to process log directory failures: %s", context.tag, passing(error))
    if events.names:
        yield from ask(DeleteLogDirEvents(events.names, context.epoch_zk_version))


EVENTS: dict[type, Handler] = {
    IsrChangeNotification: isr_changed,
    LogDirEventNotification: log_dirs_failed,
}
