"""Handle the responses of brokers to the controller's requests (controller.md 1.4).

Rule: Error codes matter for log directories and deletions only. An error code for a stale controller epoch does not
      make the controller resign; only an event or error from ZooKeeper does (controller.md 5).

Kafka: `KafkaController.processLeaderAndIsrResponseReceived`, `processTopicDeletionStopReplicaResponseReceived`.
"""

from __future__ import annotations

import logging

from actors.core.controller import broker_changes, deletion_steps
from actors.core.controller.context import ControllerContext, Handler
from actors.core.controller.states import ReplicaState
from messages import errors
from messages.cluster import TopicPartition
from messages.error_names import name_of
from messages.events import (
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from messages.flow.conversation import Flow
from messages.probes import probe

log = logging.getLogger("kafka.controller")


def leader_and_isr_answered(context: ControllerContext, event: LeaderAndIsrResponseReceived) -> Flow[None]:
    """Store the partitions with KAFKA_STORAGE_ERROR as offline on the broker that sent the response.

    A partition stays offline on that broker until a later response clears the error. Partitions that no longer exist
    are ignored: a late response must not affect a topic re-created under the same name.
    """
    broker_id, response = event.broker_id, event.response
    if response.error_code != errors.NONE:
        log.error(
            "%s LeaderAndIsr response of broker %d has error %s", context.tag, broker_id, name_of(response.error_code)
        )
        return
    before = context.offline_dirs.get(broker_id, {})
    if not before and all(error.error_code != errors.KAFKA_STORAGE_ERROR for error in response.partition_errors):
        return
    offline = dict(before)
    for partition, code in (
        (_with_name(context, each.partition), each.error_code) for each in response.partition_errors
    ):
        if code == errors.KAFKA_STORAGE_ERROR and partition in context.assignments:
            offline[partition] = None
        elif code == errors.NONE:
            offline.pop(partition, None)
    context.set_offline_dirs(broker_id, offline)
    lost = [partition for partition in offline if partition not in before]
    if lost:
        yield from broker_changes.on_replicas_become_offline(context, {broker_id: lost})


def _with_name(context: ControllerContext, partition: TopicPartition) -> TopicPartition:
    """Return the partition of a response, which may have the topic's id in place of its name."""
    topics = context.topics_by_id.get(partition.topic, ())
    return partition if partition.topic in context.topics or len(topics) != 1 else partition._replace(topic=topics[0])


def update_metadata_answered(context: ControllerContext, event: UpdateMetadataResponseReceived) -> Flow[None]:
    """Log an error; an UpdateMetadata response has no other effect."""
    if event.response.error_code != errors.NONE:
        log.error(
            "%s UpdateMetadata response of broker %d has error %s",
            context.tag,
            event.broker_id,
            name_of(event.response.error_code),
        )
    yield from ()


def replicas_deleted(context: ControllerContext, event: TopicDeletionStopReplicaResponseReceived) -> Flow[None]:
    """Handle the deletion of replicas by a broker, for topics whose deletion has started.

    If the whole request failed, the deletion of each of its replicas fails; Kafka ignores this error and never finishes
    the deletion (trap T6). An error for an earlier broker epoch is ignored, because another request with the current
    epoch deletes the same replicas.
    """
    broker_id = event.broker_id
    broker = context.brokers.get(broker_id)
    if event.error_code and broker is not None and event.broker_epoch < broker.epoch:
        probe("a broker refuses a deletion that was meant for its earlier registration")
        return
    wrong = {error.partition for error in event.response.partition_errors if error.error_code != errors.NONE}
    concerned = [
        tp
        for tp in event.deleted
        if tp.topic in context.started
        and (not event.error_code or context.replica_state(broker_id, tp) is ReplicaState.DELETION_STARTED)
    ]
    failed = concerned if event.error_code else [tp for tp in concerned if tp in wrong]
    if failed:
        if event.error_code:
            probe("T6 an error of a whole StopReplica request fails its deletions")
        log.error("%s Broker %d failed to delete its replicas of %d partitions", context.tag, broker_id, len(failed))
        yield from deletion_steps.fail(context, {broker_id: failed})
    deleted = [] if event.error_code else [tp for tp in concerned if tp not in wrong]
    if deleted:
        yield from deletion_steps.complete(context, {broker_id: deleted})


EVENTS: dict[type, Handler] = {
    LeaderAndIsrResponseReceived: leader_and_isr_answered,
    UpdateMetadataResponseReceived: update_metadata_answered,
    TopicDeletionStopReplicaResponseReceived: replicas_deleted,
}
