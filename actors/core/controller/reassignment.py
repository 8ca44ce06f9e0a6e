"""Reassign partitions to other replicas (controller.md 7.7).

A partition's assignment contains all state of its reassignment: the replicas, those being added and those being
removed. The topic's znode has the same assignment, so any controller can continue.

1. Requested: the new assignment is written to the topic's znode and stored in the controller's tables. Replicas that an
   earlier request was adding and that are no longer needed are deleted. If such a replica is the preferred replica and
   already leads, another leader is elected first (Kafka leaves the partition without a leader, KAFKA-14808). From the
   end of this step on, the partition's state is watched.
2. Part of the target is not in the ISR: all replicas receive the assignment under a new leader epoch, and the new
   replicas start fetching. Each change of the partition's state triggers a new check.
3. The whole target is in the ISR: the target becomes the assignment. A leader that is offline or outside the target is
   replaced. The removed replicas leave the ISR and are deleted; the controller does not wait for the brokers'
   responses. Then the topic's znode and /admin/reassign_partitions are updated, and all brokers are notified.

Rule: An interrupted reassignment is resumed at any step: by the next controller, or when a broker of its target starts.
      The next controller also deletes replicas that an interrupted cancellation left over, if they are in the ISR.
      A request that cannot be executed is removed from the znode and logged. The deletion of a topic ends its
      reassignments (`end_for_deletion`), so no partition of a topic that is queued for deletion is being reassigned.

Kafka: `KafkaController.processZkPartitionReassignment`, `processApiPartitionReassignment`,
`processListPartitionReassignments`, `processPartitionReassignmentIsrChange`, `onPartitionReassignment`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from actors.core.controller import elections, leadership, log_text
from actors.core.controller.batch import RequestBatch, announce
from actors.core.controller.context import (
    ControllerContext,
    Handler,
    ReplicasByBroker,
    assignment_during,
    origin_replicas,
    target_replicas,
)
from actors.core.controller.failures import passing
from actors.core.controller.instructions import Enqueue
from actors.core.controller.partition_state_machine import move_partitions
from actors.core.controller.replica_state_machine import move_replicas
from actors.core.controller.states import PartitionState, ReplicaState
from actors.core.refusal import Refused
from messages import errors, zookeeper
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from messages.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from messages.ask import AskFailed
from messages.cluster import (
    LeaderIsrAndControllerEpoch,
    Leadership,
    PartitionAssignment,
    ReplicaAssignment,
    TopicPartition,
)
from messages.events import PartitionReassignmentIsrChange, ZkPartitionReassignment
from messages.flow.conversation import Flow, ask, for_each, select
from messages.probes import probe
from messages.vocabulary import Message

log = logging.getLogger("kafka.controller")

Assignments = Mapping[TopicPartition, ReplicaAssignment]

ENTERED = 100
"""Number of new assignments entered at a time, with a log line each, at about 30 microseconds each."""


def begin(context: ControllerContext) -> Flow[None]:
    """Begin a term: handle the requests in /admin/reassign_partitions, then resume other partitions' reassignments."""
    yield from _finish_interrupted(context)
    on_their_way = dict.fromkeys(context.reassigning)
    asked_for = yield from _start_requested(context)
    yield from _reassign(context, {tp: context.assignments[tp] for tp in on_their_way if tp not in asked_for})


def _finish_interrupted(context: ControllerContext) -> Flow[None]:
    """Delete replicas that are in the ISR and not in the assignment.

    An earlier controller wrote the assignment without these replicas, but its term ended before it deleted them. Kafka
    3.9.1 leaves such a replica in the ISR. If no assigned replica is in the ISR, the unassigned replicas are kept: they
    may have the only copy of committed records.
    """
    leaderships, assignments = context.leadership, context.assignments

    def has_left_over(partition: TopicPartition) -> bool:
        isr, replicas = leaderships[partition].isr, assignments[partition].replicas
        return not set(isr).issubset(replicas) and not set(isr).isdisjoint(replicas)

    partitions = yield from select(leaderships, has_left_over)
    left_over: ReplicasByBroker = {}
    for partition in partitions:
        if partition.topic not in context.queued:
            probe("a new controller deletes what an interrupted reassignment left over")
            for broker_id in leaderships[partition].isr:
                if broker_id not in assignments[partition].replicas:
                    left_over.setdefault(broker_id, []).append(partition)
    for broker_id, hosted in left_over.items():
        context.set_replica_states(broker_id, hosted, ReplicaState.ONLINE)
    yield from _remove_replicas(context, left_over)


