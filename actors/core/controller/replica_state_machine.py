"""The replica state machine, which changes the states of replicas (controller.md 3.3, 3.4).

`TABLE` defines the legal moves and the function that makes each move.

Rule 1: One call makes one batch of requests for all brokers. The brokers are handled in sequence: removing the replicas
        of one broker changes ISRs that contain replicas of the next broker.
Rule 2: A broker's replicas are handled in slices. Each slice makes one conditional write, based on cached states. Only
        partitions whose write failed are read and tried again (`leadership`).
Rule 3: A failure of a replica is logged and leaves its state unchanged.

Kafka: `ReplicaStateMachine`, `ZkReplicaStateMachine`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress

from actors.core.controller import log_text
from actors.core.controller.batch import RequestBatch
from actors.core.controller.context import ControllerContext, ReplicasByBroker
from actors.core.controller.leadership import (
    MOVES,
    Failures,
    illegal_reasons,
    known_states,
    read_states,
    record_refusals,
    refuse,
    write_states,
)
from actors.core.controller.states import ReplicaState, State, Table, Transition
from messages import cluster
from messages.flow.conversation import Flow, for_each, select
from messages.vocabulary import value_class

log = logging.getLogger("state.change.logger")

Test = Callable[[cluster.TopicPartition], bool]


def group_by_broker(
    replicas: Iterable[cluster.PartitionReplica], where: Callable[[cluster.PartitionReplica], bool] | None = None
) -> Flow[ReplicasByBroker]:
    """Return the replicas that pass the test `where`, grouped by broker: broker id -> partitions."""
    found: ReplicasByBroker = {}

    def add(part: Sequence[cluster.PartitionReplica]) -> None:
        for partition, broker_id in part:
            found.setdefault(broker_id, []).append(partition)

    yield from for_each(replicas, add, where=where)
    return found


def replicas_of(context: ControllerContext, partitions: Iterable[cluster.TopicPartition]) -> Flow[ReplicasByBroker]:
    """Return the replicas of these partitions by broker; a broker that an assignment names twice is included once."""
    assignments = context.assignments
    return group_by_broker(
        cluster.PartitionReplica(tp, b) for tp in partitions for b in dict.fromkeys(assignments[tp].replicas)
    )


def flat(
    replicas: Mapping[int, Iterable[cluster.TopicPartition]], where: Callable[[cluster.PartitionReplica], bool]
) -> Flow[tuple[cluster.PartitionReplica, ...]]:
    """Return the replicas that pass the test `where`, as one flat tuple; `replicas` is broker id -> partitions."""
    listed = (
        cluster.PartitionReplica(tp, broker_id) for broker_id, partitions in replicas.items() for tp in partitions
    )
    return tuple((yield from select(listed, where)))


@value_class
class ReplicaStep:
    """Replicas of one broker that change their state by the same row of the transition table.

    `failures` receives each replica that cannot be moved, with a reason; `skipped` receives replicas whose failure is
    harmless. `settled(partition)` is true if the current event has already written the partition's state.
    """

    context: ControllerContext
    broker_id: int
    partitions: Sequence[cluster.TopicPartition]
    target: ReplicaState
    batch: RequestBatch
    failures: Failures
    skipped: dict[cluster.TopicPartition, None]
    settled: Test

    def enter(self, partitions: Iterable[cluster.TopicPartition]) -> None:
        """Set the state of the broker's replicas of these partitions to `target`."""
        self.context.set_replica_states(self.broker_id, partitions, self.target)


def move_replicas(
    context: ControllerContext,
    replicas: Mapping[int, Iterable[cluster.TopicPartition]],
    target: ReplicaState,
    settled: Test = lambda _: False,
    where: Test | None = None,
) -> Flow[int]:
    """Move replicas to `target`, as far as the table and ZooKeeper allow; return the number of moved replicas.

    Args:
        settled: True for a partition whose state the current event has already written, so it is not read again.
        where: Only the replicas of partitions that pass this test are moved; None for all.
    """
    batch = RequestBatch(context)
    moved = 0
    for broker_id, partitions in replicas.items():
        moved += yield from _move(context, broker_id, partitions, target, batch, settled, where)
    yield from batch.send()
    return moved


