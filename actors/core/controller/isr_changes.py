"""Handle AlterPartition: leaders change the ISRs of their partitions through the controller (KIP-497).

Rule 1: a change is refused unless the requester leads the partition, and knows its leader epoch and the version of its
        state. A change that is made already counts as made, because a leader may repeat a request.
Rule 2: only live brokers join an ISR; brokers that are shutting down do not count as live (KIP-841).
Rule 3: after the change, all brokers receive UpdateMetadata. A reassignment that waits for the change continues with
        the watch on the partition's state.

Kafka: `KafkaController.processAlterPartition`.
"""

from __future__ import annotations

from actors.core.controller.batch import announce
from actors.core.controller.context import ControllerContext
from actors.core.controller.leadership import Failures, refuse, write_states
from messages import errors
from messages.apis.alter_partition import (
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrOfPartition,
)
from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, TopicPartition
from messages.flow.conversation import Flow


def alter_partitions(context: ControllerContext, request: AlterPartitionRequest) -> Flow[AlterPartitionResponse]:
    """Write the ISRs that a leader wants, and return the states of its partitions."""
    broker = context.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return AlterPartitionResponse(errors.STALE_BROKER_EPOCH)
    results: dict[TopicPartition, AlteredPartition] = {}
    updates: list[Leadership] = []
    for wanted in request.partitions:
        partition, known = wanted.partition, context.leadership.get(wanted.partition)
        code = verdict(wanted, request.broker_id, known)
        if code is None and set(wanted.isr) - context.online_brokers:
            code = errors.OPERATION_NOT_ATTEMPTED
        if code == errors.NONE and known is not None:
            results[partition] = _altered_partition(partition, known)
        elif code is not None:
            results[partition] = AlteredPartition(partition, code)
        else:
            state = LeaderIsrAndControllerEpoch(
                *(request.broker_id, wanted.leader_epoch, wanted.isr, context.epoch, wanted.partition_epoch)
            )
            updates.append(Leadership(partition, state))
    failures: Failures = {}
    written, again = yield from write_states(context, updates, failures)
    yield from refuse(context, "change the ISR", failures)
    results.update((tp, _altered_partition(tp, state)) for tp, state in written)
    results.update((tp, AlteredPartition(tp, errors.INVALID_UPDATE_VERSION)) for tp in again)
    results.update((tp, AlteredPartition(tp, errors.UNKNOWN_SERVER_ERROR)) for tp in failures)
    if written:
        yield from announce(context, partitions=[tp for tp, _ in written])
    return AlterPartitionResponse(errors.NONE, tuple([results[each.partition] for each in request.partitions]))


def verdict(wanted: IsrOfPartition, broker_id: int, known: LeaderIsrAndControllerEpoch | None) -> int | None:
    """Return the error code of a change, NONE if it is made already, and None if it is to be made (rule 1)."""
    if known is None:
        return errors.UNKNOWN_TOPIC_OR_PARTITION
    if wanted.partition_epoch > known.zk_version or wanted.leader_epoch > known.leader_epoch:
        return errors.NOT_CONTROLLER  # this controller is probably not the active one any more
    if wanted.leader_epoch < known.leader_epoch:
        return errors.FENCED_LEADER_EPOCH
    if broker_id != known.leader:
        return errors.INVALID_REQUEST
    if wanted.isr == known.isr:
        return errors.NONE
    return None if wanted.partition_epoch == known.zk_version else errors.INVALID_UPDATE_VERSION


def _altered_partition(partition: TopicPartition, state: LeaderIsrAndControllerEpoch) -> AlteredPartition:
    return AlteredPartition(*(partition, errors.NONE, state.leader, state.leader_epoch, state.isr, state.zk_version))
