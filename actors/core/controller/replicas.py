"""The replica state machine at work (controller.md 3.3, 3.4).

Rule 1: one call is one batch of requests over all brokers; within it the brokers are handled one after another, for
        each takes its replicas out of ISRs that the next one reads.
Rule 2: a broker's replicas are handled together: one read, one conditional write; only what met another version is
        read again.
Rule 3: what fails for a replica is logged and leaves it where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import attrs

from actors.core.controller.batch import RequestBatch
from actors.core.controller.context import ControllerContext, ReplicasByBroker
from actors.core.controller.leadership import Failures, log_failures, read_states, write_states
from actors.core.controller.states import REPLICA_TABLE, ReplicaState, refuse
from messages.cluster import (
    NO_LEADER,
    LeaderIsrAndControllerEpoch,
    Leadership,
    PartitionReplica,
    ReplicaAssignment,
    TopicPartition,
)
from messages.conversation import Flow

log = logging.getLogger("state.change.logger")


def by_broker(replicas: Iterable[PartitionReplica]) -> ReplicasByBroker:
    """Group replicas by broker, in order."""
    grouped: ReplicasByBroker = {}
    for partition, broker_id in replicas:
        grouped.setdefault(broker_id, []).append(partition)
    return grouped


def flat(replicas: ReplicasByBroker) -> tuple[PartitionReplica, ...]:
    """The same replicas one by one."""
    return tuple(PartitionReplica(tp, broker_id) for broker_id, tps in replicas.items() for tp in tps)


def split(
    replicas: ReplicasByBroker, test: Callable[[TopicPartition], bool]
) -> tuple[ReplicasByBroker, ReplicasByBroker]:
    """Those whose partition passes the test, and the others."""
    passed: ReplicasByBroker = {}
    others: ReplicasByBroker = {}
    for broker_id, partitions in replicas.items():
        for partition in partitions:
            (passed if test(partition) else others).setdefault(broker_id, []).append(partition)
    return passed, others


@attrs.frozen
class _Step:
    """One broker's part of a call."""

    context: ControllerContext
    broker_id: int
    partitions: list[TopicPartition]
    states: dict[TopicPartition, ReplicaState]
    batch: RequestBatch
    failures: Failures


def move_replicas(context: ControllerContext, replicas: ReplicasByBroker, target: ReplicaState) -> Flow[None]:
    """Move replicas to `target`, as far as the table and ZooKeeper allow."""
    batch = RequestBatch(context)
    legal = REPLICA_TABLE[target].previous
    for broker_id, partitions in replicas.items():
        states = context.replica_states.setdefault(broker_id, {})
        valid = []
        for partition in partitions:
            current = states.get(partition, ReplicaState.NON_EXISTENT)
            if current in legal:
                valid.append(partition)
            else:
                refuse(f"{context.tag} replica {broker_id} of partition {partition}", current, target)
        if valid:
            failures: Failures = {}
            step = _Step(context, broker_id, valid, states, batch, failures)
            if target is ReplicaState.OFFLINE:
                yield from _to_offline(step)
            else:
                _MOVES[target](step)
            log_failures(context, f"move the replica on broker {broker_id} to {target.value}", failures)
            if log.isEnabledFor(logging.DEBUG):
                log.debug(
                    "%s Changed state of %d replicas on broker %d to %s",
                    context.tag,
                    len(valid) - len(failures),
                    broker_id,
                    target.value,
                )
    yield from batch.send()


def start(context: ControllerContext) -> Flow[None]:
    """Every replica is Online or, where it cannot be reached, goes to Offline by way of Ineligible (3.4).

    This sends LeaderAndIsr of all partitions to all live brokers, and takes the dead out of the ISRs.
    """
    offline = context.offline_replicas()
    online: ReplicasByBroker = {}
    for broker_id, hosted in context.hosted.items():
        unreachable = frozenset(offline.get(broker_id, ()))
        context.replica_states[broker_id] = {
            tp: ReplicaState.DELETION_INELIGIBLE if tp in unreachable else ReplicaState.ONLINE for tp in hosted
        }
        partitions = [tp for tp in hosted if tp not in unreachable]
        if partitions:
            online[broker_id] = partitions
    yield from move_replicas(context, online, ReplicaState.ONLINE)
    yield from move_replicas(context, offline, ReplicaState.OFFLINE)


def _to_new(step: _Step) -> None:
    context = step.context
    for partition in step.partitions:
        leadership = context.leadership.get(partition)
        if leadership is not None:
            if leadership.leader == step.broker_id:
                step.failures[partition] = "it leads the partition already"
                continue
            step.batch.add_leader_and_isr(
                (step.broker_id,), partition, leadership, context.assignment(partition), is_new=True
            )
        step.states[partition] = ReplicaState.NEW