def _move(
    context: ControllerContext,
    broker_id: int,
    partitions: Iterable[cluster.TopicPartition],
    target: ReplicaState,
    batch: RequestBatch,
    settled: Test,
    where: Test | None,
) -> Flow[int]:
    failures: Failures = {}
    illegal: dict[cluster.TopicPartition, State] = {}
    skipped: dict[cluster.TopicPartition, None] = {}
    moving: list[cluster.TopicPartition] = []

    def move(part: Sequence[cluster.TopicPartition]) -> Flow[None]:
        moving.extend(part)
        current = context.replica_states_of(broker_id, part)
        for row, legal in TABLE.sort(target, part, current, illegal):
            yield from row.make(ReplicaStep(context, broker_id, legal, target, batch, failures, skipped, settled))

    yield from for_each(partitions, move, MOVES, where)
    context.history.refuse(context.tag, target, illegal, TABLE, broker_id)
    context.history.record_move(target, moving, failures, illegal, skipped, broker_id=broker_id)
    what = f"move the replica on broker {broker_id} to {target.value}"
    yield from refuse(context, what, failures)
    yield from record_refusals(what, illegal_reasons(illegal))
    moved = len(moving) - len(failures) - len(illegal) - len(skipped)
    log.debug("%s Changed state of %d replicas on broker %d to %s", context.tag, moved, broker_id, target.value)
    return moved


def start(context: ControllerContext) -> Flow[bool]:
    """Move every online replica to Online, and every other replica to Ineligible and then Offline (controller.md 3.4).

    This sends LeaderAndIsr of all partitions to all live brokers and removes offline replicas from the ISRs.

    Returns:
        False if some replicas stay Ineligible, for example because another controller wrote their partitions' states.
    """
    # Failed log directories are not known yet: responses to LeaderAndIsr requests report them.
    online = {b: hosted for b, hosted in context.hosted.items() if b in context.online_brokers}
    for broker_id, hosted in context.hosted.items():
        state = ReplicaState.ONLINE if broker_id in online else ReplicaState.DELETION_INELIGIBLE
        yield from for_each(hosted, partial(context.set_replica_states, broker_id, state=state))
    offline = context.offline_replicas()
    yield from move_replicas(context, online, ReplicaState.ONLINE)
    moved = yield from move_replicas(context, offline, ReplicaState.OFFLINE)
    return moved == sum(map(len, offline.values()))


def enter_new(step: ReplicaStep) -> Flow[None]:
    """Set the replica's state; fail for a partition that the replica already leads."""
    context, moved = step.context, list[cluster.TopicPartition]()
    leaderships = context.leadership
    for partition in step.partitions:
        leadership = leaderships.get(partition)
        if leadership is not None:
            if leadership.leader == step.broker_id:
                step.failures[partition] = "it leads the partition already"
                continue
            assignment = context.assignment(partition)
            step.batch.add_leader_and_isr((step.broker_id,), partition, leadership, assignment, is_new=True)
        moved.append(partition)
    step.enter(moved)
    yield from ()


def enter_online(step: ReplicaStep) -> Flow[None]:
    """Add the replica to the assignment of each partition whose assignment does not contain it."""
    context = step.context
    for partition in step.partitions:
        assignment = context.assignment(partition)
        if step.broker_id not in assignment.replicas:
            log.error(
                "%s Adding replica %d that is not part of the assignment of partition %s",
                context.tag,
                step.broker_id,
                partition,
            )
            context.set_assignment(
                partition,
                cluster.ReplicaAssignment(
                    (*assignment.replicas, step.broker_id), assignment.adding, assignment.removing
                ),
            )
    step.enter(step.partitions)
    yield from ()


def stay_online(step: ReplicaStep) -> Flow[None]:
    """Send the broker its role (leader or follower) in the partition."""
    step.batch.add_roles(step.broker_id, step.partitions)
    step.enter(step.partitions)
    yield from ()


def go_offline(step: ReplicaStep) -> Flow[None]:
    """Remove the replica from the ISR if the controller knows the partition's leadership."""
    context, broker_id = step.context, step.broker_id
    step.batch.add_stop_replicas(broker_id, step.partitions, delete=False)
    leaderships, assignments = context.leadership, context.assignments
    led = list(compress(step.partitions, leaderships.find(step.partitions, None)))
    removed = yield from _remove_from_isr(step, led)
    if log.isEnabledFor(logging.DEBUG):
        for partition, state in removed:
            text = log_text.isr_left(state, step.broker_id)
            log.debug("%s Partition %s state changed to %s", step.context.tag, partition, text)
    others: dict[tuple[int, ...], list[int]] = {}
    """Replicas -> the replicas that stay; many partitions share one entry."""
    queued = context.queued
    for partition, leadership in removed:
        if not queued or not context.is_queued_for_deletion(partition):
            assignment = assignments[partition]
            replicas = assignment.replicas
            if replicas not in others:
                others[replicas] = [r for r in replicas if r != broker_id]
            step.batch.add_leader_and_isr(others[replicas], partition, leadership, assignment, is_new=False)
    step.enter([partition for partition, _ in removed])
    if len(led) < len(step.partitions):
        unled = [tp for tp in step.partitions if tp not in leaderships]
        step.batch.add_update_metadata(context.brokers, unled)
        step.enter(unled)