def handle_zk_reassignment(context: ControllerContext, event: ZkPartitionReassignment) -> Flow[None]:
    """Handle a change of /admin/reassign_partitions."""
    yield from _start_requested(context)


def resume(context: ControllerContext, broker_ids: Sequence[int]) -> Flow[None]:
    """Resume the reassignments whose target includes one of these started brokers."""
    waiting = {tp: context.assignments[tp] for tp in context.reassigning}
    yield from _reassign(
        context, {tp: each for tp, each in waiting.items() if not set(broker_ids).isdisjoint(target_replicas(each))}
    )


def end_for_deletion(context: ControllerContext, topics: Iterable[str]) -> Flow[frozenset[str]]:
    """End the reassignments of topics that are going to be deleted.

    Each partition keeps all its replicas, including those being added; they are deleted with the topic (trap T1;
    docs/explanation/decisions.md). The topics' znodes are updated before anything is deleted, and the requests are
    removed from /admin/reassign_partitions. Later requests for these partitions are refused, because their topic is
    queued for deletion. A replica on a dead broker still delays the deletion: otherwise a later topic of that name
    would reuse the replica's log.

    Returns:
        The topics that were being reassigned.
    """
    wanted = frozenset(topics)
    moving = [tp for tp in context.reassigning if tp.topic in wanted]
    if not moving:
        return frozenset()
    probe("T1 the deletion of a topic ends its reassignments")
    log.info(
        "%s Cancelling the reassignment of %s: the topic is being deleted", context.tag, ", ".join(map(str, moving))
    )
    ended = {tp: ReplicaAssignment(context.assignments[tp].replicas) for tp in moving}
    failures = yield from _write(context, ended)
    yield from leadership.refuse(context, "end the reassignment of", failures)
    for partition, assignment in ended.items():
        context.set_assignment(partition, assignment)
    yield from _stop_watching(moving)
    answer = yield from ask(zookeeper.GetReassignments())
    requests = [each for each in answer.requested if each.partition.topic in wanted]
    if requests:
        yield from _forget(context, requests)
    return frozenset(tp.topic for tp in moving)


def isr_changed(context: ControllerContext, event: PartitionReassignmentIsrChange) -> Flow[None]:
    """After a change of the partition's state, finish its reassignment if the whole target is in the ISR.

    This controller's own writes of a partition's state also cause this event. If this call finishes the reassignment,
    it also checks up to MOVES others. Those whose whole target is in the ISR are finished in the same requests.
    """
    partition = TopicPartition(event.topic, event.partition)
    if partition not in context.reassigning:
        return
    complete = yield from _caught_up(context, [partition])
    if complete:
        probe("the target of a reassignment joins the ISR")
        others = list(islice((tp for tp in context.reassigning if tp != partition), leadership.MOVES))
        complete += yield from _caught_up(context, others)
    yield from _finish(context, complete)