def _to_online(step: _Step) -> None:
    context, receivers = step.context, (step.broker_id,)
    for partition in step.partitions:
        if step.states[partition] is ReplicaState.NEW:
            assignment = context.assignment(partition)
            if step.broker_id not in assignment.replicas:
                log.error("%s replica %d of %s is not assigned: added", context.tag, step.broker_id, partition)
                context.set_assignment(
                    partition,
                    ReplicaAssignment((*assignment.replicas, step.broker_id), assignment.adding, assignment.removing),
                )
        else:
            leadership = context.leadership.get(partition)
            if leadership is not None:
                step.batch.add_leader_and_isr(
                    receivers, partition, leadership, context.assignments[partition], is_new=False
                )
        step.states[partition] = ReplicaState.ONLINE


def _to_offline(step: _Step) -> Flow[None]:
    context, broker_id = step.context, step.broker_id
    for partition in step.partitions:
        step.batch.add_stop_replica(broker_id, partition, delete=False)
    led = [tp for tp in step.partitions if tp in context.leadership]
    removed = yield from _remove_from_isr(step, led)
    for partition, leadership in removed:
        if partition.topic not in context.queued:
            assignment = context.assignments[partition]
            others = tuple(r for r in assignment.replicas if r != broker_id)
            step.batch.add_leader_and_isr(others, partition, leadership, assignment, is_new=False)
        step.states[partition] = ReplicaState.OFFLINE
    if len(led) < len(step.partitions):
        unled = [tp for tp in step.partitions if tp not in context.leadership]
        step.batch.add_update_metadata(context.brokers, unled)
        for partition in unled:
            step.states[partition] = ReplicaState.OFFLINE


def _remove_from_isr(step: _Step, partitions: Sequence[TopicPartition]) -> Flow[list[Leadership]]:
    """Take the replica out of these ISRs; the last member stays, but does not lead. The leadership of each after it.

    A partition that has it in the ISR no more is not written, but counts as done. One without a znode is left alone;
    in silence if its topic is being deleted.
    """
    context, broker_id = step.context, step.broker_id
    done: list[Leadership] = []
    remaining = partitions
    while remaining:
        missing: Failures = {}
        states = yield from read_states(context, remaining, missing)
        step.failures.update((tp, why) for tp, why in missing.items() if tp.topic not in context.queued)
        updates = []
        for partition, state in states.items():
            if broker_id in state.isr:
                leader = NO_LEADER if state.leader == broker_id else state.leader
                isr = state.isr if len(state.isr) == 1 else tuple(r for r in state.isr if r != broker_id)
                new = LeaderIsrAndControllerEpoch(leader, state.leader_epoch + 1, isr, context.epoch, state.zk_version)
                updates.append(Leadership(partition, new))
            else:
                kept = LeaderIsrAndControllerEpoch(
                    state.leader, state.leader_epoch, state.isr, context.epoch, state.zk_version
                )
                context.leadership[partition] = kept
                done.append(Leadership(partition, kept))
        written, remaining = yield from write_states(context, updates, step.failures)
        done += written
    return done


def _to_deletion_started(step: _Step) -> None:
    for partition in step.partitions:
        step.batch.add_stop_replica(step.broker_id, partition, delete=True)
        step.states[partition] = ReplicaState.DELETION_STARTED


def _to_deletion_successful(step: _Step) -> None:
    for partition in step.partitions:
        step.states[partition] = ReplicaState.DELETION_SUCCESSFUL


def _to_deletion_ineligible(step: _Step) -> None:
    for partition in step.partitions:
        step.states[partition] = ReplicaState.DELETION_INELIGIBLE


def _to_non_existent(step: _Step) -> None:
    context, broker_id = step.context, step.broker_id
    for partition in step.partitions:
        assignment = context.assignment(partition)
        context.set_assignment(
            partition,
            ReplicaAssignment(
                tuple(r for r in assignment.replicas if r != broker_id),
                tuple(r for r in assignment.adding if r != broker_id),
                tuple(r for r in assignment.removing if r != broker_id),
            ),
        )
        step.states.pop(partition, None)


_MOVES: dict[ReplicaState, Callable[[_Step], None]] = {
    ReplicaState.NEW: _to_new,
    ReplicaState.ONLINE: _to_online,
    ReplicaState.DELETION_STARTED: _to_deletion_started,
    ReplicaState.DELETION_SUCCESSFUL: _to_deletion_successful,
    ReplicaState.DELETION_INELIGIBLE: _to_deletion_ineligible,
    ReplicaState.NON_EXISTENT: _to_non_existent,
}
"""The moves that need no question."""