def start_deletion(step: ReplicaStep) -> Flow[None]:
    """Set the replica's state; the broker is asked to delete the replica."""
    step.batch.add_stop_replicas(step.broker_id, step.partitions, delete=True)
    step.enter(step.partitions)
    yield from ()


def enter(step: ReplicaStep) -> Flow[None]:
    """Set the replica's state; change nothing else."""
    step.enter(step.partitions)
    yield from ()


def forget(step: ReplicaStep) -> Flow[None]:
    """Remove the replica and its state from the controller's tables."""
    step.context.remove_replicas(step.broker_id, step.partitions)
    yield from ()


def _remove_from_isr(step: ReplicaStep, partitions: Sequence[cluster.TopicPartition]) -> Flow[list[cluster.Leadership]]:
    """Remove the replica from these ISRs; return the leadership of each partition afterwards.

    The last ISR member stays, but no longer leads. If the known ISR of a partition does not contain the replica, the
    state is read again from ZooKeeper. If the replica is not in that ISR either, nothing is written and the partition
    counts as done. A partition is not read if an election during the same event has already removed the replica (the
    partition is settled). A partition without a znode fails, or is skipped if its topic is being deleted.
    """
    context, broker_id = step.context, step.broker_id
    known = known_states(context, partitions).items()
    updates = [_leadership_without(step, tp, state) for tp, state in known if broker_id in state.isr]
    as_is = [cluster.Leadership(tp, state) for tp, state in known if broker_id not in state.isr and step.settled(tp)]
    done, again = yield from write_states(context, updates, step.failures, as_known=True)
    done += as_is
    remaining: Sequence[cluster.TopicPartition] = again
    if len(updates) + len(as_is) < len(partitions):
        finished = {tp for tp, _ in done}
        remaining = [tp for tp in partitions if tp not in finished and tp not in step.failures]
    while remaining:
        missing: Failures = {}
        states = yield from read_states(context, remaining, missing)
        for partition, why in missing.items():
            if context.is_queued_for_deletion(partition):
                step.skipped[partition] = None
            else:
                step.failures[partition] = why
        updates = []
        for partition, state in states.items():
            if broker_id in state.isr:
                updates.append(_leadership_without(step, partition, state))
            else:
                kept = cluster.leader_isr_and_epoch(
                    state.leader, state.leader_epoch, state.isr, context.epoch, state.zk_version
                )
                context.lead(partition, kept)
                done.append(cluster.Leadership(partition, kept))
        changed, remaining = yield from write_states(context, updates, step.failures)
        done += changed
    return done


def _leadership_without(
    step: ReplicaStep, partition: cluster.TopicPartition, state: cluster.LeaderIsrAndControllerEpoch
) -> cluster.Leadership:
    """Return the leadership of a partition after the replica left the ISR."""
    broker_id = step.broker_id
    leader = cluster.NO_LEADER if state.leader == broker_id else state.leader
    isr = state.isr if len(state.isr) == 1 else tuple([r for r in state.isr if r != broker_id])
    return cluster.Leadership(
        partition,
        cluster.leader_isr_and_epoch(leader, state.leader_epoch + 1, isr, step.context.epoch, state.zk_version),
    )


_R = ReplicaState

TABLE = Table(
    Transition(
        _R.NEW,
        (_R.NON_EXISTENT,),
        enter_new,
        "where leadership is known LeaderAndIsr isNew to it, UpdateMetadata to all",
    ),
    Transition(_R.ONLINE, (_R.NEW,), enter_online),
    Transition(
        _R.ONLINE,
        (_R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE),
        stay_online,
        "where leadership is known LeaderAndIsr to it, UpdateMetadata to all",
    ),
    Transition(
        _R.OFFLINE,
        (_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE),
        go_offline,
        "StopReplica to it, LeaderAndIsr to the others (not for a topic that is deleted), UpdateMetadata to all",
    ),
    Transition(_R.DELETION_STARTED, (_R.OFFLINE,), start_deletion, "StopReplica delete=true to it"),
    Transition(_R.DELETION_SUCCESSFUL, (_R.DELETION_STARTED,), enter),
    Transition(_R.DELETION_INELIGIBLE, (_R.DELETION_STARTED, _R.OFFLINE), enter),
    Transition(_R.NON_EXISTENT, (_R.DELETION_SUCCESSFUL,), forget),
)
"""Legal moves, the functions that make them, and the requests that they cause (controller.md 3.3)."""
