"""Handle controlled shutdown: move the leaders from a broker before it stops (controller.md 7.4).

Kafka: `KafkaController.doControlledShutdown`.
"""

from __future__ import annotations

import logging

from actors.core.controller import elections
from actors.core.controller.batch import RequestBatch
from actors.core.controller.context import ControllerContext
from actors.core.controller.partition_state_machine import move_partitions
from actors.core.controller.replica_state_machine import move_replicas
from actors.core.controller.slicing import chosen
from actors.core.controller.states import PartitionState, ReplicaState
from messages.cluster import UNKNOWN_BROKER_EPOCH, TopicPartition
from messages.error_codes import BROKER_NOT_AVAILABLE, NONE, STALE_BROKER_EPOCH
from messages.flow.conversation import Flow, in_slices
from messages.probes import probe
from messages.requests import ControlledShutdownRequest, ControlledShutdownResponse

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
        return ControlledShutdownResponse(BROKER_NOT_AVAILABLE)
    if request.broker_epoch != UNKNOWN_BROKER_EPOCH and request.broker_epoch < broker.epoch:
        log.warning(
            "%s Received controlled shutdown request from an old broker epoch of broker %d", context.tag, broker_id
        )
        return ControlledShutdownResponse(STALE_BROKER_EPOCH)
    log.info("%s Shutting down broker %d", context.tag, broker_id)
    context.begin_shutdown(broker_id)
    concerned = yield from _movable(context, broker_id)
    led = yield from chosen(lambda tp: context.leadership[tp].leader == broker_id, concerned)
    followed = yield from chosen(lambda tp: context.leadership[tp].leader != broker_id, concerned)
    yield from move_partitions(context, led, PartitionState.ONLINE, elections.controlled_shutdown)
    batch = RequestBatch(context)
    yield from in_slices(lambda part: batch.add_stop_replicas(broker_id, part, delete=False), followed)
    yield from batch.send()
    yield from move_replicas(context, {broker_id: followed}, ReplicaState.OFFLINE)
    concerned = yield from _movable(context, broker_id)
    remaining = yield from chosen(lambda tp: context.leadership[tp].leader == broker_id, concerned)
    if remaining:
        probe("a broker that shuts down stays the leader where the ISR has no other member")
    return ControlledShutdownResponse(NONE, tuple(remaining))


def _movable(context: ControllerContext, broker_id: int) -> Flow[list[TopicPartition]]:
    """Return the broker's partitions with another replica and a leader, without those queued for deletion."""

    def test(tp: TopicPartition) -> bool:
        elsewhere = len(context.assignments[tp].replicas) > 1
        return elsewhere and tp in context.leadership and tp.topic not in context.queued

    return (yield from chosen(test, context.hosted.get(broker_id, ())))