def alter(context: ControllerContext, request: AlterPartitionReassignmentsRequest) -> Flow[Message]:
    """Handle AlterPartitionReassignments: start or cancel reassignments.

    If the request's entry for a partition is valid, the partition's entry in /admin/reassign_partitions is removed.
    """
    wanted: dict[TopicPartition, ReplicaAssignment] = {}
    refusals: dict[TopicPartition, Refused] = {}
    for topic in request.topics:
        for number, target in ((each.partition_index, each.replicas) for each in topic.partitions):
            partition = TopicPartition(topic.name, number)
            try:
                wanted[partition] = _plan_assignment(context, partition, target, alive=True)
            except Refused as refused:
                refusals[partition] = refused
    answer = yield from ask(zookeeper.GetReassignments())
    overtaken = [each for each in answer.requested if each.partition in wanted]
    if overtaken:
        probe("a requested reassignment replaces that of the znode")
        yield from _forget(context, overtaken)
    failures = yield from _reassign(context, wanted)
    refusals.update((tp, Refused(why, errors.UNKNOWN_SERVER_ERROR)) for tp, why in failures.items())

    def result(partition: TopicPartition) -> ReassignablePartitionResponse:
        refused = refusals.get(partition)
        if refused is None:
            return ReassignablePartitionResponse(partition.partition, errors.NONE)
        return ReassignablePartitionResponse(partition.partition, refused.code, str(refused))

    return AlterPartitionReassignmentsResponse(
        errors.NONE,
        responses=tuple(
            ReassignableTopicResponse(
                topic.name,
                tuple(result(TopicPartition(topic.name, each.partition_index)) for each in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def list_reassignments(context: ControllerContext, request: ListPartitionReassignmentsRequest) -> Flow[Message]:
    """Handle ListPartitionReassignments."""
    partitions: Iterable[TopicPartition] = context.reassigning
    if request.topics is not None:
        asked = dict.fromkeys(TopicPartition(each.name, n) for each in request.topics for n in each.partition_indexes)
        partitions = (tp for tp in asked if tp in context.reassigning)
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for partition in partitions:
        each = context.assignments[partition]
        by_topic.setdefault(partition.topic, []).append(
            OngoingPartitionReassignment(partition.partition, each.replicas, each.adding, each.removing)
        )
    yield from ()
    return ListPartitionReassignmentsResponse(
        errors.NONE,
        topics=tuple(OngoingTopicReassignment(name, tuple(found)) for name, found in by_topic.items()),
    )


def _start_requested(context: ControllerContext) -> Flow[Assignments]:
    """Start or continue the reassignments requested in /admin/reassign_partitions; return the valid ones.

    Requests that are invalid or fail are removed from the znode.
    """
    answer = yield from ask(zookeeper.GetReassignments())
    wanted: dict[TopicPartition, ReplicaAssignment] = {}
    hopeless: list[zookeeper.RequestedReassignment] = []
    for each in answer.requested:
        try:
            wanted[each.partition] = _plan_assignment(context, *each, alive=False)
        except Refused as refused:
            log.error("%s Rejecting the reassignment of partition %s to replicas %s: %s", context.tag, *each, refused)
            hopeless.append(each)
            yield from leadership.record_refusals(f"reassign to {list(each.replicas)}", {each.partition: str(refused)})
    failures = yield from _reassign(context, wanted)
    hopeless += [each for each in answer.requested if each.partition in failures]
    if hopeless:
        yield from _forget(context, hopeless)
    return wanted


def _plan_assignment(
    context: ControllerContext, partition: TopicPartition, target: tuple[int, ...] | None, alive: bool
) -> ReplicaAssignment:
    """Return the assignment during a reassignment to `target`, with Kafka's checks in Kafka's order.

    Args:
        target: The new replicas; None cancels the ongoing reassignment.
        alive: Require added replicas to be online. Kafka does not require it for requests from ZooKeeper.

    Raises:
        Refused: The request is invalid.
    """
    current = context.assignment(partition)
    if target is not None:
        _check_replicas(target)
        missing = [r for r in assignment_during(current, target).adding if r not in context.online_brokers]
        if alive and missing:
            raise Refused(
                f"Replica assignment has brokers that are not alive. Replica list: {missing}, live broker list:"
                f" {sorted(context.online_brokers)}",
                errors.INVALID_REPLICA_ASSIGNMENT,
            )
    elif partition not in context.reassigning:
        raise Refused("No partition reassignment is in progress.", errors.NO_REASSIGNMENT_IN_PROGRESS)
    if partition.topic in context.queued:
        raise Refused("The topic is being deleted.", errors.UNKNOWN_TOPIC_OR_PARTITION)
    if not current.replicas:
        raise Refused("The partition does not exist.", errors.UNKNOWN_TOPIC_OR_PARTITION)
    return assignment_during(current, origin_replicas(current) if target is None else target)


def _check_replicas(replicas: tuple[int, ...]) -> None:
    """Raise Refused for an empty list, duplicate brokers or a negative broker id."""
    if not replicas:
        raise Refused("Empty replica list specified in partition reassignment.", errors.INVALID_REPLICA_ASSIGNMENT)
    if len(set(replicas)) < len(replicas):
        raise Refused(f"Duplicate replica ids in the replica list: {list(replicas)}", errors.INVALID_REPLICA_ASSIGNMENT)
    if min(replicas) < 0:
        raise Refused(f"Invalid broker id in replica list: {list(replicas)}", errors.INVALID_REPLICA_ASSIGNMENT)


def _reassign(context: ControllerContext, assignments: Assignments) -> Flow[leadership.Failures]:
    """Start or continue these reassignments (Kafka's onPartitionReassignment); return the failed writes."""
    failures: leadership.Failures = {}
    if not assignments:
        return failures
    changed = {tp: each for tp, each in assignments.items() if context.assignments[tp] != each}
    failures = yield from _write(context, changed)
    yield from leadership.refuse(context, "reassign", failures)
    unneeded = yield from _enter(context, {tp: each for tp, each in changed.items() if tp not in failures})
    yield from _remove_replicas(context, unneeded)
    begun = [tp for tp in assignments if tp not in failures]
    complete = yield from _caught_up(context, begun)
    done = frozenset(complete)
    waiting = [tp for tp in begun if tp not in done]
    yield from _raise_epochs(context, waiting, {tp: context.assignments[tp].replicas for tp in waiting})
    fresh: ReplicasByBroker = {}
    for partition in waiting:
        for broker_id in context.assignments[partition].adding:
            if context.replica_state(broker_id, partition) is ReplicaState.NON_EXISTENT:
                fresh.setdefault(broker_id, []).append(partition)
    yield from move_replicas(context, fresh, ReplicaState.NEW)
    yield from _finish(context, complete)
    return failures


def _enter(context: ControllerContext, assignments: Assignments) -> Flow[ReplicasByBroker]:
    """Store and log these assignments; return the replicas that they no longer contain."""
    unneeded: ReplicasByBroker = {}

    def enter(part: Sequence[tuple[TopicPartition, ReplicaAssignment]]) -> None:
        for partition, assignment in part:
            for broker_id in context.assignments[partition].replicas:
                if broker_id not in assignment.replicas:
                    probe("a reassignment is replaced before its end")
                    unneeded.setdefault(broker_id, []).append(partition)
            context.set_assignment(partition, assignment)
            log.info(
                "%s Successfully updated assignment of partition %s to %s",
                *(context.tag, partition, log_text.assignment(assignment)),
            )

    yield from for_each(assignments.items(), enter, ENTERED)
    return unneeded


def _caught_up(context: ControllerContext, partitions: Sequence[TopicPartition]) -> Flow[list[TopicPartition]]:
    """Return the partitions whose whole target is in the ISR, or that are not being reassigned; watch all others."""
    moving = [tp for tp in partitions if tp in context.reassigning]
    behind = frozenset(moving)
    isrs: dict[TopicPartition, tuple[int, ...]] = {}

    def read_part(part: Sequence[TopicPartition]) -> Flow[None]:
        read = yield from ask(zookeeper.GetPartitionStates(tuple(part), watch=True))
        isrs.update((tp, state.isr) for tp, state, _ in read.states if state is not None)

    yield from for_each(moving, read_part, leadership.MOVES)
    return [
        tp
        for tp in partitions
        if tp not in behind or (tp in isrs and set(target_replicas(context.assignments[tp])) <= set(isrs[tp]))
    ]


def _finish(context: ControllerContext, partitions: Sequence[TopicPartition]) -> Flow[None]:
    """Finish the reassignments of these partitions, which `_caught_up` returned (step 3)."""
    if not partitions:
        return
    added: ReplicasByBroker = {}
    removed: ReplicasByBroker = {}
    for partition in partitions:
        for grouped, broker_ids in (
            (added, context.assignments[partition].adding),
            (removed, context.assignments[partition].removing),
        ):
            for broker_id in broker_ids:
                grouped.setdefault(broker_id, []).append(partition)
    yield from move_replicas(context, added, ReplicaState.ONLINE)
    hosting = {tp: context.assignments[tp].replicas for tp in partitions}
    for partition in partitions:
        context.set_assignment(partition, ReplicaAssignment(target_replicas(context.assignments[partition])))
    led = [tp for tp in partitions if tp in context.leadership]
    staying = [tp for tp in led if _leader_stays(context, tp)]
    kept = frozenset(staying)
    leaving = [tp for tp in led if tp not in kept]
    if leaving:
        probe("a reassignment moves the leader away")
    yield from move_partitions(context, leaving, PartitionState.ONLINE, elections.reassign)
    yield from _raise_epochs(context, staying, hosting)
    yield from _delete_replicas(context, removed)
    failures = yield from _write(context, {tp: context.assignments[tp] for tp in partitions})
    yield from leadership.refuse(context, "write the assignment", failures)
    yield from _stop_watching(partitions)
    yield from _forget(
        context, [zookeeper.RequestedReassignment(tp, context.assignments[tp].replicas) for tp in partitions]
    )
    log.info(
        "%s Removing partitions %s from the list of reassigned partitions in zookeeper",
        *(context.tag, log_text.scala_collection(partitions)),
    )
    yield from announce(context, partitions=partitions)


def _stop_watching(partitions: Iterable[TopicPartition]) -> Flow[None]:
    """Stop watching the states of these partitions."""
    keys = tuple(f"{tp.topic}/{tp.partition}" for tp in partitions)
    yield from ask(zookeeper.StopWatching((PartitionReassignmentIsrChange.__name__,), keys))


def _leader_stays(context: ControllerContext, partition: TopicPartition) -> bool:
    leader = context.leadership[partition].leader
    return leader in context.assignments[partition].replicas and context.is_online(leader, partition)


def _raise_epochs(
    context: ControllerContext, partitions: Sequence[TopicPartition], hosting: Mapping[TopicPartition, Sequence[int]]
) -> Flow[None]:
    """Raise the leader epochs and send the assignment to all replicas; added replicas receive it with `is_new`.

    Leaders stay. ISRs stay too, except that brokers that no longer host the partition are removed. An ISR can contain
    such a broker, because the leader can still add the broker before the LeaderAndIsr request arrives. Kafka 3.9.1
    leaves the broker in the ISR: if this broker becomes the last member, Kafka can elect no leader for the partition.

    Args:
        hosting: Partition -> brokers that host the partition.
    """
    batch, failures = RequestBatch(context), leadership.Failures()

    def hosted_isr(partition: TopicPartition, isr: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(replica for replica in isr if replica in hosting[partition]) or isr

    def rise(part: Sequence[TopicPartition]) -> Flow[None]:
        remaining = part
        while remaining:
            states = yield from leadership.read_states(context, remaining, failures)
            updates = [
                Leadership(
                    tp,
                    LeaderIsrAndControllerEpoch(
                        state.leader, state.leader_epoch + 1, hosted_isr(tp, state.isr), context.epoch, state.zk_version
                    ),
                )
                for tp, state in states.items()
            ]
            written, remaining = yield from leadership.write_states(context, updates, failures)
            for partition, state in written:
                assignment = context.assignments[partition]
                known = tuple(r for r in assignment.replicas if r not in assignment.adding)
                batch.add_leader_and_isr(known, partition, state, assignment, is_new=False)
                batch.add_leader_and_isr(assignment.adding, partition, state, assignment, is_new=True)

    yield from for_each(partitions, rise, leadership.MOVES)
    yield from leadership.refuse(context, "send a reassignment", failures)
    yield from batch.send()


def _remove_replicas(context: ControllerContext, replicas: ReplicasByBroker) -> Flow[None]:
    """Delete these replicas, which are no longer assigned. If one of them leads, first elect another leader."""
    led = [
        tp
        for broker_id, hosted in replicas.items()
        for tp in hosted
        if tp in context.leadership and context.leadership[tp].leader == broker_id
    ]
    yield from move_partitions(context, led, PartitionState.ONLINE)
    yield from _delete_replicas(context, replicas)


def _delete_replicas(context: ControllerContext, replicas: ReplicasByBroker) -> Flow[None]:
    """Remove these replicas from their ISRs and delete them, without waiting for the brokers' responses."""
    for state in (
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        yield from move_replicas(context, replicas, state)


def _write(context: ControllerContext, assignments: Assignments) -> Flow[leadership.Failures]:
    """Write these assignments into their topics' znodes; return the failures.

    All topics are written at once. If that fails, each topic is written alone, so that a failure of one topic does not
    affect the others.
    """
    by_topic: dict[str, dict[int, ReplicaAssignment]] = {}
    for (topic, number), assignment in assignments.items():
        by_topic.setdefault(topic, {})[number] = assignment
    topics = []
    for topic, changed in by_topic.items():
        known = context.topic_assignment(topic)
        whole = tuple(PartitionAssignment(n, changed.get(n, each)) for n, each in known.partitions)
        topics.append(known._replace(partitions=whole))
    failures: leadership.Failures = {}
    if not topics or (yield from _written(context, topics)) == "":
        return failures
    probe("assignments are written topic by topic")
    for each in topics:
        why = yield from _written(context, [each])
        if why:
            failures.update((TopicPartition(each.topic, number), why) for number in by_topic[each.topic])
    return failures


def _written(context: ControllerContext, topics: Iterable[zookeeper.TopicAssignment]) -> Flow[str]:
    """Write the assignments of these topics; return the error text, empty on success."""
    try:
        yield from ask(zookeeper.SetAssignments(tuple(topics), context.epoch_zk_version))
    except AskFailed as error:
        return str(passing(error))
    return ""


def _forget(context: ControllerContext, requests: Sequence[zookeeper.RequestedReassignment]) -> Flow[None]:
    """Remove requests from /admin/reassign_partitions.

    If this deletes the znode, an event is enqueued, and the handler of this event watches the znode again. The watch
    reports only the creation of the znode, not its later changes.
    """
    left = yield from ask(zookeeper.RemoveReassignments(tuple(requests), context.epoch_zk_version))
    if not left.there:
        yield Enqueue(ZkPartitionReassignment())


EVENTS: dict[type, Handler] = {
    ZkPartitionReassignment: handle_zk_reassignment,
    PartitionReassignmentIsrChange: isr_changed,
}
