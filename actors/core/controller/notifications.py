"""What brokers let the controller know: by znodes (ISR changes, failed log directories) and by their answers.

Rule 1: notifications are deleted when they have been read, by the names that were read, also where reacting to them
        met an error that the term survives.
Rule 2: an answer's error code matters for log directories and deletions only; a stale epoch never makes the controller
        resign, only ZooKeeper does (controller.md 5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.core.controller import brokers, deleting
from actors.core.controller.context import ControllerContext
from actors.core.controller.instructions import passing
from messages.cluster import Leadership, PartitionReplica, TopicPartition
from messages.conversation import AskFailed, Flow, ask
from messages.errors import KAFKA_STORAGE_ERROR, NONE
from messages.events import (
    IsrChangeNotification,
    LeaderAndIsrResponseReceived,
    LogDirEventNotification,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from messages.zookeeper import (
    DeleteIsrChangeNotifications,
    DeleteLogDirEvents,
    GetIsrChangeNotifications,
    GetLogDirEvents,
    GetPartitionStates,
)

log = logging.getLogger("kafka.controller")


def isr_changed(context: ControllerContext, event: IsrChangeNotification) -> Flow[None]:
    """Leaders changed ISRs: read them again and tell everybody."""
    changes = yield from ask(GetIsrChangeNotifications())
    known = tuple(tp for tp in changes.partitions if tp in context.assignments)
    try:
        if known:
            yield from refresh(context, known)
        if changes.partitions:
            yield from brokers.announce(context, partitions=known)
    except AskFailed as error:
        log.error("%s ISR changes could not be read: %s", context.tag, passing(error))
    if changes.names:
        yield from ask(DeleteIsrChangeNotifications(changes.names, context.epoch_zk_version))


def refresh(context: ControllerContext, partitions: tuple[TopicPartition, ...]) -> Flow[None]:
    """Read the leadership of these partitions again. What cannot be read stays as it was known."""
    read = yield from ask(GetPartitionStates(partitions))
    for partition, _, error in read.states:
        if error:
            log.error("%s the state of %s cannot be read: %s", context.tag, partition, error)
    context.learn_leaderships(Leadership(tp, state) for tp, state, _ in read.states if state is not None)


def log_dirs_failed(context: ControllerContext, event: LogDirEventNotification) -> Flow[None]:
    """Brokers lost log directories: a LeaderAndIsr of all their replicas makes them say which."""
    events = yield from ask(GetLogDirEvents())
    try:
        yield from brokers.replicas_came_online(context, events.broker_ids)
    except AskFailed as error:
        log.error("%s replicas could not be probed: %s", context.tag, passing(error))
    if events.names:
        yield from ask(DeleteLogDirEvents(events.names, context.epoch_zk_version))


def leader_and_isr_answered(context: ControllerContext, event: LeaderAndIsrResponseReceived) -> Flow[None]:
    """Partitions that the broker's disks cannot serve are offline there, until it says otherwise.

    A late answer may speak of a partition that is gone; a topic made anew under its name must not suffer for it.
    """
    broker_id, response = event.broker_id, event.response
    if response.error_code != NONE:
        log.error("%s LeaderAndIsr: broker %d answers with error %d", context.tag, broker_id, response.error_code)
        return
    before = context.offline_dirs.get(broker_id, {})
    if not before and all(error.error_code != KAFKA_STORAGE_ERROR for error in response.partition_errors):
        return
    offline = dict(before)
    for partition, code in ((error.partition, error.error_code) for error in response.partition_errors):
        if code == KAFKA_STORAGE_ERROR and partition in context.assignments:
            offline[partition] = None
        elif code == NONE:
            offline.pop(partition, None)
    if offline:
        context.offline_dirs[broker_id] = offline
    else:
        context.offline_dirs.pop(broker_id, None)
    lost = [partition for partition in offline if partition not in before]
    if lost:
        yield from brokers.on_replicas_become_offline(context, {broker_id: lost})


def update_metadata_answered(context: ControllerContext, event: UpdateMetadataResponseReceived) -> None:
    """Nothing follows from it."""
    if event.response.error_code != NONE:
        log.error(
            "%s UpdateMetadata: broker %d answers with error %d",
            context.tag,
            event.broker_id,
            event.response.error_code,
        )


def replicas_deleted(context: ControllerContext, event: TopicDeletionStopReplicaResponseReceived) -> Flow[None]:
    """A broker deleted replicas, or could not. Only topics whose deletion has started are concerned.

    An error of the whole request fails all its replicas: Kafka loses it, and the deletion with it (trap T6).
    """
    concerned = [tp for tp in event.deleted if tp.topic in context.started]
    if not concerned:
        return
    codes = {error.partition: error.error_code for error in event.response.partition_errors}
    failed: list[PartitionReplica] = []
    deleted: list[PartitionReplica] = []
    for partition in concerned:
        code = event.error_code or codes.get(partition, NONE)
        (deleted if code == NONE else failed).append(PartitionReplica(partition, event.broker_id))
    if failed:
        log.error("%s broker %d could not delete replicas of %s", context.tag, event.broker_id, failed)
        yield from deleting.fail(context, failed)
    if deleted:
        yield from deleting.complete(context, deleted)


EVENTS: dict[type, Callable[..., Flow[None] | None]] = {
    IsrChangeNotification: isr_changed,
    LogDirEventNotification: log_dirs_failed,
    LeaderAndIsrResponseReceived: leader_and_isr_answered,
    UpdateMetadataResponseReceived: update_metadata_answered,
    TopicDeletionStopReplicaResponseReceived: replicas_deleted,
}
