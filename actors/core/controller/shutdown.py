"""Handle controlled shutdown: move leadership from a broker to others before it stops (controller.md 7.4).

Kafka: `KafkaController.doControlledShutdown`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from actors.core.controller import elections
from actors.core.controller.batch import RequestBatch
from actors.core.controller.context import ControllerContext
from actors.core.controller.partition_state_machine import move_partitions
from actors.core.controller.replica_state_machine import move_replicas
from actors.core.controller.states import PartitionState, ReplicaState
from messages import errors
from messages.apis.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from messages.cluster import UNKNOWN_BROKER_EPOCH, TopicPartition
from messages.flow.conversation import Flow, for_each, select
from messages.probes import probe

log = logging.getLogger("kafka.controller")


def controlled_shutdown(
    context: ControllerContext, request: ControlledShutdownRequest
) -> Flow[ControlledShutdownResponse]:
    """Move the broker's leaderships to other brokers and remove its replicas from the ISRs.

    Only partitions with another replica are moved. The broker counts as shutting down until its registration is gone.

    Returns:
        A response with the partitions that the broker still leads.
    """
    broker_id = request.broker_id
    broker = context.brokers.get(broker_id)
    if broker is None:
        probe("T9 a broker that is not registered requests its shutdown")
        return ControlledShutdownResponse(errors.BROKER_NOT_AVAILABLE)
    if request.broker_epoch != UNKNOWN_BROKER_EPOCH and request.broker_epoch < broker.epoch:
        log.warning(
            "%s Received controlled shutdown request from an old broker epoch of broker %d", context.tag, broker_id
        )
        return ControlledShutdownResponse(errors.STALE_BROKER_EPOCH)
    log.info("%s Shutting down broker %d", context.tag, broker_id)
    context.begin_shutdown(broker_id)
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    batch, leadership = RequestBatch(context), context.leadership

    def sort(part: Sequence[TopicPartition]) -> None:
        movable = [tp for tp in part if _is_movable(context, tp)]
        led.extend(tp for tp in movable if leadership[tp].leader == broker_id)
        followed.extend(others := [tp for tp in movable if leadership[tp].leader != broker_id])
        batch.add_stop_replicas(broker_id, others, delete=False)

    yield from for_each(context.hosted.get(broker_id, ()), sort)
    yield from move_partitions(context, led, PartitionState.ONLINE, elections.controlled_shutdown)
    yield from batch.send()
    yield from move_replicas(context, {broker_id: followed}, ReplicaState.OFFLINE)
    remaining = yield from select(led, lambda tp: leadership[tp].leader == broker_id)
    if remaining:
        probe("a broker that shuts down stays the leader where the ISR has no other member")
    return ControlledShutdownResponse(errors.NONE, tuple(remaining))


def _is_movable(context: ControllerContext, partition: TopicPartition) -> bool:
    """Return whether the partition has several replicas and a known leadership, and is not queued for deletion."""
    elsewhere = len(context.assignments[partition].replicas) > 1
    return elsewhere and partition in context.leadership and partition.topic not in context.queued
